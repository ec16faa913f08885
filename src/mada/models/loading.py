"""Base models by name, Hub id or folder: the frozen model that all agents share, its tokenizer and stop tokens."""

import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, StrictDataclassError
from safetensors import SafetensorError
from transformers.utils import logging

from mada.digest import digest_of, digest_of_large_file
from mada.errors import ModelError
from mada.models.forward import check_head

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

# transformers' loaders are hardly typed.
_config: Any = transformers.AutoConfig
_any_tokenizer: Any = transformers.AutoTokenizer
_plain_tokenizer: Any = transformers.PreTrainedTokenizerFast
_model: Any = transformers.AutoModelForCausalLM
_generation_config: Any = transformers.GenerationConfig

EMBEDDED = {"mada-nano": Path(__file__).parent / "nano"}
"""Models that are part of mada, by name; `nano/README.md` is the model card."""

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}

# What transformers raises for a broken model; it has no exception of its own.
LOADING_ERRORS = (
    *(OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError, AttributeError, ZeroDivisionError),
    # Pickled weights that are damaged, or that ask for more than tensors: torch loads no code.
    *(SafetensorError, StrictDataclassError, UnpicklingError, EOFError),
)
_FILES = (
    *("*.safetensors", "*.bin"),
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
)
_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


@dataclass(frozen=True, slots=True)
class Base:
    """A frozen base model: no gradients, no dropout."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    name: str


def load_base(name: str, *, revision: str | None = None, dtype: str = "auto", device: str = "auto") -> Base:
    """Load a base model from the Hub, a folder, or mada itself.

    Device `auto` is the first CUDA device if there is one, else the CPU. Dtype `auto` is the dtype of the saved
    weights, but float32 on a CPU, where bfloat16 is many times slower.
    """
    target = _device(device)
    if dtype not in ("auto", *DTYPES):
        raise ModelError(f"got the dtype {dtype!r}, wanted one of auto, {', '.join(DTYPES)}")
    config = load_config(name, revision=revision)
    check_causal(name, config)
    tokenizer = load_tokenizer(name, revision=revision)
    automatic = "auto" if target.type == "cuda" else torch.float32
    model = _load_weights(resolve_model(name), revision=revision, config=config, dtype=DTYPES.get(dtype, automatic))
    model.to(target)  # pyright: ignore[reportArgumentType]
    rows = cast("Tensor", model.get_input_embeddings().weight).shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"{name}: the tokenizer has {len(tokenizer):,} tokens, the model only {rows:,}; copy both from one source"
        )
    model.eval().requires_grad_(False)
    check_head(model)
    return Base(model, tokenizer, name)


def load_config(name: str, *, revision: str | None = None) -> "PreTrainedConfig":
    """Load a model's configuration, not its weights, from the Hub, a folder or a `config.json`."""
    name = resolve_model(name)
    path = Path(name).expanduser()
    if os.path.exists(path):
        name = str(_config_file(path))
    elif re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", name) is None or name.endswith(".json"):
        raise ModelError(
            f"{name}: no such folder or file; give a folder, a config.json, or a Hub id such as owner/name"
        )
    try:
        return _config.from_pretrained(name, revision=revision or "main", trust_remote_code=False)
    except LOADING_ERRORS as error:
        raise ModelError(_config_error(name, error)) from None


def digest_of_model(name: str, *, revision: str | None = None) -> str:
    """Return what identifies a model's weights and tokenizer: the digest of a folder, or a Hub id with its commit."""
    folder = Path(resolve_model(name)).expanduser()
    if folder.is_dir():
        files = [path for pattern in _FILES for path in sorted(folder.glob(pattern))]
        return digest_of({path.name: digest_of_large_file(path) for path in files})
    cached = try_to_load_from_cache(name, "config.json", revision=revision)
    commit = Path(cached).parent.name if isinstance(cached, str) else revision or "main"
    return f"{name}@{commit}"


def resolve_model(name: str) -> str:
    """Return the folder of a model that is part of mada, and any other name unchanged."""
    return str(EMBEDDED.get(name, name))


