"""``OpenGraph``: an open graph as the engine holds it: its store, its schemas, its plans, and what runs its reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from omnigraph.engine.embedding import Embedder, EmbeddingProvider, EmbeddingSettings
from omnigraph.engine.maintenance.auto import AutoMaintenance, MaintenanceSettings
from omnigraph.errors import OmnigraphError
from omnigraph.runtime import Runtime, late_property
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import GraphStore, OpenMode
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.engine.accepted import CatalogCache
    from omnigraph.engine.constraints.accepted_rules import AcceptedRules
    from omnigraph.engine.external_blobs import ExternalBlobs
    from omnigraph.engine.maintenance.outcomes import ProjectionFigures
    from omnigraph.engine.query.runner import QueryRunner
    from omnigraph.engine.transaction import GraphTransaction
    from omnigraph.ir import PlanCache


def init_graph(
    storage: Storage,
    schema_text: str | bytes,
    *,
    actor: str | None = None,
    message: str | None = None,
    settings: TxnSettings | None = None,
    runtime: Runtime | None = None,
    source_name: str = "<schema>",
) -> None:
    """Create a graph with an empty table per type.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        GraphExistsError: there is a graph already.
    """
    from omnigraph.catalog import assign_identities, compile_schema  # noqa: PLC0415 - a read needs none of it
    from omnigraph.engine.accepted import accept_schema, table_of  # noqa: PLC0415 - see above
    from omnigraph.lang.pg import parse_schema  # noqa: PLC0415 - see above

    # Half of a surrogate pair is no UTF-8, which the parser says properly.
    source = schema_text.encode(errors="surrogatepass") if isinstance(schema_text, str) else schema_text
    runtime = runtime or Runtime.system()
    catalog = assign_identities(compile_schema(parse_schema(source, source_name)), str(runtime.ids.ulid()))
    GraphStore.init(
        storage,
        schema=accept_schema(source.decode(), catalog),
        tables=[*map(table_of, catalog.nodes.values()), *map(table_of, catalog.edges.values())],
        actor=actor,
        message=message,
        runtime=runtime,
        settings=settings,
    )


class OpenGraph:
    """An open graph. Queries are compiled against the schema of the branch they run on. Threads may share it."""

    def __init__(
        self,
        store: GraphStore,
        runtime: Runtime,
        embedding: EmbeddingSettings | EmbeddingProvider | None = None,
        maintenance: MaintenanceSettings | None = None,
        external_blobs: ExternalBlobs | None = None,
    ) -> None:
        self.store = store
        self.external_blobs = external_blobs
        self.runtime = runtime
        self.calls = store.stores.calls
        self.maintenance = maintenance or MaintenanceSettings.from_environment()
        self.embedder = Embedder(runtime.clock, embedding)
        # The open transactions, by the names that their callers know them by.
        self.transactions: dict[str, GraphTransaction] = {}
        # What monitoring shows of projections: as they were when this process last looked at them.
        self.projection_figures: ProjectionFigures | None = None
        self._auto_maintenance = AutoMaintenance(self._maintain, self.maintenance.auto_every, runtime.clock)
        store.stores.listeners.append(self._auto_maintenance.note)
        store.stores.rules = lambda: self._rules

    @late_property
    def _rules(self) -> AcceptedRules:
        from omnigraph.engine.constraints.accepted_rules import AcceptedRules  # noqa: PLC0415 - a read needs none of it

        return AcceptedRules(self.catalogs.get)

    @late_property
    def catalogs(self) -> CatalogCache:
        """The schemas that its branches follow."""
        from omnigraph.engine.accepted import CatalogCache  # noqa: PLC0415 - opening a graph needs none of it

        return CatalogCache()

    @late_property
    def plans(self) -> PlanCache:
        """The queries that were compiled."""
        from omnigraph.ir import PlanCache  # noqa: PLC0415 - opening a graph needs none of it

        return PlanCache()

    @late_property
    def reads(self) -> QueryRunner:
        """What runs its reads, and what they share."""
        from omnigraph.engine.query.runner import QueryRunner  # noqa: PLC0415 - opening a graph needs none of it

        return QueryRunner(self.store, self.runtime, self.catalogs, self.plans, self.embedder)

    @classmethod
    def open(
        cls,
        storage: Storage,
        *,
        mode: OpenMode = "read_write",
        runtime: Runtime | None = None,
        settings: TxnSettings | None = None,
        group_commit: bool = True,
        embedding: EmbeddingSettings | EmbeddingProvider | None = None,
        maintenance: MaintenanceSettings | None = None,
        external_blobs: ExternalBlobs | None = None,
    ) -> Self:
        """Open a graph.

        ``embedding`` says what embeds texts; the environment does when it is None, once a text has to be embedded.
        So it is with ``maintenance``, which says how much is tidied up in the background. ``external_blobs`` says which
        objects outside of the graph Blobs may be given as; none when it is None.

        Raises:
            GraphMissingError: there is no graph.
            FormatUnsupportedError: its storage format is outside the range of this version.
        """
        runtime = runtime or Runtime.system()
        store = GraphStore.open(storage, mode=mode, runtime=runtime, settings=settings, group_commit=group_commit)
        return cls(store, runtime, embedding, maintenance, external_blobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further calls, finish those under way and let go of everything; harmless when closed already."""
        self._auto_maintenance.close()
        self.calls.close()
        for transaction in tuple(self.transactions.values()):
            transaction.close()
        self.transactions.clear()
        if "reads" in vars(self):
            self.reads.close()
        self.embedder.close()
        self.store.close()

    def snapshot(self, branch: str = MAIN, at: str | None = None) -> GraphSnapshot:
        """Return the state that ``at`` names, seen from a branch; the newest of the branch when None.

        Raises:
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        name = BranchName.parse(branch)
        if at is None:
            return self.calls.run(lambda: self.store.snapshot(name))
        return self.calls.run(lambda: self.store.refs.resolve_ref(at, name).snapshot)

    def catalog(self, branch: str = MAIN) -> Catalog:
        """Return the schema that a branch follows."""
        return self.catalog_at(self.snapshot(branch))

    def catalog_at(self, snapshot: GraphSnapshot) -> Catalog:
        """Return the schema that a state follows."""
        return self.catalogs.get(snapshot.state.schema)

    def _maintain(self, branch: BranchName, is_stopped: Callable[[], bool]) -> None:
        """Do what little a background thread may do about a branch."""
        from omnigraph.engine.maintenance.building import ProjectionBounds  # noqa: PLC0415 - a read needs none of it
        from omnigraph.engine.maintenance.optimize import Optimization  # noqa: PLC0415 - a read needs none of it
        from omnigraph.engine.maintenance.planning import LocalRunner  # noqa: PLC0415 - a read needs none of it
        from omnigraph.store.staging.compaction import CompactionPolicy  # noqa: PLC0415 - a read needs none of it

        branch_writer = self.store.current(branch)[0]
        Optimization(
            branch_writer,
            self.catalogs.get,
            LocalRunner(self.store.storage, 1),
            policy=CompactionPolicy(max_rows=self.maintenance.auto_max_rows),
            projections=ProjectionBounds(
                least_rows=self.maintenance.projection_rows, most_rows=self.maintenance.auto_projection_rows
            ),
            is_stopped=is_stopped,
        ).run()
        self.measure_projections(branch)

    def measure_projections(self, branch: BranchName) -> None:
        """Take note of what projections take and cover; nothing is lost if that cannot be told."""
        from omnigraph.engine.maintenance.building import (  # noqa: PLC0415 - a read needs none of it
            ProjectionBounds,
            measure_projections,
        )

        bounds = ProjectionBounds(least_rows=self.maintenance.projection_rows)
        with suppress(OmnigraphError):
            snapshot = self.store.snapshot(branch)
            store = self.store.tables.datasets.projections
            self.projection_figures = measure_projections(self.catalog_at(snapshot), snapshot, store, bounds)
