"""Declared pipelines: how tables of other systems become a graph and keep it current."""

from omnigraph.pipelines.declare import Pipeline, drop, fail, quarantine, warn
from omnigraph.pipelines.model import Declaration
from omnigraph.pipelines.results import RunReport
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
    "RunReport",
    "drop",
    "export_quarantine",
    "fail",
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
