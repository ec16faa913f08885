"""A run is a folder: what was done, with what, and everything that came out, in files that any tool can open.

    runs/first/
      manifest.json         recipe, seed, and per session: versions, commit, hardware, command, start and end
      stages/<name>.json    one mark per finished stage
      records/<name>.jsonl  typed records, one JSON line each, append-only
      …                     whatever else a stage writes, each file replaced atomically
      .lock                 held by the process that is writing

`Run.open(folder, recipe)` creates a run or continues it, for one process at a time; `Run.read(folder)` reads
it at any time.
"""

from mada.runs.folder import Run, Stage, StageMark, StoredRun
from mada.runs.jsonl import Records, StoredRecords
from mada.runs.manifest import Manifest, Session

__all__ = ["Manifest", "Records", "Run", "Session", "Stage", "StageMark", "StoredRecords", "StoredRun"]
