"""What a cleanup must leave whole: the newest states of every branch, and whatever something still refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Literal

from omnigraph.engine.maintenance.bases import Made, MergeBases
from omnigraph.errors import (
    BadValue,
    BranchMissingError,
    StorageCorruptError,
    TableMissingError,
    UsageError,
    VersionMissingError,
)
from omnigraph.records import record
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.branches.incarnation import MAIN_INCARNATION, BranchIncarnation
from omnigraph.txn.branches.refs import BranchRecord
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.merged import MergedCommit
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName, CommitId, check_number, check_whole

_LONGEST_S = 1000 * 365 * 86400.0
Protection = Literal["fork", "tag", "merge base", "merged", "new branch"]
# What may be gone already: a cleanup that came before had no need to keep it.
_OPTIONAL: frozenset[Protection | None] = frozenset({None, "merge base", "new branch"})


@record
class Retention:
    """Which states of a branch stay: the newest ``keep``, and those that were current during the last ``older_than_s``.

    A state goes when neither keeps it. What is current always stays.

    Raises:
        UsageError: neither is given, or one of them is not a number, or negative.
    """

    keep: int | None = None
    older_than_s: float | None = None

    def __post_init__(self) -> None:
        if self.keep is None and self.older_than_s is None:
            details = BadValue(
                what="retention", value="", expected="the number of states to keep, or their maximum age"
            )
            raise UsageError(
                "a cleanup needs a retention: the number or the age of states to keep",
                details=details,
                hint="add --keep or --older-than",
            )
        check_whole("keep", self.keep, optional=True)
        check_number("older_than_s", self.older_than_s, most=_LONGEST_S, optional=True)

    def floor(self, made: Sequence[Made], now_ms: int) -> int | None:
        """Return the oldest version that stays of those that commits have made, newest first; None without any."""
        if not made:
            return None
        floor, count = made[0].version, 0
        since_ms = None if self.older_than_s is None else now_ms - int(self.older_than_s * 1000)
        is_within = since_ms is not None
        for one in made:
            # Commits that were published together share a version.
            count += one.version < floor or not count
            if count > (self.keep or 1) and not is_within:
                break
            floor = one.version
            # The newest of the older ones was what readers saw when the time began.
            is_within = is_within and since_ms is not None and one.published_at_ms > since_ms
        return floor


@record
class LineHistory:
    """A live branch: its newest state, and the commits that landed on the branch itself, newest first."""

    line: BranchIncarnation
    ref: BranchRecord | None
    newest: GraphSnapshot
    own: tuple[Made, ...] = field(repr=False)


@record
class KeptVersions:
    """What stays of one branch: everything from ``floor`` on, and older versions that something needs.

    ``is_ended``: the branch was deleted, and only what is spared stays of it.
    """

    history: LineHistory
    floor: int
    spared: Mapping[int, Protection]
    is_ended: bool = False

    def keeps(self, version: int) -> bool:
        """Whether a version of the branch's manifest stays."""
        return (version >= self.floor and not self.is_ended) or version in self.spared

    def is_optional(self, version: int) -> bool:
        """Whether a version may be gone: what merges or a branch in the making could need, below an earlier floor."""
        if self.is_ended:
            return True
        is_below = version < self.history.newest.state.head.retention_floor
        return is_below and self.spared.get(version) in _OPTIONAL


def read_histories(store: GraphStore) -> tuple[LineHistory, ...]:
    """Return every live branch, main first; one that is deleted meanwhile is left out."""
    found = []
    for name in store.branch_names():
        try:
            ref, newest = _read_branch(store, name)
            line = MAIN_INCARNATION if ref is None else ref.line
            own = tuple(Made.of(one, line) for one in _own_commits(store, name, ref, newest))
        except BranchMissingError:
            continue
        found.append(LineHistory(line=line, ref=ref, newest=newest, own=own))
    return tuple(found)


def _read_branch(store: GraphStore, name: BranchName) -> tuple[BranchRecord | None, GraphSnapshot]:
    """Return where a branch came from and its newest state, both of the same life of its name."""
    while True:
        branch_writer, newest = store.open_branches.current(name)
        ref = None if name.is_main else store.open_branches.refs.get(name)
        if ref is None or ref.line == branch_writer.services.line:
            return ref, newest
        # Deleted and made again since it was opened: what stands for it in memory is the branch that is gone.
        store.open_branches.forget(name, branch_writer)


def decide_kept(
    store: GraphStore,
    histories: Sequence[LineHistory],
    retention: Retention,
    now_ms: int,
    floors: Mapping[str, int] | None = None,
    starts: Iterable[TablePin] = (),
) -> tuple[KeptVersions, ...]:
    """Return what stays of every branch.

    ``floors`` are those that have been recorded already, ``starts`` the versions that branches in the making start at.
    """
    commits = {made.id: made for history in histories for made in history.own}
    spared = _referred_to(store, histories, commits, starts)
    kept = []
    for history in histories:
        head = history.newest.state
        floor = head.head.retention_floor
        if floors is None:
            floor = max(floor, retention.floor(history.own, now_ms) or 0)
        else:
            # A branch that came since has recorded nothing, and another cleanup may have recorded more.
            floor = max(floor, floors.get(history.line.name, 0))
        kept.append(KeptVersions(history=history, floor=min(floor, head.version), spared=spared[history.line.name]))
    live = {history.line for history in histories}
    ended: dict[BranchIncarnation, list[Made]] = {}
    for base in MergeBases(commits.values(), partial(_brought, store)).find(_starts(kept, commits)):
        if base.line in live:
            spared[base.line.name].setdefault(base.version, "merge base")
        else:
            ended.setdefault(base.line, []).append(base)
    return (*kept, *_decide_ended(store, kept, ended, retention, now_ms))