def _config_file(path: Path) -> Path:
    """Return the configuration file at a path, checked here because transformers' own messages are long."""
    file = path / "config.json" if path.is_dir() else path
    try:
        read: object = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path}: no config.json in this folder; is it a model's folder?") from None
    except json.JSONDecodeError as error:
        raise ModelError(f"{file}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise ModelError(f"{file} cannot be read: {error}") from None
    if not isinstance(read, dict) or not isinstance(cast("dict[str, Any]", read).get("model_type"), str):
        raise ModelError(f"{file}: 'model_type' is missing; it names the architecture, such as 'qwen2'")
    return file


def _config_error(name: str, error: BaseException) -> str:
    reason = first_sentence(error)
    if isinstance(error, OSError) and not os.path.exists(name):
        return (
            f"{name}: no such folder, and the download from the Hub failed ({reason}); check the name, "
            f"sign in if it is gated, or download it where there is a network (hf download {name}) and give the folder"
        )
    unknown = re.search(r"model type `?([\w.-]+)`?", str(error)) or re.search(r"Unrecognized model", str(error))
    if unknown:
        kind = repr(unknown[1]) if unknown.re.groups else "of this kind"
        return (
            f"{name}: transformers {transformers.__version__} has no model {kind}; check 'model_type', "
            "or update transformers if the model is newer"
        )
    return f"{name}: the model cannot be used: {reason}"


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of an exception: those of transformers fill a page."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    said = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return said.partition(". ")[0].rstrip(".:")


def check_causal(name: str, config: "PreTrainedConfig") -> None:
    """Refuse a model whose configuration is not that of a causal language model."""
    architectures = config.architectures or []
    if config.is_encoder_decoder or (architectures and not any(one.endswith(_CAUSAL) for one in architectures)):
        raise ModelError(
            f"{name} is not a causal language model ({', '.join(architectures) or config.model_type}). "
            "Use one whose config.json names an architecture that ends in ForCausalLM"
        )


def load_tokenizer(name: str, *, revision: str | None = None) -> "PreTrainedTokenizerBase":
    """Load a model's tokenizer from the Hub, a folder, or mada itself."""
    name = resolve_model(name)
    path = Path(name).expanduser()
    known = ("tokenizer.json", "tokenizer.model", "vocab.json")
    if path.is_dir() and not any((path / file).is_file() for file in known):
        raise ModelError(f"{name}: no tokenizer in this folder; copy tokenizer.json and tokenizer_config.json too")
    # AutoTokenizer of transformers 5 picks the class a model's files name and rebuilds its rules: for DeepSeek's R1
    # family that silently loses every space (huggingface/transformers#45488). tokenizer.json has all rules.
    try:
        kind = _plain_tokenizer if _has_tokenizer_json(name, revision) else _any_tokenizer
        where = str(path) if path.is_dir() else name
        return kind.from_pretrained(where, revision=revision or "main", trust_remote_code=False)
    except LOADING_ERRORS as error:
        raise ModelError(f"{name}: its tokenizer cannot be loaded: {first_sentence(error)}") from None


def _has_tokenizer_json(name: str, revision: str | None) -> bool:
    path = Path(name).expanduser()
    if path.is_dir():
        return (path / "tokenizer.json").is_file()
    try:
        hf_hub_download(name, "tokenizer.json", revision=revision)
    except EntryNotFoundError:
        return False
    return True


def _load_weights(name: str, *, revision: str | None, config: "PreTrainedConfig", dtype: Any) -> "PreTrainedModel":
    path = Path(name).expanduser()
    try:
        # transformers chooses PyTorch's own attention (sdpa) wherever the model allows it; Gemma 2, which caps its
        # attention scores, does not.
        with _without_progress_bar():
            model, report = _model.from_pretrained(
                str(path) if path.is_dir() else name,
                revision=revision or "main",
                config=config,
                dtype=dtype,
                output_loading_info=True,
                trust_remote_code=False,
            )
    except LOADING_ERRORS as error:
        raise ModelError(f"{name}: its weights cannot be loaded: {first_sentence(error)}") from None
    missing: list[str] = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{name}: {len(missing)} of the model's tensors are missing from its files, such as {missing[0]}; "
            "copy the model again, or use a complete one"
        )
    return model


@contextmanager
def _without_progress_bar() -> Generator[None]:
    """Keep transformers from drawing a progress bar per model into notebooks and logs."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ModelError(f"got the device {name!r}, wanted auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"no device {name} here ({torch.cuda.device_count()} CUDA devices); use auto or cpu")
    return device


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model without its weights, which is all that sampling elsewhere needs; `window` is None if unknown."""

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
        generation = config.get_text_config()  # many models have no such file; transformers then uses this one
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    return ChatModel(name, tokenizer, stop_tokens_of(tokenizer, generation), window)


def stop_tokens_of(tokenizer: "PreTrainedTokenizerBase", generation_config: object) -> tuple[int, ...]:
    """Return the tokens that end a reply: the tokenizer's, and those of the model's generation config.

    Chat models often end a turn with another token than a text, which only the generation config contains.
    """
    configured = getattr(generation_config, "eos_token_id", None)
    named = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({token for token in (tokenizer.eos_token_id, *named) if isinstance(token, int)}))
