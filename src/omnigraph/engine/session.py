"""``GraphSession``: an open graph together with its schema, and everything that may be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from omnigraph.catalog import Catalog, assign_identities, compile_schema
from omnigraph.engine.accepted import CatalogCache, accept_schema, table_of
from omnigraph.engine.load import LoadMode, LoadProgress, LoadResult, LoadSettings, Source, load
from omnigraph.engine.mutate import MutationResult, is_insert_only, run_mutation
from omnigraph.engine.schema import SchemaApplyResult, apply_schema
from omnigraph.errors import SchemaMovedError
from omnigraph.ir import CompiledQuery, PlanCache, bind_parameters, decode_parameters, expect_mutation
from omnigraph.lang.pg import parse_schema
from omnigraph.runtime import Counters, World
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import GraphStore, OpenMode
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import MAIN, BranchName, CommitId, Ulid

ParamsForm = Literal["host", "strict", "javascript"]

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
    source = schema_text.encode() if isinstance(schema_text, str) else schema_text
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


class GraphSession:
    """An open graph: queries are compiled against the schema of the branch they run on. Threads may share it."""

    def __init__(self, store: GraphStore, world: World) -> None:
        self.store = store
        self._world = world
        self._catalogs = CatalogCache()
        self._plans = PlanCache()

    @classmethod
    def open(
        cls,
        storage: Storage,
        *,
        mode: OpenMode = "read_write",
        world: World | None = None,
        settings: TxnSettings | None = None,
        group_commit: bool = False,
    ) -> Self:
        """Open a graph.

        Raises:
            GraphMissingError: there is no graph.
            FormatUnsupportedError: its storage format is outside the range of this version.
        """
        world = world or World.system()
        store = GraphStore.open(storage, mode=mode, world=world, settings=settings, group_commit=group_commit)
        return cls(store, world)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish background work and let go of everything; harmless when closed already."""
        self.store.close()

    def snapshot(self, branch: str = MAIN, counters: Counters | None = None) -> Snapshot:
        """Return the newest published state of a branch."""
        return self.store.snapshot(BranchName.parse(branch), counters or Counters())

    def catalog(self, branch: str = MAIN) -> Catalog:
        """Return the schema that a branch follows."""
        return self._catalogs.get(self.snapshot(branch).state.schema)

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
        now_ms = self._world.clock.now_ms()
        attempt = 0
        while True:
            authority = self.store.authority(BranchName.parse(branch), Counters())
            schema = authority.snapshot(Counters()).state.schema
            catalog = self._catalogs.get(schema)
            query = self._plans.compile(text, name, catalog, source_name)
            plan = expect_mutation(query)
            attempt += 1
            try:
                return run_mutation(
                    authority,
                    catalog,
                    plan,
                    _decode(query, params, params_form),
                    actor=actor,
                    expected_head=_commit_id(expected_head),
                    now_ms=now_ms,
                    schema_hash=schema.hash,
                )
            except SchemaMovedError:
                if attempt >= _ATTEMPTS or not is_insert_only(plan):
                    raise

    def load(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
        self,
        sources: Sequence[Source | str],
        mode: LoadMode = "append",
        *,
        patch: bool = False,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | None = None,
        errors_to: str | Path | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        limit: int = 100,
        settings: LoadSettings | None = None,
    ) -> LoadResult:
        """Read every row of the sources and publish all of them as one commit, or nothing.

        Takes and raises what :func:`omnigraph.engine.load.load` does.
        """
        authority = self.store.authority(BranchName.parse(branch), Counters())
        schema = authority.snapshot(Counters()).state.schema
        return load(
            authority,
            self._catalogs.get(schema),
            sources,
            mode,
            patch=patch,
            actor=actor,
            message=message,
            expected_head=_commit_id(expected_head),
            schema_hash=schema.hash,
            errors_to=errors_to,
            progress=progress,
            limit=limit,
            settings=settings,
        )

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


def _commit_id(text: str | None) -> CommitId | None:
    return None if text is None else CommitId(Ulid.parse(text))


def _decode(query: CompiledQuery, params: Any, form: ParamsForm) -> Mapping[str, Any]:
    if form == "host":
        return bind_parameters(query.decl.parameters, params)
    return decode_parameters(query.decl.parameters, params, form)
