"""What exactly was run: the recipe and the manifest as they are stored, for people who want to do it again."""

import json

from mada.report.document import Listing, Section
from mada.report.reading import Source

PRIVATE = ("host", "pid")
"""What of a session is not shown."""


def recipe_section(source: Source) -> Section:
    """Return the recipe with every default filled in, and the manifest without it."""
    manifest = source.run.manifest.model_dump(mode="json")
    recipe = manifest.pop("recipe")
    for session in manifest["sessions"]:
        # Pages are passed on: whose machine it was is nobody's business, which kind it was is.
        for private in PRIVATE:
            session.pop(private)
    blocks = (
        Listing(_shown(recipe), summary="The recipe, with every default filled in"),
        Listing(_shown(manifest), summary="The manifest: sessions, commits, versions, machines"),
    )
    return Section("recipe", "Recipe and manifest", blocks, only="page")


def _shown(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
