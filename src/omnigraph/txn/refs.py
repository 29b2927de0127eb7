"""Earlier states: finding commits, resolving references, and reading the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, assert_never

from omnigraph.errors import (
    BadValue,
    BranchMissingError,
    CommitMissingError,
    GoneState,
    HistoryGoneError,
    ManifestCorruptError,
    MissingThing,
    StorageCorruptError,
    TableMissingError,
    ValueFormatError,
    VersionMissingError,
)
from omnigraph.records import record
from omnigraph.runtime import check_call
from omnigraph.txn.branches.incarnation import MAIN_INCARNATION, BranchIncarnation
from omnigraph.txn.branches.open import OpenBranches
from omnigraph.txn.branches.tags import Tag, Tags
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.merged import MergedCommit, MergeRecords, is_merge
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.manifest.shared import SharedVersion
from omnigraph.txn.snapshot import GraphSnapshot
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
    Ulid,
    is_ulid,
    parse_ref,
)
from omnigraph.values.patterns import late_pattern
from omnigraph.values.refs import seen_from

# How many commits one page looks at before it gives its caller a word, when few of them are wanted.
_MOST_LOOKED_AT = 4096
_POSITION = late_pattern(r"[0-9]{1,18}")
_FULL_POSITION = late_pattern(r"([0-9]{1,18})\.([0-9]{1,18})")


@record
class LogFilter:
    """Which commits are wanted; None wants all.

    Args:
        actor: who asked for them.
        operation: what they were, such as ``mutate`` or ``branch_merge``.
        type_name: ``Person`` or ``node:Person``, a type they changed as it was called then.
        since_ms: published at this moment or later.
        until_ms: published at this moment or earlier.
    """

    actor: str | None = None
    operation: str | None = None
    type_name: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def wants(self, commit: Commit) -> bool:
        """Whether a commit is wanted; time is decided by where to begin and where to stop."""
        return (
            self.actor in {None, commit.actor}
            and self.operation in {None, commit.operation}
            and (self.type_name is None or any(self._names(key) for key in commit.touched))
        )

    def _names(self, table_key: str) -> bool:
        return self.type_name in {table_key, table_key.partition(":")[2]}


@record
class LogPage:
    """Commits, newest first. ``following`` gets the next page; None means that this was the last.

    A page may hold fewer commits than were asked for, even none, when a filter passes over many.
    """

    commits: tuple[Commit, ...]
    following: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the page as every result shows it."""
        return {"commits": [commit.to_json() for commit in self.commits], "next": self.following}


def read_log(
    line: CommitLine, wanted: LogFilter, limit: int, after: str | None, merges: MergeRecords | None = None
) -> LogPage:
    """Return one page.

    Args:
        line: the history of a branch.
        wanted: which commits.
        limit: how many at most.
        after: the ``following`` of the page before, or the id of a commit to go on behind.
        merges: what merges brought; commits of merged branches are then listed behind the merge that brought them, so
            that every commit comes before its parents.

    Raises:
        ValueFormatError: ``limit`` is not positive, or ``after`` is not a place in this history.
    """
    given: object = limit
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        details = BadValue(what="limit", value=str(limit), expected="a positive number")
        raise ValueFormatError(f"invalid limit {limit}", details=details)
    if merges is not None:
        return _read_full(line, merges, wanted, limit, after)
    before = len(line) if after is None else _position(line, after)
    if wanted.until_ms is not None:
        newest = line.newest_until(wanted.until_ms)
        before = min(before, 0 if newest is None else newest + 1)
    chosen: list[Commit] = []
    for looked_at, (position, commit) in enumerate(line.back(before), start=1):
        check_call()
        if wanted.since_ms is not None and commit.published_at_ms < wanted.since_ms:
            return LogPage(commits=tuple(chosen), following=None)
        if wanted.wants(commit):
            chosen.append(commit)
        if position and (len(chosen) == limit or looked_at >= _MOST_LOOKED_AT):
            return LogPage(commits=tuple(chosen), following=f"{commit.id}.{position}")
    return LogPage(commits=tuple(chosen), following=None)


