"""Random reads that fit a schema by construction: every clause kind, in any order that the checker accepts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.prop.choices import Choices
from tests.prop.read_expressions import OPS, Givens, comparable, orderable, quoted
from tests.prop.read_output import write_output
from tests.query_oracle import EdgeShape, Kind, Schema

_NAMES = ("a", "b", "c", "d", "k", "m", "x", "z")
_MOST_NODES = 4
_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A query with its parameters as plain values; ``kinds`` tells which of them are dates."""

    text: str
    parameters: dict[str, Any]
    kinds: dict[str, Kind]


def write_read(choices: Choices, schema: Schema) -> Read:
    """Write a read over ``schema``."""
    givens = Givens(choices)
    scope = Scope(choices=choices, schema=schema, givens=givens, names=list(_NAMES))
    clauses = scope.write_block(choices.pick((0, 1, 1, 1, 2, 2, 3, 4)))
    output = write_output(choices, schema, givens, scope.nodes, scope.edges)
    declared = ", ".join(f"${name}: {given.declared}" for name, given in givens.found.items())
    text = f"query q({declared}) {{\n    match {{\n        {clauses}\n    }}\n    {output}\n}}"
    return Read(
        text=text,
        parameters={name: given.value for name, given in givens.found.items()},
        kinds={name: given.kind for name, given in givens.found.items()},
    )


