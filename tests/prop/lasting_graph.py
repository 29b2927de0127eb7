"""A graph as plain dictionaries, and random changes of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

SCHEMA = """
interface Num { n: I64? }
node A implements Num { k: I64 @key  s: String? @index  n: I64?  l: [I64]?  v: Vector(2)? }
node B implements Num { c: String @key  s: String? @index  n: I64? }
edge E1: A -> A { w: I64? }
edge E2: A -> B { w: I64?  @key(src, dst) }
edge E3: B -> A { w: I64? }
edge E4: A -> A { w: I64?  @key(src, dst) }
"""
ENDS = {"E1": ("A", "A"), "E2": ("A", "B"), "E3": ("B", "A"), "E4": ("A", "A")}
KEYED = ("E2", "E4")
KEY = {"A": "k", "B": "c"}
TYPE = {"A": "I64", "B": "String"}
COLUMNS = {"A": {"s": "String?", "n": "I64?", "l": "[I64]?", "v": "Vector(2)?"}, "B": {"s": "String?", "n": "I64?"}}
WORDS = ("ash", "birch", "cedar", "elm", "fir", "gorse")
MOST = {"A": 60, "B": 24}

Row = dict[str, Any]


@dataclass
class Model:
    """Nodes by type and key, and edges by type and a number that each keeps for as long as it exists."""

    nodes: dict[str, dict[Any, Row]] = field(default_factory=lambda: {name: {} for name in KEY})
    edges: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in ENDS})

    def copied(self) -> Model:
        """Return the same, to be changed."""
        return copy.deepcopy(self)

    def drop(self, kind: str, keys: set[Any]) -> None:
        """Delete nodes and their edges."""
        for key in keys:
            del self.nodes[kind][key]
        for name, (source, target) in ENDS.items():
            gone = {
                number
                for number, edge in self.edges[name].items()
                if (source == kind and edge["from"] in keys) or (target == kind and edge["to"] in keys)
            }
            for number in gone:
                del self.edges[name][number]

    def connect(self, name: str, source: Any, target: Any, weight: Any, number: int) -> None:
        """Add an edge; where the type has a key, one with these ends gets the weight instead."""
        edges = self.edges[name]
        if name in KEYED:
            there = (at for at, edge in edges.items() if (edge["from"], edge["to"]) == (source, target))
            number = next(there, number)
        edges[number] = {"from": source, "to": target, "w": weight}

    def from_key(self, name: str, key: Any, end: str = "from") -> list[Row]:
        """Return the edges of a node at one end."""
        return [edge for edge in self.edges[name].values() if edge[end] == key]


class ConflictError(Exception):
    """Both sides changed the same row, and not in the same way."""


def merged(base: Model, ours: Model, theirs: Model) -> Model:
    """Return what a merge of two branches holds."""
    found = Model()
    for part in ("nodes", "edges"):
        for name in getattr(found, part):
            rows = [getattr(side, part)[name] for side in (base, ours, theirs)]
            for key in dict.fromkeys(key for side in rows for key in side):
                was, mine, other = (side.get(key) for side in rows)
                if was not in (mine, other) and mine != other:
                    raise ConflictError(name, key)
                kept = other if mine == was else mine
                if kept is not None:
                    getattr(found, part)[name][key] = dict(kept)
    return found


def change_matched(model: Model, what: str, name: str, key: Any, weight: Any, number: int) -> None:
    """Do something with all edges of a node, or with the nodes that they lead to."""
    target = ENDS[name][1]
    found = {at: edge for at, edge in model.edges[name].items() if edge["from"] == key}
    ends = {edge["to"] for edge in found.values()}
    match what:
        case "set ends":
            for end in ends:
                model.nodes[target][end]["n"] = weight
        case "set edges":
            for edge in found.values():
                edge["w"] = (model.nodes[target][edge["to"]]["n"] or 0) + (weight or 0)
        case "delete edges":
            for at in found:
                del model.edges[name][at]
        case "delete ends":
            model.drop(target, ends)
        case _:
            for offset, end in enumerate(sorted(ends, key=str)):
                model.connect(name, key, end, weight, number * 1000 + offset)


@dataclass(frozen=True)
class Change:
    """One statement, its parameters, and what it does; ``fails`` says that the schema refuses it."""

    kind: str
    text: str
    parameters: Row
    apply: Any
    fails: bool = False


class Changes:
    """Random changes; ``half`` is 0 or 1 where only nodes of that half, and edges that start there, may be changed."""

    def __init__(self, random: Any) -> None:
        self.random = random
        self.made = 0

    def draw(self, model: Model, half: int | None) -> Change:
        """Return a change that makes sense for the model."""
        ways = (self.node, self.edge, self.edge, self.update, self.delete, self.edges_where, self.matched, self.blocks)
        while True:
            (way,) = self.random.choices(ways, (34, 26, 8, 10, 3, 8, 14, 4))
            found = way(model, half)
            if found is not None:
                return found

    def node(self, model: Model, half: int | None) -> Change:
        """Insert, complete or replace a node."""
        random = self.random
        kind, how = random.choice("AAAB"), random.choice(("insert", "upsert", "upsert", "if absent", "strict"))
        key = self._some_key(model, kind, half)
        given = {name: self.value(name) for name in COLUMNS[kind] if random.random() < 0.6}
        whole = {**dict.fromkeys(COLUMNS[kind]), **given}
        known = key in model.nodes[kind]
        declared, body = self._parameters(kind, key, given)
        text = f"query m({declared}) {{ {'upsert' if how == 'upsert' else 'insert'} {kind} {{ {body} }} " + (
            f"{how} }}" if how in ("if absent", "strict") else "}"
        )

        def apply(to: Model) -> None:
            if how == "upsert" and key in to.nodes[kind]:
                to.nodes[kind][key].update(given)
            elif how != "if absent" or key not in to.nodes[kind]:
                to.nodes[kind][key] = dict(whole)

        return Change(f"node {how}", text, {"key": key, **given}, apply, fails=known and how == "strict")

    def edge(self, model: Model, half: int | None) -> Change | None:
        """Insert an edge, which replaces the one with its ends where the type has a key."""
        name = self.random.choice(list(ENDS))
        source, target = (self._known(model, kind, half if at == 0 else None) for at, kind in enumerate(ENDS[name]))
        if source is None or target is None or (name == "E1" and source == target):
            return None
        weight, number = self.value("n"), self._number()
        text = f"query m($f: String, $t: String, $w: I64?) {{ insert {name} {{ from: $f, to: $t, w: $w }} }}"

        return Change(
            "edge insert",
            text,
            {"f": str(source), "t": str(target), "w": weight},
            lambda to: to.connect(name, source, target, weight, number),
        )

    def update(self, model: Model, half: int | None) -> Change:
        """Change nodes by their keys and a value."""
        kind, least = self.random.choice("AAB"), self.random.randint(-3, 10)
        keys = self._keys(model, kind, half, self.random.randint(1, 4))
        column = self.random.choice(list(COLUMNS[kind]))
        value = self.value(column)
        text = (
            f"query m($keys: [{TYPE[kind]}], $value: {COLUMNS[kind][column]}, $least: I64) {{ "  # noqa: S608 - no SQL
            f"update {kind} set {{ {column}: $value }} where {KEY[kind]} in $keys and (n > $least or n is null) }}"
        )

        def apply(to: Model) -> None:
            for key in {*keys} & {*to.nodes[kind]}:
                row = to.nodes[kind][key]
                if row["n"] is None or row["n"] > least:
                    row[column] = value

        return Change("update", text, {"keys": keys, "value": value, "least": least}, apply)

    def delete(self, model: Model, half: int | None) -> Change:
        """Delete nodes, with their edges."""
        kind = self.random.choice("AB")
        keys = self._keys(model, kind, half, self.random.randint(1, 2))
        text = f"query m($keys: [{TYPE[kind]}]) {{ delete {kind} where {KEY[kind]} in $keys }}"
        return Change("delete", text, {"keys": keys}, lambda to: to.drop(kind, {*keys} & {*to.nodes[kind]}))

    def edges_where(self, model: Model, half: int | None) -> Change | None:
        """Change or delete the edges of a node by a value."""
        name, least = self.random.choice(list(ENDS)), self.random.randint(-2, 12)
        key = self._known(model, ENDS[name][0], half)
        if key is None:
            return None
        deletes, weight = self.random.random() < 0.4, self.value("n")
        what = f"delete {name}" if deletes else f"update {name} set {{ w: $w }}"  # noqa: S608 - no SQL
        text = f"query m($f: String, $least: I64, $w: I64?) {{ {what} where from = $f and w > $least }}"
        if deletes:
            text = text.replace(", $w: I64?", "")

        def apply(to: Model) -> None:
            for number, edge in list(to.edges[name].items()):
                if edge["from"] == key and edge["w"] is not None and edge["w"] > least:
                    if deletes:
                        del to.edges[name][number]
                    else:
                        edge["w"] = weight

        given = {"f": str(key), "least": least} | ({} if deletes else {"w": weight})
        return Change("edge delete" if deletes else "edge update", text, given, apply)

    def matched(self, model: Model, half: int | None) -> Change | None:
        """Change or delete what a pattern finds."""
        name = self.random.choice(list(ENDS))
        source = ENDS[name][0]
        key = self._known(model, source, half)
        if key is None:
            return None
        what = self.random.choice(("set ends", "set edges", "delete edges", "delete ends", "insert"))
        if half is not None and what in {"set ends", "delete ends"}:
            return None
        weight, number = self.value("n"), self._number()
        tail = {
            "set ends": "update $y set { n: $w }",
            "set edges": "update $r set { w: coalesce($y.n, 0) + coalesce($w, 0) }",
            "delete edges": "delete $r",
            "delete ends": "delete $y",
            "insert": f"{'upsert' if name in KEYED else 'insert'} {name} {{ from: $x, to: $y, w: $w }} for each $x, $y",
        }[what]
        given = {"key": key} | ({"w": weight} if "$w" in tail else {})
        declared = f"$key: {TYPE[source]}" + (", $w: I64?" if "w" in given else "")
        match = f"$x: {source} {{ {KEY[source]}: $key }}  $x $r:{name.lower()} $y"
        text = f"query m({declared}) {{ match {{ {match} }} {tail} }}"

        def apply(to: Model) -> None:
            change_matched(to, what, name, key, weight, number)

        return Change(f"matched {what}", text, given, apply)

    def blocks(self, model: Model, half: int | None) -> Change:
        """Change nodes by what edges they have."""
        keys = self._keys(model, "A", half, 6)
        text = (
            "query m($keys: [I64]) { update A set { n: count { $p $r:e1 $q  $p.k = k } } "
            "where k in $keys and not { $p e2 $b  $p.k = k } }"
        )

        def apply(to: Model) -> None:
            for key in {*keys} & {*to.nodes["A"]}:
                if not to.from_key("E2", key):
                    to.nodes["A"][key]["n"] = len(to.from_key("E1", key))

        return Change("update by blocks", text, {"keys": keys}, apply)

    def edge_first(self, model: Model, half: int | None) -> tuple[Change, Change] | None:
        """Return an edge to a node that comes behind it, and the node."""
        source = self._known(model, "A", half)
        missing = [key for key in self._all_keys("A", half) if key not in model.nodes["A"]]
        if source is None or not missing:
            return None
        key, number = self.random.choice(missing), self._number()
        edge = {"from": source, "to": key, "w": number}
        text = "query m($f: String, $t: String, $w: I64) { insert E1 { from: $f, to: $t, w: $w } }"
        given = {"f": str(source), "t": str(key), "w": number}
        first = Change("edge first", text, given, lambda to: to.edges["E1"].__setitem__(number, dict(edge)))
        row = dict.fromkeys(COLUMNS["A"])
        text = "query m($key: I64) { insert A { k: $key } }"
        return first, Change("node", text, {"key": key}, lambda to: to.nodes["A"].__setitem__(key, dict(row)))

    def load(self, model: Model, half: int | None) -> tuple[dict[str, list[Row]], Any]:
        """Return rows that replace others, edges before the nodes that they need, and what they do."""
        nodes = {key: {name: self.value(name) for name in COLUMNS["A"]} for key in self._keys(model, "A", half, 5)}
        known = [*model.nodes["A"], *nodes]
        sources = [key for key in known if half is None or key % 2 == half]
        pairs = [(self.random.choice(sources), self.random.choice(known)) for _ in range(4)] if sources else []
        edges = {self._number(): {"from": one, "to": other, "w": 7} for one, other in pairs if one != other}

        def apply(to: Model) -> None:
            for key, row in nodes.items():
                to.nodes["A"][key] = dict(row)
            for number, edge in edges.items():
                to.edges["E1"][number] = dict(edge)

        rows = [{**edge, "from": str(edge["from"]), "to": str(edge["to"])} for edge in edges.values()]
        return {"E1": rows, "A": [{"k": key, **row} for key, row in nodes.items()]}, apply

    def value(self, name: str) -> Any:
        """Return a value of a property, NULL now and then."""
        random = self.random
        if random.random() < 0.15:
            return None
        if name == "s":
            return " ".join(random.choices(WORDS, k=random.randint(0, 3)))
        if name == "l":
            return [random.randint(0, 5) for _ in range(random.randint(0, 3))]
        if name == "v":
            return [random.randint(-8, 8) / 4, random.randint(-8, 8) / 4]
        return random.randint(-5, 20)

    def _parameters(self, kind: str, key: Any, given: Row) -> tuple[str, str]:
        types = {"key": TYPE[kind], **{name: COLUMNS[kind][name] for name in given}}
        declared = ", ".join(f"${name}: {of}" for name, of in types.items())
        return declared, ", ".join([f"{KEY[kind]}: $key", *(f"{name}: ${name}" for name in given)])

    def _all_keys(self, kind: str, half: int | None) -> list[Any]:
        numbers = [number for number in range(MOST[kind]) if half is None or number % 2 == half]
        return numbers if kind == "A" else [f"b{number}" for number in numbers]

    def _some_key(self, model: Model, kind: str, half: int | None) -> Any:
        known = self._known(model, kind, half)
        return self.random.choice(self._all_keys(kind, half)) if known is None or self.random.random() < 0.5 else known

    def _known(self, model: Model, kind: str, half: int | None) -> Any:
        allowed = [key for key in self._all_keys(kind, half) if key in model.nodes[kind]]
        return self.random.choice(allowed) if allowed else None

    def _keys(self, model: Model, kind: str, half: int | None, count: int) -> list[Any]:
        return sorted({self._some_key(model, kind, half) for _ in range(count)}, key=str)

    def _number(self) -> int:
        self.made += 1
        return self.made
