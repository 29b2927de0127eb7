"""What a graph of a run of many writers holds, and what single writes do to it; told once more, without the engine.

An event has no key: one that is written twice stands there twice. A counter is counted up from the value that the
write finds, so that a write which is run twice, or on a state that has moved, leaves the wrong number. A pair is a row
in two tables and an edge, written and removed by one mutation each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

SCHEMA = """
node Event { worker: I64  serial: I64  part: I64 }
node Person { name: String @key  kind: String  value: I64 }
node Team { name: String @key }
node Counter { name: String @key  n: I64 }
edge Knows: Person -> Person
"""
EVENT, PERSON, TEAM, COUNTER, KNOWS = "node:Event", "node:Person", "node:Team", "node:Counter", "edge:Knows"
ENDS = {KNOWS: PERSON}
SHARED = tuple(f"shared-{number}" for number in range(4))
COUNTERS = tuple(f"counter-{number}" for number in range(2))


class Change(TypedDict, total=False):
    """What a write means, as a journal keeps it."""

    events: list[tuple[int, int, int]]
    put: dict[str, tuple[str, int]]
    drop: list[str]
    pair: tuple[str, str, int]
    unpair: str
    count: str


@dataclass(slots=True)
class Content:
    """Everything that a graph holds."""

    events: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    persons: dict[str, tuple[str, int]] = field(default_factory=dict)
    teams: Counter[str] = field(default_factory=Counter)
    counters: dict[str, int] = field(default_factory=dict)
    knows: Counter[tuple[str, str]] = field(default_factory=Counter)

    def apply(self, change: Mapping[str, Any]) -> None:
        """Do what a change says."""
        self.events.update((worker, serial, part) for worker, serial, part in change.get("events", ()))
        self.persons.update({name: (kind, value) for name, (kind, value) in change.get("put", {}).items()})
        for name in change.get("drop", ()):
            self.persons.pop(name, None)
        if "pair" in change:
            name, friend, value = change["pair"]
            self.persons[name] = ("pair", value)
            self.teams[name] += 1
            self.knows[name, friend] += 1
        if "unpair" in change:
            name = change["unpair"]
            self.persons.pop(name, None)
            self.teams.pop(name, None)
            self.knows = Counter({ends: count for ends, count in self.knows.items() if ends[0] != name})
        if "count" in change:
            self.counters[change["count"]] += 1

    def sizes(self) -> dict[str, int]:
        """Return the number of rows by table."""
        return {
            EVENT: self.events.total(),
            PERSON: len(self.persons),
            TEAM: self.teams.total(),
            COUNTER: len(self.counters),
            KNOWS: self.knows.total(),
        }

    def differences(self, real: Content) -> Iterator[str]:
        """Yield where ``real`` is something else."""
        for what, meant, found in (
            ("event", self.events, real.events),
            ("person", self.persons, real.persons),
            ("team", self.teams, real.teams),
            ("counter", self.counters, real.counters),
            ("edge", self.knows, real.knows),
        ):
            for name in sorted(meant.keys() | found.keys()):
                if meant.get(name) != found.get(name):
                    yield f"{what}={name} meant={meant.get(name)} real={found.get(name)}"


def explains(
    change: Mapping[str, Any], type_name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> bool:
    """Whether a write that means ``change`` can have made one row of another, or none where there is none."""
    row = after or before or {}
    pairs = {change.get("pair", [None])[0], change.get("unpair")}
    match type_name:
        case "Event":
            told = [tuple(event) for event in change.get("events", ())]
            return after is not None and (row["worker"], row["serial"], row["part"]) in told
        case "Person" if after is not None:
            put = {name: tuple(said) for name, said in change.get("put", {}).items()}
            if "pair" in change:
                put[change["pair"][0]] = ("pair", change["pair"][2])
            return put.get(row["name"]) == (row["kind"], row["value"])
        case "Person":
            return row["name"] in {*change.get("drop", ()), change.get("unpair")}
        case "Team":
            return row["name"] in pairs
        case "Counter":
            return row["name"] == change.get("count")
        case _:
            return bool({"pair", "unpair", "drop"} & change.keys())


def seeded() -> Content:
    """Return what the graph begins with."""
    return Content(persons=dict.fromkeys(SHARED, ("shared", 0)), counters=dict.fromkeys(COUNTERS, 0))


def read_tables(tables: Mapping[str, list[dict[str, Any]]]) -> Content:
    """Return what rows of tables hold."""
    return Content(
        events=Counter((row["worker"], row["serial"], row["part"]) for row in tables[EVENT]),
        persons={row["name"]: (row["kind"], row["value"]) for row in tables[PERSON]},
        teams=Counter(row["name"] for row in tables[TEAM]),
        counters={row["name"]: row["n"] for row in tables[COUNTER]},
        knows=Counter((row["src"], row["dst"]) for row in tables[KNOWS]),
    )