def _referred_to(
    store: GraphStore, histories: Sequence[LineHistory], commits: Mapping[CommitId, Made], starts: Iterable[TablePin]
) -> dict[str, dict[int, Protection]]:
    """Return the versions, by branch, that branches and tags begin at."""
    spared: dict[str, dict[int, Protection]] = {history.line.name: {} for history in histories}
    names = {history.line.lance_branch: history.line.name for history in histories}
    for start in starts:
        if start.branch in names:
            spared[names[start.branch]][start.version] = "new branch"
    for history in histories:
        if history.ref is not None:
            spared.setdefault(history.ref.parent.name, {})[history.ref.forked_version] = "fork"
            # A cleanup may have made a version since the commit, which has to stay readable by its own.
            made = commits.get(history.ref.forked_at)
            if made is not None:
                spared[made.line.name][made.version] = "fork"
    for tag in store.tags.list():
        spared.setdefault(tag.line.name, {})[tag.manifest_version] = "tag"
    return spared


def _starts(kept: Sequence[KeptVersions], commits: Mapping[CommitId, Made]) -> Iterator[CommitId]:
    """Yield the commits that branches are at, and those that a branch can be created from.

    Of the states of a branch between two merges the latest is enough: all that it has beyond an earlier one are commits
    of the branch itself, and another branch that has one of these has the earlier state.
    """
    for item in kept:
        yield item.history.newest.state.head.commit
        spared = sorted(item.spared)
        for made in item.history.own:
            # What is published between two commits, such as a floor, is a state of the older one.
            while spared and spared[-1] >= made.version:
                spared.pop()
                yield made.id
            parent = None if made.merge is None or made.parent is None else commits.get(made.parent)
            if parent is not None and item.keeps(made.version) and item.keeps(parent.version):
                yield parent.id


def _brought(store: GraphStore, merges: Sequence[Commit]) -> Iterator[MergedCommit]:
    for found in store.merges.read_many(merges).values():
        yield from found


def _decide_ended(
    store: GraphStore,
    kept: Sequence[KeptVersions],
    bases: Mapping[BranchIncarnation, Sequence[Made]],
    retention: Retention,
    now_ms: int,
) -> Iterator[KeptVersions]:
    """Yield what stays of branches that were deleted after they were merged.

    Their states follow the same rule as if the branch were there, and go at the latest when no state of a merge is
    left that brought them. ``bases`` are those that a merge can start from, which stay in any case.
    """
    live = {item.history.line for item in kept}
    merges = [
        made.merge for item in kept for made in item.history.own if made.merge is not None and item.keeps(made.version)
    ]
    reached: dict[BranchIncarnation, dict[int, Made]] = {line: {} for line in bases}
    for one in store.merges.iter_all(merges):
        if one.line not in live:
            made = Made.of(one.commit, one.line)
            reached.setdefault(one.line, {})[made.version] = made
    for line, found in reached.items():
        own = tuple(found[version] for version in sorted(found, reverse=True))
        floor = retention.floor(own, now_ms) or 0
        spared: dict[int, Protection] = {made.version: "merged" for made in own if made.version >= floor}
        firm: dict[int, Protection] = {made.version: "merge base" for made in bases.get(line, ())}
        # An earlier cleanup took the others, if it took the newest.
        loaded = _load_newest(store, line, [*sorted(spared, reverse=True)[:1], *sorted(firm, reverse=True)])
        if loaded is None:
            continue
        yield KeptVersions(
            history=LineHistory(line=line, ref=None, newest=GraphSnapshot(loaded, store.tables), own=own),
            floor=loaded.state.version + 1,
            spared=spared | firm,
            is_ended=True,
        )


def _load_newest(store: GraphStore, line: BranchIncarnation, versions: Iterable[int]) -> LoadedManifest | None:
    """Return the first of some versions of a line that was not reclaimed."""
    for version in versions:
        with suppress(BranchMissingError, StorageCorruptError, TableMissingError, VersionMissingError):
            return store.open_branches.load_ended(line, version)
    return None


def _own_commits(
    store: GraphStore, name: BranchName, ref: BranchRecord | None, newest: GraphSnapshot
) -> Iterator[Commit]:
    """Yield the commits that landed on a branch, newest first; what it inherited is the history of another one."""
    for commit in store.iter_commits(newest):
        if ref is not None and (commit.branch != name or commit.manifest_version <= ref.forked_version):
            return
        yield commit
