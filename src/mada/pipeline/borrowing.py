"""Using another run's generators: a run that differs only in its critics need not train them again."""

import shutil

from mada.pipeline.split import PROBLEMS, SPLIT_FILE
from mada.report.reading import CRITIC_EXAMPLES
from mada.run import Run, StoredRun
from mada.team.seats import ADAPTERS

SHARED_STAGES = ("split", "generators", "critic-data")
_FILES = (SPLIT_FILE, f"records/{PROBLEMS}.jsonl", f"records/{CRITIC_EXAMPLES}.jsonl")


def borrow_stages(source: StoredRun, target: Run) -> None:
    """Copy what all stages before the critics made, and their marks, unless the run has them already."""
    if all(target.stage(name).is_done for name in SHARED_STAGES):
        return
    for name in _FILES:
        target.path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source.path(name), target.path(name))
    for adapter in sorted(source.path(ADAPTERS).glob("generator-*")):
        shutil.copytree(adapter, target.path(ADAPTERS, adapter.name), dirs_exist_ok=True)
    for name in SHARED_STAGES:  # last, because a mark says that everything is there
        target.write_bytes(f"stages/{name}.json", source.path("stages", f"{name}.json").read_bytes())
