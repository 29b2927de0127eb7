"""``State``: what can be asked of a state of a graph, be it the newest of a branch or an earlier one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.engine.export import ExportFormat, ExportResult, ExportSettings
from omnigraph.engine.export.options import Progress
from omnigraph.engine.export.stream import ByteSink
from omnigraph.engine.query.explain import Explanation
from omnigraph.engine.query.limits import QueryOptions
from omnigraph.engine.results import Result
from omnigraph.engine.results.encodings import host_values
from omnigraph.engine.results.network import MAX_ENTITIES, Network, NetworkEdge, NodeKey, check_size
from omnigraph.engine.results.table import html_problem, html_rows
from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, ForkedProcessError, OmnigraphError, UsageError
from omnigraph.graph.diff import Diff
from omnigraph.graph.schema import Schema
from omnigraph.graph.sources import query_text
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.diff.compare import diff_between
from omnigraph.history.feed.blame import EntityHistory, blame
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.runtime import Calls, Counters, counted
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.graph_store import OpenMode
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import Snapshot
from omnigraph.txn.snapshot import Snapshot as PinnedState
from omnigraph.values import BranchName, check_text, check_whole


def network_of_state(pinned: Snapshot, catalog: Catalog, limit: int) -> Network:
    """Return every node and edge of a state, types by name.

    Raises:
        ViewTooLargeError: there are more than ``limit`` of them; no row was read.
    """
    check_whole("limit", limit)
    check_size("entities", sum(entry.row_count for entry in pinned.state.tables.values()), limit)
    nodes: dict[NodeKey, dict[str, Any]] = {}
    for owner in catalog.nodes.values():
        nodes.update({(owner.name, row.pop(KEY)): row for row in _rows(pinned, owner)})
    edges = [
        NetworkEdge(
            type_name=owner.name,
            key=row.pop(KEY),
            source=(owner.from_type, row.pop("src")),
            target=(owner.to_type, row.pop("dst")),
            properties=row,
        )
        for owner in catalog.edges.values()
        for row in _rows(pinned, owner)
    ]
    return Network(nodes=nodes, edges=tuple(edges))


def _rows(pinned: Snapshot, owner: NodeType | EdgeType) -> Iterator[dict[str, Any]]:
    counters = Counters()
    table = pinned.table(owner.table_key, counters)
    names = [name for name in table.schema.names if name not in table.blobs]
    for batch in table.read(names, counters=counters).sort_by(KEY).to_batches():
        columns = [host_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


class Handle:
    """An open session. It stays with the process that opened it."""

    def __init__(self, session: GraphSession, mode: OpenMode) -> None:
        self.uri = session.store.storage.root
        self.mode = mode
        self._session = session
        self._reader = ChangeReader(session.store)
        self._process_id = os.getpid()

    @property
    def is_foreign(self) -> bool:
        """Whether this is a process that was forked off after the graph was opened."""
        return os.getpid() != self._process_id

    @property
    def session(self) -> GraphSession:
        """The session.

        Raises:
            ForkedProcessError: it was opened before this process was forked off.
        """
        # Looked at before any lock is taken: one that another thread held at the fork is never released here.
        if self.is_foreign:
            raise ForkedProcessError("this graph was opened before the process was forked")
        return self._session

    @property
    def reader(self) -> ChangeReader:
        """What reads changes; pages of one large commit share its work.

        Raises:
            ForkedProcessError: it was opened before this process was forked off.
        """
        if self.is_foreign:
            raise ForkedProcessError("this graph was opened before the process was forked")
        return self._reader

    def close(self) -> None:
        """Let go of everything; in a forked process there is nothing to let go of."""
        if not self.is_foreign:
            self._session.close()

    def __reduce__(self) -> NoReturn:
        details = BadValue(what="graph", value=self.uri, expected="an address, which can be sent")
        raise UsageError(
            f"an open graph cannot be sent or copied uri={self.uri}", details=details, hint="open it again over there"
        )


class State:
    """A state: ``at`` refers to it, seen from ``branch``; the newest of the branch when None."""

    def __init__(self, handle: Handle, branch: str, at: str | None = None) -> None:
        self._handle = handle
        self._branch = branch
        self._at = at

    @property
    def reference(self) -> str:
        """What names this state where a reference is asked for: a branch, or a commit."""
        return self._branch if self._at is None else self._at

    @property
    def schema(self) -> Schema:
        """The schema that this state follows."""
        pinned = self._pinned()
        return Schema(source=pinned.state.schema.source, catalog=self._handle.session.catalog_at(pinned))

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
            text: a whole ``.gq`` source, or a :class:`~pathlib.Path` to one.
            params: values by parameter name.
            name: the declaration to run; None if the source holds exactly one.
            options: how to run it, and what it may cost.

        Raises:
            QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a read.
            QueryLaneError: it is a mutation.
            QueryParameterError, QueryRuntimeError: a parameter is missing or does not fit.
            QueryMemoryError, QueryTimeoutError, QueryRowLimitError, QueryCancelledError: it met a limit.
            FileMissingError, FileAccessError: the file is not there, or cannot be read.
        """
        given = query_text(text)
        return self._handle.session.query(
            given.text,
            params,
            name,
            branch=self._branch,
            at=self._at,
            options=options,
            source_name=given.name,
        )

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
        given = query_text(text)
        return self._handle.session.explain(
            given.text,
            params,
            name,
            run=run,
            branch=self._branch,
            at=self._at,
            options=options,
            source_name=given.name,
        )

    def export(
        self,
        to: str | Path,
        format: ExportFormat = "jsonl",  # noqa: A002 - the word that every reader and writer of files uses
        *,
        types: Sequence[str] | None = None,
        progress: Progress | None = None,
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
        return self._handle.session.export(
            to, format, branch=self._branch, at=self._at, types=types, progress=progress, settings=settings
        )

    def export_stream(
        self, sink: ByteSink, *, types: Sequence[str] | None = None, progress: Progress | None = None
    ) -> ExportResult:
        """Write all rows as JSONL to an open binary file: edges first, types by name, rows by id.

        Raises:
            ExportTypeError: the schema has no such type.
        """
        return self._handle.session.export_stream(
            sink, branch=self._branch, at=self._at, types=types, progress=progress
        )

    @counted
    def diff(
        self,
        before: str | Commit | State,
        after: str | Commit | State | None = None,
        *,
        kinds: Iterable[str] = (),
        types: Iterable[str] = (),
        ops: Iterable[str] = (),
        ids: Iterable[str] = (),
    ) -> Diff:
        """Return what is different from ``before`` in ``after``, which is this state unless given.

        Args:
            before: a branch, ``main~3``, a commit, ``tag:v1``, ``@2026-01-31``, or an object that is one of these.
            after: the same.
            kinds: only ``node`` or ``edge``.
            types: only types of these names.
            ops: only ``insert``, ``update`` or ``delete``.
            ids: only entities of these ids.

        Raises:
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
            UsageError: a kind or an operation is none.
        """
        later = self.reference if after is None else reference_of(after)
        wanted = ChangeFilter.of(kinds=kinds, type_names=types, ops=ops, ids=ids)
        session = self._handle.session
        found = diff_between(session.store, reference_of(before), later, wanted, branch=self._branch)
        return Diff(found, session.catalog_at)

    @counted
    def blame(self, type_name: str, entity_id: str, *, limit: int = 20) -> EntityHistory:
        """Return which commits changed an entity, newest first.

        Args:
            type_name: ``Person``, ``node:Person`` or ``edge:Knows``.
            entity_id: its id.
            limit: how many events at most.

        Raises:
            TypeMissingError: there is no such type.
            HistoryGoneError: a state on the way was reclaimed.
        """
        check_text("type", type_name)
        check_text("entity id", entity_id)
        is_edge = ":" not in type_name and type_name in self.schema.edges
        key = type_name if ":" in type_name else f"{'edge' if is_edge else 'node'}:{type_name}"
        return blame(self._handle.session.store, key, entity_id, branch=self._branch, at=self._at, limit=limit)

    @counted
    def to_networkx(self, *, limit: int = MAX_ENTITIES) -> Any:
        """Return every node and edge of a small graph as a ``networkx.MultiDiGraph``.

        Nodes are ``(type, id)`` and keys of edges ``(type, id)``; attributes are the properties, without blobs.

        Raises:
            ViewTooLargeError: there are more than ``limit`` nodes and edges; none was read.
            LibraryMissingError: networkx is not installed.
        """
        pinned = self._pinned()
        return network_of_state(pinned, self._handle.session.catalog_at(pinned), limit).to_networkx()

    def _repr_html_(self) -> str:
        try:
            pinned = self._pinned().state
        except OmnigraphError as problem:
            # A closed graph at the end of a cell is no reason for a traceback.
            return html_problem(self, problem)
        caption = f"{self._handle.uri}, {self.reference} at commit {pinned.head.commit}"
        keys = [(key.partition(":"), entry.row_count) for key, entry in pinned.tables.items()]
        return html_rows(caption, ("kind", "type", "rows"), ((kind, name, str(n)) for (kind, _, name), n in keys))

    @property
    def _calls(self) -> Calls:
        return self._handle.session.store.stores.calls

    def _pinned(self) -> PinnedState:
        session = self._handle.session
        if self._at is None:
            return session.snapshot(self._branch)
        return session.store.past.resolve_ref(self._at, BranchName.parse(self._branch), Counters()).snapshot


def reference_of(given: object) -> str:
    """Return the text of a reference, be it that text, a commit or a state.

    Raises:
        UsageError: it is nothing that refers to a state.
    """
    match given:
        case str():
            return given
        case Commit():
            return str(given.id)
        case State():
            return given.reference
    found = type(given).__name__
    details = BadValue(what="reference", value=found, expected="str, Commit, Snapshot or Branch")
    raise UsageError(f"this refers to no state: type={found}", details=details)


def expected_commit(given: str | Commit | None) -> str | None:
    """Return the commit that a branch must be at, if any; raises what :func:`reference_of` does."""
    return None if given is None else reference_of(given)
