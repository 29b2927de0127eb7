"""The crash matrix of merges and reverts: every kind at every point that it passes.

``make crash`` runs all of it. The plain run takes a part that still passes every kind and every point.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.crash.child import AFTER_TABLE, BEFORE_TABLE
from tests.crash.matrix import IS_FULL, RECOVERER_POINTS, WRITER_POINTS, BrokenRecovery, Crash
from tests.crash.merge_kinds import MERGE_KINDS, MergeKind, ProposalKind
from tests.crash.session_matrix import AFTER_STAGED

AFTER_CAPTURE = "history.merge.after_capture"
AFTER_RECORD = "history.merge.after_record"
EVENT_POINTS = ("txn.proposal.before_event", "txn.proposal.after_event")
AFTER_WRITE = "spark.merge.after_write"
POINTS = (AFTER_CAPTURE, AFTER_WRITE, *EVENT_POINTS, AFTER_RECORD, AFTER_STAGED, *WRITER_POINTS)


@dataclass(frozen=True, kw_only=True)
class MergeCrash(Crash):
    """A merge or a revert that dies at the ``nth`` time it passes a point."""

    @property
    def writer(self) -> MergeKind:
        return MERGE_KINDS[self.kind]

    @property
    def recovery(self) -> str | None:
        early = {AFTER_CAPTURE, AFTER_WRITE, *EVENT_POINTS, AFTER_RECORD, AFTER_STAGED}
        return None if self.point in early else super().recovery


def _crashes_of(kind: MergeKind) -> list[MergeCrash]:
    # A revert joins no histories. The event that tells of the end is written while the claim is released.
    often = {
        AFTER_WRITE: int(kind.is_in_tasks),
        **dict.fromkeys(EVENT_POINTS, int(isinstance(kind, ProposalKind))),
        AFTER_RECORD: int(kind.source is not None),
        AFTER_STAGED: kind.tables,
        BEFORE_TABLE: kind.commits,
        AFTER_TABLE: kind.commits,
    }
    return [
        MergeCrash(kind=kind.name, point=point, nth=nth)
        for point in POINTS
        for nth in range(1, often.get(point, 1) + 1)
    ]


def _broken_recoveries_of(kind: MergeKind) -> list[BrokenRecovery]:
    """A recoverer that dies at each step of undoing, of finishing and of recording what had succeeded."""
    recovering = [(point, 1) for point in RECOVERER_POINTS]
    publishing = [("txn.publish.before_cas", 1), ("txn.publish.after_cas", 1)]
    undoing = [("txn.commit.before_tables", 1), (BEFORE_TABLE, 1), (AFTER_TABLE, 1), ("txn.commit.after_tables", 1)]
    forward = MergeCrash(kind=kind.name, point="txn.commit.after_tables")
    done = MergeCrash(kind=kind.name, point="txn.publish.after_cas")
    steps = [(forward, [*recovering, *publishing]), (done, recovering)]
    if kind.commits > 1:
        back = MergeCrash(kind=kind.name, point=AFTER_TABLE)
        steps.append((back, [*recovering, *undoing, *publishing]))
    return [BrokenRecovery(crash=crash, points=(point,)) for crash, points in steps for point in points]


CRASHES = [crash for kind in MERGE_KINDS.values() for crash in _crashes_of(kind)]
BROKEN_RECOVERIES = [broken for kind in MERGE_KINDS.values() for broken in _broken_recoveries_of(kind)]


def _one_at_each_point() -> list[MergeCrash]:
    """A crash for every point, each of another kind than its neighbours where that kind passes it."""
    kinds, found = list(MERGE_KINDS), []
    for number, point in enumerate(POINTS):
        turn = [kinds[(number + step) % len(kinds)] for step in range(len(kinds))]
        there = [crash for kind in turn for crash in CRASHES if (crash.kind, crash.point) == (kind, point)]
        found.append(there[0])
    return found


CHOSEN_CRASHES = {
    "local": CRASHES if IS_FULL else _one_at_each_point(),
    "s3": CRASHES if IS_FULL else [MergeCrash(kind="merge", point="txn.commit.after_tables")],
}
CHOSEN_RECOVERIES = {
    "local": BROKEN_RECOVERIES if IS_FULL else BROKEN_RECOVERIES[5::41],
    "s3": BROKEN_RECOVERIES if IS_FULL else [],
}
