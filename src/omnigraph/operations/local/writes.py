"""Handlers of the requests that change rows or the schema of a branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from omnigraph.engine.load import LoadResult
from omnigraph.engine.load import load as load_sources
from omnigraph.engine.load.load_files import expect_schema
from omnigraph.engine.load.options import LoadSettings, check_batch
from omnigraph.engine.load.sources.expand import can_read_again
from omnigraph.engine.mutate import MutationResult, run_mutation
from omnigraph.engine.schema import SchemaApplyResult
from omnigraph.engine.schema import apply_schema as apply_schema_text
from omnigraph.errors import BatchRepeatedError, RepeatedRequest, RequestRepeatedError, SchemaMovedError
from omnigraph.ir import CompiledQuery, ParameterRows, ParamsForm, decode_call, decode_calls, expect_mutation
from omnigraph.ir.warnings import parameter_warnings
from omnigraph.txn.manifest.rows import BatchMark
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.phases import refuse_repeated_batch
from omnigraph.txn.transaction import OnConflict, WriteTxn
from omnigraph.values import (
    BranchName,
    CommitId,
    Ulid,
    check_callable,
    check_choice,
    check_flag,
    check_whole,
    checked_names,
)

if TYPE_CHECKING:
    from omnigraph.engine.embedding.rewrite import EmbeddedProperty, EmbedResult
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.history.stale_vectors import StaleVectors
    from omnigraph.operations.request import Attachments
    from omnigraph.operations.writes import (
        ApplySchemaRequest,
        EmbedRequest,
        LoadRequest,
        MutateBatchRequest,
        MutateRequest,
    )
    from omnigraph.txn.manifest.rows import Commit

_Done = TypeVar("_Done")

# How often a write is made again for a schema that changed meanwhile.
_ATTEMPTS = 32


def mutate(graph: OpenGraph, request: MutateRequest, attached: Attachments) -> MutationResult:
    """Compile a mutation, run it and publish it as one commit.

    Raises:
        QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a mutation.
        WrongQueryKindError: it is a read.
        QueryParameterError: a parameter is missing or does not fit.
        ConstraintViolationError: the graph would break a rule of its schema.
        PreconditionFailedError: the branch is not at ``expected_head``.
        ExpectedVersionMismatchError, SchemaMovedError: another writer changed what it was decided on, and
            ``on_conflict`` is ``refuse``.
        ClaimBusyError: other writers kept changing what it was decided on.
        AffectedLimitError: it would change more than ``max_affected`` entities.
    """
    del attached
    check_choice("params_form", request.params_form, get_args(ParamsForm))
    return _mutate(
        graph, request, lambda query: decode_call(query.checked.parameters, request.params, request.params_form)
    )


def mutate_batch(graph: OpenGraph, request: MutateBatchRequest, attached: Attachments) -> MutationResult:
    """Run a mutation once per row of parameters and publish all of it as one commit, or nothing.

    Raises:
        QueryParameterError: a parameter is missing or does not fit; says in which row, counted from 1.
        OmnigraphError: whatever :func:`mutate` does.
    """
    del attached
    check_choice("params_form", request.params_form, get_args(ParamsForm))
    return _mutate(
        graph, request, lambda query: decode_calls(query.checked.parameters, request.rows, request.params_form)
    )


def _mutate(
    graph: OpenGraph,
    request: MutateRequest | MutateBatchRequest,
    decode: Callable[[CompiledQuery], Mapping[str, Any] | ParameterRows],
) -> MutationResult:
    check_choice("on_conflict", request.on_conflict, get_args(OnConflict))
    check_whole("max_affected", request.max_affected, optional=True)

    def run() -> MutationResult:
        branch_writer, newest = graph.store.current(BranchName.parse(request.branch))
        branch_writer.refuse_repeated(newest, request.actor)
        schema = newest.state.schema
        catalog = graph.catalogs.get(schema)
        query = graph.plans.compile(request.text, request.name, catalog, request.source_name)
        plan, given = expect_mutation(query), decode(query)
        done = run_mutation(
            branch_writer,
            catalog,
            plan,
            given,
            actor=request.actor,
            message=request.message,
            expected_head=commit_id(request.expected_head),
            on_conflict=request.on_conflict,
            schema_hash=schema.hash,
            embedder=graph.embedder,
            memory=graph.reads.memory,
            history=graph.store.refs,
            max_affected=request.max_affected,
            newest=newest,
        )
        warnings = parameter_warnings(query.checked, given)
        return replace(done, warnings=warnings) if warnings else done

    def write() -> MutationResult:
        return for_newest_schema(run, lambda: request.on_conflict == "rerun")

    return unless_repeated(graph, request.branch, write, MutationResult.repeated)


def unless_repeated(
    graph: OpenGraph,
    branch: str,
    run: Callable[[], _Done],
    repeated: Callable[[Commit, Mapping[str, Any]], _Done],
) -> _Done:
    """Run a write; if the request that asks for it was published before, return what ``repeated`` makes of that.

    Raises:
        IdempotencyKeyError: its key was used before, for another write.
        OmnigraphError: whatever the write raises.
    """
    try:
        return run()
    except RequestRepeatedError as error:
        if not isinstance(error.details, RepeatedRequest) or error.details.commit_id is None:
            raise
        wanted = CommitId(Ulid.parse(error.details.commit_id))
        first = graph.store.refs.show(wanted, BranchName.parse(branch))
        return repeated(first, {} if first.request is None else first.request.receipt)


def for_newest_schema(run: Callable[[], _Done], can_repeat: Callable[[], bool]) -> _Done:
    """Run a write again when it was compiled for a schema that another writer replaced before the commit."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return run()
        except SchemaMovedError:
            if attempt >= _ATTEMPTS or not can_repeat():
                raise


