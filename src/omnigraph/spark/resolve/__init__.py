"""Entity resolution on Spark: records that are the same entity, with the evidence for it."""

from omnigraph.spark.resolve.evidence import EvidenceNames, StoredDecisions, evidence_frames, read_decisions
from omnigraph.spark.resolve.model import Comparison, Overrule, Resolution, ResolveCounts
from omnigraph.spark.resolve.run import Resolved, resolve

__all__ = [
    "Comparison",
    "EvidenceNames",
    "Overrule",
    "Resolution",
    "ResolveCounts",
    "Resolved",
    "StoredDecisions",
    "evidence_frames",
    "read_decisions",
    "resolve",
]
