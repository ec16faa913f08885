"""What one server turns out to understand: learned from what it refuses, and kept for all requests that follow."""

import logging
from collections.abc import Mapping
from typing import Any, Literal

from mada.models.engines.openai.protocol import EXTENSIONS
from mada.models.engines.openai.refusal import Refusal

_log = logging.getLogger(__name__)


class Dialect:
    """Which fields are left out for a server, and whether it takes prompts as token ids or only as text.

    What was in a request that the server answered is known to be understood. If it is refused later, then for its
    value (a prompt that is too long, say), and leaving it out would mend nothing.
    """

    def __init__(self, url: str) -> None:
        self.without: set[str] = set()
        self.prompts: Literal["ids", "text"] | None = None
        self._url = url
        self._understood: set[str] = set()
        self._told: set[str] = set()

    def accept(self, body: Mapping[str, Any]) -> None:
        """Remember a request that was answered."""
        self._understood.update(body)
        if self.prompts is None:
            self.prompts = "text" if isinstance(body["prompt"], str) else "ids"
            if self.prompts == "text":
                self.tell("prompts", "it takes no token ids, so prompts are sent to it as text")

    def drop(self, body: Mapping[str, Any], refusal: Refusal, *, quoted: str) -> bool:
        """Leave out what a server refuses from now on; say whether the request is now another one."""
        blamed = {name for name in EXTENSIONS if name in body and refusal.names(name)} - self._understood
        for name in sorted(blamed - self.without):
            self.tell(name, f"it refuses {name} ({quoted}), so that is no longer sent: {EXTENSIONS[name]}")
        self.without |= blamed
        return bool(blamed)

    def may_want_text(self, body: Mapping[str, Any], refusal: Refusal) -> bool:
        """Whether a refusal may be one of token ids as such."""
        return self.prompts is None and not isinstance(body["prompt"], str) and refusal.names("prompt")

    def tell(self, topic: str, what: str) -> None:
        """Log something about the server, once."""
        if topic not in self._told:
            self._told.add(topic)
            _log.warning("%s: %s", self._url, what)