def load(graph: OpenGraph, request: LoadRequest, attached: Attachments) -> LoadResult:
    """Read every row of the sources and publish all of them as one commit, or nothing.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.engine.load.load` does.
    """
    check_choice("on_conflict", request.on_conflict, get_args(OnConflict))
    check_flag("projections", request.projections)
    mark = check_batch(request.batch)

    def run() -> LoadResult:
        branch_writer, newest = graph.store.current(BranchName.parse(request.branch))
        branch_writer.refuse_repeated(newest, request.actor)
        if mark is not None:
            refuse_repeated_batch(mark, newest.state)
        schema = newest.state.schema
        return load_sources(
            branch_writer,
            graph.catalogs.get(schema),
            request.sources,
            request.mode,
            patch=request.patch,
            truncate=request.truncate,
            on_delete=request.on_delete,
            batch=mark,
            actor=request.actor,
            message=request.message,
            expected_head=commit_id(request.expected_head),
            on_conflict=request.on_conflict,
            schema_hash=schema.hash,
            errors_to=request.errors_to,
            progress=attached.progress,
            limit=request.limit,
            settings=request.settings,
            embedder=graph.embedder,
        )

    def can_repeat() -> bool:
        return request.on_conflict == "rerun" and can_read_again(request.sources)

    def write() -> LoadResult:
        return _with_projections(graph, request, for_newest_schema(run, can_repeat))

    try:
        return unless_repeated(graph, request.branch, write, LoadResult.repeated)
    except BatchRepeatedError:
        first = None if mark is None else find_batch(graph, request.branch, mark)
        if first is None:
            raise
        return replace(LoadResult.repeated(first, {"mode": request.mode}), is_repeat=True)


def _with_projections(graph: OpenGraph, request: LoadRequest, done: LoadResult) -> LoadResult:
    """Build the projections of tables that a large load has filled; it is published, whatever comes of that."""
    least_rows = graph.maintenance.load_projection_rows
    loaded = {
        **{f"node:{name}": rows for name, rows in done.nodes_loaded.items()},
        **{f"edge:{name}": rows for name, rows in done.edges_loaded.items()},
    }
    filled = [key for key, rows in loaded.items() if rows >= max(1, least_rows)]
    if done.commit is None or not request.projections or not filled:
        return done
    from omnigraph.engine.maintenance.building import (  # noqa: PLC0415 - few loads are large
        ProjectionBounds,
        build_after_load,
    )

    settings = request.settings or LoadSettings()
    bounds = ProjectionBounds(least_rows=least_rows, most_bytes=settings.memory_bytes)
    snapshot = graph.store.snapshot(BranchName.parse(request.branch))
    built = build_after_load(graph.catalog_at(snapshot), snapshot, filled, graph.store.tables, bounds)
    return replace(done, projections=built) if built else done


def find_batch(graph: OpenGraph, branch: str, mark: BatchMark) -> Commit | None:
    """Return the commit of a branch that is a piece of a stream; None when its history has none, or not any more."""
    newest = graph.store.snapshot(BranchName.parse(branch))
    return next((commit for commit in graph.store.refs.iter_commits(newest) if commit.batch == mark), None)


