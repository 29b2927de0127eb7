"""Branches side by side: where each stands, what it came from, and which versions must be kept for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from omnigraph.errors import BranchMissingError, ManifestCorruptError
from omnigraph.records import record
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.branches.open import OpenBranches
from omnigraph.txn.branches.refs import BranchRecord
from omnigraph.txn.branches.tags import Tags
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName, CommitId
from omnigraph.values.damage import DamagedRecord
from omnigraph.values.printable import Printable
from omnigraph.values.temporal import format_datetime


@record
class BranchStatus(Printable):
    """A live branch.

    ``ahead`` counts the commits of its own that its parent does not have, ``behind`` those of the parent since the
    fork that it does not have; what either merged from the other counts as had. Main has no parent.
    """

    name: BranchName
    head: Commit
    parent: BranchName | None
    forked_at: CommitId | None
    ahead: int
    behind: int
    created_at_ms: int | None
    created_by: str | None

    @property
    def last_actor(self) -> str | None:
        """Who made the newest commit."""
        return self.head.actor

    def lines(self) -> Iterator[str]:
        """Yield the branch, its head and how it stands to its parent, in one line."""
        origin = "" if self.parent is None else f" parent={self.parent} ahead={self.ahead} behind={self.behind}"
        actor = "" if self.last_actor is None else f" last_actor={self.last_actor}"
        yield f"{self.name} head={self.head.id}{origin}{actor}"

    def to_json(self) -> dict[str, Any]:
        """Return the branch as every result shows it."""
        return {
            "name": self.name,
            "head": self.head.to_json(),
            "parent": self.parent,
            "forked_at": self.forked_at,
            "ahead": self.ahead,
            "behind": self.behind,
            "last_actor": self.last_actor,
            "created_at": None if self.created_at_ms is None else format_datetime(self.created_at_ms),
            "created_by": self.created_by,
        }


@record
class ProtectedVersion:
    """A manifest version that something needs, and what."""

    line: BranchIncarnation
    version: int
    why: Literal["fork", "tag"]
    name: str


def live_branches(branches: OpenBranches) -> Iterator[tuple[BranchName, BranchRecord | None, GraphSnapshot]]:
    """Yield the live branches and their newest states, main first, then by name.

    One that is deleted between the listing and its turn is left out: it is not there.
    """
    for name in branches.refs.names():
        try:
            newest = branches.snapshot(name)
            ref = None if name.is_main else branches.ref(name)
        except BranchMissingError:
            continue
        yield name, ref, newest


def list_branches(branches: OpenBranches) -> tuple[BranchStatus | DamagedRecord, ...]:
    """Return the live branches, main first, then by name; one that is deleted while this runs is left out.

    One whose ref cannot be understood is shown as damaged.
    """
    entries: list[BranchStatus | DamagedRecord] = []
    for name in branches.refs.names():
        try:
            branches.snapshot(name)
            entries.append(branch_status(branches, name, None if name.is_main else branches.ref(name)))
        except BranchMissingError:
            continue
        except ManifestCorruptError as error:
            if name.is_main:
                raise
            entries.append(branches.refs.described(name, error))
    return tuple(entries)


def branch_status(branches: OpenBranches, name: BranchName, ref: BranchRecord | None) -> BranchStatus:
    """Return how a branch stands to the one it came from; ``ref`` is None for main."""
    line = _line(branches, name)
    head = line.at(len(line) - 1)
    if ref is None:
        return BranchStatus(
            name=name, head=head, parent=None, forked_at=None, ahead=0, behind=0, created_at_ms=None, created_by=None
        )
    own = _since(line, ref.forked_depth)
    others = _since(_line_of_parent(branches, ref), ref.forked_depth)
    return BranchStatus(
        name=name,
        head=head,
        parent=ref.parent.name,
        forked_at=ref.forked_at,
        ahead=_missing(own, others),
        behind=_missing(others, own),
        created_at_ms=ref.created_at_ms,
        created_by=ref.actor,
    )


def protected_versions(branches: OpenBranches, tags: Tags) -> tuple[ProtectedVersion, ...]:
    """Return every version that a fork or a tag needs; none of the branches is read.

    What is created while this runs may be missing: whoever removes versions must first record a floor, and creators
    look at the floor after they have written.
    """
    found = []
    for name in branches.refs.names():
        ref = None if name.is_main else branches.refs.find(name)
        if ref is not None and not branches.refs.is_orphan(ref):
            found.append(ProtectedVersion(line=ref.parent, version=ref.forked_version, why="fork", name=name))
    found += [
        ProtectedVersion(line=tag.line, version=tag.manifest_version, why="tag", name=tag.name) for tag in tags.list()
    ]
    return tuple(found)


def _line(branches: OpenBranches, name: BranchName) -> CommitLine:
    return branches.commit_line(branches.snapshot(name).manifest)


def _line_of_parent(branches: OpenBranches, ref: BranchRecord) -> CommitLine:
    try:
        return _line(branches, ref.parent.name)
    except ManifestCorruptError:
        # What is known of the parent's line is in the ref of the child, too.
        return branches.commit_line(branches.services(ref.parent).load())


def _since(line: CommitLine, depth: int) -> list[Commit]:
    """The commits after the first ``depth``, newest first."""
    return [line.at(position) for position in range(len(line) - 1, depth - 1, -1)]


def _missing(commits: list[Commit], others: list[Commit]) -> int:
    """How many of ``commits`` came after the newest one that ``others`` merged."""
    merged = {commit.merged_parent for commit in others}
    return next((number for number, commit in enumerate(commits) if commit.id in merged), len(commits))
