"""Earlier states: finding commits, resolving references, and opening what they name.

A reference is one of

==================  ====================================================================================
``<branch>``        the newest state of a branch
``<branch>~<n>``    ``n`` commits before it along first parents; ``~`` alone is one
``<branch>@<time>`` what a reader saw at that moment, by the clocks of the writers
``<commit id>``     the state that a commit made visible, on the branch that it landed on
``tag:<name>``      the state that a tag names
==================  ====================================================================================

Without a branch, ``~<n>`` and ``@<time>`` are about the branch that the caller works on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.errors import (
    BranchMissingError,
    CommitMissingError,
    GoneState,
    HistoryGoneError,
    MissingThing,
    StorageCorruptError,
    VersionMissingError,
)
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.txn.lines import BranchLine
from omnigraph.txn.log import LogFilter, LogPage, read_log
from omnigraph.txn.manifest.commits import CommitLine
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.open_branches import OpenBranches
from omnigraph.txn.snapshot import Snapshot
from omnigraph.txn.tags import Tag, Tags
from omnigraph.values import (
    MAIN,
    AncestorRef,
    BranchName,
    BranchRef,
    CommitId,
    CommitRef,
    Ref,
    TagRef,
    TimeRef,
    parse_ref,
)


@record
class ResolvedState:
    """What a reference means at this moment.

    ``line`` is the branch that holds the state, ``depth`` the number of commits that lead to it.
    """

    ref: Ref
    commit: Commit
    snapshot: Snapshot
    line: BranchLine
    depth: int


class Past:
    """The history of an open graph."""

    def __init__(self, branches: OpenBranches, tags: Tags) -> None:
        self._branches = branches
        self._tags = tags

    def log(self, branch: BranchName, wanted: LogFilter, limit: int, after: str | None, counters: Counters) -> LogPage:
        """Return commits of a branch's history, newest first."""
        return read_log(self.line_of(self._branches.snapshot(branch, counters), counters), wanted, limit, after)

    def iter_commits(self, snapshot: Snapshot, counters: Counters) -> Iterator[Commit]:
        """Yield the history that a state ends, newest first, reading only as far as the caller goes."""
        return (commit for _, commit in self.line_of(snapshot, counters).back())

    def show(self, commit_id: CommitId, branch: BranchName, counters: Counters) -> Commit:
        """Return a commit: looked for in the history of ``branch``, then of main, then of all others by name.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
        """
        found = self._find(branch, commit_id, counters)
        if found is not None:
            return found
        for name in self._branches.refs.names(counters):
            found = None if name == branch else self._find(name, commit_id, counters)
            if found is not None:
                return found
        raise _no_commit(commit_id)

    def snapshot_at(self, branch: BranchName, commit_id: CommitId, counters: Counters) -> Snapshot:
        """Return the state that a commit made visible.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
            HistoryGoneError: that state was reclaimed.
        """
        newest = self._branches.snapshot(branch, counters)
        if newest.state.head.commit == commit_id:
            return newest
        return self.snapshot_of(self.show(commit_id, branch, counters), counters)

    def snapshot_of(self, commit: Commit, counters: Counters) -> Snapshot:
        """Open the version that a commit names; a later branch of the same name is not taken for its own.

        Raises:
            CommitMissingError: its branch is gone, or another one has its name.
            HistoryGoneError: that state was reclaimed.
        """
        try:
            loaded = self._branches.load_version(commit.branch, commit.manifest_version, counters)
        except BranchMissingError:
            raise _no_commit(commit.id) from None
        except (VersionMissingError, StorageCorruptError) as error:
            # Below the floor files may be missing whose version is still there.
            is_reclaimed = isinstance(error, VersionMissingError)
            if not is_reclaimed and commit.manifest_version >= self.floor_of(commit.branch, counters):
                raise
            details = GoneState(commit_id=commit.id, branch=commit.branch)
            raise HistoryGoneError(f"the state of commit '{commit.id}' was reclaimed", details=details) from error
        # Commits that were published together share a version, of which only the last is the head.
        if commit.id != loaded.state.head.commit and loaded.state.recent_commit(commit.id) is None:
            raise _no_commit(commit.id)
        return Snapshot(loaded, self._branches.tables, is_past=True)

    def resolve_ref(self, text: str, branch: BranchName, counters: Counters) -> ResolvedState:
        """Return the state that a reference names; ``branch`` is the one that a reference without a branch is about.

        Raises:
            ValueFormatError: the text is no reference.
            BranchMissingError, TagMissingError, CommitMissingError: there is no such thing.
            HistoryGoneError: the state was reclaimed.
        """
        trimmed = text.strip()
        ref = parse_ref(f"{branch}{trimmed}" if trimmed[:1] in {"~", "@"} else trimmed)
        match ref:
            case BranchRef():
                newest = self._branches.snapshot(ref.branch, counters)
                line = self.line_of(newest, counters)
                return self._resolved(ref, line.at(len(line) - 1), newest, ref.branch, counters)
            case AncestorRef():
                line = self.line_of(self._branches.snapshot(ref.branch, counters), counters)
                position: int | None = len(line) - 1 - ref.steps
            case TimeRef():
                line = self.line_of(self._branches.snapshot(ref.branch, counters), counters)
                position = line.newest_until(ref.at_ms)
            case CommitRef():
                commit = self.show(ref.commit, branch, counters)
                return self._resolved(ref, commit, self.snapshot_of(commit, counters), commit.branch, counters)
            case TagRef():
                return self._resolve_tag(ref, self._tags.get(ref.tag, counters), counters)
            case _:
                assert_never(ref)
        if position is None or position < 0:
            details = MissingThing(what="commit", name=str(ref))
            raise CommitMissingError(f"the history of branch '{ref.branch}' begins later ref={ref}", details=details)
        commit = line.at(position)
        return self._resolved(ref, commit, self.snapshot_of(commit, counters), commit.branch, counters)

    def floor_of(self, branch: BranchName, counters: Counters) -> int:
        """Return the oldest version of a branch that cleanup has left whole."""
        return self._branches.snapshot(branch, counters).state.head.floor

    def line_of(self, snapshot: Snapshot, counters: Counters) -> CommitLine:
        """Return the history that a state ends, by position."""
        return self._branches.commit_line(snapshot.manifest, counters)

    def _resolve_tag(self, ref: TagRef, tag: Tag, counters: Counters) -> ResolvedState:
        found = self._find(tag.line.name, tag.commit_id, counters)
        if found is None:
            raise _no_commit(tag.commit_id)
        return self._resolved(ref, found, self.snapshot_of(found, counters), tag.line.name, counters)

    def _resolved(
        self, ref: Ref, commit: Commit, snapshot: Snapshot, branch: BranchName, counters: Counters
    ) -> ResolvedState:
        line = self._branches.authority(branch, counters).services.line
        depth = len(self.line_of(snapshot, counters))
        return ResolvedState(ref=ref, commit=commit, snapshot=snapshot, line=line, depth=depth)

    def _find(self, branch: BranchName, commit_id: CommitId, counters: Counters) -> Commit | None:
        try:
            line = self.line_of(self._branches.snapshot(branch, counters), counters)
            position = line.position_of(commit_id)
            return None if position is None else line.at(position)
        except BranchMissingError:
            if branch == MAIN:
                raise
            # Deleted since it was listed, or while it was read: then its own commits are unknown.
            return None


def _no_commit(commit_id: CommitId) -> CommitMissingError:
    details = MissingThing(what="commit", name=str(commit_id))
    return CommitMissingError(f"commit '{commit_id}' not found", details=details)
