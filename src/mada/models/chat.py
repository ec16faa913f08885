"""A model without its weights: tokenizer, stop tokens and window, which is all that sampling elsewhere needs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import transformers

from mada.models.loading import LOADING_ERRORS, Base, check_causal, load_config, load_tokenizer, resolve_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_generation_config: Any = transformers.GenerationConfig


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model without its weights; `window` is None where its configuration names none."""

    name: str
    tokenizer: "PreTrainedTokenizerBase"
    stop_tokens: tuple[int, ...]
    window: int | None

    @classmethod
    def of(cls, base: Base) -> "ChatModel":
        """Describe a loaded base."""
        window = getattr(base.model.config.get_text_config(), "max_position_embeddings", None)
        return cls(base.name, base.tokenizer, stop_tokens_of(base.tokenizer, base.model.generation_config), window)


def load_chat(name: str, *, revision: str | None = None) -> ChatModel:
    """Load a model's tokenizer, stop tokens and window from the Hub, a folder, or mada itself."""
    config = load_config(name, revision=revision)
    check_causal(name, config)
    tokenizer = load_tokenizer(name, revision=revision)
    try:
        generation: object = _generation_config.from_pretrained(resolve_model(name), revision=revision or "main")
    except LOADING_ERRORS:
        generation = None  # many models have no such file; their tokenizer then names all stop tokens
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    return ChatModel(name, tokenizer, stop_tokens_of(tokenizer, generation), window)


def stop_tokens_of(tokenizer: "PreTrainedTokenizerBase", generation_config: object) -> tuple[int, ...]:
    """Return the tokens that end a reply: the tokenizer's, and those of the model's generation settings.

    Chat models often end a turn with another token than the one that ends a text, and only the settings name it.
    """
    configured = getattr(generation_config, "eos_token_id", None)
    named = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({token for token in (tokenizer.eos_token_id, *named) if isinstance(token, int)}))
