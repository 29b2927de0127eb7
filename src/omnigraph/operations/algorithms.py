"""Requests that run graph algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.engine.query.options import QueryOptions
    from omnigraph.engine.results import Result
    from omnigraph.txn.transaction import OnConflict


@operation("run_algorithm", Action.READ)
@record
class RunAlgorithmRequest(Request["Result"]):
    """Run an algorithm on one pinned state and return what it finds of the nodes.

    Args:
        algorithm: its name, such as ``pagerank``.
        edges: the edge types to walk, one or several; all of them when None.
        params: what it is told beside, by name; the rest has defaults.
        branch: where to read.
        at: a reference to a state; the newest of the branch when None.
        limit: how many rows to return, the first ones.
        options: what it may cost.
    """

    algorithm: str
    edges: str | Sequence[str] | None = None
    params: Mapping[str, Any] | None = None
    branch: str = MAIN
    at: str | None = None
    limit: int | None = None
    options: QueryOptions | None = None


@operation("write_algorithm", Action.CHANGE, writes=True)
@record
class WriteAlgorithmRequest(Request["Result"]):
    """Run an algorithm on the newest state of a branch, and write what it finds as a property, as one commit.

    Args:
        algorithm: its name, such as ``pagerank``.
        write: the property, ``score`` for all node types or ``Person.score`` for one.
        edges: the edge types to walk, one or several; all of them when None.
        params: what it is told beside, by name; the rest has defaults.
        branch: where to read and to write.
        limit: how many rows to return, the first ones; all are written.
        options: what it may cost.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``refuse`` raises a conflict instead of running it again when another writer changed the graph.
        max_affected: how many nodes may change; with more it changes nothing.
    """

    algorithm: str
    write: str
    edges: str | Sequence[str] | None = None
    params: Mapping[str, Any] | None = None
    branch: str = MAIN
    limit: int | None = None
    options: QueryOptions | None = None
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    on_conflict: OnConflict = "rerun"
    max_affected: int | None = None
