"""The folder that `mada export` writes: what vLLM, PEFT, SGLang, the Hub and another mada need of a run.

    adapters/AGENT/       the trained adapters, as PEFT saves them
    base/                 the base, if it is mada's own: the Hub does not have it
    tokenizer/            the base's tokenizer as the run used it
    serve.sh              starts vLLM's server with all of them
    README.md             the model card, in the Hub's format
    recipe.toml           the run's recipe, with every default
    manifest.json         what makes the folder readable like a run: `mada debate --run FOLDER`
    stages/export.json    digests of all files

The folder is built beside its place and moved there, so it is complete or not there.
"""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mada.agents import ADAPTERS, adapter_folders, recipe_of, team_names, weights_key
from mada.atomic import describe_os_errors, writing_folder
from mada.digest import digest_of_file
from mada.errors import RunError
from mada.export.card import BASE, TOKENIZER, Card
from mada.models.adapters.peft_files import CONFIG, WEIGHTS, read_lora
from mada.models.engines.vllm_backend import lora_rank
from mada.models.loading import EMBEDDED, load_tokenizer
from mada.recipe import Recipe
from mada.recipe.schema import EngineSection, ModelSection
from mada.recipe.writing import recipe_to_toml
from mada.report.reading import Source
from mada.runs import Manifest, StageMark, StoredRun
from mada.runs.folder import EXPORT, mark_path
from mada.runs.jsonl import json_text
from mada.runs.manifest import FILE as MANIFEST
from mada.runs.manifest import write_manifest

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the folder, the agents in it, the critics that are not trained yet, and whether it has results.

    `model` is the name of the base, which is what its server calls it.
    """

    folder: Path
    model: str
    agents: tuple[str, ...]
    missing: tuple[str, ...]
    evaluated: bool


def export_run(run: StoredRun, folder: Path, *, license_name: str | None = None) -> Exported:
    """Write a run's trained team into a folder, which may hold an earlier export of this run and nothing else.

    Critics are left out if their training has not finished. `license_name` is for the card; mada knows none.
    """
    recipe, manifest = recipe_of(run), run.manifest
    if recipe.engine.url is not None:
        # The server that answered for the run is nobody else's.
        recipe = recipe.model_copy(update={"engine": EngineSection()})
        manifest = manifest.with_recipe(recipe)
    agents, missing = _trained_agents(run, recipe)
    adapters = adapter_folders(run, agents)
    source = Source.of(run)
    _refuse_other_content(folder, run)
    base = _where_is(recipe.model.name)
    card = Card(source, recipe, agents, missing, base, _trained_revision(run, recipe.model), license_name)
    rank = max(read_lora(path).rank for path in adapters.values())
    with describe_os_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with writing_folder(folder) as partial:
        for name, adapter in adapters.items():
            _copy_adapter(adapter, partial / ADAPTERS / name, embedded_base=base == BASE)
        if base == BASE:
            shutil.copytree(EMBEDDED[recipe.model.name], partial / BASE, ignore=shutil.ignore_patterns("__pycache__"))
        save_tokenizer(recipe.model.name, card.revision, partial / TOKENIZER)
        script = partial / "serve.sh"
        script.write_text(serve_script(recipe.model, agents, base=base, revision=card.revision, rank=rank), "utf-8")
        script.chmod(script.stat().st_mode | 0o111)
        (partial / "README.md").write_text(card.text(), "utf-8")
        (partial / "recipe.toml").write_text(recipe_to_toml(recipe), "utf-8")
        _make_readable(partial, manifest, agents)
    return Exported(folder, recipe.model.name, agents, missing, evaluated=source.grid is not None)


def serve_script(model: ModelSection, agents: tuple[str, ...], *, base: str, revision: str | None, rank: int) -> str:
    """Return a script that serves a base and the adapters beside it with vLLM.

    Its flags are the settings of `VllmEngine` with vLLM 0.24, and the server of 0.32 takes them. `--max-loras` is one
    more than the adapters: a CPU build otherwise gives requests for the base the last one. vLLM's kernels for adapters
    compute in 16 bits, so float32 is left to its choice, as auto is.
    """
    options = [["--served-model-name", model.name], ["--tokenizer", TOKENIZER]]
    options += [["--revision", revision]] if revision else []
    options += [["--dtype", model.dtype]] if model.dtype in ("bfloat16", "float16") else []
    options += [["--max-model-len", str(model.window)]] if model.window else []
    options += [
        # Without it, sampling settings of the model's own generation_config.json would apply to requests.
        ["--generation-config", "vllm"],
        ["--enable-lora", "--max-loras", str(len(agents) + 1), "--max-lora-rank", str(lora_rank(rank))],
    ]
    lines = [*map(shlex.join, options), "--lora-modules", *(f"  {agent}={ADAPTERS}/{agent}" for agent in agents)]
    return (
        "#!/usr/bin/env bash\n"
        "# Serves the base and every agent's adapter with vLLM; more options go behind: ./serve.sh --port 9000\n"
        "set -euo pipefail\n"
        'cd -- "$(dirname -- "${BASH_SOURCE[0]}")"\n'
        + " \\\n  ".join([f"exec vllm serve {shlex.quote(base)}", *lines, '"$@"'])
        + "\n"
    )


def _trained_agents(run: StoredRun, recipe: Recipe) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the agents whose training has finished, and the critics for whom it has not."""
    if run.mark(EXPORT):
        raise RunError(f"{run.folder} is an export already; copy the folder, or export the run it was made of")
    generators, critics = team_names(recipe)
    if run.mark("generators") is None:
        raise RunError(
            f"{run.folder} has nothing to export yet: its stage generators has not finished. "
            f"`mada run --run {shlex.quote(str(run.folder))}` goes on with it"
        )
    return (generators, critics) if critics and run.mark("critics") is None else ((*generators, *critics), ())


