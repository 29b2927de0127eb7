"""``Graph``: an open graph."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from omnigraph.engine.maintenance.cleanup import CleanupResult
from omnigraph.engine.session import GraphSession
from omnigraph.graph.branch import Branch, BranchVerbs
from omnigraph.graph.handle import Handle
from omnigraph.graph.state import State, reference_of
from omnigraph.txn.branch_list import BranchStatus
from omnigraph.txn.graph_store import OpenMode
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.tags import Tag
from omnigraph.values import MAIN, BranchName


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
