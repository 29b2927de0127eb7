"""The graph that a command works on, and how results of writes name it."""

from __future__ import annotations

from typing import Any

from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, UsageError
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import OpenMode
from omnigraph.txn.manifest.rows import Commit


def graph_address(uri: str | None, store: str | None) -> str:
    """Return the one address that names a graph, given by position or by ``--store``.

    Raises:
        UsageError: none or both are given.
    """
    if uri is not None and store is not None:
        raise UsageError(
            "the graph is named twice",
            details=BadValue(what="arguments", value=uri, expected="URI or --store"),
            hint="give its address once",
        )
    address = store if uri is None else uri
    if address is None:
        raise _unnamed()
    return address


def open_graph(store: str | None, *, mode: OpenMode = "read_write") -> GraphSession:
    """Open the graph at a storage address.

    Raises:
        UsageError: no graph is named.
        ValueFormatError: a graph cannot live there.
        GraphMissingError: there is none.
    """
    if store is None:
        raise _unnamed()
    return GraphSession.open(Storage.open(store), mode=mode)


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


def _unnamed() -> UsageError:
    return UsageError(
        "no graph is named",
        details=BadValue(what="graph", value="", expected="--store URI"),
        hint="give its storage with --store: a path, file:// or s3://bucket/prefix",
    )
