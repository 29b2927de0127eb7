"""A graph as plain dictionaries, and what a mutation means on it, written as simply as possible."""

from __future__ import annotations

import copy
import operator
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SCHEMA = """
node Person {
    name: String @key
    age: I32?
    rank: I32? @unique
    @range(age, 0..50)
}
node Note { text: String  n: I32? }
edge Knows: Person -> Person @card(0..2) { w: I32? }
edge Wrote: Person -> Note {
    w: I32?
    @key(src, dst)
}
"""
SEED = """
{"type": "Person", "data": {"name": "a", "age": 1, "rank": 1}}
{"type": "Person", "data": {"name": "b", "age": 2}}
{"type": "Note", "data": {"id": "n1", "text": "x", "n": 1}}
{"type": "Note", "data": {"id": "n2", "text": "y"}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k1", "w": 1}}
{"edge": "Wrote", "from": "a", "to": "n1"}
"""
NODES, EDGES = ("Note", "Person"), ("Knows", "Wrote")
COLUMNS = {
    "Person": ("name", "age", "rank"),
    "Note": ("text", "n"),
    "Knows": ("src", "dst", "w"),
    "Wrote": ("src", "dst", "w"),
}
ENDS = {"Knows": ("Person", "Person"), "Wrote": ("Person", "Note")}
MAX_KNOWS = 2

Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]


@dataclass(frozen=True)
class Insert:
    """Insert one entity; ends of an edge are among the values."""

    type: str
    values: Row


@dataclass(frozen=True)
class Update:
    """Assign ``values`` where ``column op value``."""

    type: str
    values: Row
    column: str
    op: str
    value: Any


@dataclass(frozen=True)
class Delete:
    """Remove what matches, and the edges of removed nodes."""

    type: str
    column: str
    op: str
    value: Any


Statement = Insert | Update | Delete


@dataclass(frozen=True)
class Outcome:
    """What a mutation should do: its counts, or the rule that refuses it, and the graph it leaves."""

    nodes: int
    edges: int
    has_commit: bool
    broken: str | None
    tables: Tables


@dataclass
class _Run:
    tables: Tables
    stored: Tables
    written: set[tuple[str, str]] = field(default_factory=set)
    nodes: int = 0
    edges: int = 0
    made: int = 0

    def count(self, kind: str, number: int) -> None:
        if kind in NODES:
            self.nodes += number
        else:
            self.edges += number

    def insert(self, statement: Insert) -> None:
        kind, row = statement.type, dict.fromkeys(COLUMNS[statement.type]) | statement.values
        if kind == "Person":
            chosen = row["name"]
        elif kind == "Wrote":
            chosen = f'["{row["src"]}","{row["dst"]}"]'
        else:
            self.made += 1
            chosen = f"*{self.made}"
        self.tables[kind][chosen] = row
        self.written.add((kind, chosen))
        self.count(kind, 1)

    def update(self, statement: Update) -> None:
        for chosen in self._matching(statement):
            self.tables[statement.type][chosen] = self.tables[statement.type][chosen] | statement.values
            self.written.add((statement.type, chosen))
            self.count(statement.type, 1)

    def delete(self, statement: Delete) -> None:
        gone = self._matching(statement)
        for chosen in gone:
            self._remove(statement.type, chosen)
        for edge, ends in ENDS.items():
            touching = [
                chosen
                for chosen, row in self.tables[edge].items()
                if any(
                    kind == statement.type and row[end] in gone for kind, end in zip(ends, ("src", "dst"), strict=True)
                )
            ]
            for chosen in touching:
                self._remove(edge, chosen)

    def _remove(self, kind: str, chosen: str) -> None:
        del self.tables[kind][chosen]
        self.written.discard((kind, chosen))
        self.count(kind, 1)

    def _matching(self, statement: Update | Delete) -> list[str]:
        column = {"from": "src", "to": "dst"}.get(statement.column, statement.column)
        return [
            chosen
            for chosen, row in self.tables[statement.type].items()
            if row[column] is not None
            and statement.value is not None
            and OPS[statement.op](row[column], statement.value)
        ]

    def broken(self) -> str | None:
        """The rule of the first violation, in the order in which rules are asked."""
        people = self.tables["Person"]
        if any(row["age"] is not None and not 0 <= row["age"] <= 50 for row in people.values()):
            return "range"
        ranks = Counter(row["rank"] for row in people.values() if row["rank"] is not None)
        if any(number > 1 for number in ranks.values()):
            return "unique"
        for edge, ends in ENDS.items():
            for row in self.tables[edge].values():
                if any(row[end] not in self.tables[kind] for kind, end in zip(ends, ("src", "dst"), strict=True)):
                    return "endpoint"
            if edge == "Knows":
                degrees = Counter(row["src"] for row in self.tables[edge].values())
                if any(number > MAX_KNOWS for number in degrees.values()):
                    return "cardinality"
        return None

    def has_changes(self) -> bool:
        removed = any(set(self.stored[kind]) - set(self.tables[kind]) for kind in self.stored)
        return bool(self.written) or removed


def run_model(stored: Tables, statements: list[Statement]) -> Outcome:
    """Return what a mutation does to ``stored``, which stays as it is."""
    run = _Run(tables=copy.deepcopy(stored), stored=stored)
    for statement in statements:
        match statement:
            case Insert():
                run.insert(statement)
            case Update():
                run.update(statement)
            case Delete():
                run.delete(statement)
    has_commit = run.has_changes()
    return Outcome(run.nodes, run.edges, has_commit, run.broken() if has_commit else None, run.tables)
