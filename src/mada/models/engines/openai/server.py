"""Where a server is, the key that opens it, and how what it says is quoted."""

import os
from dataclasses import dataclass, field
from typing import Self

import httpx

from mada.errors import EngineError

_KEYS = ("MADA_API_KEY", "OPENAI_API_KEY")
_LONGEST_QUOTE = 300


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address and key. The key is in no representation, and is taken out of whatever is quoted."""

    url: str
    key: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str, api_key: str | None) -> Self:
        """Check an address and find its key: the one given, else the environment's; an empty one is none."""
        try:
            parsed = httpx.URL(url.strip())
        except httpx.InvalidURL:
            parsed = httpx.URL("")
        # A password in an address would be shown with it, in every error.
        if parsed.userinfo:
            raise EngineError("the server's address holds a user or password; take it out, and give a key as api_key")
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise EngineError(
                f"got {url!r} as the address of a completion server, wanted one such as http://localhost:8000/v1"
            )
        key = api_key if api_key is not None else next((os.environ[name] for name in _KEYS if os.environ.get(name)), "")
        key = key.strip()
        if not all("!" <= character <= "~" for character in key):
            raise EngineError(
                "the API key holds a space, or a character that is not ASCII, so it cannot be sent; copy it again "
                f"(it comes from api_key, or from {' or '.join(_KEYS)})"
            )
        return cls(str(parsed).rstrip("/"), key or None)

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def quote(self, text: str) -> str:
        """Make a server's words fit to be shown: one line, not long, no control characters, and never the key."""
        if self.key:
            text = text.replace(self.key, "…")  # some servers repeat a key that they do not like
        words = " ".join(text.split())
        shown = "".join(character if character.isprintable() else "�" for character in words)
        return shown if len(shown) <= _LONGEST_QUOTE else f"{shown[: _LONGEST_QUOTE - 1]}…"
