"""The graph that a command works on, and how results of writes name it."""

from __future__ import annotations

from typing import Any

from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, UsageError
from omnigraph.store.location import Storage
from omnigraph.txn.manifest.rows import Commit


def open_graph(store: str | None) -> GraphSession:
    """Open the graph at a storage address.

    Raises:
        UsageError: no graph is named.
        ValueFormatError: a graph cannot live there.
        GraphMissingError: there is none.
    """
    if store is None:
        raise UsageError(
            "no graph is named",
            details=BadValue(what="graph", value="", expected="--store URI"),
            hint="give its storage with --store: a path, file:// or s3://bucket/prefix",
        )
    return GraphSession.open(Storage.open(store))


def commit_to_json(commit: Commit | None) -> dict[str, Any] | None:
    """Return a commit as every result shows it."""
    if commit is None:
        return None
    return {
        "graph_commit_id": commit.id,
        "graph_branch": commit.branch,
        "graph_manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": commit.created_at_ms * 1000,
    }
