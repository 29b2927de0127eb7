"""Declared pipelines: how tables of other systems become a graph and keep it current."""

from omnigraph.pipelines.declare import Pipeline, drop, fail, quarantine, warn
from omnigraph.pipelines.files import load_declaration
from omnigraph.pipelines.model import Declaration
from omnigraph.pipelines.results import RunProgress, RunReport
from omnigraph.pipelines.running import (
    export_quarantine,
    quarantined,
    read_quarantine,
    replay,
    run,
    run_report,
    status,
    stream,
)

__all__ = [
    "Declaration",
    "Pipeline",
    "RunProgress",
    "RunReport",
    "drop",
    "export_quarantine",
    "fail",
    "load_declaration",
    "quarantine",
    "quarantined",
    "read_quarantine",
    "replay",
    "run",
    "run_report",
    "status",
    "stream",
    "warn",
]