def _where_is(model: str) -> str:
    """Return where an export finds a base: in itself, in a folder of this machine, or on the Hub."""
    if model in EMBEDDED:
        return BASE
    folder = Path(model).expanduser()
    return str(folder.absolute()) if folder.exists() else model


def _trained_revision(run: StoredRun, model: ModelSection) -> str | None:
    """Return the commit of the base that was trained on, if the run knows it, or else the recipe's revision."""
    for inputs in run.manifest.inputs.values():
        commit = inputs.get(weights_key(model), "").rpartition("@")[2]
        if _COMMIT.fullmatch(commit):
            return commit
    return model.revision


def _copy_adapter(source: Path, target: Path, *, embedded_base: bool) -> None:
    target.mkdir(parents=True)
    shutil.copyfile(source / WEIGHTS, target / WEIGHTS)
    config = json.loads((source / CONFIG).read_bytes())
    if embedded_base:
        # It names the folder where mada is installed, which nobody else has.
        config["base_model_name_or_path"] = BASE
    (target / CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def save_tokenizer(model: str, revision: str | None, folder: Path) -> None:
    """Write the tokenizer that mada used.

    From the base's own folder transformers 5 makes another one for some models, DeepSeek's R1 family and mada's own
    among them (see `load_tokenizer`); from a folder without the model's configuration it does not.
    """
    load_tokenizer(model, revision=revision).save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_bytes())
    for about_here in ("is_local", "local_files_only"):
        config.pop(about_here, None)
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"  # its name in transformers 4 and 5
    file.write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _make_readable(folder: Path, manifest: Manifest, agents: tuple[str, ...]) -> None:
    """Add the manifest and the mark by which mada reads the folder like a run, and finds damage in it."""
    sessions = tuple(one.model_copy(update={"host": "", "pid": 0}) for one in manifest.sessions)
    write_manifest(folder, manifest.model_copy(update={"sessions": sessions}))
    now = datetime.now(UTC)
    mark = StageMark(
        name=EXPORT,
        started_at=now,
        ended_at=now,
        seconds=0.0,
        summary={"agents": list(agents)},
        files={path.relative_to(folder).as_posix(): digest_of_file(path) for path in _files(folder)},
    )
    path = mark_path(folder, EXPORT)
    path.parent.mkdir()
    path.write_text(json_text(mark.model_dump(mode="json"), subject="the mark", indent=2) + "\n", "utf-8")


def _refuse_other_content(folder: Path, run: StoredRun) -> None:
    """Raise unless a folder is new, empty, or an export of this run that nobody has changed."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    advice = "move it away, or choose another folder with --out"
    if not (folder / MANIFEST).is_file() or (mark := (earlier := StoredRun.read(folder)).mark(EXPORT)) is None:
        raise RunError(f"{folder} is there already and is not an earlier export; {advice}")
    if earlier.manifest.started_at != run.manifest.started_at or earlier.manifest.name != run.manifest.name:
        raise RunError(f"{folder} is an export of another run; {advice}")
    own = {*mark.files, mark_path(folder, EXPORT).relative_to(folder).as_posix()}
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if name not in own:
            raise RunError(f"{folder} has {name}, which is not of the export and would be lost; {advice}")
        if name in mark.files and digest_of_file(path) != mark.files[name]:
            raise RunError(f"{path} was changed after the export, and the change would be lost; {advice}")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if not path.is_dir() or path.is_symlink())
