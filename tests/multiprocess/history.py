"""Clients whose history is checked: ``python -m tests.multiprocess.history --transactions 100000 --kills``.

Clients that open the graph, and others that ask servers, read and append to lists on several branches, in transactions,
mutations and queries. With ``--kills`` they are killed and frozen at random and at the steps of the protocol, and the
servers are killed. The checker of ``omnigraph.testing.histories`` then looks at what they did and saw, and at nothing
else: whether transactions are strictly serializable, and single registers linearizable. A long run is made of chunks,
each on a graph and with a seed of its own; those of a run with ``--seed 7`` begin at 7. A chunk with findings keeps its
folder.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.testing.histories import Append, Call, Read, Transaction, find_anomalies, is_linearizable
from omnigraph.testing.s3 import S3Endpoint
from tests.multiprocess.fleet import Fleet
from tests.multiprocess.ground import Ground
from tests.multiprocess.history_worker import (
    SCHEMA,
    list_names,
    read_lists,
    read_registers,
    register_names,
    windows,
)
from tests.multiprocess.journal import read_journal
from tests.multiprocess.many import STORES, Blows
from tests.multiprocess.servers import Servers
from tests.multiprocess.verdict import Verdict

_TICK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How many clients open the graph, and how many ask a server each, until each has done ``count`` calls.

    After every ``kill_every`` calls of all of them one is killed, and so on, as in a run of many writers;
    ``kill_server_every_s`` 0 leaves the servers in peace. ``timeout_s`` is how long nothing may be done before the
    clients are taken for stuck.
    """

    clients: int = 4
    servers: int = 0
    branches: int = 2
    count: int = 100
    kill_every: int = 0
    stop_every: int = 0
    stop_for: int = 10
    points_one_in: int = 1
    kill_server_every_s: float = 0.0
    seed: int = 1
    settings: Mapping[str, Any] = field(default_factory=lambda: {"durability": "full", "grace_s": 2.0})
    timeout_s: float = 300.0

    @property
    def branch_names(self) -> list[str]:
        """The branches that the clients write to."""
        return ["main", *(f"b{number}" for number in range(1, self.branches))]


def run_history(history: History, root: str, options: Mapping[str, str], folder: Path) -> Verdict:
    """Play the scenario on a graph that it creates at ``root`` and judge what the clients saw."""
    folder.mkdir(parents=True, exist_ok=True)
    ground = Ground(root=root, folder=str(folder), options=dict(options), settings=dict(history.settings))
    ground.save()
    _seed(ground, history)
    blows = Blows(
        history.kill_every, history.stop_every, history.stop_for, history.seed, points_one_in=history.points_one_in
    )
    arguments = (str(history.count), str(history.seed), ",".join(history.branch_names))
    with Servers(ground, history.servers, history.kill_server_every_s) as servers:
        ground = replace(ground, addresses=servers.addresses(first=history.clients))
        ground.save()
        with Fleet(ground, role="history_worker", arguments=arguments, reborn=blows.failpoints_of) as fleet:
            seconds = _play(history, fleet, servers, blows)
    verdict = judge_history(history, ground, fleet.failures)
    figures = {"kills": fleet.kills, "server_kills": servers.kills, "stops": fleet.stops, "seconds": round(seconds)}
    return Verdict(findings=(*verdict.findings, *servers.findings()), figures={**verdict.figures, **figures})


def _seed(ground: Ground, history: History) -> None:
    parts = range(windows(history.count))
    names = [(branch, part) for branch in history.branch_names for part in parts]
    rows = {
        "List": [{"name": name, "items": ""} for place in names for name in list_names(*place)],
        "Register": [{"name": name, "value": ""} for place in names for name in register_names(*place)],
    }
    with omnigraph.init(
        ground.root, SCHEMA, storage_options=ground.options or None, settings=ground.txn_settings
    ) as graph:
        graph.load(rows)
        for branch in history.branch_names[1:]:
            graph.create_branch(branch)


