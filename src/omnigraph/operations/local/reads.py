"""Handlers of the requests that read one state of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.runner import ReadCall
from omnigraph.ir import ParamsForm
from omnigraph.operations.reads import FoundState, PinnedState
from omnigraph.runtime import counting
from omnigraph.values import (
    BranchName,
    check_callable,
    check_choice,
    check_flag,
    check_instance,
    check_text,
    check_whole,
)

if TYPE_CHECKING:
    from omnigraph.catalog import EdgeType, NodeType
    from omnigraph.catalog.migration import MigrationPlan
    from omnigraph.engine.export import ExportResult
    from omnigraph.engine.export.options import ExportCut
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.engine.past import PastState
    from omnigraph.engine.query.explain import Explanation
    from omnigraph.engine.results import Result
    from omnigraph.engine.results.entity import Entity
    from omnigraph.engine.results.network import Network
    from omnigraph.operations.reads import (
        ExplainRequest,
        ExportRequest,
        ExportStreamRequest,
        PlanSchemaRequest,
        QueryRequest,
        ReadBlobRequest,
        ReadEntityRequest,
        ReadNetworkRequest,
        ReadStateRequest,
        ResolveRefRequest,
    )
    from omnigraph.operations.request import Attachments
    from omnigraph.store.tables.pinned import BlobPart
    from omnigraph.txn.snapshot import GraphSnapshot

_FORMS = get_args(ParamsForm)
_DEFAULTS = QueryOptions()


def query(graph: OpenGraph, request: QueryRequest, attached: Attachments) -> Result:
    """Compile a read and run it on one pinned snapshot.

    Raises:
        QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a read.
        WrongQueryKindError: it is a mutation.
        QueryParameterError, QueryRuntimeError: a parameter is missing or does not fit.
        QueryMemoryError, QueryTimeoutError, QueryRowLimitError, QueryCancelledError: it met a limit.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    return graph.reads.run(read_call(request, attached))


def explain(graph: OpenGraph, request: ExplainRequest, attached: Attachments) -> Explanation:
    """Return the plan of a read; with ``run`` also the rows, calls and time of each step."""
    check_flag("run", request.run)
    return graph.reads.explain(read_call(request, attached), run=request.run)


def read_call(request: QueryRequest | ExplainRequest, attached: Attachments) -> ReadCall:
    """Return the read that a request asks for, whichever engine runs it.

    Raises:
        UsageError: the options are none, or the form of the parameters is not known.
    """
    check_instance("options", request.options, QueryOptions)
    check_choice("params_form", request.params_form, _FORMS)
    options = request.options or _DEFAULTS
    return ReadCall(
        text=request.text,
        name=request.name,
        params=request.params,
        params_form=request.params_form,
        branch=request.branch,
        at=request.at,
        options=options if attached.cancel is None else replace(options, cancel=attached.cancel),
        source_name=request.source_name,
    )


def resolve_ref(graph: OpenGraph, request: ResolveRefRequest, attached: Attachments) -> FoundState:
    """Return the state that a reference names, and its commit.

    Raises:
        ValueFormatError: the text is no reference.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    del attached
    branch = BranchName.parse(request.branch)
    found = graph.store.refs.resolve_ref(request.ref, branch)
    return FoundState(ref=found.ref, commit=found.commit)


def read_state(graph: OpenGraph, request: ReadStateRequest, attached: Attachments) -> PinnedState:
    """Return a pinned state; raises what :func:`resolve_ref` does."""
    del attached
    return PinnedState(state=graph.snapshot(request.branch, request.at).state)


def read_network(graph: OpenGraph, request: ReadNetworkRequest, attached: Attachments) -> Network:
    """Return every node and edge of a state, types by name.

    Raises:
        ViewTooLargeError: there are more than ``limit`` of them; no row was read.
    """
    from omnigraph.engine.results.network import Network, NetworkEdge, check_size  # noqa: PLC0415 - few reads need it

    del attached
    check_whole("limit", request.limit)
    pinned = graph.snapshot(request.branch, request.at)
    catalog = graph.catalog_at(pinned)
    check_size("entities", sum(entry.row_count for entry in pinned.state.tables.values()), request.limit)
    nodes = {(owner.name, row.pop("id")): row for owner in catalog.nodes.values() for row in _host_rows(pinned, owner)}
    edges = [
        NetworkEdge(
            type_name=owner.name,
            key=row.pop("id"),
            source=(owner.from_type, row.pop("src")),
            target=(owner.to_type, row.pop("dst")),
            properties=row,
        )
        for owner in catalog.edges.values()
        for row in _host_rows(pinned, owner)
    ]
    return Network(nodes=nodes, edges=tuple(edges))


def read_entity(graph: OpenGraph, request: ReadEntityRequest, attached: Attachments) -> Entity | None:
    """Return a node or an edge by its id; None when there is none.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type have that name.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    from omnigraph.engine.results.entity import read_entity as find_entity  # noqa: PLC0415 - few reads need it

    del attached
    check_text("type", request.type_name)
    check_text("entity id", request.entity_id)
    state = _state_at(graph, request.branch, request.at)
    return find_entity(state, request.type_name, request.entity_id)


