"""The crash matrix: every writer kind at every point that it passes, with what recovery must make of it.

``make crash`` runs all of it. The plain run takes a part that still passes every point and every kind.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.crash.child import AFTER_TABLE, BEFORE_TABLE
from tests.crash.kinds import KINDS, WriterKind

IS_FULL = os.environ.get("OMNIGRAPH_CRASH") == "full"
FORWARD, BACK = "RolledForward", "RolledBack"

BEFORE_CLAIM = ("txn.stage.after_files", "txn.claim.before_put")
CLAIMED = ("txn.claim.after_put", "txn.commit.before_tables")
LANDED = ("txn.commit.after_tables", "txn.publish.before_cas")
PUBLISHED = ("txn.publish.after_cas", "txn.release.before_delete")
RELEASED = ("txn.release.after_delete",)
WRITER_POINTS = (*BEFORE_CLAIM, *CLAIMED, BEFORE_TABLE, AFTER_TABLE, *LANDED, *PUBLISHED, *RELEASED)
RECOVERER_POINTS = (
    "txn.recover.after_takeover",
    "txn.recover.after_classify",
    "txn.recover.after_publish",
    "txn.recover.after_audit",
)
DELETE_POINTS = (
    "txn.branch_delete.after_claim",
    "txn.branch_delete.before_end",
    "txn.branch_delete.after_end",
    "txn.branch_delete.after_reclaim",
)
CLEANUP_POINTS = ("engine.cleanup.after_histories", "engine.cleanup.after_floor", "engine.cleanup.after_removal")
OTHER_POINTS = (
    # A repair is torn apart there, in test_damaged_claims.
    "txn.settle.after_keep",
    "engine.export.after_file",
    "store.projection.after_write",
    "store.projection.before_write",
    "history.proposal.after_publish",
    "spark.load.after_part",
    "spark.load.after_read",
    "spark.load.after_check",
    "spark.load.after_write",
    "spark.steps.after_quarantine",
    "spark.steps.before_publish",
    "spark.steps.after_publish",
    "spark.source.after_rows",
    "spark.source.before_publish",
    "spark.source.after_publish",
    "txn.init.before_manifest",
    "txn.branch.after_line",
    "txn.branch.before_ref",
    "txn.branch.after_ref",
    "txn.tag.after_put",
    *DELETE_POINTS,
    *CLEANUP_POINTS,
    "engine.migrate.after_line",
)


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A writer of some kind that dies at the ``nth`` time it passes a point."""

    kind: str
    point: str
    nth: int = 1

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.point}@{self.nth}"

    @property
    def writer(self) -> WriterKind:
        return KINDS[self.kind]

    @property
    def is_visible(self) -> bool:
        """Whether readers see the change before anybody recovers."""
        return self.point in (*PUBLISHED, *RELEASED)

    @property
    def recovery(self) -> str | None:
        """What the next opener must do: finish, undo, or nothing."""
        if self.point in (*BEFORE_CLAIM, *RELEASED):
            return None
        if self.point in (*LANDED, *PUBLISHED) or self.writer.commits == 0:
            return FORWARD
        is_last = self.point == AFTER_TABLE and self.nth == self.writer.commits
        return FORWARD if is_last else BACK

    @property
    def succeeds(self) -> bool:
        """Whether the change is there in the end."""
        return self.is_visible or self.recovery == FORWARD


def crashes_of(kind: WriterKind) -> list[Crash]:
    """Every crash of one kind, before and after each of its tables included."""
    single = [point for point in WRITER_POINTS if point not in {BEFORE_TABLE, AFTER_TABLE}]
    per_table = [
        Crash(kind=kind.name, point=point, nth=nth)
        for point in (BEFORE_TABLE, AFTER_TABLE)
        for nth in range(1, kind.commits + 1)
    ]
    return [*(Crash(kind=kind.name, point=point) for point in single), *per_table]


CRASHES = [crash for kind in KINDS.values() for crash in crashes_of(kind)]


@dataclass(frozen=True, kw_only=True)
class BrokenRecovery:
    """A crash whose recoverers die in turn, each at its own point."""

    crash: Crash
    points: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return "+".join([self.crash.name, *(f"{point}@{nth}" for point, nth in self.points)])


def broken_recoveries() -> list[BrokenRecovery]:
    """A recoverer that dies at each step of finishing, of undoing and of recording what had succeeded."""
    back = Crash(kind="mutate", point=AFTER_TABLE, nth=2)
    nothing_moved = Crash(kind="insert", point="txn.claim.after_put")
    forward = Crash(kind="insert_three_tables", point="txn.commit.after_tables")
    schema = Crash(kind="schema_apply", point="txn.claim.after_put")
    fork = Crash(kind="branch_fork", point="txn.publish.before_cas")
    replaced = Crash(kind="load_overwrite", point=AFTER_TABLE, nth=1)
    altered = Crash(kind="schema_alter", point=AFTER_TABLE, nth=1)
    done = Crash(kind="mutate", point="txn.publish.after_cas")
    publishing = [("txn.publish.before_cas", 1), ("txn.publish.after_cas", 1)]
    undoing = [("txn.commit.before_tables", 1), (BEFORE_TABLE, 1), (AFTER_TABLE, 1), ("txn.commit.after_tables", 1)]
    recovering = [(point, 1) for point in RECOVERER_POINTS]
    cases = [
        *((back, point) for point in [*recovering, *undoing, (BEFORE_TABLE, 2), (AFTER_TABLE, 2), *publishing]),
        *((replaced, point) for point in [*undoing, *publishing]),
        *((crash, point) for crash in (nothing_moved, forward, schema, fork) for point in [*recovering, *publishing]),
        *((done, point) for point in recovering),
        *((altered, point) for point in [*undoing, *publishing]),
    ]
    single = [BrokenRecovery(crash=crash, points=(point,)) for crash, point in cases]
    in_turn = (*recovering[:2], *publishing, *recovering[2:])
    chained = [BrokenRecovery(crash=crash, points=in_turn) for crash in (nothing_moved, forward, fork)]
    undone_thrice = BrokenRecovery(
        crash=back, points=((AFTER_TABLE, 2), (AFTER_TABLE, 1), ("txn.publish.after_cas", 1))
    )
    return [*single, *chained, undone_thrice]


BROKEN_RECOVERIES = broken_recoveries()

# Kinds whose windows differ most from each other: many tables, no table commits, forks beside commits.
_THOROUGH = ("insert_three_tables", "schema_apply", "branch_write_and_fork")
_Case = TypeVar("_Case")


def _part(cases: Sequence[_Case], stride: int) -> list[_Case]:
    return list(cases if IS_FULL else cases[::stride])


def _of(*kinds: str) -> list[Crash]:
    return [crash for crash in CRASHES if crash.kind in kinds]


_OTHERS = [crash for crash in CRASHES if crash.kind not in _THOROUGH]
CHOSEN_CRASHES = {
    "local": [*_of(*_THOROUGH), *_part(_OTHERS, 9)],
    # A case costs about ten times as much here.
    "s3": CRASHES if IS_FULL else [*_of("insert_three_tables")[::5], *_of("branch_write_and_fork")[1::7]],
}
CHOSEN_RECOVERIES = {
    "local": _part(BROKEN_RECOVERIES, 5),
    "s3": BROKEN_RECOVERIES if IS_FULL else BROKEN_RECOVERIES[1:-3:18],
}
CHOSEN_ALONE = {"local": _part(_of("mutate"), 8) if not IS_FULL else CRASHES, "s3": CRASHES if IS_FULL else []}
