"""Stage 6, report: what came of it, from the stored records alone."""

from pydantic import JsonValue

from mada.pipeline.context import Context
from mada.report.run_report import write_report


async def report(context: Context) -> dict[str, JsonValue]:
    """Write the report."""
    return {"file": write_report(context.run).name}
