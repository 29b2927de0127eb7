"""Errors of clusters as code: what stops a command that works on the ledger of a cluster."""

from __future__ import annotations

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import Details
from omnigraph.records import record


@record
class ClusterPlaceProblem(Details):
    """The code of a finding about a cluster, and what it is about: a stored object or the address of a resource."""

    finding: str
    path: str


class ClusterStateError(OmnigraphError):
    """The stored state of a cluster is missing, locked, unreadable, or was changed by another process."""

    row = ErrorRow(
        code="cluster.state",
        kind=Kind.UNAVAILABLE,
        details=ClusterPlaceProblem,
        retry=Retry.AFTER_REFRESH,
        hint="`omnigraph cluster status` shows the ledger and its lock",
    )
    details: ClusterPlaceProblem
