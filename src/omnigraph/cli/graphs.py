"""The graph that a command works on, and how results of writes name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.cli.importing import quick_imports
from omnigraph.cli.operator.scope import default_scope
from omnigraph.errors import BadValue, UsageError

if TYPE_CHECKING:
    from omnigraph.engine.session import GraphSession
    from omnigraph.txn.graph_store import OpenMode
    from omnigraph.txn.manifest.rows import Commit


def graph_address(uri: str | None, store: str | None) -> str:
    """Return the storage of the graph that is meant: given by position or by ``--store``, or by profile or default.

    Raises:
        UsageError: it is given twice or not at all, or is the address of a server.
        ProfileMissingError, ConfigError: a profile is asked for that does not exist or is not valid.
        ScopeUnsupportedError: the profile or the defaults lead to a server or a cluster.
    """
    if uri is not None and store is not None:
        raise UsageError(
            "the graph is named twice",
            details=BadValue(what="arguments", value=uri, expected="URI or --store"),
            hint="give its address once",
        )
    address = store if uri is None else uri
    return _stored(default_scope().storage() if address is None else address)


def open_graph(store: str | None, *, mode: OpenMode = "read_write") -> GraphSession:
    """Open the graph at a storage address, or the one that :func:`graph_address` finds where none is given.

    Raises:
        UsageError: no graph is named, or a server.
        ValueFormatError: a graph cannot live there.
        GraphMissingError: there is none.
    """
    address = graph_address(None, store)
    with quick_imports():
        from omnigraph.engine.session import GraphSession  # noqa: PLC0415 - for arguments that make sense
        from omnigraph.store.location import Storage  # noqa: PLC0415 - see above

    return GraphSession.open(Storage.open(address), mode=mode)


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


def _stored(address: str) -> str:
    if not address.lower().startswith(("http://", "https://")):
        return address
    raise UsageError(
        "the address of a server is no graph",
        details=BadValue(what="graph", value=address, expected="the storage of a graph"),
        hint="give the graph's storage: a path, file:// or s3://bucket/prefix",
    )
