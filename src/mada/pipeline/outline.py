"""The stages by name, and what each does: what commands need to know before anything heavy is loaded."""

from collections.abc import Mapping

OUTLINE: Mapping[str, str] = {
    "split": "cut the training problems",
    "screen": "find what can be learnt from",
    "generators": "train the generators",
    "critic-data": "let the generators answer",
    "critics": "train the critics",
    "evaluate": "measure the team and its rivals",
    "report": "write the report",
}
