"""From the text of a read to its result, on one pinned snapshot."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.accepted import CatalogCache
from omnigraph.engine.columns import held_bytes
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.query.context import QueryContext, ReadMemory, SupportsTables, SupportsVersions
from omnigraph.engine.query.explain import Explanation, explain, explain_mutation, start_trace
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions, SnapshotSchema
from omnigraph.engine.query.output.ranking import planned_searches
from omnigraph.engine.query.planned import AskedRead, AskedReads, PlannedReads, RowCounts
from omnigraph.engine.query.planner import Facts
from omnigraph.engine.query.run import run_plan
from omnigraph.engine.query.steps import QueryPlan
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.engine.results.info import ResultPattern
from omnigraph.engine.versions import EntityVersions
from omnigraph.errors import BranchMissingError, WrongQueryKindError
from omnigraph.ir import CompiledQuery, ParamsForm, PlanCache, decode_call, expect_mutation, expect_read
from omnigraph.ir.model import NOW_PARAMETER, ReadPlan
from omnigraph.ir.warnings import parameter_warnings
from omnigraph.records import record
from omnigraph.runtime import LRUCache, Runtime, counting, counting_each
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName, check_instance

if TYPE_CHECKING:
    from omnigraph.engine.past import PastState

_PAST_CATALOGS = 16


@record
class ReadCall:
    """Which read to run where. ``at`` refers to a state, seen from the branch; None means its newest one."""

    text: str | bytes
    name: str | None
    params: Any
    params_form: ParamsForm
    branch: str
    at: str | None
    options: QueryOptions
    source_name: str


@record
class PinnedTables:
    """A state as whatever reads whole tables asks it.

    Args:
        snapshot: the state.
        tables: its tables, an earlier state's under the names of today.
        catalog: the schema that names them.
        memory: what reads of these tables share.
    """

    snapshot: GraphSnapshot
    tables: SupportsTables
    catalog: Catalog
    memory: ReadMemory


@record
class PreparedRead:
    """A read that is ready to run: its plan, what its steps ask, the state that it reads, and what is odd about it.

    ``facts`` are the schema and the sizes of the tables of that state, ``schema`` the columns of its result, and
    ``pattern`` the nodes and edges among them.
    """

    plan: QueryPlan
    facts: Facts
    schema: pa.Schema
    pattern: ResultPattern
    context: QueryContext
    snapshot: GraphSnapshot
    warnings: tuple[str, ...] = ()

    @property
    def is_renamed(self) -> bool:
        """Whether it reads an earlier state under names that the state itself may not have."""
        from omnigraph.engine.past import PastState  # noqa: PLC0415 - most reads are of the newest state

        return isinstance(self.context.snapshot, PastState)


class SupportsPending(SupportsTables, Protocol):
    """A state with changes on top that are not published, as reads ask it."""

    @property
    def row_counts(self) -> Mapping[str, int]:
        """How many rows the tables have."""

    def memory(self, shared: ReadMemory | None) -> ReadMemory:
        """Return what a read of this state may use of what the reads of the graph share."""


@record
class PendingRead:
    """Where a read of something that is not published looks: inside a transaction, or at a merge.

    Args:
        snapshot: the published state below it.
        overlay: returns the state that a read sees.
        now_ms: what ``now()`` is.
        catalog: the schema that the state follows; that of the published one when None.
    """

    snapshot: GraphSnapshot
    overlay: Callable[[ReadPlan], SupportsPending]
    now_ms: int
    catalog: Catalog | None = None


class QueryRunner:
    """Runs the reads of one open graph, which share what they hold in memory. Threads may share it."""

    def __init__(
        self, store: GraphStore, runtime: Runtime, catalogs: CatalogCache, plans: PlanCache, embedder: Embedder
    ) -> None:
        self._store = store
        self._world = runtime
        self._catalogs = catalogs
        self._plans = plans
        self._embedder = embedder
        self._planned = PlannedReads()
        self._asked = AskedReads()
        self._past_catalogs: LRUCache[tuple[str, str], Catalog] = LRUCache(_PAST_CATALOGS)
        self.memory = ReadMemory.empty()

    def run(self, call: ReadCall, pending: PendingRead | None = None) -> Result:
        """Run a read and return its rows: all of them, or as they are drawn when the call asks for that."""
        started_s = self._world.clock.monotonic_s()
        prepared = self.prepare(call, pending)
        read, context = prepared.plan.read, prepared.context
        schema = prepared.schema
        batches = run_plan(context, prepared.plan, schema)
        rows: list[pa.RecordBatch] | Iterator[pa.RecordBatch]
        if call.options.streams:
            rows = counting_each(batches, context.counters)
        else:
            with counting(context.counters):
                rows = _held(batches, context.limits)
        info = ReadInfo(
            query_name=read.name,
            branch=call.branch if call.at is None else None,
            snapshot=call.at,
            commit_id=str(prepared.snapshot.state.head.commit),
            elapsed_s=self._world.clock.monotonic_s() - started_s,
            explanation=explain(prepared.plan, context.trace),
            pattern=prepared.pattern,
            warnings=prepared.warnings,
        )
        return Result(schema, rows, info, context.counters)

    def close(self) -> None:
        """Let go of what reads have started."""
        self.memory.engines.close()

    def explain(self, call: ReadCall, *, run: bool) -> Explanation:
        """Return the plan of a read, with ``run`` also what its steps did; or that of a mutation, which is not run."""
        try:
            prepared = self.prepare(call)
        except WrongQueryKindError:
            if run:
                raise
            return self._explain_mutation(call)
        # Its plan may be that of a state of about the same size; what it expects is told for this one.
        prepared.context.trace = start_trace(prepared.plan, prepared.facts, prepared.context.counters)
        prepared.context.trace.is_explained = True
        if not run:
            with prepared.context.snapshot.reading(), counting(prepared.context.counters):
                prepared.context.trace.searches += planned_searches(prepared.context, prepared.plan)
        else:
            for _ in counting_each(
                run_plan(prepared.context, prepared.plan, prepared.schema), prepared.context.counters
            ):
                pass
        return explain(prepared.plan, prepared.context.trace)

    def _explain_mutation(self, call: ReadCall) -> Explanation:
        state = self._snapshot(call).state
        catalog = self._catalogs.get(state.schema)
        plan = expect_mutation(self._plans.compile(call.text, call.name, catalog, call.source_name))
        return explain_mutation(plan, Facts(catalog=catalog, row_counts=RowCounts(state.tables)))

    def prepare(self, call: ReadCall, pending: PendingRead | None = None) -> PreparedRead:
        """Compile and plan a read on the snapshot that it asks for, or on what is pending, without reading a row."""
        limits = Limits(call.options, self._world.clock)
        now_ms = self._world.clock.now_ms() if pending is None else pending.now_ms
        with counting() as counters:
            snapshot, past = self._state(call) if pending is None else (pending.snapshot, None)
        state: SupportsTables = snapshot
        memory = self.memory
        versions: SupportsVersions = EntityVersions(self._store, snapshot, memory.versions)
        if past is not None:
            # Columns of one version have other names here than for reads that use the schema of that state.
            state, memory = past, ReadMemory.empty(memory.engines)
            versions = _PastVersions(versions, past)
            query = self._plans.compile(call.text, call.name, past.catalog, call.source_name)
            asked = self._plan(query, past.catalog, past.row_counts, call.options)
        elif pending is not None:
            catalog = self._catalogs.get(snapshot.state.schema) if pending.catalog is None else pending.catalog
            query = self._plans.compile(call.text, call.name, catalog, call.source_name)
            with counting(counters):
                overlaid = pending.overlay(expect_read(query))
            state, memory = overlaid, overlaid.memory(memory)
            asked = self._plan(query, catalog, overlaid.row_counts, call.options)
        else:
            asked = self._asked_again(call, snapshot)
        query, planned = asked.query, asked.planned
        parameters = decode_call(query.checked.parameters, call.params, call.params_form)
        plan = planned.plan
        context = QueryContext(
            snapshot=state,
            catalog=asked.facts.catalog,
            parameters={**parameters, NOW_PARAMETER: now_ms},
            options=call.options,
            limits=limits,
            counters=counters,
            memory=memory,
            plan=plan,
            trace=planned.trace.again(counters),
            embed=self._embed,
            versions=versions,
        )
        warnings = parameter_warnings(query.checked, parameters)
        return PreparedRead(
            plan=plan,
            facts=asked.facts,
            schema=planned.schema,
            pattern=planned.pattern,
            context=context,
            snapshot=snapshot,
            warnings=warnings,
        )

    def _asked_again(self, call: ReadCall, snapshot: GraphSnapshot) -> AskedRead:
        """Return a read of a published state under its own names; one that was asked of it before is as it was."""
        check_instance("query name", call.name, str)
        where, key = (call.branch, call.at), (call.text, call.name, call.source_name, call.options.rules_off)
        asked = self._asked.get(where, snapshot.manifest, key)
        if asked is None:
            catalog = self._catalogs.get(snapshot.state.schema)
            query = self._plans.compile(call.text, call.name, catalog, call.source_name)
            asked = self._plan(query, catalog, RowCounts(snapshot.state.tables), call.options)
            self._asked.put(where, snapshot.manifest, key, asked)
        return asked

    def _plan(
        self, query: CompiledQuery, catalog: Catalog, row_counts: Mapping[str, int], options: QueryOptions
    ) -> AskedRead:
        facts = Facts(catalog=catalog, row_counts=row_counts)
        return AskedRead(
            query=query, facts=facts, planned=self._planned.get(expect_read(query), facts, options.rules_off)
        )

    def pin(self, branch: str, at: str | None, schema: SnapshotSchema) -> PinnedTables:
        """Return the newest state of a branch, or the one that ``at`` refers to; raises what :meth:`resolve` does."""
        name = BranchName.parse(branch)
        if at is not None and schema == "current":
            snapshot, past = self.resolve(branch, at)
            if past is not None:
                memory = ReadMemory.empty(self.memory.engines)
                return PinnedTables(snapshot=snapshot, tables=past, catalog=past.catalog, memory=memory)
        else:
            snapshot = self._store.snapshot(name) if at is None else self._store.refs.resolve_ref(at, name).snapshot
        catalog = self._catalogs.get(snapshot.state.schema)
        return PinnedTables(snapshot=snapshot, tables=snapshot, catalog=catalog, memory=self.memory)

    def resolve(self, branch: str, at: str) -> tuple[GraphSnapshot, PastState | None]:
        """Return an earlier state, and how it reads under the names of today; None when its own schema is in force.

        Today's names are those of the branch that the reference names, or else of ``branch``; the state's own if that
        branch is gone.

        Raises:
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        from omnigraph.engine.past import past_catalog, past_state  # noqa: PLC0415 - most reads are of the newest state

        name = BranchName.parse(branch)
        found = self._store.refs.resolve_ref(at, name)
        try:
            accepted = self._store.snapshot(BranchName(found.seen_from(name))).state.schema
        except BranchMissingError:
            return found.snapshot, None
        then = found.snapshot.state.schema
        if accepted.hash == then.hash:
            return found.snapshot, None
        before, key = self._catalogs.get(then), (accepted.hash, then.hash)
        catalog = self._past_catalogs.get(key)
        if catalog is None:
            catalog = past_catalog(self._catalogs.get(accepted), before)
            self._past_catalogs.put(key, catalog)
        return found.snapshot, past_state(found.snapshot, catalog, before)

    def _state(self, call: ReadCall) -> tuple[GraphSnapshot, PastState | None]:
        if call.at is not None and call.options.schema == "current":
            return self.resolve(call.branch, call.at)
        return self._snapshot(call), None

    def _snapshot(self, call: ReadCall) -> GraphSnapshot:
        branch = BranchName.parse(call.branch)
        if call.at is None:
            return self._store.snapshot(branch)
        return self._store.refs.resolve_ref(call.at, branch).snapshot

    def _embed(self, text: str, dimension: int, model: str | None, field: str, limit_ms: int | None) -> Sequence[float]:
        vector: Sequence[float] = self._embedder.embed_query(
            text, dimension=dimension, model=model, field=field, limit_ms=limit_ms
        ).tolist()
        return vector


class _PastVersions:
    """The versions of entities of an earlier state, by the names that their types have now."""

    def __init__(self, versions: SupportsVersions, past: PastState) -> None:
        self._versions = versions
        self._past = past

    def find(self, table_key: str, ids: pa.Array) -> pa.Array:
        """Return the commit that last changed each entity, by its id; NULL for one that is not stored."""
        return self._versions.find(self._past.origins[table_key], ids)


def _held(batches: Generator[pa.RecordBatch, None, None], limits: Limits) -> list[pa.RecordBatch]:
    held = []
    try:
        for batch in batches:
            if batch.num_rows:
                limits.hold(held_bytes(batch))
                held.append(batch)
    finally:
        batches.close()
    return held
