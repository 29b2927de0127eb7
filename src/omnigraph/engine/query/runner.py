"""From the text of a read to its result, on one pinned snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.engine.accepted import CatalogCache
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.query.context import QueryContext, ReadMemory
from omnigraph.engine.query.demand import Demand
from omnigraph.engine.query.explain import Explanation, explain, start_trace
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import Facts, plan_read
from omnigraph.engine.query.run import result_schema, run_plan
from omnigraph.engine.query.search import TextIndexes
from omnigraph.engine.query.steps import QueryPlan
from omnigraph.engine.query.topology import TopologyCache
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.ir import ParamsForm, PlanCache, decode_call, expect_read
from omnigraph.ir.model import NOW_PARAMETER
from omnigraph.runtime import Counters, World
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import BranchName, CommitId, Ulid


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall:
    """Which read to run where. ``at`` names a commit in the history of the branch; None means its newest state."""

    text: str | bytes
    name: str | None
    params: Any
    params_form: ParamsForm
    branch: str
    at: str | None
    options: QueryOptions
    source_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A read that is ready to run."""

    plan: QueryPlan
    context: QueryContext
    snapshot: Snapshot


class QueryRunner:
    """Runs the reads of one open graph, which share what they hold in memory. Threads may share it."""

    def __init__(
        self, store: GraphStore, world: World, catalogs: CatalogCache, plans: PlanCache, embedder: Embedder
    ) -> None:
        self._store = store
        self._world = world
        self._catalogs = catalogs
        self._plans = plans
        self._embedder = embedder
        self.memory = ReadMemory(topology=TopologyCache(), texts=TextIndexes(), demand=Demand())

    def run(self, call: ReadCall) -> Result:
        """Run a read to its end and return its rows."""
        started_s = self._world.clock.monotonic_s()
        prepared = self._prepare(call)
        read, context = prepared.plan.read, prepared.context
        schema = result_schema(read)
        held = []
        for batch in run_plan(context, prepared.plan):
            context.limits.hold(batch.nbytes)
            held.append(batch)
        info = ReadInfo(
            query_name=read.name,
            branch=call.branch if call.at is None else None,
            snapshot=call.at,
            commit_id=str(prepared.snapshot.state.head.commit),
            elapsed_s=self._world.clock.monotonic_s() - started_s,
            explanation=explain(prepared.plan, context.trace),
        )
        return Result(schema, pa.Table.from_batches(held, schema), info, context.counters)

    def explain(self, call: ReadCall, *, run: bool) -> Explanation:
        """Return the plan of a read; with ``run`` also what its steps did."""
        prepared = self._prepare(call)
        if run:
            for _ in run_plan(prepared.context, prepared.plan):
                pass
        return explain(prepared.plan, prepared.context.trace)

    def _prepare(self, call: ReadCall) -> _Prepared:
        counters, now_ms = Counters(), self._world.clock.now_ms()
        limits = Limits(call.options, self._world.clock)
        snapshot = self._snapshot(call, counters)
        catalog = self._catalogs.get(snapshot.state.schema)
        query = self._plans.compile(call.text, call.name, catalog, call.source_name)
        read = expect_read(query)
        parameters = dict(decode_call(query.checked.parameters, call.params, call.params_form))
        row_counts = {key: entry.row_count for key, entry in snapshot.state.tables.items()}
        facts = Facts(catalog=catalog, row_counts=row_counts)
        plan = plan_read(read, facts, call.options.rules_off)
        context = QueryContext(
            snapshot=snapshot,
            catalog=catalog,
            parameters={**parameters, NOW_PARAMETER: now_ms},
            options=call.options,
            limits=limits,
            counters=counters,
            memory=self.memory,
            plan=plan,
            trace=start_trace(plan, facts, counters),
            embed=self._embed,
        )
        return _Prepared(plan=plan, context=context, snapshot=snapshot)

    def _snapshot(self, call: ReadCall, counters: Counters) -> Snapshot:
        branch = BranchName.parse(call.branch)
        if call.at is None:
            return self._store.snapshot(branch, counters)
        return self._store.snapshot_at(branch, CommitId(Ulid.parse(call.at)), counters)

    def _embed(self, text: str, dimension: int, model: str | None, field: str) -> Sequence[float]:
        vector: Sequence[float] = self._embedder.embed_query(
            text, dimension=dimension, model=model, field=field
        ).tolist()
        return vector