def _play(history: History, fleet: Fleet, servers: Servers, blows: Blows) -> float:
    for number in range(history.clients):
        fleet.start_worker(failpoints=blows.failpoints_of(number))
    for _ in range(history.servers):
        fleet.start_worker()
    started_s = moved_s = time.monotonic()
    done = 0
    while not all(slot.is_done for slot in fleet.slots):
        if fleet.acknowledged() > done:
            done, moved_s = fleet.acknowledged(), time.monotonic()
        if time.monotonic() - moved_s > history.timeout_s or fleet.failures:
            fleet.ask_where()
            fleet.failures.append(f"clients are stuck done={done}")
            time.sleep(1.0)
            break
        fleet.tend()
        blows.strike(fleet, done)
        servers.tend(
            time.monotonic() - started_s, is_ending=all(slot.is_done for slot in fleet.slots[history.clients :])
        )
        time.sleep(_TICK_S)
    return time.monotonic() - started_s


class _Word:
    """Everything the journals say, as the checker takes it."""

    def __init__(self, ground: Ground, clients: int) -> None:
        self.findings: list[str] = []
        self.transactions: list[Transaction] = []
        self.registers: dict[str, list[Call]] = {}
        self.kinds: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.unknown = 0
        for number in range(clients):
            events = read_journal(ground.journal(f"worker-{number}"))
            ends = {event["id"]: event for event in events if event["event"] in {"ack", "refused", "unknown"}}
            for event in events:
                if event["event"] == "about":
                    self._take(event, ends.get(event["id"], {"event": "unknown", "code": "killed"}))
                elif event["event"] == "finding":
                    self.findings.append(f"client {number}: {event['text']}")
                elif event["event"] == "error":
                    self.findings.append(f"client {number} ended with an error\n{event['trace']}")

    def _take(self, about: Mapping[str, Any], end: Mapping[str, Any]) -> None:
        outcome = {"ack": "committed", "refused": "aborted"}.get(end["event"], "unknown")
        if outcome == "committed":
            self.kinds[about["kind"]] += 1
        else:
            self.codes[end["code"]] += 1
            self.unknown += outcome == "unknown"
        calls = end["calls"] if outcome == "committed" else about["calls"]
        if about["kind"] == "register":
            for _, name, what in calls if outcome != "aborted" else ():
                self.registers.setdefault(name, []).append(
                    Call(began_ns=about["began"], ended_ns=end.get("ended"), **what)
                )
            return
        self.transactions.append(
            Transaction(
                id=about["id"],
                began_ns=about["began"],
                ended_ns=end.get("ended"),
                outcome=outcome,
                calls=tuple(
                    Append(key=key, value=what) if kind == "append" else Read(key=key, values=tuple(what))
                    for kind, key, what in calls
                ),
            )
        )

    def look_back(self, graph: Any, branches: list[str], parts: int) -> None:
        """Add what everything is when nobody writes any more."""
        for branch in branches:
            state, began_ns = graph.branch(branch) if branch != "main" else graph, time.monotonic_ns()
            seen = read_lists(state, [name for part in range(parts) for name in list_names(branch, part)])
            registers = read_registers(state, [name for name in self.registers if name.startswith(f"{branch}.")])
            ended_ns = time.monotonic_ns()
            calls = tuple(Read(key=name, values=tuple(values)) for name, values in seen.items())
            self.transactions.append(
                Transaction(
                    id=f"last look at {branch}", began_ns=began_ns, ended_ns=ended_ns, outcome="committed", calls=calls
                )
            )
            for name, value in registers.items():
                self.registers[name].append(Call(kind="read", began_ns=began_ns, ended_ns=ended_ns, value=value))

    def find(self) -> Iterator[str]:
        """Yield everything that is wrong."""
        yield from self.findings
        for anomaly in find_anomalies(self.transactions):
            yield f"{anomaly.kind}: {anomaly.text}"
        for name, calls in self.registers.items():
            if not is_linearizable(calls, ""):
                yield f"register {name} is not linearizable: {sorted(calls, key=lambda call: call.began_ns)}"


