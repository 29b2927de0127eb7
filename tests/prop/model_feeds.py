"""A graph whose rows and schema change at random, and what it holds after each commit, told without the graph."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field

WIDER = {"I32": "I64", "U32": "I64", "F32": "F64"}
KINDS = ("I32", "U32", "F32", "String", "[I32]")
EDGE = "Link"


@dataclass
class Property:
    """A property by what stays when it is renamed."""

    number: int
    name: str
    kind: str
    # The name before this step, for the hint.
    renamed: str | None = None

    def text(self):
        hint = f' @rename_from("{self.renamed}")' if self.renamed else ""
        return f"{self.name}: {self.kind}?{hint}"


@dataclass
class Type:
    """A node type, or the edge type, with its rows: by id the values by number of property, and the ends of an edge."""

    number: int
    name: str
    properties: list[Property] = field(default_factory=list)
    rows: dict[str, dict] = field(default_factory=dict)
    renamed: str | None = None


class Model:
    """What the graph should hold."""

    def __init__(self, random):
        self.random = random
        self._numbers = iter(range(1, 1000))
        self.nodes = [Type(number=self._next(), name="T0", properties=[self._property()])]
        self.edge = Type(number=self._next(), name=EDGE, properties=[self._property()])

    def schema(self):
        """Return the schema of this moment, with the hints of the last step."""
        lines = []
        for one in self.nodes:
            hint = f' @rename_from("{one.renamed}")' if one.renamed else ""
            body = "  ".join(["key: String @key", *(prop.text() for prop in one.properties)])
            lines.append(f"node {one.name}{hint} {{ {body} }}")
        first = self.nodes[0].name
        body = "  ".join(prop.text() for prop in self.edge.properties)
        lines.append(f"edge {EDGE}: {first} -> {first} {{ {body} }}")
        return "\n".join(lines) + "\n"

    def state(self):
        """Return the rows by type, property by number; what is null is left out."""
        return {one.number: copy.deepcopy(one.rows) for one in (*self.nodes, self.edge) if one.rows}

    def names(self):
        """Return how types and properties are called at this moment, by their names."""
        return {
            one.name: (one.number, {prop.name: prop.number for prop in one.properties})
            for one in (*self.nodes, self.edge)
        }

    def step(self, graph, folder):
        """Change rows or the schema, of the graph and here."""
        for one in (*self.nodes, self.edge):
            one.renamed = None
            for prop in one.properties:
                prop.renamed = None
        if self.random.random() < 0.55:
            self._write(graph, folder)
        else:
            self._change_schema()
            graph.apply_schema(self.schema())

    def _next(self):
        return next(self._numbers)

    def _property(self):
        number = self._next()
        return Property(number=number, name=f"p{number}", kind=self.random.choice(KINDS))

    def _change_schema(self):
        random, owner = self.random, self.random.choice([*self.nodes, self.edge])
        prop = random.choice(owner.properties) if owner.properties else None
        match random.choice(("add", "drop", "rename", "widen", "add type", "drop type", "rename type")):
            case "drop" if prop is not None:
                owner.properties.remove(prop)
                for row in owner.rows.values():
                    row.pop(prop.number, None)
            case "rename" if prop is not None:
                prop.renamed, prop.name = prop.name, f"q{self._next()}"
            case "widen" if prop is not None and prop.kind in WIDER:
                prop.kind = WIDER[prop.kind]
            case "add type":
                number = self._next()
                self.nodes.append(Type(number=number, name=f"T{number}", properties=[self._property()]))
            case "drop type" if len(self.nodes) > 1:
                self.nodes.remove(random.choice(self.nodes[1:]))
            case "rename type":
                one = random.choice(self.nodes)
                one.renamed, one.name = one.name, f"T{self._next()}"
            case _:
                owner.properties.append(self._property())

    def _write(self, graph, folder):
        random, lines = self.random, []
        for one in random.sample(self.nodes, random.randint(1, len(self.nodes))):
            for key in random.sample("abcdef", random.randint(1, 4)):
                row = self._values(one)
                one.rows[key] = row
                named = {prop.name: row.get(prop.number) for prop in one.properties}
                lines.append({"type": one.name, "data": {"key": key, **named}})
        ends = sorted(self.nodes[0].rows)
        for _ in range(random.randint(0, 3) if ends else 0):
            source, target, name = random.choice(ends), random.choice(ends), random.choice("xyz")
            row = self._values(self.edge)
            self.edge.rows[name] = {**row, "from": source, "to": target}
            named = {prop.name: row.get(prop.number) for prop in self.edge.properties}
            lines.append({"edge": EDGE, "from": source, "to": target, "data": {"id": name, **named}})
        (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with graph.transaction() as txn:
            txn.load(folder / "rows.jsonl", "merge")
            owner = random.choice(self.nodes)
            gone = random.choice("abcdef")
            if random.random() < 0.6 and owner.rows.pop(gone, None) is not None:
                txn.mutate(f'query q() {{ delete {owner.name} where key = "{gone}" }}')
                if owner is self.nodes[0]:
                    rows = self.edge.rows.items()
                    self.edge.rows = {name: row for name, row in rows if gone not in (row["from"], row["to"])}

    def _values(self, owner):
        found = {}
        for prop in owner.properties:
            value = self._value(prop.kind)
            if value is not None:
                found[prop.number] = value
        return found

    def _value(self, kind):
        choices = {
            "I32": (None, -1, 7),
            "U32": (None, 0, 4_000_000_000),
            "I64": (None, -1, 5_000_000_000),
            "F32": (None, 0.0, 1.5),
            "F64": (None, -0.5, 1e300),
            "String": (None, "", "é"),
            "[I32]": (None, [], [1, 2]),
        }
        return self.random.choice(choices[kind])


def replay(state, names, batch_blocks):
    """Put the changes of some commits onto a state; ``names`` tells what types and properties are called in each."""
    for block in batch_blocks:
        before, after = names[str(block.cause.commit.id)]
        for change in block.changes:
            # A type that the commit dropped is called as it was before.
            number, properties = after.get(change.type.name) or before[change.type.name]
            rows = state.setdefault(number, {})
            if change.op == "delete":
                del rows[change.id]
                continue
            assert (change.op == "update") == (change.id in rows)
            image = change.after.to_json()
            values = {properties[name]: value for name, value in image["properties"].items() if name in properties}
            rows[change.id] = {
                **{key: value for key, value in values.items() if value is not None},
                **image.get("endpoints", {}),
            }
    return state


def alive(state, names):
    """Return the state without what the schema of a moment no longer has."""
    live = {number: {*properties.values(), "from", "to"} for number, properties in names.values()}
    return {
        number: {key: {one: value for one, value in row.items() if one in live[number]} for key, row in rows.items()}
        for number, rows in state.items()
        if rows and number in live
    }
