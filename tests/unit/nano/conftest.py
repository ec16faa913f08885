"""`nano/` is a folder of scripts, not a package: its modules are imported by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "nano"))