def _position(line: CommitLine, after: str) -> int:
    """Return where a page ended. The id proves that a position was counted along this very history."""
    text, _, number = after.strip().partition(".")
    if is_ulid(text):
        commit_id = CommitId(Ulid(text))
        if not number:
            found = line.position_of(commit_id)
            if found is not None:
                return found
        elif _POSITION.fullmatch(number) and int(number) < len(line) and line.at(int(number)).id == commit_id:
            return int(number)
    raise _no_position(after)


def _no_position(after: str) -> ValueFormatError:
    details = BadValue(what="log position", value=after[:64], expected="a position from an earlier page of this branch")
    return ValueFormatError(f"{after[:64]!r} is not in the history of this branch", details=details)


def _read_full(line: CommitLine, merges: MergeRecords, wanted: LogFilter, limit: int, after: str | None) -> LogPage:
    """Return one page of a history with the commits that its merges brought.

    A place is the position of a commit of the line, and how many merged commits behind it have been passed.
    """
    found = _iter_full(line, merges) if after is None else _full_after(line, merges, after)
    chosen: list[Commit] = []
    for looked_at, (position, passed, commit) in enumerate(found, start=1):
        check_call()
        if not passed and wanted.since_ms is not None and commit.published_at_ms < wanted.since_ms:
            break
        is_timely = (wanted.since_ms is None or commit.published_at_ms >= wanted.since_ms) and (
            wanted.until_ms is None or commit.published_at_ms <= wanted.until_ms
        )
        if is_timely and wanted.wants(commit):
            chosen.append(commit)
        if position and (len(chosen) == limit or looked_at >= _MOST_LOOKED_AT):
            return LogPage(commits=tuple(chosen), following=f"{commit.id}.{position}.{passed}")
    return LogPage(commits=tuple(chosen), following=None)


def _full_after(line: CommitLine, merges: MergeRecords, after: str) -> Iterator[tuple[int, int, Commit]]:
    """Yield what follows a place, which a page ended at or the id of a commit names."""
    text, _, place = after.strip().partition(".")
    counted = _FULL_POSITION.fullmatch(place)
    if not is_ulid(text) or (place and counted is None):
        raise _no_position(after)
    commit_id = CommitId(Ulid(text))
    position = int(counted[1]) if counted is not None else line.position_of(commit_id)
    if position is not None and position >= len(line):
        raise _no_position(after)
    passed = int(counted[2]) if counted is not None else 0
    found = _iter_full(line, merges, None if position is None else position + 1)
    for at, inside, commit in found:
        if commit.id == commit_id and (position is None or (at, inside) == (position, passed)):
            return found
        if position is not None and (at, inside) == (position, passed):
            break
    raise _no_position(after)


def _iter_full(line: CommitLine, merges: MergeRecords, before: int | None = None) -> Iterator[tuple[int, int, Commit]]:
    for position, commit in line.back(before):
        yield position, 0, commit
        if is_merge(commit):
            for passed, one in enumerate(merges.brought_by(commit), start=1):
                yield position, passed, one.commit


@record
class ResolvedState:
    """What a reference means at this moment.

    ``line`` is the branch that holds the state, ``depth`` the number of commits that lead to it. ``is_ended``: that
    branch was deleted, and the state is kept for the merges that brought it elsewhere.
    """

    ref: Ref
    commit: Commit
    snapshot: GraphSnapshot
    line: BranchIncarnation
    depth: int
    is_ended: bool = False

    def seen_from(self, branch: str) -> str:
        """Return the branch that the reference names, or else the one that it was asked from."""
        return seen_from(self.ref, branch)


