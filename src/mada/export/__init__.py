"""A trained team for others: adapters in PEFT's format, a script that serves them with vLLM, and a model card."""

from mada.export.folder import Exported, export_run

__all__ = ["Exported", "export_run"]
