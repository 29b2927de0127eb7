"""The anomalies of a history of transactions, by the definitions of Adya.

A transaction *depends* on another one in four ways: it wrote the next version of a key (ww), it read a version that the
other one wrote (wr), it wrote the version after one that the other one read (rw), or it began after the other one
had ended (rt). An isolation level forbids cycles of some of these:

| anomaly | what it is | forbidden from |
|---|---|---|
| G0 | a cycle of ww: writes of two transactions are interleaved | read uncommitted |
| G1a | a value was read whose transaction had no effect | read committed |
| G1b | a value was read that its transaction had overwritten itself | read committed |
| G1c | a cycle of ww and wr | read committed |
| G-single | a cycle with one rw: lost updates, fractured reads | snapshot isolation |
| G2 | a cycle with several rw: write skew, long forks | serializable |
| … in real time | a cycle of the same kind that needs rt: stale reads | strict serializability |

A list itself can be wrong, too: ``garbage`` has a value that no transaction appended, ``duplicate`` has one twice,
``order`` differs from another read, ``internal`` does not end with what the same transaction appended before.

A transaction without an answer counts as committed if another one has read what it wrote, and is left out otherwise:
nothing depends on it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

from omnigraph.records import record
from omnigraph.testing.histories.cycles import find_components, find_path
from omnigraph.testing.histories.transactions import Append, Read, Transaction

Dependency = Literal["ww", "wr", "rw", "rt"]
AnomalyKind = Literal[
    "garbage",
    "duplicate",
    "order",
    "internal",
    "G0",
    "G1a",
    "G1b",
    "G1c",
    "G-single",
    "G2",
    "G0 in real time",
    "G1c in real time",
    "G-single in real time",
    "G2 in real time",
]


@record
class Anomaly:
    """Something that a history shows and an isolation level forbids.

    ``transactions`` are those that take part; for a cycle in its order, each followed by one that depends on it.
    """

    kind: AnomalyKind
    transactions: tuple[str, ...]
    text: str


def find_anomalies(history: Sequence[Transaction]) -> tuple[Anomaly, ...]:
    """Return the anomalies of a history: all that single reads show, and a cycle of each component of dependencies."""
    happened = _Happened(history)
    anomalies = [*happened.find_bad_reads(), *happened.find_inner()]
    if any(one.kind in {"garbage", "duplicate", "order", "internal", "G1a"} for one in anomalies):
        # The versions of a key have no order, so that nothing can be said about dependencies.
        return tuple(anomalies)
    return (*anomalies, *_Dependencies(happened).find_cycles())


class _Happened:
    """The transactions that took effect, and the versions of every key."""

    def __init__(self, history: Sequence[Transaction]) -> None:
        self.writers = {(append.key, append.value): one for one in history for append in one.appends}
        answered = [one for one in history if one.outcome == "committed"]
        observed = {(read.key, value) for one in answered for read in one.reads for value in read.values}
        late = [one for one in history if one.outcome == "unknown"]
        self.transactions = [
            *answered,
            *(one for one in late if any((it.key, it.value) in observed for it in one.appends)),
        ]
        # The longest list that was read of a key has all versions that anybody saw.
        self.longest: dict[str, tuple[str, ...]] = {}
        for one in answered:
            for read in one.reads:
                if len(read.values) > len(self.longest.get(read.key, ())):
                    self.longest[read.key] = read.values
        # What came after that, in an order that is not known.
        self.unseen: dict[str, list[str]] = {}
        seen = {key: frozenset(values) for key, values in self.longest.items()}
        for one in self.transactions:
            for append in one.appends:
                if append.value not in seen.get(append.key, ()):
                    self.unseen.setdefault(append.key, []).append(append.value)

    def find_bad_reads(self) -> Iterator[Anomaly]:
        """Yield what single reads show."""
        for one in self.transactions:
            for read in one.reads:
                yield from self._bad(one, read)

    def _bad(self, one: Transaction, read: Read) -> Iterator[Anomaly]:
        text = f"{one.id} read {read.key}: {' '.join(read.values)}"
        if len(set(read.values)) < len(read.values):
            yield Anomaly(kind="duplicate", transactions=(one.id,), text=text)
        if read.values and read.values != self.longest[read.key][: len(read.values)]:
            yield Anomaly(kind="order", transactions=(one.id,), text=f"{text} | {' '.join(self.longest[read.key])}")
        for value in read.values:
            writer = self.writers.get((read.key, value))
            if writer is None:
                yield Anomaly(kind="garbage", transactions=(one.id,), text=f"{text} | {value}")
            elif writer.outcome == "aborted":
                yield Anomaly(kind="G1a", transactions=(writer.id, one.id), text=f"{text} | {value}")
        writer = self.writers.get((read.key, read.values[-1])) if read.values else None
        if writer is not None and writer is not one:
            last = [append.value for append in writer.appends if append.key == read.key][-1]
            if last != read.values[-1]:
                yield Anomaly(kind="G1b", transactions=(writer.id, one.id), text=f"{text} | not {last}")

    def find_inner(self) -> Iterator[Anomaly]:
        """Yield reads that do not end with what the transaction had appended before."""
        for one in self.transactions:
            for read, own in _with_own(one):
                if read.values[len(read.values) - len(own) :] != own:
                    text = f"{one.id} appended {' '.join(own)} and read {read.key}: {' '.join(read.values)}"
                    yield Anomaly(kind="internal", transactions=(one.id,), text=text)


def _with_own(one: Transaction) -> Iterator[tuple[Read, tuple[str, ...]]]:
    """Yield the reads of a transaction, each with what it had appended to the key before."""
    own: dict[str, tuple[str, ...]] = {}
    for call in one.calls:
        if isinstance(call, Append):
            own[call.key] = (*own.get(call.key, ()), call.value)
        else:
            yield call, own.get(call.key, ())


class _Dependencies:
    """The dependencies between transactions. Nodes are the numbers of these, and moments in time."""

    def __init__(self, happened: _Happened) -> None:
        self._transactions = happened.transactions
        self._edges: dict[int, dict[int, dict[Dependency, str]]] = {}
        number = {one.id: place for place, one in enumerate(happened.transactions)}
        writer = {version: number[one.id] for version, one in happened.writers.items() if one.id in number}
        for key in {*happened.longest, *happened.unseen}:
            longest, unseen = happened.longest.get(key, ()), happened.unseen.get(key, [])
            for before, after in pairwise(longest):
                self._add(writer[key, before], writer[key, after], "ww", key)
            for value in unseen if longest else ():
                self._add(writer[key, longest[-1]], writer[key, value], "ww", key)
        for place, one in enumerate(happened.transactions):
            for read, own in _with_own(one):
                longest = happened.longest.get(read.key, ())
                # What it had appended itself it did not read of others.
                version = len(read.values) - len(own)
                if version:
                    self._add(writer[read.key, read.values[version - 1]], place, "wr", read.key)
                following = longest[version : version + 1] or happened.unseen.get(read.key, ())
                for value in following:
                    self._add(place, writer[read.key, value], "rw", read.key)
        self._add_time()

    def _add(self, one: int, other: int, kind: Dependency, key: str) -> None:
        if one != other:
            self._edges.setdefault(one, {}).setdefault(other, {}).setdefault(kind, key)

    def _add_time(self) -> None:
        """Add a moment for each end: it follows that transaction, and what began later follows it."""
        count = len(self._transactions)
        ends = sorted((one.ended_ns, place) for place, one in enumerate(self._transactions) if one.ended_ns is not None)
        moments = [ended_ns for ended_ns, _ in ends]
        for moment, (_, place) in enumerate(ends):
            self._add(place, count + moment, "rt", "")
            if moment:
                self._add(count + moment - 1, count + moment, "rt", "")
        for place, one in enumerate(self._transactions):
            moment = bisect_left(moments, one.began_ns) - 1
            if moment >= 0:
                self._add(count + moment, place, "rt", "")

    def find_cycles(self) -> Iterator[Anomaly]:
        """Yield an anomaly for each component of transactions that depend on each other."""
        classified: set[int] = set()
        for needs_time in (False, True):
            everything: set[Dependency] = {"ww", "wr", "rw", "rt"} if needs_time else {"ww", "wr", "rw"}
            for component in find_components(list(self._edges), self._following(everything)):
                if classified.isdisjoint(component):
                    yield self._classified(component, needs_time=needs_time)
                    classified |= component

    def _following(self, kinds: set[Dependency]) -> Callable[[int], Iterable[int]]:
        def following(node: int) -> Iterable[int]:
            return (other for other, why in self._edges.get(node, {}).items() if not kinds.isdisjoint(why))

        return following

    def _classified(self, component: frozenset[int], *, needs_time: bool) -> Anomaly:
        """Return the anomaly of a component that the weakest level forbids."""
        for kind, timed, closing, over in _CYCLES:
            following = self._following(over | {"rt"} if needs_time else over)
            for one in sorted(component):
                for other, why in self._edges.get(one, {}).items():
                    if closing in why and other in component:
                        path = find_path(other, one, component, following)
                        if path is not None:
                            return self._anomaly(timed if needs_time else kind, (one, *path), closing, over)
        raise AssertionError("a component has a cycle")

    def _anomaly(
        self, kind: AnomalyKind, cycle: tuple[int, ...], closing: Dependency, over: set[Dependency]
    ) -> Anomaly:
        """Return a cycle as people read it; moments in time are left out."""
        count = len(self._transactions)
        parts = [self._transactions[cycle[0]].id]
        members = [parts[0]]
        for place, (one, other) in enumerate(pairwise(cycle)):
            why = self._edges[one][other]
            allowed = {closing} if place == 0 else over
            label = next((f"{each} {key}" for each, key in why.items() if each in allowed), "rt")
            if other < count:
                parts.append(f"-{label}-> {self._transactions[other].id}")
                members.append(self._transactions[other].id)
        return Anomaly(kind=kind, transactions=tuple(members[:-1]), text=" ".join(parts))


# What closes a cycle, and what the rest of it may be; weaker levels forbid the first ones.
_CYCLES: tuple[tuple[AnomalyKind, AnomalyKind, Dependency, set[Dependency]], ...] = (
    ("G0", "G0 in real time", "ww", {"ww"}),
    ("G1c", "G1c in real time", "wr", {"ww", "wr"}),
    ("G-single", "G-single in real time", "rw", {"ww", "wr"}),
    ("G2", "G2 in real time", "rw", {"ww", "wr", "rw"}),
)