def apply_schema(graph: OpenGraph, request: ApplySchemaRequest, attached: Attachments) -> SchemaApplyResult:
    """Bring a branch to another schema, its rows included, as one commit.

    Raises:
        SchemaSyntaxError, SchemaCheckError, SchemaPlanError: the text is no schema that the branch can come to.
        ConstraintViolationError: a row breaks a rule that was to be added.
        PreconditionFailedError: the branch is not at ``expected_head``.
        ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
    """
    del attached
    check_flag("allow_data_loss", request.allow_data_loss)

    def run() -> SchemaApplyResult:
        return apply_schema_text(
            graph.store,
            BranchName.parse(request.branch),
            request.text,
            catalog_of=graph.catalogs.get,
            allow_data_loss=request.allow_data_loss,
            actor=request.actor,
            message=request.message,
            expected_head=commit_id(request.expected_head),
            source_name=request.source_name,
        )

    return unless_repeated(graph, request.branch, run, SchemaApplyResult.repeated)


def embed(graph: OpenGraph, request: EmbedRequest, attached: Attachments) -> EmbedResult:
    """Compute stale vectors of a branch and publish them as one commit, or nothing.

    Texts are embedded before anything is written, so that a run that fails or is killed leaves nothing behind.

    Raises:
        TypeMissingError, UsageError: there is no such node type, or it has no vector with ``@embed``.
        EmbeddingSettingsError: no provider is configured.
        OmnigraphError: whatever embedding and any commit raise.
    """
    from omnigraph.engine.embedding.rewrite import (  # noqa: PLC0415 - few writes need it
        EmbeddedProperty,
        EmbedResult,
        VectorWrite,
        embed_rows,
        find_targets,
        first_rows,
    )
    from omnigraph.history.stale_vectors import RUN_MARK, find_stale  # noqa: PLC0415 - see above

    types = None if request.types is None else checked_names("types", request.types)
    check_flag("every", request.every)
    check_flag("dry_run", request.dry_run)
    check_whole("limit", request.limit, optional=True)
    check_callable("progress", attached.progress)

    def told(found: StaleVectors, counts: Mapping[str, tuple[int, int]]) -> tuple[EmbeddedProperty, ...]:
        return tuple(
            EmbeddedProperty(
                type_name=item.target.node.name,
                property=item.target.prop.name,
                stale=item.count,
                embedded=counts.get(item.target.field, (0, 0))[0],
                cleared=counts.get(item.target.field, (0, 0))[1],
            )
            for item in found.rows
        )

    def run() -> EmbedResult:
        branch_writer, newest = graph.store.current(BranchName.parse(request.branch))
        branch_writer.refuse_repeated(newest, request.actor)
        schema = newest.state.schema
        catalog = graph.catalogs.get(schema)
        targets = find_targets(catalog, types)
        found = find_stale(graph.store.refs, newest, graph.catalogs.get, targets, every=request.every)
        rows = first_rows(found.rows, request.limit)
        result = EmbedResult(
            branch=request.branch,
            properties=told(found, {}),
            is_dry_run=request.dry_run,
            warnings=found.warnings,
        )
        if request.dry_run or not sum(item.count for item in rows):
            return result
        vectors = embed_rows(rows, attached.runner or graph.embedder, attached.progress)
        work = VectorWrite(catalog=catalog, rows=rows, vectors=vectors, counts={})
        txn = branch_writer.begin(
            WriteKind.MUTATE,
            actor=request.actor,
            message=request.message,
            expected_head=commit_id(request.expected_head),
        )
        expect_schema(txn, schema.hash)
        stale = sum(item.count for item in found.rows)

        def decide(txn: WriteTxn) -> None:
            work.decide(txn)
            # Rows that stay stale must be found again from where this run has begun.
            is_complete = types is None and sum(map(sum, work.counts.values())) == stale
            txn.batch = BatchMark(app=RUN_MARK, number=found.position) if is_complete else None

        decide(txn)
        txn.decide = decide
        txn.receipt = lambda: {"embedded": [item.to_json() for item in told(found, work.counts)]}
        done = branch_writer.commit(txn)
        return replace(result, properties=told(found, work.counts), commit=done.commit)

    def write() -> EmbedResult:
        return for_newest_schema(run, lambda: True)

    return unless_repeated(graph, request.branch, write, EmbedResult.repeated)


def commit_id(text: str | None) -> CommitId | None:
    """Return the id that a text is, if any."""
    return None if text is None else CommitId(Ulid.parse(text))
