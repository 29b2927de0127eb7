"""Exports: every row of one state of a graph, as files that load back unchanged."""

from omnigraph.engine.export.folder import export_folder
from omnigraph.engine.export.options import (
    ExportedType,
    ExportFormat,
    ExportProgress,
    ExportResult,
    ExportSettings,
    check_export,
)
from omnigraph.engine.export.stream import check_sink, export_stream

__all__ = [
    "ExportFormat",
    "ExportProgress",
    "ExportResult",
    "ExportSettings",
    "ExportedType",
    "check_export",
    "check_sink",
    "export_folder",
    "export_stream",
]