@dataclass(slots=True, kw_only=True)
class Scope:
    """The variables in sight of a clause, and what writes the next one."""

    choices: Choices
    schema: Schema
    givens: Givens
    names: list[str]
    depth: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)

    def write_block(self, count: int) -> str:
        """Write clauses of a match; the first one introduces a variable."""
        lines = [self._introduce()]
        lines.extend(self._clause() for _ in range(count))
        return "\n        ".join(lines)

    def _clause(self) -> str:
        kinds = ("filter", "filter", "traversal", "traversal", "traversal", "binding", "negation")
        chosen = self.choices.pick(kinds)
        if chosen == "negation":
            return self._negation() if self.depth < _DEPTH else self._filter()
        if chosen == "filter" or len(self.nodes) >= _MOST_NODES:
            return self._filter()
        return self._binding() if chosen == "binding" else self._traversal()

    def _introduce(self) -> str:
        return self._traversal() if self.choices.chance(5) else self._binding(is_fresh=True)

    def _binding(self, *, is_fresh: bool = False) -> str:
        if self.nodes and not is_fresh and self.choices.coin():
            name = self.choices.pick(sorted(self.nodes))
            return self._bind(name, self.nodes[name])
        name, type_name = self._fresh(), self.choices.pick(sorted(self.schema.nodes))
        self.nodes[name] = type_name
        return self._bind(name, type_name)

    def _bind(self, name: str, type_name: str) -> str:
        count = self.choices.pick((*[0] * 11, 1, 1, 1, 2))
        matched = [self._inline(type_name) for _ in range(count)]
        return f"${name}: {type_name}" + (f" {{ {', '.join(matched)} }}" if matched else "")

    def _inline(self, type_name: str) -> str:
        kinds = {name: kind for name, kind in self.schema.properties(type_name).items() if kind.dimension is None}
        name = self.choices.pick(sorted(kinds))
        kind = kinds[name]
        if kind.scalar == "DateTime" and not kind.is_list and self.choices.chance(4):
            return f"{name}: now()"
        if kind.enum_values:
            # The checker knows the values of an enum, so a literal must be one of them; a parameter need not.
            value = self.choices.pick(kind.enum_values)
            return f"{name}: {quoted(value)}" if self.choices.coin() else f"{name}: {self.givens.any(name, kind)}"
        return f"{name}: {self.givens.any(name, kind)}"

    def _traversal(self, *, anchor: str | None = None) -> str:
        shapes = [
            shape
            for shape in self.schema.edges.values()
            if anchor is None or self.nodes[anchor] in {shape.source, shape.target}
        ]
        if not shapes:
            return self._filter(anchor=anchor)
        shape = self.choices.pick(shapes)
        ends = self._ends(shape, anchor)
        edge = shape.name[0].lower() + shape.name[1:]
        mark = self._edge_mark(shape)
        is_undirected = shape.is_same_type and self.choices.chance(4)
        edge = f"<{edge}>" if is_undirected else edge
        hops = self._hops() if not mark else ""
        return f"${ends[0]} {mark}{edge}{hops} ${ends[1]}"

    def _ends(self, shape: EdgeShape, anchor: str | None) -> tuple[str, str]:
        """Both ends in written order; against the direction only where a known end tells it."""
        types = [shape.source, shape.target]
        ends: list[str | None] = [None, None]
        if anchor is not None:
            fitting = [index for index in (0, 1) if types[index] == self.nodes[anchor]]
            ends[self.choices.pick(fitting)] = anchor
        known = [name is not None for name in ends]
        if shape.is_same_type and anchor is None and self.choices.chance(16):
            ends = [self._end(types[0], may_be_anonymous=False)[0]] * 2
        for index in (0, 1):
            if ends[index] is None:
                ends[index], known[index] = self._end(types[index], may_be_anonymous="_" not in ends)
        source, target = (name or "" for name in ends)
        for name, type_name in ((source, types[0]), (target, types[1])):
            if name != "_":
                self.nodes.setdefault(name, type_name)
        may_turn = not shape.is_same_type and any(known)
        return (target, source) if may_turn and self.choices.coin() else (source, target)

    def _end(self, type_name: str, *, may_be_anonymous: bool) -> tuple[str, bool]:
        fitting = sorted(name for name, found in self.nodes.items() if found == type_name)
        is_full = len(self.nodes) >= _MOST_NODES
        choice = self.choices.number(0, 5)
        if choice == 0 and may_be_anonymous:
            return "_", False
        if fitting and (choice <= 3 or is_full):
            return self.choices.pick(fitting), True
        return self._fresh(), False

    def _edge_mark(self, shape: EdgeShape) -> str:
        choice = self.choices.number(0, 9)
        if choice == 9:
            return "$_:"
        if choice < 7:
            return ""
        name = f"w{self._fresh()}"
        self.edges[name] = shape.name
        return f"${name}:"

    def _hops(self) -> str:
        if self.choices.number(0, 2):
            return ""
        low = self.choices.pick((1, 1, 2, 3))
        return f"{{{low},{low + self.choices.number(0, 2)}}}"

    def _filter(self, *, anchor: str | None = None) -> str:
        variables = {**self.nodes, **self.edges} if anchor is None else {anchor: self.nodes[anchor]}
        if anchor is None and self.choices.chance(12):
            return self._gate()
        candidates = [
            (variable, name, kind)
            for variable, type_name in sorted(variables.items())
            for name, kind in self.schema.properties(type_name).items()
            if kind.dimension is None
        ]
        if not candidates:
            return self._gate() if anchor is None else f"${anchor}: {self.nodes[anchor]}"
        variable, name, kind = self.choices.pick(candidates)
        access = f"${variable}.{name}"
        if kind.is_list:
            return f"{access} contains {self._needle(name, kind)}"
        if kind.scalar == "String" and self.choices.coin():
            return self._text_test(access, name, kind)
        others = self._others(kind, access)
        if others and self.choices.chance(3):
            return f"{access} {self.choices.pick(OPS)} {self.choices.pick(others)}"
        return self._comparison(access, name, kind)

    def _comparison(self, access: str, name: str, kind: Kind) -> str:
        op = self.choices.pick(OPS)
        choice = self.choices.number(0, 7)
        if kind.scalar == "DateTime" and choice < 3:
            return f"{access} {op} now()"
        if choice == 7:
            return f"{self.givens.list_of(name, kind)} contains {access}"
        value = self.givens.any(name, kind)
        return f"{value} {op} {access}" if choice == 6 else f"{access} {op} {value}"

    def _needle(self, name: str, kind: Kind) -> str:
        others = self._others(Kind(scalar=kind.scalar, digits=kind.digits), "")
        if others and self.choices.chance(3):
            return self.choices.pick(others)
        return self.givens.any("needle", kind)

    def _text_test(self, access: str, name: str, kind: Kind) -> str:
        op = self.choices.pick(("contains", "starts_with"))
        others = self._others(kind, access)
        if others and self.choices.chance(4):
            return f"{access} {op} {self.choices.pick(others)}"
        value = self.givens.any("needle", kind)
        return f"{value} {op} {access}" if self.choices.chance(4) else f"{access} {op} {value}"

    def _others(self, kind: Kind, access: str) -> list[str]:
        """Properties in sight that compare with one of this kind."""
        return [
            f"${variable}.{name}"
            for variable, type_name in sorted({**self.nodes, **self.edges}.items())
            for name, found in self.schema.properties(type_name).items()
            if orderable(found) and comparable(found, kind) and f"${variable}.{name}" != access
        ]

    def _gate(self) -> str:
        kind = Kind(scalar=self.choices.pick(("Bool", "I64", "String", "Date")))
        left = self.givens.parameter("", kind)
        return f"{left} {self.choices.pick(OPS)} {self.givens.any('', kind)}"

    def _negation(self) -> str:
        inner = Scope(
            choices=self.choices,
            schema=self.schema,
            givens=self.givens,
            names=[f"{name}{self.depth}" for name in ("n", "b", "y", "q")],
            depth=self.depth + 1,
            nodes=dict(self.nodes),
            edges=dict(self.edges),
        )
        anchor = self.choices.pick(sorted(self.nodes))
        lines = [inner.anchored(anchor)]
        lines.extend(inner._clause() for _ in range(self.choices.pick((0, 0, 1, 1, 2))))
        return f"not {{ {'  '.join(lines)} }}"

    def anchored(self, anchor: str) -> str:
        """Write a clause that mentions ``anchor``."""
        match self.choices.number(0, 5):
            case 0:
                return self._filter(anchor=anchor)
            case 1:
                return self._bind(anchor, self.nodes[anchor])
            case _:
                return self._traversal(anchor=anchor)

    def _fresh(self) -> str:
        if not self.names:
            self.names.append(f"v{len(self.nodes) + len(self.edges)}{self.depth}")
        name = self.choices.pick(self.names)
        self.names.remove(name)
        return name
