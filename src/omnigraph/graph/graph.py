"""``Graph``: an open graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from omnigraph.engine.embedding import EmbeddingProvider, EmbeddingSettings, check_embedding
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import CleanupResult
from omnigraph.engine.session import GraphSession, init_graph
from omnigraph.graph.branch import Branch, BranchVerbs
from omnigraph.graph.sources import schema_text
from omnigraph.graph.state import Handle, State, reference_of
from omnigraph.store.location import Storage
from omnigraph.txn.branches.status import BranchStatus
from omnigraph.txn.branches.tags import Tag
from omnigraph.txn.graph_store import OpenMode
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName, check_choice, check_flag, check_instance


class Graph(BranchVerbs):
    """An open graph: its branch ``main``, and the way to everything else. Threads may share it.

    :func:`omnigraph.init` and :func:`omnigraph.open` make one. Close it, or use it in a ``with`` block.
    """

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, MAIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Graph {self._handle.uri!r}, {self._handle.mode}>"

    @property
    def uri(self) -> str:
        """Where it lives."""
        return self._handle.uri

    @property
    def mode(self) -> OpenMode:
        """Whether it may be written to."""
        return self._handle.mode

    @property
    def session(self) -> GraphSession:
        """What runs everything, for callers that need more than this object offers.

        Raises:
            ForkedProcessError: it was opened before this process was forked off.
        """
        return self._handle.session

    def close(self) -> None:
        """Finish background work and let go of everything; harmless when closed already."""
        self._handle.close()

    def branch(self, name: str) -> Branch:
        """Return a branch that exists.

        Raises:
            BranchMissingError: there is none of that name.
        """
        self._handle.session.snapshot(name)
        return Branch(self._handle, str(BranchName.parse(name)))

    def branches(self) -> tuple[BranchStatus, ...]:
        """Return the live branches and how each stands to the one it came from, main first, then by name."""
        return self._handle.session.branches()

    def create_branch(self, name: str, at: str | Commit | State | None = None, *, actor: str | None = None) -> Branch:
        """Create a branch at the newest state of main, or at what ``at`` names; nothing is copied.

        Raises:
            BranchExistsError: the name, or one that overlaps with it, is taken.
            BranchMissingError, TagMissingError, CommitMissingError, HistoryGoneError: there is no such state.
            BranchClosingError: the branch it starts from is about to be deleted.
        """
        state = None if at is None else reference_of(at)
        made = self._handle.session.create_branch(name, at=state, actor=actor)
        return Branch(self._handle, str(made.name))

    def delete_branch(self, name: str, *, actor: str | None = None) -> None:
        """Delete a branch and its own commits for good.

        Raises:
            UsageError: it is main.
            BranchMissingError: there is no such branch.
            BranchInUseError: a branch or a tag depends on it.
        """
        self._handle.session.delete_branch(name, actor=actor)

    def tags(self) -> tuple[Tag, ...]:
        """Return every tag, by name."""
        return self._handle.session.tags()

    def delete_tag(self, name: str) -> Tag:
        """Remove a tag and return it.

        Raises:
            TagMissingError: there is none of that name.
        """
        return self._handle.session.delete_tag(name)

    def cleanup(
        self, *, keep: int | None = None, older_than_s: float | None = None, confirm: bool = False
    ) -> CleanupResult:
        """Give back the storage of old states, on every branch; without ``confirm`` only say what would go.

        Args:
            keep: how many of the newest states of each branch stay.
            older_than_s: how long a state stays after it was current.
            confirm: do it; states that go can never be read again.

        Raises:
            UsageError: neither ``keep`` nor ``older_than_s`` is given.
            TableDriftError: a table was changed by something else, and has to be repaired first.
            ClaimBusyError: writers kept a branch busy for too long; nothing was removed.
            ReadOnlyError: the graph is open for reading only.
        """
        return self._handle.session.cleanup(keep=keep, older_than_s=older_than_s, confirm=confirm)


def init(
    uri: str | Path,
    schema: str | bytes | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    settings: TxnSettings | None = None,
    group_commit: bool = False,
    embedding: EmbeddingSettings | EmbeddingProvider | None = None,
    maintenance: MaintenanceSettings | None = None,
) -> Graph:
    """Create a graph with an empty table per type of a schema, and open it.

    Args:
        uri: where it will live: a path, ``file://`` or ``s3://bucket/prefix``.
        schema: the text, or the path of a ``.pg`` file.
        storage_options: how to reach the storage; kept in memory and never shown.
        actor: who asks for it.
        settings: how durable writes are and how long they wait for others.
        group_commit: publish writes of several threads together.
        embedding: what embeds texts; the environment tells when None.
        maintenance: how much is tidied up in the background; the environment tells when None.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        FileMissingError, FileAccessError: the file of the schema is not there, or cannot be read.
        GraphExistsError: there is a graph already.
        ValueFormatError: a graph cannot live there.
    """
    _check_settings(settings, maintenance, embedding, group_commit=group_commit)
    given = schema_text(schema)
    storage = Storage.open(uri, storage_options)
    init_graph(storage, given.text, actor=actor, settings=settings, source_name=given.name)
    return open(
        uri,
        storage_options=storage_options,
        settings=settings,
        group_commit=group_commit,
        embedding=embedding,
        maintenance=maintenance,
    )


def open(  # noqa: A001 - what every library of files calls it
    uri: str | Path,
    *,
    mode: OpenMode = "read_write",
    storage_options: Mapping[str, str] | None = None,
    settings: TxnSettings | None = None,
    group_commit: bool = False,
    embedding: EmbeddingSettings | EmbeddingProvider | None = None,
    maintenance: MaintenanceSettings | None = None,
) -> Graph:
    """Open a graph. Opening for writing first ends the publishes of writers that are gone.

    Args:
        uri: where it lives: a path, ``file://`` or ``s3://bucket/prefix``.
        mode: ``read_write``, or ``read_only``, which refuses every write.
        storage_options: how to reach the storage; kept in memory and never shown.
        settings: how durable writes are and how long they wait for others.
        group_commit: publish writes of several threads together.
        embedding: what embeds texts; the environment tells when None.
        maintenance: how much is tidied up in the background; the environment tells when None.

    Raises:
        GraphMissingError: there is no graph.
        FormatUnsupportedError: its storage format is outside the range of this version.
        ForkedProcessError: this process was forked from one that had a graph open.
        UsageError: there is no such mode.
        ValueFormatError: a graph cannot live there.
    """
    check_choice("mode", mode, get_args(OpenMode))
    _check_settings(settings, maintenance, embedding, group_commit=group_commit)
    session = GraphSession.open(
        Storage.open(uri, storage_options),
        mode=mode,
        settings=settings,
        group_commit=group_commit,
        embedding=embedding,
        maintenance=maintenance,
    )
    return Graph(Handle(session, mode))


def _check_settings(
    settings: TxnSettings | None, maintenance: MaintenanceSettings | None, embedding: object, *, group_commit: bool
) -> None:
    check_instance("settings", settings, TxnSettings)
    check_instance("maintenance", maintenance, MaintenanceSettings)
    check_embedding(embedding)
    check_flag("group_commit", group_commit)