def read_blob(graph: OpenGraph, request: ReadBlobRequest, attached: Attachments) -> BlobPart | None:
    """Return some bytes of one Blob; None when there is no such entity, or its Blob is null.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type have that name, or the property is not a Blob.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    from omnigraph.engine.results.entity import read_blob as find_blob  # noqa: PLC0415 - few reads need it

    del attached
    check_text("type", request.type_name)
    check_text("entity id", request.entity_id)
    check_text("property", request.property)
    check_whole("start", request.start)
    check_whole("length", request.length, optional=True)
    state = _state_at(graph, request.branch, request.at)
    return find_blob(state, request.type_name, request.entity_id, request.property, request.start, request.length)


def _state_at(graph: OpenGraph, branch: str, at: str | None) -> GraphSnapshot | PastState:
    if at is None:
        return graph.snapshot(branch)
    snapshot, past = graph.reads.resolve(branch, at)
    return snapshot if past is None else past


def plan_schema(graph: OpenGraph, request: PlanSchemaRequest, attached: Attachments) -> MigrationPlan:
    """Return the steps from the schema of a state to another one.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    from omnigraph.catalog.migration import plan_migration  # noqa: PLC0415 - a query needs none of it
    from omnigraph.lang.pg import parse_schema  # noqa: PLC0415 - see above

    del attached
    check_flag("allow_data_loss", request.allow_data_loss)
    desired = parse_schema(request.text, request.source_name)
    accepted = graph.catalog_at(graph.snapshot(request.branch, request.at))
    return plan_migration(accepted, desired, allow_data_loss=request.allow_data_loss)


def export(graph: OpenGraph, request: ExportRequest, attached: Attachments) -> ExportResult:
    """Write all rows of one pinned state into an empty folder, with a manifest.

    Raises:
        ExportTargetError: there is something in the folder.
        ExportTypeError: the schema has no such type.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        StorageUnavailableError, StorageDeniedError: the folder cannot be written.
    """
    from omnigraph.engine.export import check_export, export_folder  # noqa: PLC0415 - a query needs none of it
    from omnigraph.engine.export.holds import holding_graph  # noqa: PLC0415 - see above

    check_export(request.format, attached.progress, request.settings)
    with counting(), holding_graph(graph.store.storage, graph.runtime):
        return export_folder(
            export_cut(graph, request.branch, request.at, request.types),
            request.to,
            request.format,
            runtime=graph.runtime,
            graph=graph.store.storage,
            progress=attached.progress,
            settings=request.settings,
        )


def export_stream(graph: OpenGraph, request: ExportStreamRequest, attached: Attachments) -> ExportResult:
    """Write all rows as JSONL to the attached sink; whatever was written before an error is to be thrown away."""
    from omnigraph.engine.export import check_sink, export_stream  # noqa: PLC0415 - a query needs none of it
    from omnigraph.engine.export.holds import holding_graph  # noqa: PLC0415 - see above

    check_sink(attached.sink)
    check_callable("progress", attached.progress)
    with counting(), holding_graph(graph.store.storage, graph.runtime):
        cut = export_cut(graph, request.branch, request.at, request.types)
        return export_stream(cut, attached.sink, runtime=graph.runtime, progress=attached.progress)


def export_cut(graph: OpenGraph, branch: str, at: str | None, types: Sequence[str] | None) -> ExportCut:
    """Pin the state that an export is of.

    Raises:
        ExportTypeError: the schema has no such type.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    from omnigraph.engine.export.options import ExportCut  # noqa: PLC0415 - a query needs none of it

    snapshot = graph.snapshot(branch, at)
    return ExportCut.of(snapshot, graph.catalog_at(snapshot), types)


def _host_rows(pinned: GraphSnapshot, owner: NodeType | EdgeType) -> Iterator[dict[str, Any]]:
    from omnigraph.engine.results.encodings import host_values  # noqa: PLC0415 - few reads need it

    table = pinned.table(owner.table_key)
    names = [name for name in table.schema.names if name not in table.blobs]
    for batch in table.read(names).sort_by("id").to_batches():
        columns = [host_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))