def judge_history(history: History, ground: Ground, failures: Sequence[str] = ()) -> Verdict:
    """Return what is wrong with what the clients saw, as their journals say."""
    word = _Word(ground, history.clients + history.servers)
    with omnigraph.open(ground.root, storage_options=ground.options or None) as graph:
        word.look_back(graph, history.branch_names, windows(history.count))
    figures = {
        "transactions": sum(word.kinds.values()),
        "appends": sum(len(one.appends) for one in word.transactions if one.outcome == "committed"),
        "unknown": word.unknown,
        "by_kind": dict(word.kinds),
        "refused": dict(word.codes),
    }
    return Verdict(findings=(*failures, *word.find()), figures=figures)


def play(store: str, history: History, place: Path | None = None) -> Verdict:
    """Play the scenario on one store and print what came of it."""
    folder = Path(tempfile.mkdtemp(prefix="history-", dir=place))
    if store == "local":
        verdict = run_history(history, str(folder / "g"), {}, folder / "run")
    else:
        with S3Endpoint() as endpoint:
            verdict = run_history(history, endpoint.fresh_prefix(), endpoint.storage_options, folder / "run")
    print(f"{store:6} seed={history.seed} {verdict}", flush=True)
    for finding in verdict.findings:
        print(f"  {finding}", flush=True)
    if verdict.findings:
        print(f"  journals: {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return verdict


def main() -> int:
    """Play chunks until there are enough transactions; 1 when anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=1000, help="how many are done in all, on each store")
    parser.add_argument("--minutes", type=float, help="begin no chunk after so many minutes, on each store")
    parser.add_argument("--chunk", type=int, default=1000, help="how many are done on one graph")
    parser.add_argument("--clients", type=int, default=4, help="how many open the graph themselves")
    parser.add_argument("--servers", type=int, default=0, help="how many servers there are, each with a client")
    parser.add_argument("--branches", type=int, default=2, help="how many branches are written to")
    parser.add_argument("--store", choices=STORES, help="play on one kind of storage; both if not given")
    parser.add_argument("--kills", action="store_true", help="kill and freeze clients, and kill servers")
    parser.add_argument("--kill-every", type=int, default=40, help="calls of all between two kills")
    parser.add_argument("--stop-every", type=int, default=60, help="calls of all before another one is frozen")
    parser.add_argument("--points-one-in", type=int, default=1, help="one in so many lives ends at a step of its own")
    parser.add_argument("--kill-server-every", type=float, default=10.0, help="seconds between two kills of servers")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first chunk")
    parser.add_argument(
        "--folder", type=Path, help="where graphs and journals are; the folder for temporary files if not given"
    )
    given = parser.parse_args()
    # An end on request still ends the processes of the run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    everybody = given.clients + given.servers
    history = History(
        clients=given.clients,
        servers=given.servers,
        branches=given.branches,
        count=-(-given.chunk // everybody),
        kill_every=given.kill_every if given.kills else 0,
        stop_every=given.stop_every if given.kills else 0,
        points_one_in=given.points_one_in,
        kill_server_every_s=given.kill_server_every if given.kills else 0.0,
    )
    is_clean = True
    for store in STORES if given.store is None else (given.store,):
        started_s, total, seed = time.monotonic(), Counter[str](), given.seed
        while total["transactions"] < given.transactions and is_clean:
            if given.minutes is not None and time.monotonic() - started_s > 60 * given.minutes:
                break
            verdict = play(store, replace(history, seed=seed), given.folder)
            total.update({name: what for name, what in verdict.figures.items() if isinstance(what, int)})
            is_clean, seed = not verdict.findings, seed + 1
        seconds = round(time.monotonic() - started_s)
        figures = " ".join(f"{name}={what}" for name, what in {**total, "seconds": seconds}.items())
        print(f"{store:6} seeds={given.seed}..{seed - 1} {figures}", flush=True)
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
