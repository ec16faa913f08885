"""Stage 6, report: what came of it, from the stored records alone."""

from pydantic import JsonValue

from mada.pipeline.context import Context
from mada.report.publishing import publish_run
from mada.run import Run


async def report(context: Context) -> dict[str, JsonValue]:
    """Write the report: page, text, tables and figures."""
    return published(context.run)


def published(run: Run) -> dict[str, JsonValue]:
    """Write a run's report, and say what it has."""
    report = publish_run(run)
    return {"file": report.page.name, "content": str(report)}
