"""The documents of the HTTP API: bodies that are read, and what records of ours look like on the wire."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.results import Result
    from omnigraph.txn.manifest.rows import Commit


class QueryBody(msgspec.Struct):
    """``QueryRequest``."""

    query: str
    name: str | None = None
    params: msgspec.Raw = msgspec.Raw()
    branch: str | None = None
    snapshot: str | None = None


class ReadBody(msgspec.Struct):
    """``ReadRequest``."""

    query_source: str
    query_name: str | None = None
    params: msgspec.Raw = msgspec.Raw()
    branch: str | None = None
    snapshot: str | None = None


class ChangeBody(msgspec.Struct):
    """``ChangeRequest``; the text and the name have two spellings each."""

    query: str | None = None
    query_source: str | None = None
    name: str | None = None
    query_name: str | None = None
    params: msgspec.Raw = msgspec.Raw()
    branch: str | None = None


def read_document(result: Result, *, is_legacy: bool = False) -> bytes:
    """Return ``ReadOutput``, or ``LegacyReadOutput`` without the commit."""
    sink = io.StringIO()
    result.write_json(sink, compact=True)
    text = sink.getvalue()
    if is_legacy:
        text = text[: text.rindex('],"graph_commit_id":') + 1] + "}"
    return text.encode()


def change_document(done: MutationResult) -> dict[str, Any]:
    """Return ``ChangeOutput``."""
    found = done.to_json()
    return {**found, "commit": None if done.commit is None else commit_document(done.commit)}


def commit_document(commit: Commit) -> dict[str, Any]:
    """Return ``CommitOutput``: times in microseconds, main without a name."""
    return {
        "graph_commit_id": commit.id,
        "graph_branch": branch_document(commit.branch),
        "graph_manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": commit.created_at_ms * 1000,
    }


def branch_document(name: str) -> str | None:
    """Return how commits call the branch that they are on."""
    return None if name == "main" else str(name)
