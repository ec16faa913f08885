"""A debate as one short text for its record: every response is stored once, and prompts refer to what they repeat.

Most of a debate is prompts, and most of a prompt is responses of the round before, once per critic. So a prompt is
stored as a list of parts: plain text, or `[text, start, end]` for those characters of an earlier text. Texts are
numbered as they appear: the question is 0, and every turn adds its prompt, then its response. Joining the parts gives
the prompt exactly, because every reference was found in it letter by letter; a response that was shortened for the
window is two references. The whole is JSON, deflated, in base64.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from mada.debate.transcript import Debate

BLOCK = 48
"""Characters that must be equal before a reference is tried; it must cost less than they do."""

Part = str | tuple[int, int, int]

_debates = TypeAdapter(Debate)


def pack_debate(debate: Debate) -> str:
    """Return a debate as one line of text that `unpack_debate` restores."""
    plain = _debates.dump_python(debate, mode="json")
    texts = _Texts()
    texts.add(debate.question)
    for turn in _turns(plain):
        prompt = turn["prompt"]
        turn["prompt"] = texts.parts_of(prompt)
        texts.add(prompt)
        texts.add(turn["response"]["text"])
    content = json.dumps(plain, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(content.encode("ascii"), 9)).decode("ascii")


def unpack_debate(stored: object) -> object:
    """Return the plain values of a debate; those of an older mada, which are not packed, as they are."""
    if not isinstance(stored, str):
        return stored
    try:
        plain = json.loads(zlib.decompress(base64.b64decode(stored, validate=True)))
        texts: list[str] = [plain["question"]]
        for turn in _turns(plain):
            turn["prompt"] = _joined(turn["prompt"], texts)
            texts += [turn["prompt"], turn["response"]["text"]]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, zlib.error) as error:
        raise ValueError(f"the debate is damaged ({error})") from error
    return plain


def _turns(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [turn for one in plain["rounds"] for turn in one["turns"]]


def _joined(parts: Sequence[Part], texts: Sequence[str]) -> str:
    return "".join(part if isinstance(part, str) else texts[part[0]][part[1] : part[2]] for part in parts)


class _Texts:
    """Earlier texts, with an index of their blocks: every `BLOCK` characters one begins."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._blocks: dict[str, tuple[int, int]] = {}

    def add(self, text: str) -> None:
        for start in range(0, len(text) - BLOCK + 1, BLOCK):
            self._blocks.setdefault(text[start : start + BLOCK], (len(self._texts), start))
        self._texts.append(text)

    def parts_of(self, prompt: str) -> list[Part]:
        """Return a prompt as plain text and references."""
        parts: list[Part] = []
        plain = place = 0
        while place <= len(prompt) - BLOCK:
            found = self._blocks.get(prompt[place : place + BLOCK])
            if found is None:
                place += 1
                continue
            number, start = found
            text, begin = self._texts[number], place
            while start and begin > plain and text[start - 1] == prompt[begin - 1]:
                start, begin = start - 1, begin - 1
            length = _equal_characters(text, start, prompt, begin)
            if plain < begin:
                parts.append(prompt[plain:begin])
            parts.append((number, start, start + length))
            plain = place = begin + length
        if plain < len(prompt):
            parts.append(prompt[plain:])
        return parts


def _equal_characters(first: str, at: int, second: str, place: int) -> int:
    """Count the characters that two texts share from these places on; whole stretches are compared at once."""
    count, step = 0, 4096
    while step:
        one = first[at + count : at + count + step]
        if len(one) == step and one == second[place + count : place + count + step]:
            count += step
        else:
            step //= 2
    return count
