"""The operations of the OpenAPI document, one row each: where, what it takes, and what it answers.

Statuses are those beside 200. A body is the name of a component, ``ndjson``, or nothing; an answer is the name of a
component, a media type, or nothing for answers without content.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.records import record

GRAPH = "/graphs/{graph_id}"


@record
class Parameter:
    """A parameter of a path, of the query string or of the headers; ``words`` are all values that it takes."""

    name: str
    place: str = "query"
    is_required: bool = False
    is_repeated: bool = False
    kind: str = "string"
    words: tuple[str, ...] = ()


@record
class Row:
    """One operation."""

    method: str
    path: str
    name: str
    tag: str
    summary: str
    answer: str = ""
    body: str = ""
    statuses: str = ""
    parameters: Sequence[Parameter] = ()
    is_deprecated: bool = False
    is_public: bool = False
    error: str = "ErrorOutput"
    is_added: bool = False


def _path(name: str) -> Parameter:
    return Parameter(name=name, place="path", is_required=True)


def _query(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name=name) for name in names)


_LIMIT = Parameter(name="limit", kind="integer")
_KIND = Parameter(name="kind", is_repeated=True, words=("node", "edge"))
_TYPE = Parameter(name="type", is_repeated=True)
_OP = Parameter(name="op", is_repeated=True, words=("insert", "update", "delete"))
_FILTERS = (_KIND, _TYPE, _OP)
_MODE = Parameter(name="mode", words=("append", "merge", "overwrite"))
_CONDITION = Parameter(name="Omnigraph-If-Graph-Commit", place="header", is_required=True)
_BLOB = (
    Parameter(name="entity", is_required=True, words=("node", "edge")),
    Parameter(name="type", is_required=True),
    Parameter(name="id", is_required=True),
    Parameter(name="property", is_required=True),
    *_query("branch", "snapshot"),
)
_WRITE = "400 401 403 409 413 424 429 503"
_INVOKE = "400 401 403 404 409 413 424 429 500 503"
_CHANGE_ERROR = "ChangeErrorOutput"

BASE: tuple[Row, ...] = (
    Row(
        method="get",
        path="/healthz",
        name="health",
        tag="health",
        summary="Return success while the process runs",
        answer="HealthOutput",
        is_public=True,
    ),
    Row(
        method="get",
        path="/graphs",
        name="listGraphs",
        tag="management",
        summary="List the graphs",
        answer="GraphListResponse",
        statuses="401 403 405",
    ),
    Row(
        method="get",
        path=f"{GRAPH}/snapshot",
        name="cluster_getSnapshot",
        tag="snapshots",
        summary="Show the tables of a branch",
        answer="SnapshotOutput",
        statuses="401 403",
        parameters=_query("branch"),
    ),
    Row(
        method="post",
        path=f"{GRAPH}/query",
        name="cluster_query",
        tag="queries",
        summary="Run a read",
        answer="ReadOutput",
        body="QueryRequest",
        statuses="400 401 403",
    ),
    Row(
        method="post",
        path=f"{GRAPH}/read",
        name="cluster_read",
        tag="queries",
        summary="Run a read, in the earlier form",
        answer="LegacyReadOutput",
        body="ReadRequest",
        statuses="400 401 403",
        is_deprecated=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/mutate",
        name="cluster_mutate",
        tag="mutations",
        summary="Run a mutation",
        answer="ChangeOutput",
        body="ChangeRequest",
        statuses=_WRITE,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/change",
        name="cluster_change",
        tag="mutations",
        summary="Run a mutation, under the earlier name",
        answer="ChangeOutput",
        body="ChangeRequest",
        statuses=_WRITE,
        is_deprecated=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/mutate/if-graph-commit",
        name="cluster_mutate_if_graph_commit",
        tag="mutations",
        summary="Run a mutation if the branch is at a commit",
        answer="ChangeOutput",
        body="ChangeRequest",
        statuses="400 401 403 409 412 413 424 429 503",
        parameters=(_CONDITION,),
    ),
    Row(
        method="get",
        path=f"{GRAPH}/queries",
        name="cluster_list_queries",
        tag="queries",
        summary="List the stored queries",
        answer="QueriesCatalogOutput",
        statuses="401 403",
    ),
    Row(
        method="post",
        path=f"{GRAPH}/queries/{{name}}",
        name="cluster_invoke_query",
        tag="queries",
        summary="Run a stored query",
        answer="InvokeStoredQueryResponse",
        body="InvokeStoredQueryRequest?",
        statuses=_INVOKE,
        parameters=(_path("name"),),
    ),
    Row(
        method="post",
        path=f"{GRAPH}/queries/{{name}}/if-graph-commit",
        name="cluster_invoke_query_if_graph_commit",
        tag="queries",
        summary="Run a stored mutation if the branch is at a commit",
        answer="ChangeOutput",
        body="InvokeStoredQueryRequest?",
        statuses="400 401 403 404 409 412 413 424 429 500 503",
        parameters=(_path("name"), _CONDITION),
    ),
    Row(
        method="get",
        path=f"{GRAPH}/schema",
        name="cluster_getSchema",
        tag="schema",
        summary="Show the schema",
        answer="SchemaOutput",
        statuses="401 403",
    ),
    Row(
        method="post",
        path=f"{GRAPH}/schema/apply",
        name="cluster_applySchema",
        tag="mutations",
        summary="Apply a new schema to main",
        answer="SchemaApplyOutput",
        body="SchemaApplyRequest",
        statuses="400 401 403 409 429",
    ),
    Row(
        method="post",
        path=f"{GRAPH}/load",
        name="cluster_load",
        tag="mutations",
        summary="Load records",
        answer="IngestOutput",
        body="IngestRequest",
        statuses=_WRITE,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/ingest",
        name="cluster_ingest",
        tag="mutations",
        summary="Load records, under the earlier name",
        answer="IngestOutput",
        body="IngestRequest",
        statuses=_WRITE,
        is_deprecated=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/load/ndjson",
        name="cluster_loadNdjson",
        tag="mutations",
        summary="Load lines of JSON, strictly",
        answer="GraphBatchLoadOutput",
        body="ndjson",
        statuses="400 401 403 404 409 413 415 424 429 503",
        parameters=(*_query("branch", "from"), _MODE),
    ),
    Row(
        method="post",
        path=f"{GRAPH}/export",
        name="cluster_export",
        tag="queries",
        summary="Stream the entities of a branch",
        answer="application/x-ndjson",
        body="ExportRequest",
        statuses="400 401 403 404 409 413 415 503",
    ),
    Row(
        method="get",
        path=f"{GRAPH}/branches",
        name="cluster_listBranches",
        tag="branches",
        summary="List the branches",
        answer="BranchListOutput",
        statuses="401 403",
    ),
    Row(
        method="post",
        path=f"{GRAPH}/branches",
        name="cluster_createBranch",
        tag="branches",
        summary="Create a branch",
        answer="BranchCreateOutput",
        body="BranchCreateRequest",
        statuses="400 401 403 409 429 503",
    ),
    Row(
        method="delete",
        path=f"{GRAPH}/branches/{{branch}}",
        name="cluster_deleteBranch",
        tag="branches",
        summary="Delete a branch",
        answer="BranchDeleteOutput",
        statuses="401 403 404 429 503",
        parameters=(_path("branch"),),
    ),
    Row(
        method="post",
        path=f"{GRAPH}/branches/merge",
        name="cluster_mergeBranches",
        tag="branches",
        summary="Merge a branch into another",
        answer="BranchMergeOutput",
        body="BranchMergeRequest",
        statuses=_WRITE,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/commits",
        name="cluster_listCommits",
        tag="commits",
        summary="List the commits of a branch",
        answer="CommitListOutput",
        statuses="401 403",
        parameters=_query("branch"),
    ),
    Row(
        method="get",
        path=f"{GRAPH}/commits/{{commit_id}}",
        name="cluster_getCommit",
        tag="commits",
        summary="Show one commit",
        answer="CommitOutput",
        statuses="401 403 404",
        parameters=(_path("commit_id"),),
    ),
    Row(
        method="get",
        path=f"{GRAPH}/blob",
        name="cluster_getBlob",
        tag="blobs",
        summary="Send the bytes of a Blob",
        answer="application/octet-stream",
        statuses="206 302 304 400 401 403 404 412 416 500",
        parameters=_BLOB,
    ),
    Row(
        method="head",
        path=f"{GRAPH}/blob",
        name="cluster_headBlob",
        tag="blobs",
        summary="Return the size of a Blob",
        statuses="302 304 400 401 403 404 412 500",
        parameters=_BLOB,
        error="",
    ),
    Row(
        method="get",
        path=f"{GRAPH}/commits/{{commit_id}}/changes",
        name="cluster_getCommitChanges",
        tag="changes",
        summary="Show the changes of a commit",
        answer="CommitChangesOutput",
        statuses="400 401 404 409 410 413 500 503",
        parameters=(_path("commit_id"), *_query("page_token"), _LIMIT, *_FILTERS),
        error=_CHANGE_ERROR,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/changes",
        name="cluster_pollChanges",
        tag="changes",
        summary="Follow the changes of a branch",
        answer="ChangeFeedOutput",
        statuses="400 401 403 404 409 410 413 500 503",
        parameters=(*_query("branch", "cursor", "start", "page_token"), _LIMIT, *_FILTERS),
        error=_CHANGE_ERROR,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/changes/baseline",
        name="cluster_captureChangeBaseline",
        tag="changes",
        summary="Stream the entities of a branch and the cursor after them",
        answer="application/x-ndjson ChangeBaselineRecord",
        body="ChangeBaselineRequest",
        statuses="400 401 403 404 413 500 503",
        error=_CHANGE_ERROR,
    ),
)

_READ = "400 401 403 404 410"
ADDED: tuple[Row, ...] = (
    Row(
        method="get",
        path="/readyz",
        name="ready",
        tag="health",
        summary="Return success if every graph is served and the server is not shutting down",
        answer="object",
        statuses="503",
        is_public=True,
        is_added=True,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/operations/{{request_id}}",
        name="getOperation",
        tag="mutations",
        summary="Return the outcome of a write by the id of its request",
        answer="object",
        statuses="401 403 404",
        parameters=(_path("request_id"), *_query("branch")),
        is_added=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/explain",
        name="explain",
        tag="queries",
        summary="Show how a read would run",
        answer="object",
        body="ExplainRequest",
        statuses="400 401 403 404 408 410 413 415",
        is_added=True,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/diff",
        name="diff",
        tag="changes",
        summary="Compare two states",
        answer="DiffOutput",
        statuses="400 401 403 404 409 410 413",
        parameters=(
            Parameter(name="from", is_required=True),
            *_query("to", "branch", "page_token"),
            Parameter(name="summary", kind="boolean"),
            Parameter(name="id", is_repeated=True),
            _LIMIT,
            *_FILTERS,
        ),
        is_added=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/commits/{{commit_id}}/revert",
        name="revertCommit",
        tag="commits",
        summary="Undo one commit with a new one",
        answer="object",
        body="RevertRequest",
        statuses="400 401 403 404 409 410 412 413 415 429 501 503",
        parameters=(_path("commit_id"),),
        is_added=True,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/blame",
        name="blame",
        tag="commits",
        summary="Show which commits changed an entity",
        answer="object",
        statuses="400 401 403 404 409 410",
        parameters=(
            Parameter(name="type", is_required=True),
            Parameter(name="id", is_required=True),
            *_query("branch", "snapshot"),
            _LIMIT,
        ),
        is_added=True,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/tags",
        name="listTags",
        tag="branches",
        summary="List the tags",
        answer="TagListOutput",
        statuses="401 403 404",
        is_added=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/tags",
        name="createTag",
        tag="branches",
        summary="Name a state",
        answer="TagOutput",
        body="TagCreateRequest",
        statuses="400 401 403 404 409 410 413 415 429 503",
        is_added=True,
    ),
    Row(
        method="delete",
        path=f"{GRAPH}/tags/{{name}}",
        name="deleteTag",
        tag="branches",
        summary="Remove a tag",
        answer="TagOutput",
        statuses="400 401 403 404 429 503",
        parameters=(_path("name"),),
        is_added=True,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/catalog",
        name="getCatalog",
        tag="schema",
        summary="Show the compiled schema",
        answer="object",
        statuses=_READ,
        parameters=_query("branch"),
        is_added=True,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/status",
        name="getStatus",
        tag="maintenance",
        summary="Show the health of a graph",
        answer="object",
        statuses=_READ,
        parameters=(*_query("branch"), Parameter(name="storage", kind="boolean")),
        is_added=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/maintenance/optimize",
        name="optimize",
        tag="maintenance",
        summary="Compact tables and bring indexes and projections up to date",
        answer="object",
        body="OptimizeRequest",
        statuses="400 401 403 404 409 413 415 429 503",
        is_added=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/maintenance/cleanup",
        name="cleanup",
        tag="maintenance",
        summary="Reclaim the storage of old states",
        answer="object",
        body="CleanupRequest",
        statuses="400 401 403 404 409 413 415 429 503",
        is_added=True,
    ),
    Row(
        method="post",
        path=f"{GRAPH}/maintenance/migrate",
        name="migrate",
        tag="maintenance",
        summary="Upgrade the storage format of every branch",
        answer="object",
        body="MigrateRequest",
        statuses="400 401 403 404 409 413 415 429 503",
        is_added=True,
    ),
    Row(
        method="get",
        path=f"{GRAPH}/changes/stream",
        name="streamChanges",
        tag="changes",
        summary="Send the changes of a branch as events",
        answer="text/event-stream",
        statuses="400 401 403 404 409 410 413",
        parameters=(
            *_query("branch", "start", "cursor"),
            Parameter(name="Last-Event-ID", place="header"),
            _LIMIT,
            *_FILTERS,
        ),
        is_added=True,
    ),
)
# What the additions give to operations of the base.
EXTENDED_PARAMETERS: dict[str, tuple[Parameter, ...]] = {
    "cluster_listBranches": (Parameter(name="verbose", kind="boolean"),),
    "cluster_listCommits": (*_query("cursor", "actor", "type"), _LIMIT),
}
