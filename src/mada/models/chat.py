"""How a model is spoken to: its tokenizer, what ends its replies, how long its window is. No weights are needed for it.

Whoever samples elsewhere, in another process or on a server, knows a model by this alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import transformers

from mada.models.loading import REFUSALS, Base, check_causal, load_config, load_tokenizer, place_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_generation_config: Any = transformers.GenerationConfig


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model without its weights; `window` is None where its configuration does not say."""

    name: str
    tokenizer: "PreTrainedTokenizerBase"
    stop_tokens: tuple[int, ...]
    window: int | None

    @classmethod
    def of(cls, base: Base) -> "ChatModel":
        """Return how a loaded base is spoken to."""
        window = getattr(base.model.config.get_text_config(), "max_position_embeddings", None)
        return cls(base.name, base.tokenizer, stop_tokens_of(base.tokenizer, base.model.generation_config), window)


def load_chat(name: str, *, revision: str | None = None) -> ChatModel:
    """Load what there is to know of a model from the Hub, a folder, or mada itself, without its weights."""
    config = load_config(name, revision=revision)
    check_causal(name, config)
    tokenizer = load_tokenizer(name, revision=revision)
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    return ChatModel(name, tokenizer, stop_tokens_of(tokenizer, _generation_settings(name, revision)), window)


def stop_tokens_of(tokenizer: "PreTrainedTokenizerBase", generation_config: object) -> tuple[int, ...]:
    """Return the tokens that end a reply: the tokenizer's, and those of the model's generation settings.

    Chat models often end a turn with another token than the one that ends a text, and only the settings name it.
    """
    configured = getattr(generation_config, "eos_token_id", None)
    named = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({token for token in (tokenizer.eos_token_id, *named) if isinstance(token, int)}))


def _generation_settings(name: str, revision: str | None) -> object:
    try:
        return _generation_config.from_pretrained(place_of(name), revision=revision or "main")
    except REFUSALS:
        return None  # many models have no such file; their tokenizer then says it all
