"""Random reads of every form, and the rows that each finds in a graph of plain dictionaries."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from tests.prop.lasting_graph import COLUMNS, ENDS, KEY, MOST, TYPE, WORDS, Model, Row


@dataclass(frozen=True)
class Read:
    """A read and the rows that it must find; in that order if it has one."""

    text: str
    parameters: Row
    rows: list[tuple[Any, ...]]
    is_ordered: bool = False


def whole(model: Model) -> list[Read]:
    """Return reads of everything."""
    found = []
    for kind, key in KEY.items():
        columns = [key, *COLUMNS[kind]]
        text = f"query q() {{ match {{ $x: {kind} }} return {{ {', '.join(f'$x.{name}' for name in columns)} }} }}"
        found.append(Read(text, {}, [(at, *row.values()) for at, row in model.nodes[kind].items()]))
    for name, (source, target) in ENDS.items():
        match = f"$x: {source}  $x $r:{name.lower()} $y"
        text = f"query q() {{ match {{ {match} }} return {{ $x.{KEY[source]} as x, $y.{KEY[target]} as y, $r.w }} }}"
        found.append(Read(text, {}, [tuple(edge.values()) for edge in model.edges[name].values()]))
    return found


class Reads:
    """Random reads of every form."""

    def __init__(self, random: Any) -> None:
        self.random = random

    def draw(self, model: Model) -> list[Read]:
        """Return one read of each form that makes sense for the model."""
        forms = (
            self.key, self.out, self.back, self.hops, self.path, self.two_edges, self.two_hops, self.optional,
            self.missing, self.counts, self.blocks, self.circle, self.shared, self.words, self.near,
        )  # fmt: skip
        return [read for form in forms if (read := form(model)) is not None]

    def key(self, model: Model) -> Read:
        """Look a node up."""
        kind = self.random.choice("AB")
        key, columns = self._key(model, kind), COLUMNS[kind]
        of = ", ".join(f"$x.{name}" for name in columns)
        text = f"query q($k: {TYPE[kind]}) {{ match {{ $x: {kind} {{ {KEY[kind]}: $k }} }} return {{ {of} }} }}"
        row = model.nodes[kind].get(key)
        return Read(text, {"k": key}, [] if row is None else [tuple(row.values())])

    def out(self, model: Model) -> Read:
        """Follow the edges of a node."""
        return self._step(model, "from", "to")

    def back(self, model: Model) -> Read:
        """Follow the edges to a node."""
        return self._step(model, "to", "from")

    def hops(self, model: Model) -> Read:
        """Walk up to three edges; whether the start is reached as well is left open."""
        key = self._key(model, "A")
        text = "query q($k: I64) { match { $x: A { k: $k }  $x e1{1,3} $y  $y.k != $k } return { $y.k } }"
        return Read(text, {"k": key}, [(other,) for other in self._reached(model, key, 3) if other != key])

    def path(self, model: Model) -> Read | None:
        """Find out how far two nodes are apart."""
        one, other = self._key(model, "A"), self._key(model, "A")
        if one == other:
            return None
        match = "$x: A { k: $one }  $y: A { k: $other }  path $p: $x e1{1,4} $y"
        text = f"query q($one: I64, $other: I64) {{ match {{ {match} }} return {{ length($p) as n }} }}"
        far = self._reached(model, one, 4).get(other)
        return Read(text, {"one": one, "other": other}, [] if far is None else [(far,)])

    def two_edges(self, model: Model) -> Read:
        """Follow edges of two types."""
        key = self._key(model, "A")
        text = "query q($k: I64) { match { $x: A { k: $k }  $x $r:e1|e4 $y } return { $y.k, $r.w } }"
        rows = [(edge["to"], edge["w"]) for name in ("E1", "E4") for edge in model.from_key(name, key)]
        return Read(text, {"k": key}, rows)

    def two_hops(self, model: Model) -> Read:
        """Follow edges of edges."""
        key = self._key(model, "B")
        text = "query q($k: String) { match { $x: B { c: $k }  $x e3 $y  $y e2 $z } return { $y.k, $z.c } }"
        middles = {edge["to"] for edge in model.from_key("E3", key)}
        pairs = {(middle, edge["to"]) for middle in middles for edge in model.from_key("E2", middle)}
        return Read(text, {"k": key}, list(pairs))

    def optional(self, model: Model) -> Read:
        """Keep nodes without an edge."""
        text = "query q() { match { $x: A  optional { $x $r:e2 $y } } return { $x.k, $y.c, $r.w } }"
        rows: list[tuple[Any, ...]] = []
        for key in model.nodes["A"]:
            found = model.from_key("E2", key)
            rows += [(key, edge["to"], edge["w"]) for edge in found] or [(key, None, None)]
        return Read(text, {}, rows)

    def missing(self, model: Model) -> Read:
        """Find nodes that no edge leads to."""
        text = "query q() { match { $x: A  not { $y e3 $x } } return { $x.k } }"
        met = {edge["to"] for edge in model.edges["E3"].values()}
        return Read(text, {}, [(key,) for key in model.nodes["A"] if key not in met])

    def counts(self, model: Model) -> Read:
        """Count edges by the node that they lead to."""
        name = self.random.choice(list(ENDS))
        source, target = ENDS[name]
        match = f"$x: {source}  $x $r:{name.lower()} $y"
        text = f"query q() {{ match {{ {match} }} return {{ $y.{KEY[target]} as y, count($r) as n }} }}"
        found: dict[Any, int] = defaultdict(int)
        for edge in model.edges[name].values():
            found[edge["to"]] += 1
        return Read(text, {}, list(found.items()))

    def blocks(self, model: Model) -> Read:
        """Count the edges of each node."""
        text = "query q() { match { $x: A } return { $x.k, count { $x $r:e1 $y } as n, exists { $z e4 $x } as e } }"
        met = {edge["to"] for edge in model.edges["E4"].values()}
        return Read(text, {}, [(key, len(model.from_key("E1", key)), key in met) for key in model.nodes["A"]])

    def circle(self, model: Model) -> Read:
        """Find triangles."""
        text = "query q() { match { $a: A  $a e1 $b  $b e1 $c  $c e1 $a } return { $a.k, $b.k as b, $c.k as c } }"
        links: dict[Any, set[Any]] = defaultdict(set)
        for edge in model.edges["E1"].values():
            links[edge["from"]].add(edge["to"])
        rows = [(a, b, c) for a in list(links) for b in links[a] for c in links[b] if a in links[c]]
        return Read(text, {}, rows)

    def shared(self, model: Model) -> Read:
        """Look at two types at once."""
        least = self.random.randint(-5, 20)
        text = "query q($least: I64) { match { $x: Num  $x.n >= $least } return { count(*) as n } }"
        values = [row["n"] for kind in KEY for row in model.nodes[kind].values()]
        counted = sum(value is not None and value >= least for value in values)
        return Read(text, {"least": least}, [(counted,)])

    def words(self, model: Model) -> Read:
        """Find nodes by a word."""
        kind, word = self.random.choice("AB"), self.random.choice(WORDS)
        text = f"query q($w: String) {{ match {{ $x: {kind}  search($x.s, $w) }} return {{ $x.{KEY[kind]} }} }}"
        rows = [(key,) for key, row in model.nodes[kind].items() if word in (row["s"] or "").split()]
        return Read(text, {"w": word}, rows)

    def near(self, model: Model) -> Read:
        """Find the nearest vectors."""
        asked = [self.random.randint(-8, 8) / 4, self.random.randint(-8, 8) / 4]
        text = (
            "query q($v: Vector(2)) { match { $x: A  $x.v is not null } return { $x.k } "
            "order { nearest($x.v, $v) } limit 4 }"
        )
        far = sorted((math.dist(row["v"], asked), str(key), key) for key, row in model.nodes["A"].items() if row["v"])
        return Read(text, {"v": asked}, [(key,) for _, _, key in far[:4]], is_ordered=True)

    def _step(self, model: Model, near: str, far: str) -> Read:
        name = self.random.choice(list(ENDS))
        types = dict(zip(("from", "to"), ENDS[name], strict=True))
        one, other = types[near], types[far]
        key = self._key(model, one)
        way = "$x $r:{} $y" if near == "from" else "$y $r:{} $x"
        match = f"$x: {one} {{ {KEY[one]}: $k }}  {way.format(name.lower())}"
        text = f"query q($k: {TYPE[one]}) {{ match {{ {match} }} return {{ $y.{KEY[other]} as y, $y.n, $r.w }} }}"
        rows = [
            (edge[far], model.nodes[other][edge[far]]["n"], edge["w"]) for edge in model.from_key(name, key, end=near)
        ]
        return Read(text, {"k": key}, rows)

    def _reached(self, model: Model, key: Any, most: int) -> dict[Any, int]:
        found, waiting = {key: 0}, deque([key])
        while waiting:
            at = waiting.popleft()
            for edge in model.from_key("E1", at) if found[at] < most else ():
                if edge["to"] not in found:
                    found[edge["to"]] = found[at] + 1
                    waiting.append(edge["to"])
        del found[key]
        return found

    def _key(self, model: Model, kind: str) -> Any:
        known = list(model.nodes[kind])
        if known and self.random.random() < 0.9:
            return self.random.choice(known)
        number = self.random.randrange(MOST[kind])
        return number if kind == "A" else f"b{number}"
