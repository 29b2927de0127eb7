"""Runs of pipelines: what is read, how it becomes visible, and what is left to look at."""

from omnigraph.pipelines.running.batch_run import run
from omnigraph.pipelines.running.quarantine import (
    QuarantinedRun,
    export_quarantine,
    quarantined,
    read_quarantine,
    replay,
)
from omnigraph.pipelines.running.run_status import run_report, status
from omnigraph.pipelines.running.streaming import Stream, stream

__all__ = [
    "QuarantinedRun",
    "Stream",
    "export_quarantine",
    "quarantined",
    "read_quarantine",
    "replay",
    "run",
    "run_report",
    "status",
    "stream",
]