class RefResolver:
    """The history of an open graph."""

    def __init__(self, branches: OpenBranches, tags: Tags, merges: MergeRecords) -> None:
        self._branches = branches
        self._tags = tags
        self.merges = merges

    def log(
        self, branch: BranchName, wanted: LogFilter, limit: int, after: str | None, *, is_full: bool = False
    ) -> LogPage:
        """Return commits of a branch's history, newest first; ``is_full`` with those that merges brought."""
        line = self.line_of(self._branches.snapshot(branch))
        return read_log(line, wanted, limit, after, self.merges if is_full else None)

    def iter_commits(self, snapshot: GraphSnapshot) -> Iterator[Commit]:
        """Yield the history that a state ends, newest first, reading only as far as the caller goes."""
        return (commit for _, commit in self.line_of(snapshot).back())

    def iter_all_commits(self, snapshot: GraphSnapshot) -> Iterator[tuple[Commit, bool]]:
        """Yield the history that a state ends, newest first, and behind each merge what it brought, marked as such."""
        return ((commit, passed > 0) for _, passed, commit in _iter_full(self.line_of(snapshot), self.merges))

    def show(self, commit_id: CommitId, branch: BranchName) -> Commit:
        """Return a commit: looked for in the history of ``branch``, then of main, then of all others by name.

        What merges brought is looked at last: it matters for branches that were deleted.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
        """
        found = self._locate(commit_id, branch)
        return found.commit if isinstance(found, MergedCommit) else found

    def _locate(self, commit_id: CommitId, branch: BranchName) -> Commit | MergedCommit:
        """Return a commit, with the line that it landed on if only merges lead to it."""
        found = self._find(branch, commit_id)
        if found is not None:
            return found
        damage: ManifestCorruptError | None = None
        for name in self._branches.refs.names():
            try:
                found = None if name == branch else self._find(name, commit_id)
            except ManifestCorruptError as error:
                damage = error
            if found is not None:
                return found
        try:
            return self._find_merged(commit_id)
        except CommitMissingError:
            if damage is None:
                raise
            # It may be a commit of a branch whose ref cannot be understood.
            raise damage from None

    def _find_merged(self, commit_id: CommitId) -> MergedCommit:
        merged = self.merges.find(self._every_merge(), commit_id)
        if merged is None:
            raise CommitMissingError.of(str(commit_id))
        return merged

    def merged_version(self, commit_id: CommitId) -> SharedVersion:
        """Return the commits that were published together with one that only merges lead to, and that one.

        Raises:
            CommitMissingError: no merge brought such a commit.
        """
        merges = self._every_merge()
        wanted = self._find_merged(commit_id)
        place = wanted.line, wanted.commit.manifest_version
        # Each once, newest first.
        found = {
            one.commit.id: one.commit
            for one in self.merges.iter_all(merges)
            if (one.line, one.commit.manifest_version) == place
        }
        return SharedVersion(commits=tuple(reversed(found.values())))

    def _every_merge(self) -> list[Commit]:
        """Return the merges in the histories of all branches, each once; one that is deleted meanwhile has none."""
        found: dict[CommitId, Commit] = {}
        for name in self._branches.refs.names():
            with suppress(BranchMissingError, *(() if name.is_main else (ManifestCorruptError,))):
                for commit in self.iter_commits(self._branches.snapshot(name)):
                    if commit.id in found:
                        # From here on the histories are one, and it was read.
                        break
                    if is_merge(commit):
                        found[commit.id] = commit
        return list(found.values())

    def snapshot_at(self, branch: BranchName, commit_id: CommitId) -> GraphSnapshot:
        """Return the state that a commit made visible.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
            HistoryGoneError: that state was reclaimed.
        """
        newest = self._branches.snapshot(branch)
        if newest.state.head.commit == commit_id:
            return newest
        found = self._locate(commit_id, branch)
        return self.snapshot_of_merged(found) if isinstance(found, MergedCommit) else self.snapshot_of(found)

    def snapshot_of_merged(self, merged: MergedCommit) -> GraphSnapshot:
        """Open the state of a commit that a merge brought, whether or not its branch was deleted since.

        Raises:
            HistoryGoneError: that state was reclaimed.
        """
        commit, line = merged.commit, merged.line
        try:
            if line == MAIN_INCARNATION:
                return self.snapshot_of(commit)
            loaded = self._branches.load_ended(line, commit.manifest_version)
        except (BranchMissingError, StorageCorruptError, TableMissingError, VersionMissingError) as error:
            raise _gone(commit) from error
        return GraphSnapshot(loaded, self._branches.tables, is_past=True)

    def snapshot_of(self, commit: Commit) -> GraphSnapshot:
        """Open the version that a commit names; a later branch of the same name is not taken for its own.

        Raises:
            CommitMissingError: its branch is gone, or another one has its name, and no merge brought it elsewhere.
            HistoryGoneError: that state was reclaimed.
        """
        try:
            loaded = self._branches.load_version(commit.branch, commit.manifest_version)
        except BranchMissingError:
            return self.snapshot_of_merged(self._find_merged(commit.id))
        except (VersionMissingError, StorageCorruptError) as error:
            # Below the floor files may be missing whose version is still there.
            is_reclaimed = isinstance(error, VersionMissingError)
            if not is_reclaimed and commit.manifest_version >= self.floor_of(commit.branch):
                raise
            raise _gone(commit) from error
        # Commits that were published together share a version, of which only the last is the head.
        if commit.id != loaded.state.head.commit and loaded.state.recent_commit(commit.id) is None:
            return self.snapshot_of_merged(self._find_merged(commit.id))
        return GraphSnapshot(loaded, self._branches.tables, is_past=True)

    def resolve_ref(self, text: str, branch: BranchName) -> ResolvedState:
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
                newest = self._branches.snapshot(ref.branch)
                line = self.line_of(newest)
                return self._resolved(ref, line.at(len(line) - 1), newest, ref.branch)
            case AncestorRef():
                line = self.line_of(self._branches.snapshot(ref.branch))
                position: int | None = len(line) - 1 - ref.steps
            case TimeRef():
                line = self.line_of(self._branches.snapshot(ref.branch))
                position = line.newest_until(ref.at_ms)
            case CommitRef():
                found = self._locate(ref.commit, branch)
                if isinstance(found, MergedCommit):
                    snapshot = self.snapshot_of_merged(found)
                    depth = len(self.line_of(snapshot))
                    return ResolvedState(
                        ref=ref, commit=found.commit, snapshot=snapshot, line=found.line, depth=depth, is_ended=True
                    )
                return self._resolved(ref, found, self.snapshot_of(found), found.branch)
            case TagRef():
                return self._resolve_tag(ref, self._tags.get(ref.tag))
            case _:
                assert_never(ref)
        if position is None or position < 0:
            details = MissingThing(what="commit", name=str(ref))
            raise CommitMissingError(f"'{ref}' is before the start of branch '{ref.branch}'", details=details)
        commit = line.at(position)
        return self._resolved(ref, commit, self.snapshot_of(commit), commit.branch)

    def floor_of(self, branch: BranchName) -> int:
        """Return the oldest version of a branch that cleanup has left whole."""
        return self._branches.snapshot(branch).state.head.retention_floor

    def line_of(self, snapshot: GraphSnapshot) -> CommitLine:
        """Return the history that a state ends, by position."""
        return self._branches.commit_line(snapshot.manifest)

    def _resolve_tag(self, ref: TagRef, tag: Tag) -> ResolvedState:
        found = self._find(tag.line.name, tag.commit_id)
        if found is None:
            raise CommitMissingError.of(str(tag.commit_id))
        return self._resolved(ref, found, self.snapshot_of(found), tag.line.name)

    def _resolved(self, ref: Ref, commit: Commit, snapshot: GraphSnapshot, branch: BranchName) -> ResolvedState:
        line = self._branches.branch_writer(branch).services.line
        depth = len(self.line_of(snapshot))
        return ResolvedState(ref=ref, commit=commit, snapshot=snapshot, line=line, depth=depth)

    def _find(self, branch: BranchName, commit_id: CommitId) -> Commit | None:
        try:
            line = self.line_of(self._branches.snapshot(branch))
            position = line.position_of(commit_id)
            return None if position is None else line.at(position)
        except BranchMissingError:
            if branch == MAIN:
                raise
            # Deleted since it was listed, or while it was read: then its own commits are unknown.
            return None


def _gone(commit: Commit) -> HistoryGoneError:
    details = GoneState(commit_id=commit.id, branch=commit.branch)
    return HistoryGoneError(f"the state of commit '{commit.id}' was reclaimed", details=details)
