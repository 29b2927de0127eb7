"""The scenarios: who disturbs the writers, how, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from omnigraph.runtime import SystemRandomness
from omnigraph.txn.publish.kinds import WriteKind
from tests.auditor import Auditor
from tests.multiprocess.fleet import Fleet, Slot
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import Journal
from tests.multiprocess.verdict import Verdict, judge
from tests.multiprocess.worker import SHARED, apply_rows
from tests.txn_graph import PERSON, authority_of, init_graph, open_graph

_TICK_S = 0.02
_READER_TIMEOUT_S = 300.0

# Where a writer is frozen or killed, one point per worker: on both sides of every step that others can see.
POINTS = (
    "txn.claim.after_put",
    "txn.commit.after_table",
    "txn.publish.before_cas",
    "txn.publish.after_cas",
    "txn.claim.before_put",
    "txn.commit.after_tables",
    "txn.release.before_delete",
    "txn.commit.before_tables",
)


class Disturbance(Protocol):
    """Something that happens to the workers while they write."""

    def failpoints_of(self, number: int) -> str:
        """Return what a worker is started with."""

    def act(self, fleet: Fleet, now_s: float, *, is_ending: bool) -> None:
        """Do what is due at this moment."""


class Peace:
    """Nothing happens."""

    def failpoints_of(self, number: int) -> str:
        """Return nothing."""
        return ""

    def act(self, fleet: Fleet, now_s: float, *, is_ending: bool) -> None:
        """Do nothing."""


class Killer:
    """Kills workers: each once at a point of its own, and random ones anywhere, one for every so many commits.

    Commits are what the time of a killer is measured in: on a machine on which they take long, or a process takes long
    to start, kills come as much later, and the workers finish all the same.
    """

    def __init__(self, every_commits: int) -> None:
        self._every = every_commits
        self._killed_at = 0
        self._random = SystemRandomness()

    def failpoints_of(self, number: int) -> str:
        """Return the point at which this worker dies, on its third pass."""
        return f"{POINTS[number % len(POINTS)]}=kill@3"

    def act(self, fleet: Fleet, now_s: float, *, is_ending: bool) -> None:
        """Kill one worker when there are enough commits that are new since the last was killed."""
        ready = [] if is_ending else fleet.ready()
        if not ready:
            return
        commits = fleet.acknowledged()
        if commits >= self._killed_at + self._every:
            self._killed_at = commits
            fleet.kill(_any(ready, self._random))


class Freezer:
    """Freezes workers for longer than the grace period: each once at its own point, then random ones anywhere."""

    def __init__(self, grace_s: float, every_s: float, longest_s: float) -> None:
        self._grace_s = grace_s
        self._every_s = every_s
        self._longest_s = longest_s
        self._next_s = 0.0
        self._wake_at_s: dict[int, float] = {}
        self._random = SystemRandomness()

    def failpoints_of(self, number: int) -> str:
        """Return the point at which this worker freezes itself, on its third pass."""
        return f"{POINTS[number % len(POINTS)]}=stop@3"

    def act(self, fleet: Fleet, now_s: float, *, is_ending: bool) -> None:
        """Wake who has been frozen long enough, then freeze somebody when it is time."""
        frozen = fleet.stopped()
        for slot in frozen:
            spread = max(0.0, self._longest_s - 1.5 * self._grace_s)
            wake_at = now_s + 1.5 * self._grace_s + self._random.fraction() * spread
            if now_s >= self._wake_at_s.setdefault(slot.number, wake_at):
                del self._wake_at_s[slot.number]
                fleet.wake(slot)
        if is_ending or now_s < self._next_s:
            return
        awake = [slot for slot in fleet.ready() if slot not in frozen]
        # Somebody must be left to notice.
        if len(awake) > 1:
            fleet.stop(_any(awake, self._random))
            self._next_s = now_s + self._every_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How many workers commit how often, at least how long, and what happens to them, at least how many times.

    ``recoveries`` is how many writes others must have completed or undone before the workers may finish. ``timeout_s``
    is how long no commit may come before the writers are taken for stuck.
    """

    workers: int
    commits: int
    disturb: Callable[[], Disturbance] = Peace
    seconds: float = 0.0
    blows: int = 0
    recoveries: int = 0
    readers: int = 1
    settings: Mapping[str, Any] = field(default_factory=lambda: {"durability": "relaxed"})
    timeout_s: float = 300.0


def run_scenario(scenario: Scenario, root: str, options: Mapping[str, str], folder: Path) -> Verdict:
    """Play a scenario on a graph that it creates at ``root`` and judge what it leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    ground = Ground(root=root, folder=str(folder), options=dict(options), settings=dict(scenario.settings))
    ground.save()
    _seed(ground)
    with Fleet(ground, (str(scenario.commits),)) as fleet:
        seconds = _play(scenario, fleet)
    return judge(ground, fleet, seconds)


def _seed(ground: Ground) -> None:
    init_graph(ground.root, ground.options, settings=ground.txn_settings)
    rows = {PERSON: [{"id": name, "value": 0} for name in SHARED]}
    with (
        Journal(ground.journal("seed")) as journal,
        open_graph(ground.storage, settings=ground.txn_settings) as graph,
    ):
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.INSERT, actor="seed")
        apply_rows(txn, "insert", rows)
        journal.write("about", commit=txn.commit_id, operation=txn.operation_id, kind="insert", rows=rows)
        result = branch_writer.commit(txn)
        journal.write("ack", commit=txn.commit_id, version=result.commit.manifest_version)


def _play(scenario: Scenario, fleet: Fleet) -> float:
    """Run until every worker has its commits and the time is over; return how long the workers wrote."""
    disturbance = scenario.disturb()
    for number in range(scenario.workers):
        fleet.start_worker(failpoints=disturbance.failpoints_of(number))
    for _ in range(scenario.readers):
        fleet.start_reader()
    while not fleet.ready() and not fleet.failures:
        fleet.tend()
        time.sleep(_TICK_S)
    started_s = time.monotonic()
    is_ending = False
    commits, moved_s = 0, 0.0
    while not all(slot.is_done for slot in fleet.slots):
        elapsed_s = time.monotonic() - started_s
        if fleet.acknowledged() > commits:
            commits, moved_s = fleet.acknowledged(), elapsed_s
        if elapsed_s - moved_s > scenario.timeout_s:
            fleet.ask_where()
            fleet.failures.append(f"writers are stuck after={elapsed_s:.0f}s commits={commits}")
            time.sleep(1.0)
            break
        fleet.tend()
        has_seen_enough = (
            elapsed_s >= scenario.seconds
            and fleet.kills + fleet.stops >= scenario.blows
            and (not scenario.recoveries or _recoveries(fleet.ground) >= scenario.recoveries)
        )
        if has_seen_enough or fleet.failures:
            fleet.ground.path("finish").touch()
            is_ending = all(fleet.ground.path(f"reached-{slot.number}").exists() for slot in fleet.slots)
        disturbance.act(fleet, elapsed_s, is_ending=is_ending)
        time.sleep(_TICK_S)
    seconds = time.monotonic() - started_s
    fleet.end_readers(_READER_TIMEOUT_S)
    return seconds


def _recoveries(ground: Ground) -> int:
    return len(Auditor(ground.root, ground.options).audit_rows())


def _any(slots: list[Slot], random: SystemRandomness) -> Slot:
    return slots[int(random.fraction() * len(slots))]
