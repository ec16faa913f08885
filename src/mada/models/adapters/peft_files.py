"""Adapters as files in PEFT's own format (T6): `adapter_config.json` beside `adapter_model.safetensors`.

PEFT, vLLM and the Hub load what is written here unchanged. Adapters from PEFT are read if they are plain LoRA; variants
with other arithmetic (DoRA, rank-stabilised scales, ranks by layer …) are refused.
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
from mada.models.adapters.layer import Lora, Targets
from mada.models.loading import resolve_model

if TYPE_CHECKING:
    from torch import Tensor

    from mada.models.adapters.stack import AdapterStack

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"

# Fields that change what an adapter computes; so do all whose name starts with `use_`.
_VARIANTS = (
    *("rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias", "trainable_token_indices", "target_parameters"),
    *("layer_replication", "alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config"),
)
# Initialisations that leave the base as it is; the others (PiSSA, OLoRA, LoftQ …) change its weights.
_PLAIN_INITS = (True, False, "gaussian", "orthogonal", "eva")


def save_adapter(stack: "AdapterStack", agent: str, folder: Path, *, base_name: str) -> None:
    """Write an agent's adapter; `base_name` is what its base was loaded by. Each file is replaced atomically."""
    tensors = {f"{_PREFIX}{name}": own.contiguous().cpu() for name, own in stack.tensors(agent).items()}
    lora = stack.lora[agent]
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        # PEFT loads the base by this name, so mada's own names become paths.
        "base_model_name_or_path": resolve_model(base_name),
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
    # Weights first, so that a folder with a config also has weights.
    replace_bytes(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    replace_bytes(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def load_adapter(stack: "AdapterStack", agent: str, folder: Path, *, any_base: bool = False) -> None:
    """Give an agent the adapter of a folder, with the rank and scale it was trained with; dropout stays the stack's.

    Layers that the stack has and the file lacks get zeros, which is exactly no adapter; as both factors are zero, they
    stay so in training. The file's rank may be smaller than the stack's. On a failure nothing changes.

    The base fits if its layers have the file's shapes; a base with another Hub id is refused unless `any_base` is set.
    """
    lora, config, tensors = read_lora(folder), _read_config(folder), _read_tensors(folder)
    stack.index(agent)
    named, here = str(config.get("base_model_name_or_path") or ""), str(getattr(stack.model, "name_or_path", ""))
    bases = f"{folder}: the adapter is for {named or 'an unnamed base'}, and the base here is {here or 'unnamed'}"
    if not any_base and is_hub_id(named) and is_hub_id(here) and named.lower() != here.lower():
        raise AdapterError(f"{bases}: load that base, or pass any_base=True if these two are the same")
    if lora.rank > stack.rank:
        raise AdapterError(
            f"{folder}: the adapter has rank {lora.rank}, the stack for {agent} at most {stack.rank}; "
            f"attach the stack with a rank of at least {lora.rank}"
        )
    shapes: dict[str, tuple[int, int]] = {}
    for path, layer in stack.layers.items():
        shapes |= {path + _A: (lora.rank, layer.in_features), path + _B: (layer.out_features, lora.rank)}
    for name, tensor in tensors.items():
        if name not in shapes:
            raise AdapterError(
                f"{bases}: it has {name}, for which this stack has no layer; "
                "use its base, and attach the stack with read_lora(folder).targets"
            )
        if tuple(tensor.shape) != shapes[name]:
            raise AdapterError(
                f"{bases}: {name} has shape {list(tensor.shape)}, wanted {list(shapes[name])} at rank {lora.rank}; "
                "use its base"
            )
        path = name.removesuffix(_A).removesuffix(_B)
        if not {path + _A, path + _B} <= tensors.keys():
            raise AdapterError(f"{bases}: {path} has only one of lora_A and lora_B; save the adapter again")
    stack.resize(agent, rank=lora.rank, alpha=lora.alpha)
    stack.assign(agent, {name: tensors.get(name, torch.zeros(shape)) for name, shape in shapes.items()})


def read_lora(folder: Path) -> Lora:
    """Return the shape of the adapter in a folder, so that a fitting stack can be attached."""
    config = _read_config(folder)
    numbers: dict[str, float] = {}
    for key in ("r", "lora_alpha", "lora_dropout"):
        value = config.get(key, 0.0 if key == "lora_dropout" else None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise AdapterError(f"{folder / CONFIG}: {key!r} is {json.dumps(value)}, wanted a number")
        numbers[key] = value
    try:
        rank, alpha, dropout = int(numbers["r"]), float(numbers["lora_alpha"]), float(numbers["lora_dropout"])
        lora = Lora(rank=rank, alpha=alpha, dropout=dropout, targets=_targets(config, folder))
    except (ValueError, OverflowError) as error:
        raise AdapterError(f"{folder / CONFIG}: {error}") from None
    # The stack's memory follows from the config, so the weights must agree with it.
    with _open(folder) as weights:
        ranks = {int(weights.get_slice(name).get_shape()[0]) for name in _names(weights) if name.endswith(_A)}
    if ranks - {rank}:
        found = ", ".join(map(str, sorted(ranks)))
        raise AdapterError(f"{folder / CONFIG}: 'r' is {rank}, and the weights have rank {found}; copy both again")
    return lora


def digest_of_adapter(folder: Path) -> str:
    """Return a digest of an adapter's files, the same wherever they are."""
    return digest_of({name: digest_of_file(folder / name) for name in (CONFIG, WEIGHTS)})


def count_adapter_parameters(folder: Path) -> int:
    """Count the parameters of the adapter in a folder; only the header of its file is read."""
    with _open(folder) as weights:
        return sum(math.prod(weights.get_slice(name).get_shape()) for name in _names(weights))


def is_blank(folder: Path) -> bool:
    """Return whether the adapter in a folder changes nothing: all its B are zero, as before training."""
    with _open(folder) as weights:
        names = [name for name in _names(weights) if name.endswith(_B)]
        return bool(names) and not any(weights.get_tensor(name).any() for name in names)


def _targets(config: dict[str, Any], folder: Path) -> Targets:
    targets = config.get("target_modules")
    if not any(config.get(key) for key in ("exclude_modules", "layers_to_transform", "layers_pattern")):
        if targets == "all-linear":
            return "all-linear"
        if isinstance(targets, list) and targets:
            return tuple(sorted(map(str, cast("list[Any]", targets))))
    # A pattern, or names with exceptions: the weights say which layers it means.
    with _open(folder) as weights:
        return tuple(sorted({name.removeprefix(_PREFIX).removesuffix(_A) for name in _names(weights) if _A in name}))


def _target_modules(stack: "AdapterStack") -> list[str]:
    """Return the last parts of the layers' paths (`q_proj`) where these match no other layers, else full paths."""
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
    variant += ["bias"] if config.get("bias", "none") != "none" else []
    variant += ["init_lora_weights"] if config.get("init_lora_weights", True) not in _PLAIN_INITS else []
    if variant:
        shown = ", ".join(f"{key} = {json.dumps(config[key])}" for key in variant)
        raise AdapterError(
            f"{file}: {shown} is not plain LoRA and would compute something else here than in PEFT; "
            "train without it, or merge the adapter into its base"
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


def _names(weights: Any) -> list[str]:
    return list(weights.keys())


def _read_tensors(folder: Path) -> dict[str, "Tensor"]:
    with _open(folder):  # a damaged file raises here
        tensors = load_file(folder / WEIGHTS)
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise AdapterError(f"{folder / WEIGHTS}: {broken[0]} has values that are not finite; its training had diverged")
    return {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}


def is_hub_id(name: str) -> bool:
    """Return whether a base's name is a Hub id: folders may have any name, so theirs are not compared."""
    return name.count("/") == 1 and name[0] not in "/.~" and not Path(name).exists()
