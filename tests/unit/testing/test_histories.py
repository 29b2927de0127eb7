"""The checker of histories finds what was planted, calls it by its name, and finds nothing in sound histories."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from tests.marks import first

from omnigraph.testing.histories import Append, Call, Read, Transaction, find_anomalies, is_linearizable

SEEDS = range(60)


def did(name, *calls, began=0, ended=100, outcome="committed"):
    return Transaction(id=name, began_ns=began, ended_ns=ended, outcome=outcome, calls=calls)


def put(key, value):
    return Append(key=key, value=str(value))


def saw(key, *values):
    return Read(key=key, values=tuple(map(str, values)))


def kinds(*history):
    return {one.kind for one in find_anomalies(history)}


PLANTED = {
    "dirty read": (
        {"G1a"},
        [did("w", put("x", 1), outcome="aborted"), did("r", saw("x", 1))],
    ),
    "aborted read in a longer list": (
        {"G1a"},
        [did("w", put("x", 1), outcome="aborted"), did("v", saw("x", 1), put("x", 2)), did("r", saw("x", 1, 2))],
    ),
    "intermediate read": (
        {"G1b", "G-single"},
        [did("w", put("x", 1), put("x", 2)), did("r", saw("x", 1)), did("s", saw("x", 1, 2))],
    ),
    "dirty write": (
        {"G0"},
        [
            did("v", put("x", 1), put("y", 1.5)),
            did("w", put("x", 2), put("y", 2.5)),
            did("r", saw("x", 1, 2)),
            did("s", saw("y", 2.5, 1.5)),
        ],
    ),
    "circular information flow": (
        {"G1c"},
        [did("v", put("x", 1), saw("y", 2)), did("w", put("y", 2), saw("x", 1))],
    ),
    "lost update": (
        {"G-single"},
        [did("v", saw("x"), put("x", 1)), did("w", saw("x"), put("x", 2)), did("r", saw("x", 2))],
    ),
    "fractured read": (
        {"G-single"},
        [did("w", put("x", 1), put("y", 2)), did("r", saw("x", 1), saw("y")), did("s", saw("y", 2))],
    ),
    "read that does not repeat": (
        {"G-single"},
        [did("w", put("x", 1)), did("r", saw("x"), saw("x", 1))],
    ),
    "write skew": (
        {"G2"},
        [did("v", saw("x"), put("y", 1)), did("w", saw("y"), put("x", 2)), did("r", saw("x", 2), saw("y", 1))],
    ),
    "long fork": (
        {"G2"},
        [
            did("v", put("x", 1)),
            did("w", put("y", 2)),
            did("r", saw("x", 1), saw("y")),
            did("s", saw("x"), saw("y", 2)),
        ],
    ),
    "stale read": (
        {"G-single in real time"},
        [did("w", put("x", 1), ended=10), did("r", saw("x"), began=20), did("s", saw("x", 1))],
    ),
    "lost append": (
        {"G-single in real time"},
        [did("w", put("x", 1), ended=10), did("r", saw("x"), began=20)],
    ),
    "commits against the order of time": (
        {"G0 in real time"},
        [did("v", put("x", 1), ended=10), did("w", put("x", 2), began=20, ended=30), did("r", saw("x", 2, 1))],
    ),
    "value from the future": (
        {"G1c in real time"},
        [did("r", saw("x", 1), ended=10), did("w", put("x", 1), began=20)],
    ),
    "skew with a stale reader": (
        {"G2 in real time"},
        [
            did("v", put("x", 1), ended=10),
            did("w", saw("x"), put("y", 2)),
            did("r", saw("y"), began=20, ended=30),
        ],
    ),
    "write that happened twice": (
        {"duplicate", "order"},
        [did("w", put("x", 1)), did("r", saw("x", 1, 1)), did("s", saw("x", 1))],
    ),
    "value that nobody wrote": ({"garbage"}, [did("r", saw("x", 9))]),
    "two orders of one key": (
        {"order"},
        [did("v", put("x", 1)), did("w", put("x", 2)), did("r", saw("x", 1, 2)), did("s", saw("x", 2, 1))],
    ),
    "own append that is not seen": ({"internal"}, [did("w", put("x", 1), saw("x")), did("r", saw("x", 1))]),
}


def test_an_anomaly_is_found_and_called_by_its_name():
    for name, (expected, history) in PLANTED.items():
        assert kinds(*history) >= expected - {"order"}, name
        assert kinds(*history) <= expected, name


def test_an_anomaly_is_found_in_the_middle_of_a_sound_history():
    around = [one for seed in range(3) for one in Serial(seed).history(40)]
    for name, (expected, history) in PLANTED.items():
        assert kinds(*around, *history) & expected, name


def test_a_transaction_without_an_answer_happened_if_it_was_seen_and_never_did_otherwise():
    lost = did("w", put("x", 1), ended=None, outcome="unknown")
    assert kinds(lost, did("r", saw("x"))) == set()
    assert kinds(lost, did("r", saw("x", 1))) == set()
    assert kinds(lost, did("r", saw("x", 1), ended=10), did("s", saw("x"), began=20)) == {"G-single in real time"}
    both = did("w", put("x", 1), put("y", 2), ended=None, outcome="unknown")
    assert kinds(both, did("r", saw("x", 1), saw("y"))) == {"G-single"}


class Serial:
    """A sound store: each transaction takes effect at one moment between its begin and its end."""

    def __init__(self, seed, keys=4):
        self.dice = random.Random(seed)  # noqa: S311 - dice that can be thrown again
        self.name = seed
        self.keys = [f"{seed}/{number}" for number in range(keys)]
        self.lists = dict.fromkeys(self.keys, ())
        self.now = seed * 1_000_000
        self.count = 0

    def history(self, size):
        return [self.one() for _ in range(size)]

    def one(self):
        self.now += self.dice.randrange(20)
        began, ended = self.now - self.dice.randrange(60), self.now + self.dice.randrange(60)
        outcome = self.dice.choices(["committed", "aborted", "unknown", "lost"], [20, 2, 1, 1])[0]
        lists, calls = dict(self.lists), []
        for _ in range(self.dice.randint(1, 4)):
            key = self.dice.choice(self.keys)
            if self.dice.random() < 0.5:
                calls.append(saw(key, *lists[key]))
            else:
                self.count += 1
                calls.append(put(key, f"{self.name}.{self.count}"))
                lists[key] = (*lists[key], calls[-1].value)
        if outcome in {"committed", "unknown"}:
            self.lists = lists
        if outcome in {"unknown", "lost"}:
            writes = [call for call in calls if isinstance(call, Append)]
            return did(f"{self.name}-{self.now}-{self.count}", *writes, began=began, ended=None, outcome="unknown")
        return did(f"{self.name}-{self.now}-{self.count}-{ended}", *calls, began=began, ended=ended, outcome=outcome)


@pytest.mark.parametrize("seed", first(5, SEEDS))
def test_nothing_is_found_in_a_history_of_a_sound_store(seed):
    store = Serial(seed)
    history = store.history(150)
    last = did(
        "last", *(saw(key, *store.lists[key]) for key in store.keys), began=store.now + 100, ended=store.now + 200
    )
    store.dice.shuffle(history)
    assert find_anomalies([*history, last]) == ()


class Snapshots:
    """A store with snapshot isolation: the first writer of a key wins, and what was only read may move."""

    def __init__(self, seed):
        self.dice = random.Random(seed)  # noqa: S311 - dice that can be thrown again
        self.lists = dict.fromkeys("xyz", ())
        self.written = dict.fromkeys("xyz", 0)

    def history(self, size):
        done, open_ones = [], []
        for moment in range(1, size):
            open_ones.append((moment, dict(self.lists)))
            while len(open_ones) > 2:
                began, lists = open_ones.pop(self.dice.randrange(len(open_ones)))
                reads = self.dice.sample("xyz", 2)
                key = self.dice.choice("xyz")
                if self.written[key] >= began:
                    continue
                value = f"{began}"
                calls = [*(saw(name, *lists[name]) for name in reads), put(key, value)]
                self.lists[key], self.written[key] = (*self.lists[key], value), moment
                done.append(did(value, *calls, began=began, ended=moment))
        return [
            *done,
            did("last", *(saw(key, *values) for key, values in self.lists.items()), began=size, ended=size + 1),
        ]


def test_snapshot_isolation_shows_nothing_but_what_it_allows():
    found = [kinds(*Snapshots(seed).history(60)) for seed in SEEDS]
    assert set().union(*found) == {"G2"}
    assert sum(map(bool, found)) > len(found) / 2


def on(kind, began, ended, value=None, expected=None, *, done=True):
    return Call(kind=kind, began_ns=began, ended_ns=ended, value=value, expected=expected, done=done)


def test_a_register_answers_as_if_calls_came_one_by_one():
    assert is_linearizable([on("write", 0, 10, "a"), on("read", 5, 6, None), on("read", 7, 8, "a")], None)
    assert not is_linearizable([on("write", 0, 10, "a"), on("read", 5, 6, "a"), on("read", 7, 8, None)], None)
    assert not is_linearizable([on("write", 0, 1, "a"), on("read", 5, 6, None)], None)
    assert is_linearizable([on("write", 0, None, "a"), on("read", 5, 6, None), on("read", 7, 8, "a")], None)
    assert not is_linearizable(
        [on("write", 0, 9, "a"), on("write", 0, 9, "b"), on("read", 10, 11, "a"), on("read", 12, 13, "b")], None
    )


def test_two_swaps_of_one_value_do_not_both_succeed():
    swaps = [on("swap", 0, 9, "a", "start"), on("swap", 0, 9, "b", "start")]
    assert not is_linearizable(swaps, "start")
    assert is_linearizable([swaps[0], on("swap", 0, 9, "b", "start", done=False)], "start")
    assert is_linearizable([on("swap", 0, None, "a", "start"), swaps[1]], "start")
    assert not is_linearizable(
        [swaps[0], on("swap", 20, 30, "b", "start", done=False), on("read", 40, 50, "start")], "start"
    )


@pytest.mark.parametrize("seed", first(5, range(150)))
def test_the_search_agrees_with_every_order_of_few_calls(seed):
    dice = random.Random(seed)  # noqa: S311 - dice that can be thrown again
    calls = []
    for number in range(6):
        began = dice.randrange(40)
        ended = None if dice.random() < 0.15 else began + dice.randrange(1, 30)
        kind = dice.choice(["read", "write", "swap"])
        if kind == "read":
            calls.append(on("read", began, ended, dice.choice([None, "0", "1", "2", "3"])))
        elif kind == "write":
            calls.append(on("write", began, ended, str(number)))
        else:
            calls.append(on("swap", began, ended, str(number), dice.choice([None, "0", "1"]), done=dice.random() < 0.5))
    assert is_linearizable(calls, None) == _has_an_order(calls)


def _has_an_order(calls):
    late = [call for call in calls if call.ended_ns is None]
    told = [call for call in calls if call.ended_ns is not None]
    for chosen in range(1 << len(late)):
        here = told + [call for number, call in enumerate(late) if chosen >> number & 1]
        if any(_answers(order) for order in permutations(here)):
            return True
    return False


def _answers(order):
    value = None
    for place, call in enumerate(order):
        if any(other.ended_ns is not None and other.ended_ns < call.began_ns for other in order[place + 1 :]):
            return False
        if call.kind == "read":
            if call.ended_ns is not None and call.value != value:
                return False
        elif call.kind == "write":
            value = call.value
        else:
            is_swapped = call.expected == value
            if call.ended_ns is not None and is_swapped != call.done:
                return False
            value = call.value if is_swapped else value
    return True
