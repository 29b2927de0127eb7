"""A client of a run whose history is checked: ``python -m tests.multiprocess.history_worker <ground> <number> <count>
<seed> <branches>``.

It reads lists and appends to them, in transactions of several calls, in single mutations and queries, and with
``expected_head``, and swaps registers, until it was told ``count`` times that something is done. Each call is announced
in the journal with what it would write, then with what it saw. One that was killed goes on where its journal ends.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import omnigraph
from omnigraph.errors import Effect, OmnigraphError
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import Journal, read_journal
from tests.multiprocess.mixed_member import LOST

SCHEMA = "node List { name: String @key  items: String }\nnode Register { name: String @key  value: String }"
# So many lists and registers are in use at a time, and each for so many calls of a client.
LISTS, REGISTERS, CALLS_OF_A_KEY = 4, 2, 8
# What a call may be told that changed nothing.
_REFUSALS = {"transaction.conflict", "write.busy", "write.precondition", "write.conflict", "transaction.ended", *LOST}
_SERVER_TICK_S = 0.05

_APPEND = "query append($k: String, $v: String) { update List set { items: items + $v } where name = $k }"
_APPENDS = """query appends($k: String, $v: String, $l: String, $w: String) {
    update List set { items: items + $v } where name = $k
    update List set { items: items + $w } where name = $l
}"""
_READ = "query read($k: [String]) { match { $l: List  $l.name in $k } return { $l.name as name, $l.items as items } }"
_VALUES = """query values($k: [String]) {
    match { $r: Register  $r.name in $k }
    return { $r.name as name, $r.value as value }
}"""
_SET = "query set($k: String, $v: String) { update Register set { value: $v } where name = $k }"
_SWAP = """query swap($k: String, $v: String, $old: String) {
    update Register set { value: $v } where name = $k and value = $old
}"""

Calls = list[tuple[str, str, Any]]


def list_names(branch: str, window: int) -> list[str]:
    """Return the lists of a branch that are in use in a part of the run."""
    return [f"{branch}.{window}.{number}" for number in range(LISTS)]


def register_names(branch: str, window: int) -> list[str]:
    """Return the registers of a branch that are in use in a part of the run."""
    return [f"{branch}.{window}.{number}" for number in range(REGISTERS)]


def windows(count: int) -> int:
    """Return how many parts a run has in which each client is told so often that something is done."""
    # What was refused moves a client on, too.
    return 4 * count // CALLS_OF_A_KEY + 1


def read_lists(state: Any, names: list[str]) -> dict[str, list[str]]:
    """Return lists as one query reads them."""
    return {row["name"]: row["items"].split() for row in state.query(_READ, {"k": names})}


def read_registers(state: Any, names: list[str]) -> dict[str, str]:
    """Return the values of registers as one query reads them."""
    return {row["name"]: row["value"] for row in state.query(_VALUES, {"k": names})}


class Client:
    """One client."""

    def __init__(self, ground: Ground, number: int, count: int, seed: int, branches: list[str]) -> None:
        self._ground, self._number, self._count, self._branches = ground, number, count, branches
        self._address = ground.addresses.get(str(number))
        self._parent = os.getppid()
        path = ground.journal(f"worker-{number}")
        events = read_journal(path)
        self._done = sum(event["event"] == "ack" for event in events)
        self._serial = sum(event["event"] == "about" for event in events)
        # What registers had when this client looked, or what it wrote to them.
        self._known: dict[str, str] = {}
        self._dice = random.Random(f"{seed}-{number}-{len(events)}")  # noqa: S311 - dice that can be thrown again
        # A process that is killed takes nothing along that it has written.
        self._journal = Journal(path, is_durable=False)

    def run(self) -> None:
        """Go on until enough is done."""
        deeds, weights = list(_DEEDS), [weight for weight, _ in _DEEDS.values()]
        with ExitStack() as opened:
            states = self._open(opened)
            self._journal.write("open", pid=os.getpid())
            self._ground.path(f"ready-{os.getpid()}").touch()
            while self._done < self._count:
                if os.getppid() != self._parent:
                    raise SystemExit("whoever started this is gone")
                branch = self._dice.choice(self._branches)
                (kind,) = self._dice.choices(deeds, weights)
                _DEEDS[kind][1](self, states[branch], branch)
        self._journal.write("close", pid=os.getpid())

    def _open(self, opened: ExitStack) -> dict[str, Any]:
        """Open the graph, as soon as there is a server to ask, and return its branches."""
        ground = self._ground
        while True:
            try:
                if self._address is not None:
                    graph = opened.enter_context(omnigraph.open(self._address))
                else:
                    graph = opened.enter_context(
                        omnigraph.open(ground.root, storage_options=ground.options, settings=ground.txn_settings)
                    )
                return {name: graph if name == "main" else graph.branch(name) for name in self._branches}
            except OmnigraphError as error:
                if error.code not in LOST:
                    raise
            time.sleep(_SERVER_TICK_S)

    def _transact(self, state: Any, branch: str) -> None:
        """Read some lists and append to some, one after the other."""
        names = list_names(branch, self._window)
        plan = [(self._dice.random() < 0.5, self._dice.choice(names)) for _ in range(self._dice.randint(2, 4))]
        appends = [(name, self._value(place)) for place, (is_read, name) in enumerate(plan) if not is_read]
        by_query = self._dice.random() < 0.2

        def run() -> Calls:
            calls, rest = Calls(), iter(appends)
            with state.transaction() as transaction:
                for is_read, name in plan:
                    if not is_read:
                        _, value = next(rest)
                        transaction.mutate(_APPEND, {"k": name, "v": f" {value}"})
                        calls.append(("append", name, value))
                    elif by_query:
                        calls.append(("read", name, read_lists(transaction, [name])[name]))
                    else:
                        calls.append(("read", name, transaction.entity("List", name)["items"].split()))
            return calls

        self._note("transaction", [("append", name, value) for name, value in appends], run)

    def _look_twice(self, state: Any, branch: str) -> None:
        """Read lists one by one, in a transaction that writes nothing."""
        names = self._dice.sample(list_names(branch, self._window), 2)

        def run() -> Calls:
            with state.transaction() as transaction:
                return [("read", name, read_lists(transaction, [name])[name]) for name in names]

        self._note("look", [], run)

    def _mutate(self, state: Any, branch: str) -> None:
        """Append to one list or two by one mutation."""
        names = list_names(branch, self._window)
        appends = [
            ("append", self._dice.choice(names), self._value(place)) for place in range(self._dice.randint(1, 2))
        ]

        def run() -> Calls:
            params = dict(zip(("k", "l"), (name for _, name, _ in appends), strict=False))
            params |= dict(zip(("v", "w"), (f" {value}" for _, _, value in appends), strict=False))
            state.mutate(_APPEND if len(appends) == 1 else _APPENDS, params)
            return list(appends)

        self._note("mutation", appends, run)

    def _query(self, state: Any, branch: str) -> None:
        """Read lists by one query."""
        names = list_names(branch, self._window)
        self._note("query", [], lambda: [("read", *one) for one in read_lists(state, names).items()])

    def _expect(self, state: Any, branch: str) -> None:
        """Read lists at the newest commit, and append if it is that still."""
        names = self._dice.sample(list_names(branch, self._window), 2)
        value = self._value(0)

        def run() -> Calls:
            (head,) = state.log(limit=1)
            seen = read_lists(state.at(head), names)
            state.mutate(_APPEND, {"k": names[0], "v": f" {value}"}, expected_head=head)
            return [*(("read", *one) for one in seen.items()), ("append", names[0], value)]

        self._note("expected head", [("append", names[0], value)], run)

    def _register(self, state: Any, branch: str) -> None:
        """Read a register, write to it, or swap its value."""
        name, value = self._dice.choice(register_names(branch, self._window)), self._value(0)
        kind = self._dice.choice(["read", "write", "swap", "swap"])
        # It may be that still.
        old = self._known.get(name, "")

        def run() -> Calls:
            if kind == "read":
                self._known[name] = read_registers(state, [name])[name]
                return [("register", name, {"kind": kind, "value": self._known[name]})]
            self._known[name] = value
            if kind == "write":
                state.mutate(_SET, {"k": name, "v": value})
                return [("register", name, {"kind": kind, "value": value})]
            is_done = state.mutate(_SWAP, {"k": name, "v": value, "old": old}).affected_nodes == 1
            return [("register", name, {"kind": kind, "value": value, "expected": old, "done": is_done})]

        planned = {"kind": kind, "value": value, "expected": old} if kind == "swap" else {"kind": kind, "value": value}
        self._note("register", [] if kind == "read" else [("register", name, planned)], run)

    @property
    def _window(self) -> int:
        return min(self._serial // CALLS_OF_A_KEY, windows(self._count) - 1)

    def _value(self, place: int) -> str:
        return f"{self._number}.{self._serial + 1}.{place}"

    def _note(self, kind: str, planned: Calls, run: Callable[[], Calls]) -> None:
        """Announce what would be written, do it, and write down what came of it."""
        self._serial += 1
        name = f"{self._number}.{self._serial}"
        self._journal.write("about", id=name, kind=kind, began=time.monotonic_ns(), calls=planned)
        try:
            calls = run()
        except OmnigraphError as error:
            is_known = error.effect is Effect.NONE or not planned
            self._journal.write("refused" if is_known else "unknown", id=name, code=error.code)
            if is_known and error.code not in _REFUSALS:
                self._journal.write("finding", text=f"{kind} met an error that it must not meet: {error.to_json()}")
            if error.code in LOST:
                with ExitStack() as opened:
                    self._open(opened)
            return
        self._journal.write("ack", id=name, ended=time.monotonic_ns(), calls=calls)
        self._done += 1


_DEEDS: dict[str, tuple[int, Callable[[Client, Any, str], None]]] = {
    "transaction": (8, Client._transact),
    "look": (1, Client._look_twice),
    "mutation": (3, Client._mutate),
    "query": (3, Client._query),
    "expected head": (1, Client._expect),
    "register": (3, Client._register),
}


def main() -> None:
    """Run one client; whatever ends it early is in its journal."""
    # A client that seems stuck can be asked where it is.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    ground = Ground.load(sys.argv[1])
    number, count, seed = (int(text) for text in sys.argv[2:5])
    try:
        Client(ground, number, count, seed, sys.argv[5].split(",")).run()
    except BaseException:
        Journal(ground.journal(f"worker-{number}")).write("error", trace=traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
