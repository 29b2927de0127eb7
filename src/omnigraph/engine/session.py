"""``GraphSession``: an open graph together with its schema, and everything that may be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

from omnigraph.catalog import Catalog, assign_identities
from omnigraph.engine.embedding import Embedder, EmbeddingProvider, EmbeddingSettings
from omnigraph.engine.export_calls import ExportCalls
from omnigraph.engine.history_calls import HistoryCalls
from omnigraph.engine.load_calls import LoadCalls
from omnigraph.engine.maintenance.auto import MaintenanceSettings, Upkeep
from omnigraph.engine.maintenance_calls import MaintenanceCalls
from omnigraph.engine.query.explain import Explanation
from omnigraph.engine.query.limits import QueryOptions
from omnigraph.engine.query.runner import PreparedRead, QueryRunner, ReadCall
from omnigraph.engine.results import Result
from omnigraph.engine.schema.accepted import CatalogCache, accept_schema, table_of
from omnigraph.errors import SchemaMovedError
from omnigraph.ir import CompiledQuery, ParameterRows, ParamsForm, PlanCache, decode_call, decode_calls, expect_mutation
from omnigraph.records import record
from omnigraph.runtime import Counters, World, counted
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import GraphStore, OpenMode
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import MAIN, BranchName, CommitId, Ulid, check_choice, check_flag, check_instance

if TYPE_CHECKING:
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.schema import SchemaApplyResult

# How often a mutation that only inserts is made again for a schema that changed meanwhile.
_ATTEMPTS = 32


def init_graph(
    storage: Storage,
    schema_text: str | bytes,
    *,
    actor: str | None = None,
    settings: TxnSettings | None = None,
    world: World | None = None,
    source_name: str = "<schema>",
) -> None:
    """Create a graph with an empty table per type.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        GraphExistsError: there is a graph already.
    """
    from omnigraph.catalog import compile_schema  # noqa: PLC0415 - a read needs none of it
    from omnigraph.lang.pg import parse_schema  # noqa: PLC0415 - see above

    # Half of a surrogate pair is no UTF-8, which the parser says properly.
    source = schema_text.encode(errors="surrogatepass") if isinstance(schema_text, str) else schema_text
    world = world or World.system()
    catalog = assign_identities(compile_schema(parse_schema(source, source_name)), str(world.ids.ulid()))
    GraphStore.init(
        storage,
        schema=accept_schema(source.decode(), catalog),
        tables=[*map(table_of, catalog.nodes.values()), *map(table_of, catalog.edges.values())],
        actor=actor,
        world=world,
        settings=settings,
    )


@record
class _Call:
    """Which mutation to run where, and on whose behalf."""

    text: str | bytes
    name: str | None
    branch: str
    actor: str | None
    expected_head: str | None
    source: str


class GraphSession(HistoryCalls, LoadCalls, ExportCalls, MaintenanceCalls):
    """An open graph: queries are compiled against the schema of the branch they run on. Threads may share it."""

    def __init__(
        self,
        store: GraphStore,
        world: World,
        embedding: EmbeddingSettings | EmbeddingProvider | None = None,
        maintenance: MaintenanceSettings | None = None,
    ) -> None:
        self.store = store
        self._calls = store.stores.calls
        self.maintenance = maintenance or MaintenanceSettings.from_environment()
        self.embedder = Embedder(world.clock, embedding)
        self._world = world
        self._catalogs = CatalogCache()
        self._plans = PlanCache()
        self._upkeep = Upkeep(self._tidy, self.maintenance.auto_every, world.clock)
        store.stores.listeners.append(self._upkeep.note)
        self._reads = QueryRunner(store, world, self._catalogs, self._plans, self.embedder)

    @classmethod
    def open(
        cls,
        storage: Storage,
        *,
        mode: OpenMode = "read_write",
        world: World | None = None,
        settings: TxnSettings | None = None,
        group_commit: bool = False,
        embedding: EmbeddingSettings | EmbeddingProvider | None = None,
        maintenance: MaintenanceSettings | None = None,
    ) -> Self:
        """Open a graph.

        ``embedding`` says what embeds texts; the environment does when it is None, once a text has to be embedded.
        So it is with ``maintenance``, which says how much is tidied up in the background.

        Raises:
            GraphMissingError: there is no graph.
            FormatUnsupportedError: its storage format is outside the range of this version.
        """
        world = world or World.system()
        store = GraphStore.open(storage, mode=mode, world=world, settings=settings, group_commit=group_commit)
        return cls(store, world, embedding, maintenance)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further calls, finish those under way and let go of everything; harmless when closed already."""
        self._upkeep.close()
        self._calls.close()
        self.embedder.close()
        self.store.close()

    @counted
    def snapshot(self, branch: str = MAIN, counters: Counters | None = None) -> Snapshot:
        """Return the newest published state of a branch."""
        return self.store.snapshot(BranchName.parse(branch), counters or Counters())

    def catalog(self, branch: str = MAIN) -> Catalog:
        """Return the schema that a branch follows."""
        return self._catalogs.get(self.snapshot(branch).state.schema)

    def catalog_at(self, snapshot: Snapshot) -> Catalog:
        """Return the schema that a state follows."""
        return self._catalogs.get(snapshot.state.schema)

    @counted
    def query(
        self,
        text: str | bytes,
        params: Any = None,
        name: str | None = None,
        *,
        params_form: ParamsForm = "host",
        branch: str = MAIN,
        at: str | None = None,
        options: QueryOptions | None = None,
        source_name: str = "<query>",
    ) -> Result:
        """Compile a read and run it on one pinned snapshot.

        Args:
            text: a whole ``.gq`` source.
            params: values by parameter name.
            name: the declaration to run; None if the source holds exactly one.
            params_form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.
            branch: where to read.
            at: a reference to a state, such as a commit id, ``main~3``, ``tag:v1`` or ``@2026-01-31``; the newest
                state of the branch when None.
            options: how to run it, and what it may cost.
            source_name: what errors call the source.

        Raises:
            QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a read.
            QueryLaneError: it is a mutation.
            QueryParameterError, QueryRuntimeError: a parameter is missing or does not fit.
            QueryMemoryError, QueryTimeoutError, QueryRowLimitError, QueryCancelledError: it met a limit.
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        return self._reads.run(read_call(text, params, name, params_form, branch, at, options, source_name))

    @counted
    def prepare(self, call: ReadCall) -> PreparedRead:
        """Compile and plan a read for an engine that runs it elsewhere; raises what :meth:`query` does before rows."""
        return self._reads.prepare(call)

    @counted
    def explain(
        self,
        text: str | bytes,
        params: Any = None,
        name: str | None = None,
        *,
        run: bool = False,
        params_form: ParamsForm = "host",
        branch: str = MAIN,
        at: str | None = None,
        options: QueryOptions | None = None,
        source_name: str = "<query>",
    ) -> Explanation:
        """Return the plan of a read; with ``run`` also the rows, calls and time of each step.

        Takes and raises what :meth:`query` does.
        """
        check_flag("run", run)
        call = read_call(text, params, name, params_form, branch, at, options, source_name)
        return self._reads.explain(call, run=run)

    @counted
    def mutate(
        self,
        text: str | bytes,
        params: Any = None,
        name: str | None = None,
        *,
        params_form: ParamsForm = "host",
        branch: str = MAIN,
        actor: str | None = None,
        expected_head: str | None = None,
        source_name: str = "<query>",
    ) -> MutationResult:
        """Compile a mutation, run it and publish it as one commit.

        Args:
            text: a whole ``.gq`` source.
            params: values by parameter name.
            name: the declaration to run; None if the source holds exactly one.
            params_form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.
            branch: where to write.
            actor: who asks for it.
            expected_head: the commit that the branch must be at.
            source_name: what errors call the source.

        Raises:
            QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a mutation.
            QueryLaneError: it is a read.
            QueryParameterError: a parameter is missing or does not fit.
            ConstraintViolationError: the graph would break a rule of its schema.
            PreconditionFailedError: the branch is not at ``expected_head``.
            ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
        """
        check_choice("params_form", params_form, get_args(ParamsForm))
        call = _Call(text=text, name=name, branch=branch, actor=actor, expected_head=expected_head, source=source_name)
        return self._mutate(call, lambda query: decode_call(query.checked.parameters, params, params_form))

    @counted
    def mutate_batch(
        self,
        text: str | bytes,
        rows: Sequence[Any],
        name: str | None = None,
        *,
        params_form: ParamsForm = "host",
        branch: str = MAIN,
        actor: str | None = None,
        expected_head: str | None = None,
        source_name: str = "<query>",
    ) -> MutationResult:
        """Run a mutation once per row of parameters and publish all of it as one commit, or nothing.

        The calls follow each other as if their statements stood in one text: each sees what the ones before it did,
        and all of them have the same ``now()``. A mutation that only inserts is made column by column. ``rows`` holds
        the parameters of each call, which are all read before the first call is made; the rest is as for
        :meth:`mutate`.

        Raises:
            QueryParameterError: a parameter is missing or does not fit; says in which row, counted from 1.
            OmnigraphError: whatever :meth:`mutate` does.
        """
        check_choice("params_form", params_form, get_args(ParamsForm))
        call = _Call(text=text, name=name, branch=branch, actor=actor, expected_head=expected_head, source=source_name)
        return self._mutate(call, lambda query: decode_calls(query.checked.parameters, rows, params_form))

    def _mutate(
        self, call: _Call, decode: Callable[[CompiledQuery], Mapping[str, Any] | ParameterRows]
    ) -> MutationResult:
        from omnigraph.engine.mutate import is_insert_only, run_mutation  # noqa: PLC0415 - a read needs none of it

        now_ms = self._world.clock.now_ms()
        attempt = 0
        while True:
            authority, newest = self.store.current(BranchName.parse(call.branch), Counters())
            schema = newest.state.schema
            catalog = self._catalogs.get(schema)
            query = self._plans.compile(call.text, call.name, catalog, call.source)
            plan = expect_mutation(query)
            attempt += 1
            try:
                return run_mutation(
                    authority,
                    catalog,
                    plan,
                    decode(query),
                    actor=call.actor,
                    expected_head=_commit_id(call.expected_head),
                    now_ms=now_ms,
                    schema_hash=schema.hash,
                    embedder=self.embedder,
                )
            except SchemaMovedError:
                if attempt >= _ATTEMPTS or not is_insert_only(plan):
                    raise

    @counted
    def apply_schema(
        self,
        text: str | bytes,
        *,
        branch: str = MAIN,
        allow_data_loss: bool = False,
        actor: str | None = None,
        expected_head: str | None = None,
        source_name: str = "<schema>",
    ) -> SchemaApplyResult:
        """Bring a branch to another schema, its rows included, as one commit; see ``apply_schema`` of the schema room.

        Raises:
            SchemaSyntaxError, SchemaCheckError, SchemaPlanError: the text is no schema that the branch can come to.
            ConstraintViolationError: a row breaks a rule that was to be added.
            PreconditionFailedError: the branch is not at ``expected_head``.
            ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
        """
        from omnigraph.engine.schema import apply_schema  # noqa: PLC0415 - a read needs none of it

        check_flag("allow_data_loss", allow_data_loss)
        return apply_schema(
            self.store,
            BranchName.parse(branch),
            text,
            catalog_of=self._catalogs.get,
            allow_data_loss=allow_data_loss,
            actor=actor,
            expected_head=_commit_id(expected_head),
            source_name=source_name,
        )


def read_call(
    text: str | bytes,
    params: Any,
    name: str | None,
    params_form: ParamsForm,
    branch: str,
    at: str | None,
    options: QueryOptions | None,
    source_name: str,
) -> ReadCall:
    """Return the read that a caller of any engine asks for; see :meth:`GraphSession.query`.

    Raises:
        UsageError: the options are none, or the form of the parameters is not known.
    """
    check_instance("options", options, QueryOptions)
    check_choice("params_form", params_form, get_args(ParamsForm))
    return ReadCall(
        text=text,
        name=name,
        params=params,
        params_form=params_form,
        branch=branch,
        at=at,
        options=options or QueryOptions(),
        source_name=source_name,
    )


def _commit_id(text: str | None) -> CommitId | None:
    return None if text is None else CommitId(Ulid.parse(text))
