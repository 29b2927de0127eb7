"""The documents of the HTTP API: bodies that are read, and what records of ours look like on the wire."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.catalog.model import EdgeType, NodeType, PropertyDef
    from omnigraph.engine.load import LoadResult
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.results import Result
    from omnigraph.history.feed.batch import ChangeBlock
    from omnigraph.history.feed.reader import ChangeFeedPage, CommitChanges
    from omnigraph.txn.manifest.rows import Commit, ManifestState, TableEntry

LoadMode = Literal["append", "merge", "overwrite"]
Kinds = list[Literal["node", "edge"]]
Ops = list[Literal["insert", "update", "delete"]]


class QueryBody(msgspec.Struct):
    """``QueryRequest``."""

    query: str
    name: str | None = None
    params: msgspec.Raw = msgspec.Raw()
    branch: str | None = None
    snapshot: str | None = None


class ExplainBody(QueryBody):
    """``ExplainRequest``: a query, and whether to run it."""

    analyze: bool | None = None


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


class InvokeBody(msgspec.Struct):
    """``InvokeStoredQueryRequest``."""

    params: msgspec.Raw = msgspec.Raw()
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None


class IngestBody(msgspec.Struct):
    """``IngestRequest``."""

    data: str
    branch: str | None = None
    base: str | None = msgspec.field(default=None, name="from")
    mode: LoadMode | None = None


class ExportBody(msgspec.Struct, forbid_unknown_fields=True):
    """``ExportRequest``."""

    branch: str | None = None
    type_names: list[str] | None = None


class BaselineBody(msgspec.Struct):
    """``ChangeBaselineRequest``."""

    branch: str | None = None
    kind: Kinds | None = None
    type: list[str] | None = None
    op: Ops | None = None


class BranchCreateBody(msgspec.Struct):
    """``BranchCreateRequest``."""

    name: str
    base: str | None = msgspec.field(default=None, name="from")


class BranchMergeBody(msgspec.Struct):
    """``BranchMergeRequest``, with a preview and decisions about conflicts."""

    source: str
    target: str | None = None
    delete_branch: bool | None = None
    dry_run: bool | None = None
    resolve: Literal["ours", "theirs", "properties"] | None = None
    decisions: list[dict[str, Any]] | None = None
    message: str | None = None
    expected_head: str | None = None
    expected_source_head: str | None = None


class RevertBody(msgspec.Struct):
    """``RevertRequest``."""

    branch: str | None = None
    resolve: Literal["ours", "theirs", "properties"] | None = None
    decisions: list[dict[str, Any]] | None = None
    message: str | None = None
    expected_head: str | None = None


class TagCreateBody(msgspec.Struct):
    """``TagCreateRequest``: a name for the state that a reference means."""

    name: str
    at: str | None = None
    message: str | None = None


class SchemaApplyBody(msgspec.Struct):
    """``SchemaApplyRequest``."""

    schema_source: str
    allow_data_loss: bool | None = None


class OptimizeBody(msgspec.Struct):
    """``OptimizeRequest``."""

    branch: str | None = None
    types: list[str] | None = None


class CleanupBody(msgspec.Struct):
    """``CleanupRequest``; without ``confirm`` it only says what would go."""

    keep: int | None = None
    older_than_seconds: float | None = None
    confirm: bool | None = None


class MigrateBody(msgspec.Struct):
    """``MigrateRequest``; with ``preview`` it only says what would change."""

    preview: bool | None = None
    message: str | None = None


def read_document(result: Result, *, is_legacy: bool = False) -> bytes:
    """Return ``ReadOutput``, or ``LegacyReadOutput`` without the commit."""
    sink = io.StringIO()
    result.write_json(sink, compact=True)
    text = sink.getvalue()
    if is_legacy and result.commit_id is not None:
        text = text[: text.rindex('],"graph_commit_id":') + 1] + "}"
    return text.encode()


def change_document(done: MutationResult) -> dict[str, Any]:
    """Return ``ChangeOutput``."""
    return {**done.to_json(), "commit": optional_commit(done.commit)}


def load_document(done: LoadResult, base: str | None, *, is_created: bool) -> dict[str, Any]:
    """Return ``GraphBatchLoadOutput``."""
    found = done.to_json()
    return {
        "branch": found["branch"],
        "base_branch": base,
        "branch_created": is_created,
        "mode": found["mode"],
        "nodes": sorted(found["nodes"], key=lambda item: str(item["name"])),
        "edges": sorted(found["edges"], key=lambda item: str(item["name"])),
        "total_entities": found["total_entities"],
        "actor_id": found["actor_id"],
        "commit": optional_commit(done.commit),
    }


def optional_commit(commit: Commit | None) -> dict[str, Any] | None:
    """Return ``CommitOutput``, or null where nothing was published."""
    return None if commit is None else commit_document(commit)


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


def logged_commit(commit: Commit) -> dict[str, Any]:
    """Return ``CommitOutput`` with what a log tells beyond it."""
    return {
        **commit_document(commit),
        "operation": commit.operation,
        "message": commit.message,
        "published_at": commit.published_at_ms * 1000,
        "types": list(commit.touched),
    }


def branch_document(name: str) -> str | None:
    """Return how commits call the branch that they are on."""
    return None if name == "main" else str(name)


def snapshot_document(branch: str, state: ManifestState) -> dict[str, Any]:
    """Return ``SnapshotOutput``."""
    return {
        "graph_branch": branch,
        "graph_manifest_version": state.version,
        "internal_schema_version": state.format,
        "datasets": [_dataset(state.tables[key]) for key in sorted(state.tables)],
    }


def _dataset(entry: TableEntry) -> dict[str, Any]:
    kind, _, name = entry.table_key.partition(":")
    return {
        "entity_kind": kind,
        "type_name": name,
        "dataset_path": entry.pin.location,
        "published_dataset_version": entry.pin.version,
        "native_dataset_branch": entry.pin.branch,
        "entity_count": entry.row_count,
    }


def block_document(block: ChangeBlock) -> dict[str, Any]:
    """Return ``ChangeBlockOutput``."""
    found = block.to_json()
    cause = {**found["cause"], "authored_at": block.cause.commit.created_at_ms * 1000}
    return {**found, "cause": cause}


def commit_changes_document(page: CommitChanges) -> dict[str, Any]:
    """Return ``CommitChangesOutput``."""
    token = {} if page.next_page_token is None else {"next_page_token": page.next_page_token}
    return {**block_document(page.block), **token}


def feed_document(page: ChangeFeedPage) -> dict[str, Any]:
    """Return ``ChangeFeedOutput``."""
    return {**page.to_json(), "blocks": [block_document(block) for block in page.blocks]}


def catalog_document(catalog: Catalog, state: ManifestState) -> dict[str, Any]:
    """Return the compiled schema: types with properties, constraints, indexes and how many entities there are."""
    return {
        "graph_commit_id": state.head.commit,
        "interfaces": [
            {"name": interface.name, "properties": [_property(item) for item in interface.properties]}
            for interface in catalog.interfaces.values()
        ],
        "nodes": [{**_owner(node, state), "implements": list(node.implements)} for node in catalog.nodes.values()],
        "edges": [
            {
                **_owner(edge, state),
                "from": edge.from_type,
                "to": edge.to_type,
                "cardinality": {"minimum": edge.cardinality.minimum, "maximum": edge.cardinality.maximum},
            }
            for edge in catalog.edges.values()
        ],
    }


def _owner(owner: NodeType | EdgeType, state: ManifestState) -> dict[str, Any]:
    entry = state.table(owner.table_key)
    return {
        "name": owner.name,
        "properties": [_property(item) for item in owner.properties],
        "key": None if owner.key is None else list(owner.key),
        "uniques": [list(columns) for columns in owner.uniques],
        "indexes": [list(columns) for columns in owner.indexes],
        "ranges": [
            {"property": rule.property, "low": _bound(rule.low), "high": _bound(rule.high)} for rule in owner.ranges
        ],
        "checks": [{"property": rule.property, "pattern": rule.pattern} for rule in owner.checks],
        "annotations": {item.name: item.value for item in owner.annotations},
        "entity_count": 0 if entry is None else entry.row_count,
    }


def _bound(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else str(value)


def _property(item: PropertyDef) -> dict[str, Any]:
    return {
        "name": item.name,
        "type": str(item.type),
        **item.type.to_json(),
        "annotations": {one.name: one.value for one in item.annotations},
        "embed": None if item.embed is None else {"source": item.embed.source, "model": item.embed.model},
    }
