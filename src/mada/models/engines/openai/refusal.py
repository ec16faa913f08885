"""What a server means by an answer that is no completion: its words, and which field of the request it blames."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import httpx

BLAMES_A_FIELD = frozenset({400, 422})


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer. Its words are the server's, and as trustworthy as the server."""

    status: int
    message: str
    blamed: frozenset[str]
    """Fields that the answer names in a place made for it (`param`, or pydantic's `loc`)."""

    @classmethod
    def of(cls, response: httpx.Response) -> "Refusal":
        """Read an answer in OpenAI's form, FastAPI's, or any other."""
        text = response.text
        try:
            body: Any = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        body = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
        error = body.get("error", body)
        if isinstance(error, str):
            error = {"message": error}
        error = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
        messages = list(_messages(error.get("message"), error.get("detail"), body.get("detail")))
        param = error.get("param")
        blamed = {param} if isinstance(param, str) and param else set[str]()
        blamed |= {part for one in _details(error, body) for part in one.get("loc", ()) if isinstance(part, str)}
        return cls(
            status=response.status_code,
            message="; ".join(messages) or text.strip() or response.reason_phrase,
            blamed=frozenset(blamed),
        )

    def names(self, field: str) -> bool:
        """Whether this is a complaint about a field: where the answer blames fields as such, those and no others.

        Words alone are the weaker sign: a message may list the fields that a server does know.
        """
        if self.status not in BLAMES_A_FIELD:
            return False
        if self.blamed - {"body"}:
            return field in self.blamed
        return re.search(rf"(?<!\w){re.escape(field)}(?!\w)", self.message) is not None


def _details(*bodies: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for body in bodies:
        details = body.get("detail")
        if isinstance(details, list):
            yield from (cast("dict[str, Any]", one) for one in cast("list[Any]", details) if isinstance(one, dict))


def _messages(*found: Any) -> Iterator[str]:
    said: list[str] = []
    for one in found:
        several = cast("list[Any]", one) if isinstance(one, list) else [one]
        said += [part for part in several if isinstance(part, str)]
        for part in several:
            if isinstance(part, dict):
                place = ".".join(str(step) for step in part.get("loc", ()))
                said.append(f"{place}: {part.get('msg', '')}" if place else str(part.get("msg", "")))
    yield from dict.fromkeys(one for one in said if one)
