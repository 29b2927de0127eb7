"""Many processes that write to one branch: ``python -m tests.multiprocess.many --processes 16 --commits 500 --kills``.

Each makes inserts, upserts, updates, deletes, conditional writes and small loads until it was told so many times that
one is in. With ``--kills`` processes are killed and started again, and frozen and woken, at random and at the steps of
the protocol; what that is measured in are commits, so that a slow machine sees as many of them. An auditor that
shares no code with the engine then replays history with the journals of all processes. A run with findings keeps its
folder.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.runtime.failpoints import FAILPOINTS
from omnigraph.testing.s3 import S3Endpoint
from tests.multiprocess.fleet import Fleet, Slot
from tests.multiprocess.ground import Ground
from tests.multiprocess.many_content import COUNTERS, SCHEMA, SHARED
from tests.multiprocess.many_verdict import judge_many
from tests.multiprocess.verdict import Verdict

STORES = ("local", "s3")
# The steps of a write at which processes are killed and frozen.
_ROOMS = ("stage", "claim", "commit", "publish", "release", "recover", "offer", "offers")
POINTS = tuple(name for name in sorted(FAILPOINTS) if name.startswith("txn.") and name.split(".")[1] in _ROOMS)
_TICK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Many:
    """How many processes make how many commits each, and after how many commits of all of them one is killed or frozen.

    ``kill_every`` or ``stop_every`` 0 leaves them in peace. A frozen one sleeps for ``stop_for`` commits of the others.
    ``timeout_s`` is how long no commit may come before the processes are taken for stuck.
    """

    processes: int
    commits: int
    kill_every: int = 0
    stop_every: int = 0
    stop_for: int = 0
    seed: int = 1
    settings: Mapping[str, Any] = field(default_factory=lambda: {"durability": "full", "grace_s": 2.0})
    timeout_s: float = 300.0


def run_many(many: Many, root: str, options: Mapping[str, str], folder: Path) -> Verdict:
    """Play the scenario on a graph that it creates at ``root`` and judge what it leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    ground = Ground(root=root, folder=str(folder), options=dict(options), settings=dict(many.settings))
    ground.save()
    seed_graph(ground)
    blows = Blows(many.kill_every, many.stop_every, many.stop_for, many.seed)
    arguments = (str(many.commits), str(many.seed))
    with Fleet(ground, role="many_worker", arguments=arguments, reborn=blows.failpoints_of) as fleet:
        seconds, shares = _play(many, fleet, blows)
    verdict = judge_many(ground, fleet, seconds)
    return replace(verdict, figures={**verdict.figures, "shares": f"{min(shares)}..{max(shares)}"})


class Blows:
    """What happens to the processes, measured in what they were told is done: commits, in a run of many writers.

    ``kill_every`` or ``stop_every`` 0 leaves them in peace. A frozen one sleeps for ``stop_for`` commits of the others.
    One in ``points_one_in`` processes dies or freezes at a step of its own.
    """

    def __init__(self, kill_every: int, stop_every: int, stop_for: int, seed: int, *, points_one_in: int = 1) -> None:
        self._kill_every, self._stop_every, self._stop_for = kill_every, stop_every, stop_for
        self._points_one_in = points_one_in
        self._dice = random.Random(f"blows-{seed}")  # noqa: S311 - dice that can be thrown again
        self._lives: dict[int, int] = {}
        self._kill_at = kill_every
        self._stop_at = stop_every
        self._wake_at: dict[int, int] = {}

    def failpoints_of(self, number: int) -> str:
        """Return where the next process in a place dies or freezes by itself, if its writes ever come there."""
        life = self._lives[number] = self._lives.get(number, -1) + 1
        if life % self._points_one_in:
            return ""
        point = POINTS[(number + 5 * life) % len(POINTS)]
        action = "stop" if self._stop_every and (number + life) % 3 == 2 else "kill"
        return f"{point}={action}@{self._dice.randint(2, 9)}" if self._kill_every else ""

    def strike(self, fleet: Fleet, commits: int) -> None:
        """Do what is due after so many commits."""
        frozen = fleet.stopped()
        for slot in frozen:
            others = [other for other in fleet.slots if other not in frozen and not other.is_done]
            if commits >= self._wake_at.setdefault(slot.number, commits + self._stop_for) or not others:
                del self._wake_at[slot.number]
                fleet.wake(slot)
        awake = [slot for slot in fleet.ready() if slot not in frozen]
        if self._kill_every and commits >= self._kill_at and awake:
            self._kill_at = commits + self._kill_every
            fleet.kill(self._any(awake))
        # Somebody must be left to notice.
        if self._stop_every and commits >= self._stop_at and len(awake) > 1:
            self._stop_at = commits + self._stop_every
            fleet.stop(self._any(awake))

    def _any(self, slots: list[Slot]) -> Slot:
        return slots[self._dice.randrange(len(slots))]


