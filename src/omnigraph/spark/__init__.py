"""The data plane on Spark: sessions, and bulk work that executors do and one commit makes visible."""

from omnigraph.spark.embedding import embed_on_spark
from omnigraph.spark.embedding import embed_on_spark as embed
from omnigraph.spark.exports import export
from omnigraph.spark.history import SparkHistorySettings, diff, merge, preview_merge, revert
from omnigraph.spark.jobs import job_name
from omnigraph.spark.loads import SparkLoadResult, SparkLoadSettings, load, load_frames
from omnigraph.spark.maintenance import OptimizeStep, optimize_on_spark
from omnigraph.spark.maintenance import optimize_on_spark as optimize
from omnigraph.spark.queries import frame, query
from omnigraph.spark.resolution import (
    Comparison,
    EvidenceNames,
    Overrule,
    Resolution,
    Resolved,
    evidence_frames,
    read_decisions,
    resolve,
)
from omnigraph.spark.sessions.session import session, stop
from omnigraph.spark.sessions.workers import check_workers
from omnigraph.spark.source.registration import register
from omnigraph.spark.streams import write_stream
from omnigraph.spark.temporary_views import views

__all__ = [
    "Comparison",
    "EvidenceNames",
    "OptimizeStep",
    "Overrule",
    "Resolution",
    "Resolved",
    "SparkHistorySettings",
    "SparkLoadResult",
    "SparkLoadSettings",
    "check_workers",
    "diff",
    "embed",
    "embed_on_spark",
    "evidence_frames",
    "export",
    "frame",
    "job_name",
    "load",
    "load_frames",
    "merge",
    "optimize",
    "optimize_on_spark",
    "preview_merge",
    "query",
    "read_decisions",
    "register",
    "resolve",
    "revert",
    "session",
    "stop",
    "views",
    "write_stream",
]
