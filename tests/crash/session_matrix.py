"""The crash matrix of a user's writes: every kind at every point that it passes, and broken recoveries of each.

``make crash`` runs all of it. The plain run takes a part that still passes every kind and every point.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.runtime import Runtime
from tests.crash.child import AFTER_TABLE, BEFORE_TABLE
from tests.crash.large_loads import LARGE_LOADS
from tests.crash.matrix import (
    IS_FULL,
    PUBLISHED,
    RECOVERER_POINTS,
    RELEASED,
    WRITER_POINTS,
    BrokenRecovery,
    Crash,
)
from tests.crash.session_kinds import SESSION_KINDS, LogKind, SessionKind

AFTER_ROWS, AFTER_FILE = "engine.spool.after_rows", "engine.spool.after_file"
AFTER_STAGED, AFTER_SEQUENCES = "txn.stage.after_table", "engine.apply.after_sequences"
BEFORE_PLAN = (AFTER_ROWS, AFTER_FILE, AFTER_SEQUENCES, AFTER_STAGED)
# A load that fits into memory never comes to the one that is left out.
POINTS = (AFTER_ROWS, AFTER_STAGED, *WRITER_POINTS)
# Most of the time of a large load is spent around these.
_DRAWS = {AFTER_ROWS: 6, AFTER_FILE: 6, AFTER_STAGED: 3}
_PLAIN_LOADS = {("local", "append", AFTER_FILE, 0), ("local", "merge", AFTER_STAGED, 0)}


@dataclass(frozen=True, kw_only=True)
class SessionCrash(Crash):
    """A user's write that dies at the ``nth`` time it passes a point."""

    @property
    def writer(self) -> SessionKind:
        return SESSION_KINDS[self.kind]

    @property
    def recovery(self) -> str | None:
        return None if self.point in BEFORE_PLAN else super().recovery


@dataclass(frozen=True, kw_only=True)
class KilledLoad:
    """A large load that dies at one of the times it passes a point; ``draw`` seeds which."""

    store: str
    mode: str
    point: str
    draw: int

    @property
    def name(self) -> str:
        return f"{self.store}-{self.mode}-{self.point}-{self.draw}"

    @property
    def is_visible(self) -> bool:
        """Whether readers see the rows before anybody recovers."""
        return self.point in (*PUBLISHED, *RELEASED)

    def nth(self, hits: int) -> int:
        """Which of ``hits`` times it is."""
        return 1 + int(Runtime.seeded(self.draw).randomness.fraction() * hits)


def _crashes_of(kind: SessionKind) -> list[SessionCrash]:
    often = {
        AFTER_ROWS: kind.batches,
        AFTER_STAGED: kind.tables,
        BEFORE_TABLE: kind.commits,
        AFTER_TABLE: kind.commits,
    }
    return [
        SessionCrash(kind=kind.name, point=point, nth=nth)
        for point in (*POINTS, *([AFTER_SEQUENCES] if isinstance(kind, LogKind) else []))
        for nth in range(1, often.get(point, 1) + 1)
    ]


def _broken_recoveries_of(kind: SessionKind) -> list[BrokenRecovery]:
    """A recoverer that dies at each step of undoing, of finishing and of recording what had succeeded."""
    recovering = [(point, 1) for point in RECOVERER_POINTS]
    publishing = [("txn.publish.before_cas", 1), ("txn.publish.after_cas", 1)]
    undoing = [("txn.commit.before_tables", 1), (BEFORE_TABLE, 1), (AFTER_TABLE, 1), ("txn.commit.after_tables", 1)]
    back = SessionCrash(kind=kind.name, point=AFTER_TABLE)
    forward = SessionCrash(kind=kind.name, point="txn.commit.after_tables")
    done = SessionCrash(kind=kind.name, point="txn.publish.after_cas")
    steps = [(back, [*recovering, *undoing, *publishing]), (forward, [*recovering, *publishing]), (done, recovering)]
    return [BrokenRecovery(crash=crash, points=(point,)) for crash, points in steps for point in points]


CRASHES = [crash for kind in SESSION_KINDS.values() for crash in _crashes_of(kind)]
BROKEN_RECOVERIES = [broken for kind in SESSION_KINDS.values() for broken in _broken_recoveries_of(kind)]


def _one_at_each_point() -> list[SessionCrash]:
    """A crash for every point, each of another kind than its neighbours."""
    kinds, found = list(SESSION_KINDS), []
    for number, point in enumerate(POINTS):
        turn = [kinds[(3 * number + step + 1) % len(kinds)] for step in range(len(kinds))]
        there = [crash for kind in turn for crash in CRASHES if (crash.kind, crash.point) == (kind, point)]
        found.append(there[0])
    return [*found, next(crash for crash in CRASHES if crash.point == AFTER_SEQUENCES)]


CHOSEN_CRASHES = {
    "local": CRASHES if IS_FULL else _one_at_each_point(),
    "s3": CRASHES if IS_FULL else _one_at_each_point()[7:8],
}
CHOSEN_RECOVERIES = {
    "local": BROKEN_RECOVERIES if IS_FULL else BROKEN_RECOVERIES[4::73],
    "s3": BROKEN_RECOVERIES if IS_FULL else [],
}
CHOSEN_ALONE = {"local": CRASHES if IS_FULL else CRASHES[40:41], "s3": CRASHES if IS_FULL else []}
CHOSEN_LOADS = [
    KilledLoad(store=store, mode=mode, point=point, draw=draw)
    for store in ("local", "s3")
    for mode in LARGE_LOADS
    for point in (AFTER_ROWS, AFTER_FILE, AFTER_STAGED, *WRITER_POINTS)
    for draw in range(_DRAWS.get(point, 1) if store == "local" else 1)
    if IS_FULL or (store, mode, point, draw) in _PLAIN_LOADS
]