def seed_graph(ground: Ground) -> None:
    """Create the graph with the rows that everybody writes to."""
    rows = {
        "Person": [{"name": name, "kind": "shared", "value": 0} for name in SHARED],
        "Counter": [{"name": name, "n": 0} for name in COUNTERS],
    }
    with omnigraph.init(
        ground.root, SCHEMA, storage_options=ground.options or None, settings=ground.txn_settings, actor="init"
    ) as graph:
        graph.load(rows, actor="seed")


def _play(many: Many, fleet: Fleet, blows: Blows) -> tuple[float, list[int]]:
    """Run until every process has its commits; return how long that took, and what each had when the first one had."""
    for number in range(many.processes):
        fleet.start_worker(failpoints=blows.failpoints_of(number))
    started_s = moved_s = time.monotonic()
    commits = 0
    shares: list[int] = []
    while not all(slot.is_done for slot in fleet.slots):
        each = [fleet.acknowledged_to(slot) for slot in fleet.slots]
        if sum(each) > commits:
            commits, moved_s = sum(each), time.monotonic()
        if not shares and max(each) >= many.commits:
            shares = each
        if time.monotonic() - moved_s > many.timeout_s:
            fleet.ask_where()
            fleet.failures.append(f"writers are stuck commits={commits} each={each}")
            time.sleep(1.0)
            break
        fleet.tend()
        blows.strike(fleet, commits)
        time.sleep(_TICK_S)
    return time.monotonic() - started_s, shares or [fleet.acknowledged_to(slot) for slot in fleet.slots]


def play(store: str, many: Many) -> bool:
    """Play the scenario on one store and print what came of it; return whether it was clean."""
    folder = Path(tempfile.mkdtemp(prefix="many-"))
    if store == "local":
        verdict = run_many(many, str(folder / "g"), {}, folder / "run")
    else:
        with S3Endpoint() as endpoint:
            verdict = run_many(many, endpoint.fresh_prefix(), endpoint.storage_options, folder / "run")
    print(f"{store:6} {verdict}", flush=True)
    for finding in verdict.findings:
        print(f"  {finding}", flush=True)
    if verdict.findings:
        print(f"  journals: {folder}", flush=True)
        return False
    shutil.rmtree(folder)
    return True


def main() -> int:
    """Play the scenario; 1 when anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=16, help="how many write at once")
    parser.add_argument("--commits", type=int, default=500, help="how many commits each is told are in")
    parser.add_argument("--store", choices=STORES, help="play on one kind of storage; both if not given")
    parser.add_argument("--kills", action="store_true", help="kill and freeze processes")
    parser.add_argument("--kill-every", type=int, default=40, help="commits of all between two kills")
    parser.add_argument("--stop-every", type=int, default=60, help="commits of all before another one is frozen")
    parser.add_argument("--stop-for", type=int, default=15, help="commits of the others before it is woken")
    parser.add_argument("--seed", type=int, default=1, help="what the dice begin with")
    given = parser.parse_args()
    # An end on request still ends the processes of the run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    many = Many(processes=given.processes, commits=given.commits, seed=given.seed)
    if given.kills:
        many = replace(many, kill_every=given.kill_every, stop_every=given.stop_every, stop_for=given.stop_for)
    outcomes = [play(store, many) for store in (STORES if given.store is None else (given.store,))]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
