"""Random change logs, and a plain-dict graph that takes their rows one after the other."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random
from typing import Any

SCHEMA = """
node Person { name: String @key  age: I32?  city: String @default("Rome") }
node Team { code: String @key }
edge Knows: Person -> Person { since: I32?  why: String? }
edge In: Person -> Team { role: String?  @key(src, dst) }
"""
_PEOPLE, _TEAMS, _EDGES = ("ada", "bob", "cid", "dan"), ("x", "y"), ("e1", "e2", "e3", "e4")
Row = dict[str, Any]


class PlainGraph:
    """What a graph should be after the rows of a log, each taken by itself in the order of its sequence."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[str, str], Row] = {}
        self.edges: dict[tuple[str, str], Row] = {}

    def take(self, row: Row) -> None:
        """Take one row of a log."""
        name = row.get("type") or row["edge"]
        op, data = row.get("_op", "upsert"), row["data"]
        if "type" in row:
            key = name, data["name" if name == "Person" else "code"]
            self._take(self.nodes, key, op, data, {"Person": {"age": None, "city": "Rome"}, "Team": {}}[name])
            if op == "delete":
                self._cascade(key)
            return
        ends = {"from": row.get("from"), "to": row.get("to")}
        edge_id = data.get("id") or json.dumps([row["from"], row["to"]], separators=(",", ":"))
        self._take(
            self.edges, (name, edge_id), op, data, {"Knows": {"since": None, "why": None}, "In": {"role": None}}[name]
        )
        if op != "delete":
            self.edges[name, edge_id] |= ends

    def rows(self) -> dict[str, dict[str, Row]]:
        """Return everything by type and id."""
        found: dict[str, dict[str, Row]] = {}
        for (name, entity_id), row in sorted({**self.nodes, **self.edges}.items()):
            found.setdefault(name, {})[entity_id] = row
        return found

    def _take(self, rows: dict[tuple[str, str], Row], key: tuple[str, str], op: str, data: Row, none: Row) -> None:
        if op == "delete":
            rows.pop(key, None)
            return
        before = rows.get(key, none) if op == "patch" else none
        rows[key] = {**before, **{name: value for name, value in data.items() if name in none}}

    def _cascade(self, key: tuple[str, str]) -> None:
        ends = {"Knows": {"from": "Person", "to": "Person"}, "In": {"from": "Person", "to": "Team"}}
        for edge, row in list(self.edges.items()):
            if any(row[end] == key[1] and name == key[0] for end, name in ends[edge[0]].items()):
                del self.edges[edge]


def random_log(
    random: Random, length: int, ops: tuple[str, ...] = ("upsert", "patch", "delete")
) -> tuple[list[Row], list[PlainGraph]]:
    """Return the rows of a log in the order of their sequences, and the graph after each of them.

    Every edge is written between nodes that are there at that moment, so that every part of the log is valid.
    """
    graph, rows, states = PlainGraph(), [], []
    while len(rows) < length:
        row = _random_row(random, graph, ops)
        if row is not None:
            row["_seq"] = 10 * len(rows) + random.randrange(10)
            graph.take(row)
            rows.append(row)
            states.append(deepcopy(graph))
    return rows, states


def disordered(random: Random, rows: list[Row]) -> list[Row]:
    """Return rows in any order, some of them more than once."""
    more = [*rows, *(row for row in rows if random.random() < 0.2)]
    random.shuffle(more)
    return more


def dealt(random: Random, rows: list[Row], calls: int) -> list[list[Row]]:
    """Return rows dealt out to calls at random, so that sequences go back from call to call."""
    dealt: list[list[Row]] = [[] for _ in range(calls)]
    for row in disordered(random, rows):
        random.choice(dealt).append(row)
    return [call for call in dealt if call]


def _random_row(random: Random, graph: PlainGraph, ops: tuple[str, ...]) -> Row | None:
    weights = {"upsert": 5, "patch": 3, "delete": 2}
    op = random.choices(ops, [weights[one] for one in ops])[0]
    kind = random.choices(("Person", "Team", "Knows", "In"), (6, 1, 5, 3))[0]
    marks = {} if op == "upsert" and random.random() < 0.5 else {"_op": op}
    if kind in {"Person", "Team"}:
        data: Row = {"name": random.choice(_PEOPLE)} if kind == "Person" else {"code": random.choice(_TEAMS)}
        if kind == "Person" and op != "delete":
            data |= _some(random, age=random.choice((None, 1, 2)), city=random.choice(("Oslo", "Bonn")))
        return {"type": kind, **marks, "data": data}
    people = [name for kind_, name in graph.nodes if kind_ == "Person"]
    others = people if kind == "Knows" else [code for kind_, code in graph.nodes if kind_ == "Team"]
    data = {"id": random.choice(_EDGES)} if kind == "Knows" else {}
    if op == "delete" and kind == "Knows":
        return {"edge": kind, **marks, "data": data}
    if op == "delete":
        return {"edge": kind, "from": random.choice(_PEOPLE), "to": random.choice(_TEAMS), **marks, "data": data}
    if not people or not others:
        return None
    given = {"since": random.choice((None, 1, 2)), "why": "w"} if kind == "Knows" else {"role": random.choice("ab")}
    ends = {"from": random.choice(people), "to": random.choice(others)}
    return {"edge": kind, **ends, **marks, "data": data | _some(random, **given)}


def _some(random: Random, **values: Any) -> Row:
    return {name: value for name, value in values.items() if random.random() < 0.6}
