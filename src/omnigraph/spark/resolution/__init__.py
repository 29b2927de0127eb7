"""Entity resolution on Spark: records that are the same entity, with the evidence for it."""

from omnigraph.spark.resolution.evidence import EvidenceNames, StoredDecisions, evidence_frames, read_decisions
from omnigraph.spark.resolution.model import Comparison, Overrule, Resolution, ResolveCounts
from omnigraph.spark.resolution.run import Resolved, resolve

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
