"""The graphs of a cluster: looked at, made, migrated and removed, each through the engine that everybody uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph.catalog.migration import plan_migration
from omnigraph.cluster.digests import file_digest
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.engine.open_graph import OpenGraph, init_graph
from omnigraph.engine.schema import SchemaApplyResult, apply_schema
from omnigraph.errors import Effect, GraphMissingError, Kind, OmnigraphError, StorageFault, StorageUnavailableError
from omnigraph.lang.pg import parse_schema
from omnigraph.records import record
from omnigraph.store.control import sync_directory
from omnigraph.store.translate import translating
from omnigraph.txn.graph_store import OpenMode
from omnigraph.values import MAIN, BranchName

_REMOVALS = 3


@record
class ObservedGraph:
    """What there is at the address of a graph.

    ``exists`` says that something is there. ``problem`` says why it cannot be read, and ``is_reachable`` whether
    storage has answered at all; without a problem, the other two say which state main is in.
    """

    exists: bool
    manifest_version: int | None = None
    schema_digest: str | None = None
    problem: str | None = None
    is_reachable: bool = True


@record
class MigrationPreview:
    """The steps that a schema update would take; ``refusal`` says why it cannot be made."""

    supported: bool
    steps: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]
    refusal: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the preview as JSON values."""
        return {"supported": self.supported, "steps": list(self.steps)}


class ClusterGraphs:
    """The graphs below a storage root, by id."""

    def __init__(self, place: ClusterPlace) -> None:
        self._place = place

    def observe(self, graph_id: str) -> ObservedGraph:
        """Look at main of a graph; nothing is written, and nothing is raised for a graph that cannot be read."""
        try:
            with self.opened(graph_id, "read_only") as graph:
                state = graph.snapshot().state
        except GraphMissingError as problem:
            # Something that is no graph may be one that was being made.
            try:
                is_empty = not self._place.objects.list_keys(self._place.graph_key(graph_id))
            except OmnigraphError as other:
                return _unread(other)
            return ObservedGraph(exists=False) if is_empty else ObservedGraph(exists=True, problem=problem.message)
        except OmnigraphError as problem:
            return _unread(problem)
        digest = file_digest(state.schema.source.encode())
        return ObservedGraph(exists=True, manifest_version=state.version, schema_digest=digest)

    @contextmanager
    def opened(self, graph_id: str, mode: OpenMode) -> Iterator[OpenGraph]:
        """Open a graph.

        Raises:
            GraphMissingError: there is none.
            FormatUnsupportedError: its storage format is outside the range of this version.
        """
        storage = self._place.graph_storage(graph_id)
        with OpenGraph.open(storage, mode=mode, runtime=self._place.runtime) as graph:
            yield graph

    def create(self, graph_id: str, schema: bytes, *, actor: str | None, source_name: str) -> int:
        """Create an empty graph and return its manifest version.

        Raises:
            SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
            GraphExistsError: there is a graph already.
        """
        init_graph(
            self._place.graph_storage(graph_id),
            schema,
            actor=actor,
            message="cluster apply",
            runtime=self._place.runtime,
            source_name=source_name,
        )
        return 1

    def preview(self, graph_id: str, schema: bytes, *, source_name: str) -> MigrationPreview:
        """Return the steps that bring main of a graph to a schema, refused ones included.

        Raises:
            GraphMissingError: there is no graph.
            SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        """
        with self.opened(graph_id, "read_only") as graph:
            return preview_migration(graph, schema, source_name=source_name)

    def migrate(self, graph: OpenGraph, schema: bytes, *, actor: str | None, source_name: str) -> SchemaApplyResult:
        """Bring main of an open graph to a schema as one commit; what is dropped can still be read in the past.

        A graph that is served is written to meanwhile: the change is decided again on what has come between.

        Raises:
            SchemaPlanError: a change cannot be made.
            ConstraintViolationError: a row breaks a rule that was to be added.
            SchemaMovedError: another process changed the schema.
        """
        return graph.calls.run(
            lambda: apply_schema(
                graph.store,
                BranchName(MAIN),
                schema,
                catalog_of=graph.catalogs.get,
                actor=actor,
                message="cluster apply",
                source_name=source_name,
                # The ledger knows a schema by its text: comments count.
                is_declared=True,
            )
        )

    def remove(self, graph_id: str) -> None:
        """Remove everything below the root of a graph.

        Raises:
            StorageUnavailableError: something is left, or storage did not answer.
        """
        key, objects = self._place.graph_key(graph_id), self._place.objects
        # A writer that does not know yet may put something there meanwhile.
        for _ in range(_REMOVALS):
            objects.delete_prefix(key)
            if not objects.list_keys(key):
                break
        else:
            details = StorageFault(doing="remove a graph", location=key, reason="other processes write to it")
            message = f"graph '{graph_id}' still has objects after it was removed: other processes write to it"
            raise StorageUnavailableError(message, details=details, effect=Effect.UNKNOWN)
        if self._place.storage.is_local and self._place.storage.path(key).parent.is_dir():
            with translating("remove a graph", key, effect=Effect.UNKNOWN):
                sync_directory(self._place.storage.path(key).parent)


def preview_migration(graph: OpenGraph, schema: bytes, *, source_name: str) -> MigrationPreview:
    """Return the steps that bring main of an open graph to a schema, refused ones included.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
    """
    plan = plan_migration(graph.catalog(), parse_schema(schema, source_name))
    return MigrationPreview(
        supported=plan.is_supported,
        steps=tuple(step.to_json() for step in plan.steps),
        lines=tuple(step.describe() for step in plan.steps),
        refusal=None if plan.first_refusal is None else plan.first_refusal.message,
    )


# What says nothing of the graph itself.
_UNREACHABLE = frozenset({Kind.UNAVAILABLE, Kind.DENIED, Kind.UNAUTHENTICATED})


def _unread(problem: OmnigraphError) -> ObservedGraph:
    return ObservedGraph(exists=True, problem=problem.message, is_reachable=problem.kind not in _UNREACHABLE)
