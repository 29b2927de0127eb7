"""What a cleanup must leave whole: the newest states of every branch, and whatever something still refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from typing import Literal

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
from omnigraph.txn.manifest.merged import is_merge
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName, CommitId, check_number, check_whole

_LONGEST_S = 1000 * 365 * 86400.0
Protection = Literal["fork", "tag", "merge base", "merged", "new branch"]
# What may be gone already: a cleanup that came before had no need to keep it.
_OPTIONAL: frozenset[Protection | None] = frozenset({None, "merge base", "new branch"})
Places = Mapping["CommitId | None", tuple[BranchName, int]]


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
            raise UsageError("a cleanup needs to know what to keep", details=details, hint="add --keep or --older-than")
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
class Made:
    """What cleanup has to know of a commit: the version that it made, when, and what it merged, if it did."""

    version: int
    published_at_ms: int
    merged: CommitId | None = None
    merge: Commit | None = None


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
            own = tuple(
                Made(
                    version=one.manifest_version,
                    published_at_ms=one.published_at_ms,
                    merged=one.merged_parent,
                    merge=one if is_merge(one) else None,
                )
                for one in _own_commits(store, name, ref, newest)
            )
        except BranchMissingError:
            continue
        found.append(LineHistory(line=MAIN_INCARNATION if ref is None else ref.line, ref=ref, newest=newest, own=own))
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
    spared: dict[str, dict[int, Protection]] = {history.line.name: {} for history in histories}
    places = _find_places(store, histories)
    for name, version in _merge_points(histories, places):
        spared[name][version] = "merge base"
    names = {history.line.lance_branch: history.line.name for history in histories}
    for start in starts:
        if start.branch in names:
            spared[names[start.branch]][start.version] = "new branch"
    for history in histories:
        if history.ref is not None:
            spared.setdefault(history.ref.parent.name, {})[history.ref.forked_version] = "fork"
            # A cleanup may have made a version since the commit, which has to stay readable by its own.
            if history.ref.forked_at in places:
                name, version = places[history.ref.forked_at]
                spared.setdefault(name, {})[version] = "fork"
    for tag in store.tags.list():
        spared.setdefault(tag.line.name, {})[tag.manifest_version] = "tag"
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
    return (*kept, *_decide_ended(store, kept, retention, now_ms))


def _decide_ended(
    store: GraphStore, kept: Sequence[KeptVersions], retention: Retention, now_ms: int
) -> Iterator[KeptVersions]:
    """Yield what stays of branches that were deleted after they were merged.

    Their states follow the same rule as if the branch were there, and go at the latest when no state of a merge is
    left that brought them.
    """
    live = {item.history.line for item in kept}
    merges = [
        made.merge for item in kept for made in item.history.own if made.merge is not None and item.keeps(made.version)
    ]
    reached: dict[BranchIncarnation, dict[int, Made]] = {}
    for one in store.merges.iter_all(merges):
        if one.line not in live:
            commit = one.commit
            made = Made(version=commit.manifest_version, published_at_ms=commit.published_at_ms)
            reached.setdefault(one.line, {})[made.version] = made
    for line, found in reached.items():
        own = tuple(found[version] for version in sorted(found, reverse=True))
        floor = retention.floor(own, now_ms) or 0
        versions = [made.version for made in own if made.version >= floor]
        try:
            loaded = store.open_branches.load_ended(line, versions[0])
        except (BranchMissingError, StorageCorruptError, TableMissingError, VersionMissingError):
            # An earlier cleanup took it.
            continue
        history = LineHistory(line=line, ref=None, newest=GraphSnapshot(loaded, store.tables), own=own)
        yield KeptVersions(
            history=history,
            floor=loaded.state.version + 1,
            spared=dict.fromkeys(versions, "merged"),
            is_ended=True,
        )


def _merge_points(histories: Sequence[LineHistory], places: Places) -> set[tuple[BranchName, int]]:
    """Return the states that a merge between two branches could start from: the last ones that both have in them."""
    by_name = {history.line.name: history for history in histories}
    merges = {
        history.line.name: [(made.version, places[made.merged]) for made in history.own if made.merged in places]
        for history in histories
    }
    reached = [_reach(history, by_name, merges) for history in histories]
    found = set()
    for one, other in combinations(reached, 2):
        found |= {(name, min(one[name], other[name])) for name in one.keys() & other.keys()}
    return {(name, version) for name, version in found if name in by_name}


def _own_commits(
    store: GraphStore, name: BranchName, ref: BranchRecord | None, newest: GraphSnapshot
) -> Iterator[Commit]:
    """Yield the commits that landed on a branch, newest first; what it inherited is the history of another one."""
    for commit in store.iter_commits(newest):
        if ref is not None and (commit.branch != name or commit.manifest_version <= ref.forked_version):
            return
        yield commit


def _find_places(store: GraphStore, histories: Sequence[LineHistory]) -> Places:
    """Return where commits that were merged, or that branches began at, have landed."""
    wanted = {made.merged for item in histories for made in item.own} | {
        item.ref.forked_at for item in histories if item.ref is not None
    }
    wanted.discard(None)
    found: dict[CommitId | None, tuple[BranchName, int]] = {}
    for item in histories if wanted else ():
        for commit in _own_commits(store, item.line.name, item.ref, item.newest):
            if commit.id in wanted:
                found[commit.id] = commit.branch, commit.manifest_version
    return found


def _reach(
    history: LineHistory,
    by_name: Mapping[BranchName, LineHistory],
    merges: Mapping[BranchName, Sequence[tuple[int, tuple[BranchName, int]]]],
) -> dict[BranchName, int]:
    """Return, per branch, the newest of its versions that a branch has in it, directly or through merges."""
    found: dict[BranchName, int] = {}
    waiting = [(history.line.name, history.newest.state.version)]
    while waiting:
        name, version = waiting.pop()
        if name not in by_name or found.get(name, -1) >= version:
            continue
        found[name] = version
        ref = by_name[name].ref
        if ref is not None:
            waiting.append((ref.parent.name, ref.forked_version))
        waiting += [source for at, source in merges[name] if at <= version]
    return found
