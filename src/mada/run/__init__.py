"""A run is a folder: what was done, with what, and everything that came out, in files that anyone can open.

    runs/first/
      manifest.json         recipe, seed, and per session: versions, commit, hardware, command, start and end
      stages/<name>.json    one mark per finished stage
      records/<name>.jsonl  typed records, one JSON line each, append-only
      …                     whatever else a stage writes, each file replaced as a whole
      .lock                 held by the process that is writing

`Run.open(folder, recipe)` creates a run or continues it, for one process at a time; `Run.read(folder)` reads
it at any time.
"""

from mada.atomic import replace_bytes, replace_text, replacing
from mada.run.differences import ABSENT, Difference, differences
from mada.run.folder import Run
from mada.run.manifest import Manifest, Session
from mada.run.records import Records, StoredRecords
from mada.run.stages import Stage, StageMark
from mada.run.stored import StoredRun

__all__ = [
    "ABSENT",
    "Difference",
    "Manifest",
    "Records",
    "Run",
    "Session",
    "Stage",
    "StageMark",
    "StoredRecords",
    "StoredRun",
    "differences",
    "replace_bytes",
    "replace_text",
    "replacing",
]
