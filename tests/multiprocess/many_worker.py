"""A process of a run of many writers: ``python -m tests.multiprocess.many_worker <ground> <number> <commits> <seed>``.

It makes whatever write its dice say, each under an actor that no other write has, until it was told ``commits`` times
that one is in. Every write is announced in the journal with what it means, and so is what it was told. One that was
killed goes on where its journal ends; of writes whose answer never came it assumes neither that they happened nor that
they did not.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import omnigraph
from omnigraph.errors import Effect, Kind, OmnigraphError
from omnigraph.graph.graph import Graph
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import Journal, read_journal
from tests.multiprocess.many_content import COUNTERS, SHARED, Change

_BUSY = "write.busy"
# What a write may be told beside that others kept the branch busy.
_REFUSALS = {"head": "write.precondition", "guard": "write.version"}
_COUNTS_EVERY = 20

_EVENT = "query event($w: I64, $s: I64, $p: I64) { insert Event { worker: $w, serial: $s, part: $p } }"
_INSERT = 'query own($n: String, $v: I64) { insert Person { name: $n, kind: "own", value: $v } }'
_UPSERT = 'query upsert_shared($n: String, $v: I64) { upsert Person { name: $n, kind: "shared", value: $v } }'
_UPDATE = "query change($n: String, $v: I64) { update Person set { value: $v } where name = $n }"
_DELETE = "query drop($n: String) { delete Person where name = $n }"
_COUNT = "query count_up($n: String) { update Counter set { n: n + 1 } where name = $n }"
_PAIR = """query pair($n: String, $to: String, $v: I64) {
    insert Person { name: $n, kind: "pair", value: $v }
    insert Team { name: $n }
    insert Knows { from: $n, to: $to }
}"""
_UNPAIR = "query unpair($n: String) { delete Person where name = $n  delete Team where name = $n }"
_GUARD = """query guarded($n: String, $v: I64, $seen: String) {
    update Person set { value: $v } where name = $n if version = $seen
}"""
_VERSION = "query version_of($n: String) { match { $p: Person  $p.name = $n } return { version($p) as seen } }"
_PAIRED = 'query paired() { match { $p: Person  $p.kind = "pair" } return { $p.name as name } }'
_TEAMS = "query teams() { match { $t: Team } return { $t.name as name } }"


class Worker:
    """One writer, and what it knows of the rows that are its own."""

    def __init__(self, ground: Ground, number: int, commits: int, seed: int) -> None:
        self._ground = ground
        self._number = number
        self._commits = commits
        self._parent = os.getppid()
        path = ground.journal(f"worker-{number}")
        events = read_journal(path)
        self._acknowledged = sum(event["event"] == "ack" for event in events)
        self._serial = max((_serial_of(event["actor"]) for event in events if event["event"] == "about"), default=0)
        self._own: list[str] = []
        self._pairs: list[str] = []
        self._remember(events)
        self._dice = random.Random(f"{seed}-{number}-{len(events)}")  # noqa: S311 - dice that can be thrown again
        self._journal = Journal(path)

    def run(self) -> None:
        """Write until there are enough commits."""
        ground = self._ground
        with omnigraph.open(ground.root, storage_options=ground.options or None, settings=ground.txn_settings) as graph:
            self._journal.write("open", pid=os.getpid())
            ground.path(f"ready-{os.getpid()}").touch()
            noted = self._acknowledged
            while self._acknowledged < self._commits:
                if os.getppid() != self._parent:
                    raise SystemExit("whoever started this is gone")
                (kind,) = self._dice.choices(list(_DEEDS), [weight for weight, _ in _DEEDS.values()])
                _DEEDS[kind][1](self, graph)
                if self._acknowledged >= noted + _COUNTS_EVERY:
                    noted = self._acknowledged
                    self._note_counts(graph)
            self._look(graph)
            self._note_counts(graph)
        self._journal.write("close", pid=os.getpid())

    def _event(self, graph: Graph) -> None:
        row = (self._number, self._next(), 0)
        params = dict(zip("wsp", row, strict=True))
        self._write("event", lambda actor: graph.mutate(_EVENT, params, actor=actor), {"events": [row]}, nodes=1)

    def _events(self, graph: Graph) -> None:
        serial = self._next()
        rows = [(self._number, serial, part) for part in range(3)]
        params = [dict(zip("wsp", row, strict=True)) for row in rows]
        self._write(
            "events", lambda actor: graph.mutate_batch(_EVENT, params, actor=actor), {"events": rows}, nodes=len(rows)
        )

    def _append(self, graph: Graph) -> None:
        serial = self._next()
        rows = [(self._number, serial, part) for part in range(self._dice.randint(1, 5))]
        given = [{"worker": worker, "serial": serial, "part": part} for worker, serial, part in rows]
        self._write("append", lambda actor: graph.load({"Event": given}, actor=actor), {"events": rows})

    def _merge(self, graph: Graph) -> None:
        serial = self._next()
        name = f"own-{self._number}-{serial}"
        put = {name: ("own", serial), self._dice.choice(SHARED): ("shared", self._value(serial))}
        given = [{"name": name, "kind": kind, "value": value} for name, (kind, value) in put.items()]
        self._write("merge", lambda actor: graph.load({"Person": given}, "merge", actor=actor), {"put": put})

    def _insert(self, graph: Graph) -> None:
        serial = self._next()
        name = f"own-{self._number}-{serial}"
        params = {"n": name, "v": serial}
        change: Change = {"put": {name: ("own", serial)}}
        self._write("insert", lambda actor: graph.mutate(_INSERT, params, actor=actor), change, nodes=1)

    def _upsert(self, graph: Graph) -> None:
        self._put(graph, "upsert", _UPSERT, self._dice.choice(SHARED), "shared")

    def _update(self, graph: Graph) -> None:
        if self._own:
            self._put(graph, "update", _UPDATE, self._dice.choice(self._own), "own")

    def _head(self, graph: Graph) -> None:
        """Change a row if nobody has written since the branch was looked at."""
        (head,) = graph.log(limit=1)
        self._put(graph, "head", _UPDATE, self._dice.choice(SHARED), "shared", expected_head=head)

    def _guard(self, graph: Graph) -> None:
        """Change a row if nobody has changed it since it was looked at."""
        name = self._dice.choice(SHARED)
        (row,) = graph.query(_VERSION, {"n": name})
        self._put(graph, "guard", _GUARD, name, "shared", params={"seen": row["seen"]})

    def _delete(self, graph: Graph) -> None:
        if self._own:
            name = self._own.pop(self._dice.randrange(len(self._own)))
            self._write(
                "delete", lambda actor: graph.mutate(_DELETE, {"n": name}, actor=actor), {"drop": [name]}, nodes=1
            )

    def _count(self, graph: Graph) -> None:
        name = self._dice.choice(COUNTERS)
        self._write("count", lambda actor: graph.mutate(_COUNT, {"n": name}, actor=actor), {"count": name}, nodes=1)

    def _pair(self, graph: Graph) -> None:
        serial = self._next()
        name, friend = f"pair-{self._number}-{serial}", self._dice.choice(SHARED)
        params = {"n": name, "to": friend, "v": serial}
        change: Change = {"pair": (name, friend, serial)}
        self._write("pair", lambda actor: graph.mutate(_PAIR, params, actor=actor), change, nodes=2)

    def _unpair(self, graph: Graph) -> None:
        if self._pairs:
            name = self._pairs.pop(self._dice.randrange(len(self._pairs)))
            change: Change = {"unpair": name}
            self._write("unpair", lambda actor: graph.mutate(_UNPAIR, {"n": name}, actor=actor), change, nodes=2)

    def _look(self, graph: Graph) -> None:
        """Look at both halves of every pair in one state, and at what must be there of one's own."""
        (head,) = graph.log(limit=1)
        state = graph.at(head)
        paired = sorted(row["name"] for row in state.query(_PAIRED))
        teams = sorted(row["name"] for row in state.query(_TEAMS))
        if paired != teams:
            halves = sorted(set(paired) ^ set(teams))
            self._journal.write("finding", text=f"a pair is half visible state={head.id} pairs={halves}")
        if missing := set(self._pairs) - set(paired):
            self._journal.write("finding", text=f"an acknowledged pair is not visible state={head.id} pairs={missing}")
        self._journal.write("look", pairs=len(paired))

    def _put(
        self,
        graph: Graph,
        kind: str,
        text: str,
        name: str,
        row_kind: str,
        *,
        params: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        value = self._value(self._next())
        given = {"n": name, "v": value, **(params or {})}
        change: Change = {"put": {name: (row_kind, value)}}
        self._write(kind, lambda actor: graph.mutate(text, given, actor=actor, **options), change, nodes=1)

    def _write(self, kind: str, call: Callable[[str], Any], change: Change, nodes: int | None = None) -> None:
        """Announce a write, make it, and write down what it was told."""
        actor = f"w{self._number}.{self._next()}"
        self._journal.write("about", actor=actor, kind=kind, change=change)
        try:
            result = call(actor)
        except OmnigraphError as error:
            self._refused(actor, kind, error)
            return
        if result.commit is None:
            self._journal.write("finding", text=f"a write changed nothing actor={actor} kind={kind} change={change}")
            return
        self._journal.write("ack", actor=actor, commit=str(result.commit.id))
        self._acknowledged += 1
        if result.commit.actor != actor:
            self._journal.write("finding", text=f"a commit has another actor={result.commit.actor} meant={actor}")
        if nodes is not None and result.affected_nodes != nodes:
            self._journal.write(
                "finding", text=f"a write counts other rows actor={actor} meant={nodes} said={result.affected_nodes}"
            )
        self._learn(change)

    def _refused(self, actor: str, kind: str, error: OmnigraphError) -> None:
        if error.kind is Kind.INDETERMINATE:
            self._journal.write("unknown", actor=actor, code=error.code)
            return
        self._journal.write("refused", actor=actor, kind=kind, code=error.code)
        if error.code not in {_BUSY, _REFUSALS.get(kind)} or error.effect is not Effect.NONE:
            self._journal.write("finding", text=f"{kind} met an error that it must not meet: {error.to_json()}")

    def _note_counts(self, graph: Graph) -> None:
        self._journal.write("counts", pid=os.getpid(), counts=dict(graph.backend.figures()))

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _value(self, serial: int) -> int:
        return self._number * 1_000_000 + serial

    def _learn(self, change: Change) -> None:
        self._own += [
            name for name, (kind, _) in change.get("put", {}).items() if kind == "own" and name not in self._own
        ]
        if "pair" in change:
            self._pairs.append(change["pair"][0])

    def _remember(self, events: list[dict[str, Any]]) -> None:
        """Go through earlier lives: what was acknowledged is there, what somebody began to remove may not be."""
        told = {event["actor"] for event in events if event["event"] == "ack"}
        for event in events:
            if event["event"] != "about":
                continue
            change = event["change"]
            if event["actor"] in told:
                self._learn(change)
            gone = {*change.get("drop", ()), change.get("unpair")}
            self._own = [name for name in self._own if name not in gone]
            self._pairs = [name for name in self._pairs if name not in gone]


_DEEDS: dict[str, tuple[int, Callable[[Worker, Graph], None]]] = {
    "event": (6, Worker._event),
    "events": (2, Worker._events),
    "append": (2, Worker._append),
    "merge": (2, Worker._merge),
    "insert": (4, Worker._insert),
    "upsert": (3, Worker._upsert),
    "update": (3, Worker._update),
    "head": (1, Worker._head),
    "guard": (2, Worker._guard),
    "delete": (2, Worker._delete),
    "count": (4, Worker._count),
    "pair": (4, Worker._pair),
    "unpair": (2, Worker._unpair),
    "look": (1, Worker._look),
}


def _serial_of(actor: str) -> int:
    return int(actor.partition(".")[2])


def main() -> None:
    """Run one worker; whatever ends it early is in its journal."""
    # A writer that seems stuck can be asked where it is.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    ground = Ground.load(sys.argv[1])
    number, commits, seed = (int(text) for text in sys.argv[2:5])
    try:
        Worker(ground, number, commits, seed).run()
    except BaseException:
        Journal(ground.journal(f"worker-{number}")).write("error", trace=traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
