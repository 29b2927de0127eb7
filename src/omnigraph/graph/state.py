"""``State`` and ``Snapshot``: what can be asked of a state of a graph, the newest of a branch or an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.engine.query.options import MAX_ENTITIES, QueryOptions
from omnigraph.errors import BadValue, OmnigraphError, UsageError
from omnigraph.graph.arguments.values import attachments_of, data_of, moment_text, query_text, schema_text
from omnigraph.graph.blobs import DEFAULT_BUFFER_BYTES, LARGEST_BUFFER_BYTES, BlobReader
from omnigraph.operations.history import BlameRequest, DiffRequest
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
)
from omnigraph.operations.request import Attachments, Backend
from omnigraph.operations.stored import ListQueriesRequest
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import check_whole

if TYPE_CHECKING:
    from omnigraph.catalog.migration import MigrationPlan
    from omnigraph.engine.export.options import ExportFormat, ExportProgress, ExportResult, ExportSettings
    from omnigraph.engine.export.stream import ByteSink
    from omnigraph.engine.query.explain import Explanation
    from omnigraph.engine.results import Result
    from omnigraph.engine.results.entity import Entity
    from omnigraph.graph.algorithms import Algorithms
    from omnigraph.graph.diff import Diff
    from omnigraph.graph.queries import Queries
    from omnigraph.graph.schema import Schema
    from omnigraph.history.feed.entity_history import EntityHistory
    from omnigraph.operations.reads import PinnedState
    from omnigraph.store.tables.pinned import BlobPart


class State:
    """A state: ``at`` refers to it, seen from ``branch``; the newest of the branch when None."""

    def __init__(self, backend: Backend, branch: str, at: str | None = None) -> None:
        self._backend = backend
        self._branch = branch
        self._at = at
        self._queries: Queries | None = None

    @property
    def reference(self) -> str:
        """What names this state where a reference is asked for: a branch, or a commit."""
        return self._branch if self._at is None else self._at

    @property
    def schema(self) -> Schema:
        """The schema that this state follows."""
        from omnigraph.graph.schema import Schema  # noqa: PLC0415 - a query needs none of it

        accepted = self._pinned().state.schema
        return Schema.of(accepted)

    @property
    def algorithms(self) -> Algorithms:
        """The graph algorithms, on this state."""
        from omnigraph.graph.algorithms import Algorithms  # noqa: PLC0415 - a query needs none of it

        return Algorithms(self._backend, self._branch, self._at)

    @property
    def queries(self) -> Queries:
        """The stored queries, to be called by name on this state; which there are is asked for once.

        Those of a graph that this process opens are given to :func:`omnigraph.open`; a server has its own.
        """
        from omnigraph.graph.queries import Queries  # noqa: PLC0415 - a query needs none of it

        if self._queries is None:
            entries = self._backend.execute(ListQueriesRequest())
            self._queries = Queries(self._backend, self._branch, self._at, entries)
        return self._queries

    def query(
        self,
        text: str | bytes | Path,
        params: Any = None,
        name: str | None = None,
        *,
        options: QueryOptions | None = None,
    ) -> Result:
        """Run a read on one pinned snapshot.

        Args:
            text: a whole ``.gq`` source, or the path of one.
            params: values by parameter name.
            name: the declaration to run; None if the source holds exactly one.
            options: how to run it, and what it may cost.

        Raises:
            QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a read.
            WrongQueryKindError: it is a mutation.
            QueryParameterError, QueryRuntimeError: a parameter is missing or does not fit.
            QueryMemoryError, QueryTimeoutError, QueryRowLimitError, QueryCancelledError: it met a limit.
            FileMissingError, FileAccessError: the file is not there, or cannot be read.
        """
        source = query_text(text)
        request = QueryRequest(
            text=source.text,
            params=params,
            name=name,
            branch=self._branch,
            at=self._at,
            options=data_of(options),
            source_name=source.name,
        )
        return self._backend.execute(request, attachments_of(options))

    def entity(self, type_name: str, entity_id: str) -> Entity | None:
        """Return one node or edge by its id; None when there is none.

        Args:
            type_name: ``Person``, ``node:Person`` or ``edge:Knows``.
            entity_id: its id; that of an entity with a key follows from the key.

        Raises:
            TypeMissingError: the schema has no type of that name.
            UsageError: a node type and an edge type have that name.
        """
        request = ReadEntityRequest(type_name=type_name, entity_id=entity_id, branch=self._branch, at=self._at)
        return self._backend.execute(request)

    def blob(
        self,
        type_name: str,
        entity_id: str,
        name: str,
        *,
        start: int = 0,
        length: int | None = None,
    ) -> BlobPart | None:
        """Return bytes of a Blob with its size, without reading others; None when there is none.

        Args:
            type_name: ``Person``, ``node:Person`` or ``edge:Knows``.
            entity_id: the entity.
            name: the property that is the Blob.
            start: the first byte.
            length: how many bytes at most; all to the end when None, and 0 to ask for the size alone.

        Raises:
            TypeMissingError: the schema has no type of that name.
            UsageError: a node type and an edge type have that name, or the property is not a Blob.
        """
        request = ReadBlobRequest(
            type_name=type_name,
            entity_id=entity_id,
            property=name,
            start=start,
            length=length,
            branch=self._branch,
            at=self._at,
        )
        return self._backend.execute(request)

    def open_blob(
        self, type_name: str, entity_id: str, name: str, *, buffer_bytes: int = DEFAULT_BUFFER_BYTES
    ) -> BlobReader:
        """Open a Blob to be read from any place, as a file is; a plain ``with`` closes it.

        All of it is read from the state that is found here, whatever is written meanwhile.

        Args:
            type_name: ``Person``, ``node:Person`` or ``edge:Knows``.
            entity_id: the entity.
            name: the property that is the Blob.
            buffer_bytes: how much is asked for at once, and how much of it is kept.

        Raises:
            BlobMissingError: there is no such entity, or its Blob is null.
            BlobReferenceError: the content is outside of the graph, which keeps its address only.
            TypeMissingError: the schema has no type of that name.
            UsageError: a node type and an edge type have that name, or the property is not a Blob.
        """
        check_whole("buffer_bytes", buffer_bytes, least=1, most=LARGEST_BUFFER_BYTES)
        newest = self._backend.execute(ReadStateRequest(branch=self._branch, at=self._at))
        request = ReadBlobRequest(
            type_name=type_name,
            entity_id=entity_id,
            property=name,
            length=0,
            branch=self._branch,
            at=str(newest.state.head.commit),
        )
        found = self._backend.execute(request)
        return BlobReader(self._backend, request, found, buffer_bytes)

    def plan_schema(self, schema: str | bytes | Path, *, allow_data_loss: bool = False) -> MigrationPlan:
        """Return the steps that bring this state to another schema, refused ones included; nothing is written.

        Args:
            schema: the text, or the path of a ``.pg`` file.
            allow_data_loss: plan to reclaim what is dropped at once.

        Raises:
            SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
            FileMissingError, FileAccessError: the file is not there, or cannot be read.
        """
        source = schema_text(schema)
        request = PlanSchemaRequest(
            text=source.text,
            branch=self._branch,
            at=self._at,
            allow_data_loss=allow_data_loss,
            source_name=source.name,
        )
        return self._backend.execute(request)

    def explain(
        self,
        text: str | bytes | Path,
        params: Any = None,
        name: str | None = None,
        *,
        run: bool = False,
        options: QueryOptions | None = None,
    ) -> Explanation:
        """Return the plan of a read; with ``run`` also the rows, calls and time of each step.

        Takes and raises what :meth:`query` does.
        """
        source = query_text(text)
        request = ExplainRequest(
            text=source.text,
            params=params,
            name=name,
            run=run,
            branch=self._branch,
            at=self._at,
            options=data_of(options),
            source_name=source.name,
        )
        return self._backend.execute(request, attachments_of(options))

    def export(
        self,
        to: str | Path,
        format: ExportFormat = "jsonl",  # noqa: A002 - the word that every reader and writer of files uses
        *,
        types: Sequence[str] | None = None,
        progress: Callable[[ExportProgress], None] | None = None,
        settings: ExportSettings | None = None,
    ) -> ExportResult:
        """Write all rows into an empty folder, with a manifest; loading it gives them back.

        Args:
            to: a directory that is empty or does not exist, or ``s3://bucket/prefix``.
            format: ``jsonl``, ``csv`` or ``parquet``.
            types: only types of these names; ``node:Name`` and ``edge:Name`` tell two of one name apart.
            progress: told how far it is.
            settings: what it may use of the machine.

        Raises:
            ExportTargetError: there is something in the folder.
            ExportTypeError: the schema has no such type.
            StorageUnavailableError, StorageDeniedError: the folder cannot be written.
        """
        request = ExportRequest(to=to, format=format, branch=self._branch, at=self._at, types=types, settings=settings)
        return self._backend.execute(request, Attachments(progress=progress))

    def export_stream(
        self,
        sink: ByteSink,
        *,
        types: Sequence[str] | None = None,
        progress: Callable[[ExportProgress], None] | None = None,
    ) -> ExportResult:
        """Write all rows as JSONL to an open binary file: edges first, types by name, rows by id.

        Raises:
            ExportTypeError: the schema has no such type.
        """
        request = ExportStreamRequest(branch=self._branch, at=self._at, types=types)
        return self._backend.execute(request, Attachments(sink=sink, progress=progress))

    def diff(
        self,
        before: str | datetime | Commit | State,
        after: str | datetime | Commit | State | None = None,
        *,
        kinds: Iterable[str] = (),
        types: Iterable[str] = (),
        ops: Iterable[str] = (),
        ids: Iterable[str] = (),
    ) -> Diff:
        """Return what is different from ``before`` in ``after``, which is this state unless given.

        Args:
            before: a branch, ``main~3``, a commit, ``tag:v1``, a moment, or an object that is one of these.
            after: the same.
            kinds: only ``node`` or ``edge``.
            types: only types of these names.
            ops: only ``insert``, ``update`` or ``delete``.
            ids: only entities of these ids.

        Raises:
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
            UsageError: a kind or an operation is none.
        """
        from omnigraph.graph.diff import Diff  # noqa: PLC0415 - a query needs none of it

        request = DiffRequest(
            before=reference_of(before),
            after=self.reference if after is None else reference_of(after),
            branch=self._branch,
            kinds=kinds,
            types=types,
            ops=ops,
            ids=ids,
        )
        return Diff(self._backend.execute(request))

    def blame(self, type_name: str, entity_id: str, *, limit: int = 20) -> EntityHistory:
        """Return which commits changed an entity, newest first, and the author of each property through merges.

        Args:
            type_name: ``Person``, ``node:Person`` or ``edge:Knows``.
            entity_id: its id.
            limit: how many events at most.

        Raises:
            TypeMissingError: the schema has no type of that name.
            HistoryGoneError: this state was reclaimed.
        """
        request = BlameRequest(type_name=type_name, entity_id=entity_id, branch=self._branch, at=self._at, limit=limit)
        return self._backend.execute(request)

    def to_networkx(self, *, limit: int = MAX_ENTITIES) -> Any:
        """Return every node and edge of a small graph as a ``networkx.MultiDiGraph``.

        Nodes are ``(type, id)`` and keys of edges ``(type, id)``; attributes are the properties, without blobs.

        Raises:
            ViewTooLargeError: there are more than ``limit`` nodes and edges; none was read.
            LibraryMissingError: networkx is not installed.
        """
        request = ReadNetworkRequest(limit=limit, branch=self._branch, at=self._at)
        return self._backend.execute(request).to_networkx()

    def _repr_html_(self) -> str:
        from omnigraph.engine.results.table import html_problem, html_rows  # noqa: PLC0415 - for notebooks

        try:
            pinned = self._pinned().state
        except OmnigraphError as problem:
            # A closed graph at the end of a cell is no reason for a traceback.
            return html_problem(self, problem)
        caption = f"{self._backend.uri}, {self.reference} at commit {pinned.head.commit}"
        keys = [(key.partition(":"), entry.row_count) for key, entry in pinned.tables.items()]
        return html_rows(caption, ("kind", "type", "rows"), ((kind, name, str(n)) for (kind, _, name), n in keys))

    def _pinned(self) -> PinnedState:
        return self._backend.execute(ReadStateRequest(branch=self._branch, at=self._at))


class Snapshot(State):
    """The state that a commit made visible. Later writes do not change it; a cleanup may reclaim it.

    Queries call things as the schema of ``branch`` does now; ``QueryOptions(schema="commit")`` uses that of the state.
    """

    def __init__(self, backend: Backend, commit: Commit, branch: str) -> None:
        super().__init__(backend, branch, str(commit.id))
        self._commit = commit

    @property
    def commit(self) -> Commit:
        """The commit."""
        return self._commit

    def __repr__(self) -> str:
        return f"<Snapshot {self._commit.id} of {self._commit.branch} in {self._backend.uri!r}>"


def reference_of(argument: object) -> str:
    """Return the text of a reference, be it that text, a moment, a commit or a state.

    Raises:
        UsageError: it is nothing that refers to a state.
    """
    match argument:
        case str():
            return argument
        case datetime():
            return f"@{moment_text(argument)}"
        case Commit():
            return str(argument.id)
        case State():
            return argument.reference
    found = type(argument).__name__
    details = BadValue(what="reference", value=found, expected="str, datetime, Commit, Snapshot or Branch")
    raise UsageError(f"a value of type {found} is not a reference to a state", details=details)


def expected_commit(argument: str | Commit | None) -> str | None:
    """Return the commit that a branch must be at, if any; raises what :func:`reference_of` does."""
    return None if argument is None else reference_of(argument)
