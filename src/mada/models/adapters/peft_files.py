"""Adapters as files, in PEFT's own format (T6): `adapter_config.json` beside `adapter_model.safetensors`.

PEFT, vLLM and the Hub load what is written here unchanged. What PEFT writes is read here where it is plain LoRA;
variants with other arithmetic (DoRA, rank-stabilised scales, ranks by layer …) are refused, never half understood.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from mada.atomic import replace_bytes
from mada.digest import digest_of, digest_of_file
from mada.errors import AdapterError
from mada.models.adapters.lora import Lora, Targets
from mada.models.loading import place_of

if TYPE_CHECKING:
    from torch import Tensor

    from mada.models.adapters.stack import AdapterStack

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_KINDS: tuple[str, str] = (".lora_A.weight", ".lora_B.weight")

# Fields that change an adapter's arithmetic when they are set; so do all whose name begins with `use_`.
_VARIANTS = (
    *("rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias", "trainable_token_indices", "target_parameters"),
    *("layer_replication", "alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config"),
)
# Ways to start that leave the base as it is; the others (PiSSA, OLoRA, LoftQ …) take their start out of its weights.
_PLAIN_STARTS = (True, False, "gaussian", "orthogonal", "eva")


def save_adapter(stack: "AdapterStack", agent: str, folder: Path, *, base_name: str) -> None:
    """Write an agent's adapter; `base_name` is what its base was loaded by. Each file is replaced as a whole."""
    tensors = {f"{_PREFIX}{name}": own.contiguous().cpu() for name, own in stack.tensors(agent).items()}
    lora = stack.lora[agent]
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        # PEFT loads the base by it, and knows no names that are mada's own.
        "base_model_name_or_path": place_of(base_name),
        "r": lora.rank,
        "lora_alpha": int(lora.alpha) if lora.alpha == int(lora.alpha) else lora.alpha,
        "lora_dropout": lora.dropout,
        "target_modules": _target_modules(stack),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "modules_to_save": None,
        "use_dora": False,
        "use_rslora": False,
    }
    # The weights first: whoever finds a config finds weights beside it.
    replace_bytes(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    replace_bytes(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def load_adapter(stack: "AdapterStack", agent: str, folder: Path, *, any_base: bool = False) -> None:
    """Give an agent the adapter of a folder, with the rank and scale it was trained with; dropout stays the stack's.

    Layers that the stack has and the file has not get zeros, which is exactly no adapter; as both factors are zero,
    they also stay so in training. The file's rank may be smaller than the stack's. Nothing changes on a failure.

    The base is the right one if its layers have the file's shapes; a base with another Hub id is refused, unless
    `any_base` says that the adapter is meant for it all the same.
    """
    lora, config, tensors = read_lora(folder), _read_config(folder), _read_tensors(folder)
    stack.index(agent)
    bases = _bases(config, stack, folder)
    if not any_base and _other_hub_id(config, stack):
        raise AdapterError(f"{bases}: load that base, or say any_base=True if these two are the same")
    if lora.rank > stack.rank:
        raise AdapterError(
            f"{folder}: the adapter has rank {lora.rank}, the stack for {agent} at most {stack.rank}; "
            f"attach the stack with a rank of at least {lora.rank}"
        )
    _check_fit(stack, tensors, rank=lora.rank, bases=bases)
    whole: dict[str, Tensor] = {}
    for path, layer in stack.layers.items():
        for kind, shape in zip(_KINDS, _shapes(layer.in_features, layer.out_features, lora.rank), strict=True):
            own = tensors.get(path + kind)
            whole[path + kind] = torch.zeros(shape) if own is None else own
    stack.resize(agent, rank=lora.rank, alpha=lora.alpha)
    stack.assign(agent, whole)


def read_lora(folder: Path) -> Lora:
    """Return the shape of the adapter in a folder, so that a stack can be attached that fits it."""
    config = _read_config(folder)
    numbers: dict[str, float] = {}
    for key in ("r", "lora_alpha", "lora_dropout"):
        value = config.get(key, 0.0 if key == "lora_dropout" else None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise AdapterError(f"{folder / CONFIG}: {key!r} is {json.dumps(value)}, wanted a number")
        numbers[key] = value
    try:
        lora = Lora(
            rank=int(numbers["r"]),
            alpha=float(numbers["lora_alpha"]),
            dropout=float(numbers["lora_dropout"]),
            targets=_targets(config, folder),
        )
    except (ValueError, OverflowError) as error:
        raise AdapterError(f"{folder / CONFIG}: {error}") from None
    # A stack is made as large as the file of settings says, so the weights must say the same.
    with _open(folder) as weights:
        names = [name for name in cast("list[str]", weights.keys()) if name.endswith(_KINDS[0])]
        ranks = {int(weights.get_slice(name).get_shape()[0]) for name in names}
    if ranks - {lora.rank}:
        found = ", ".join(map(str, sorted(ranks)))
        raise AdapterError(f"{folder / CONFIG}: 'r' is {lora.rank}, and the weights have rank {found}; copy both again")
    return lora


def digest_of_adapter(folder: Path) -> str:
    """Return what tells adapters apart, wherever they lie."""
    return digest_of({name: digest_of_file(folder / name) for name in (CONFIG, WEIGHTS)})


def count_adapter(folder: Path) -> int:
    """Count the numbers of the adapter in a folder; only the header of its file is read."""
    with _open(folder) as weights:
        return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118


def is_blank(folder: Path) -> bool:
    """Say whether the adapter in a folder leaves its base as it is: all its B are zero, as before the first step."""
    with _open(folder) as weights:
        names = [name for name in cast("list[str]", weights.keys()) if name.endswith(_KINDS[1])]
        return bool(names) and not any(weights.get_tensor(name).any() for name in names)


def _targets(config: dict[str, Any], folder: Path) -> Targets:
    targets = config.get("target_modules")
    narrowed = any(config.get(key) for key in ("exclude_modules", "layers_to_transform", "layers_pattern"))
    if not narrowed and targets == "all-linear":
        return "all-linear"
    if not narrowed and isinstance(targets, list) and targets:
        return tuple(sorted(map(str, cast("list[Any]", targets))))
    # A pattern, or names with exceptions: which layers it means, the weights themselves say.
    with _open(folder) as weights:
        names = [name.removeprefix(_PREFIX) for name in cast("list[str]", weights.keys())]
    return tuple(sorted({name.removesuffix(kind) for name in names for kind in _KINDS if name.endswith(kind)}))


def _target_modules(stack: "AdapterStack") -> list[str]:
    """Name the stack's layers shortly (`q_proj`) where that means these layers and no others, else by full path."""
    kinds = {path.rpartition(".")[2] for path in stack.layers}
    meant = {path for path, _ in stack.model.named_modules() if path.rpartition(".")[2] in kinds}
    return sorted(kinds) if meant == set(stack.layers) else sorted(stack.layers)


def _read_config(folder: Path) -> dict[str, Any]:
    file = folder / CONFIG
    if not folder.is_dir():
        raise AdapterError(f"{folder}: no such folder; an adapter is a folder with {CONFIG} and {WEIGHTS} in it")
    try:
        read: object = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise AdapterError(f"{file}: no such file; is {folder} the folder of one adapter?") from None
    except (ValueError, OSError) as error:
        raise AdapterError(f"{file} cannot be read: {error}") from None
    config = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    if config.get("peft_type") != "LORA":
        raise AdapterError(f"{file}: peft_type is {json.dumps(config.get('peft_type'))}; only LORA can be used here")
    variant = [key for key, value in config.items() if value and (key in _VARIANTS or key.startswith("use_"))]
    variant += [key for key in ("bias",) if config.get(key, "none") != "none"]
    variant += [key for key in ("init_lora_weights",) if config.get(key, True) not in _PLAIN_STARTS]
    if variant:
        shown = ", ".join(f"{key} = {json.dumps(config[key])}" for key in variant)
        raise AdapterError(
            f"{file}: {shown} is not plain LoRA, and would give other numbers here than in PEFT; "
            "train without it, or merge the adapter into its base and use that as the base"
        )
    return config


def _open(folder: Path) -> Any:
    file = folder / WEIGHTS
    if not file.is_file():
        old = " (adapter_model.bin is PEFT's old format: load and save it with PEFT)"
        raise AdapterError(f"{file}: no such file{old if (folder / 'adapter_model.bin').is_file() else ''}")
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise AdapterError(f"{file} cannot be read: {error}; copy or save the adapter again") from None


def _read_tensors(folder: Path) -> dict[str, "Tensor"]:
    with _open(folder):  # whole and readable
        tensors = load_file(folder / WEIGHTS)
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise AdapterError(f"{folder / WEIGHTS}: {broken[0]} has values that are not finite; its training had diverged")
    return {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}


def _check_fit(stack: "AdapterStack", tensors: dict[str, "Tensor"], *, rank: int, bases: str) -> None:
    for name, tensor in tensors.items():
        path = next((name.removesuffix(kind) for kind in _KINDS if name.endswith(kind)), name)
        layer = stack.layers.get(path)
        if layer is None:
            raise AdapterError(
                f"{bases}: it has {name}, for which there is no place here; "
                "use its base, and attach the stack with read_lora(folder).targets"
            )
        wanted = dict(zip(_KINDS, _shapes(layer.in_features, layer.out_features, rank), strict=True))[name[len(path) :]]
        if tuple(tensor.shape) != wanted:
            raise AdapterError(
                f"{bases}: {name} has shape {list(tensor.shape)}, wanted {list(wanted)} at rank {rank}; use its base"
            )
        if path + _KINDS[0] not in tensors or path + _KINDS[1] not in tensors:
            raise AdapterError(f"{bases}: {path} has only one of lora_A and lora_B; save the adapter again")


def _shapes(in_features: int, out_features: int, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (rank, in_features), (out_features, rank)


def _bases(config: dict[str, Any], stack: "AdapterStack", folder: Path) -> str:
    return (
        f"{folder}: the adapter is for {config.get('base_model_name_or_path') or 'an unnamed base'}, "
        f"and the base here is {_name_here(stack) or 'unnamed'}"
    )


def _name_here(stack: "AdapterStack") -> str:
    return str(getattr(stack.model, "name_or_path", ""))


def _other_hub_id(config: dict[str, Any], stack: "AdapterStack") -> bool:
    """Whether both bases have Hub ids and these differ; folders have any name, so they say nothing."""
    names = [str(config.get("base_model_name_or_path") or ""), _name_here(stack)]
    ids = [name.lower() for name in names if name.count("/") == 1 and name[0] not in "/.~" and not Path(name).exists()]
    return len(ids) == 2 and ids[0] != ids[1]
