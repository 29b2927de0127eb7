"""Random reads of the second edition that fit a schema by construction: every production and every function."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from tests.prop.choices import Choices, choices
from tests.prop.read_expressions import Givens
from tests.prop.read_output import unlike
from tests.prop.read_queries import Read, Scope
from tests.prop.read_schemas import is_summable
from tests.query_oracle.schema import EdgeShape, Kind, Schema
from tests.query_oracle.text_expressions import SCALARS, Expressions, Sight, family_of

_NAMES = ("a", "b", "c", "d", "k", "m", "x", "z")
_MOST_NODES = 3
_SIZE = 600
_FAMILY_KINDS = {
    "int": Kind(scalar="I64"),
    "F64": Kind(scalar="F64"),
    "Decimal": Kind(scalar="Decimal"),
    "String": Kind(scalar="String"),
    "Bool": Kind(scalar="Bool"),
    "Date": Kind(scalar="Date"),
    "DateTime": Kind(scalar="DateTime"),
}
# A whole number that a stage handed on may be of any size.
_HANDED_ON = {**_FAMILY_KINDS, "int": Kind(scalar="I64")}
_NULLS = ("", "", "", " nulls first", " nulls last")
_WAYS = ("", " asc", " desc")
_WORDS = ('"ab"', '"b ba"', '"é ab"', '""')


def texts(schema: Schema) -> st.SearchStrategy[Read]:
    """Draw a read over a schema."""
    return choices(_SIZE).map(lambda supply: write_text(supply, schema))


def seeded_text(seed: int, schema: Schema) -> Read:
    """Return the read of a number, the same for everyone."""
    return write_text(Choices(Random(seed).randbytes(_SIZE)), schema)  # noqa: S311 - no secret


def write_text(supply: Choices, schema: Schema) -> Read:
    """Write a read over ``schema``."""
    givens = Givens(supply)
    body = _Body(supply, schema, givens).write()
    declared = ", ".join(f"${name}: {given.declared}" for name, given in givens.found.items())
    return Read(
        text=f"query q({declared}) {{\n    {body}\n}}",
        parameters={name: given.value for name, given in givens.found.items()},
        kinds={name: given.kind for name, given in givens.found.items()},
    )


@dataclass(slots=True, kw_only=True)
class _Match(Scope):
    """The clauses of the first edition, and the others."""

    items: dict[str, Kind] = field(default_factory=dict)
    names_before: dict[str, Kind] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def sight(self) -> Sight:
        """Return what an expression may name here."""
        return Sight(
            schema=self.schema,
            entities={**self.nodes, **self.edges},
            items=dict(self.items),
            names=dict(self.names_before),
            paths=list(self.paths),
            block=self._block if self.depth < 1 and self._walkable() else None,
        )

    def write(self, count: int) -> str:
        """Write the clauses of a match: the first one binds something unless something is bound."""
        lines = [] if self.nodes else [self._start()]
        lines += [self._more() for _ in range(max(count, 0 if lines else 1))]
        return "\n        ".join(lines)

    def _start(self) -> str:
        if self.schema.interfaces and self.choices.chance(5):
            return self._interface()
        return self._binding(is_fresh=True)

    def _bind(self, name: str, type_name: str) -> str:
        # Seldom a value: most of them are of no node. Sometimes one that is made of what is bound before.
        if not self.choices.chance(8):
            return f"${name}: {type_name}"
        kinds = self.schema.properties(type_name)
        fitting = [
            one for one, kind in kinds.items() if not kind.is_list and not kind.enum_values and kind.dimension is None
        ]
        chosen = self.choices.pick(sorted(fitting))
        family = family_of(kinds[chosen])
        if family not in SCALARS or self.choices.coin():
            return f"${name}: {type_name} {{ {self._inline(type_name)} }}"
        sight = self.sight()
        sight.entities = {one: found for one, found in sight.entities.items() if one != name}
        sight.block = None
        value = Expressions(self.choices, self.givens, sight).of(family)
        return f"${name}: {type_name} {{ {chosen}: {value} }}"

    def _more(self) -> str:
        kinds = (
            "condition",
            "condition",
            "walk",
            "walk",
            "optional",
            "optional",
            "each",
            "path",
            "path",
            "first",
            "interface",
        )
        chosen = self.choices.pick(kinds)
        is_full = len(self.nodes) >= _MOST_NODES
        if chosen == "walk" and self._walkable():
            return self._walk()
        if chosen == "optional" and not is_full and self.depth < 1 and self._walkable():
            return self._optional()
        if chosen == "each" and len(self.items) < 1:
            return self._each()
        if chosen == "path" and not is_full and not self.paths and self._walkable():
            return self._path()
        if chosen == "first" and self.choices.coin():
            return self._clause() if not is_full and self._walkable() else self._plain_filter()
        if chosen == "interface" and self.schema.interfaces and not is_full:
            return self._interface()
        return self._test()

    def _test(self) -> str:
        """A condition; one that most rows pass, more often than not."""
        text = self.expressions().condition()
        if self.nodes and self.choices.number(0, 2):
            return f"({text}) or ${self.choices.pick(sorted(self.nodes))} is not null"
        return text

    def expressions(self) -> Expressions:
        """Return what writes expressions here."""
        return Expressions(self.choices, self.givens, self.sight())

    def _plain_filter(self) -> str:
        return self._filter() if self.nodes or self.edges else self.expressions().condition()

    def _walkable(self) -> list[str]:
        """Variables of a node type from which edges lead away."""
        ends = {end for shape in self.schema.edges.values() for end in (shape.source, shape.target)}
        return sorted(name for name, type_name in self.nodes.items() if type_name in ends)

    def _shape(self, anchor: str) -> EdgeShape:
        type_name = self.nodes[anchor]
        return self.choices.pick([one for one in self.schema.edges.values() if type_name in {one.source, one.target}])

    def _walk(self, *, is_path: bool = False) -> str:
        anchor = self.choices.pick(self._walkable())
        shape = self._shape(anchor)
        same_ends = [
            one for one in self.schema.edges.values() if (one.source, one.target) == (shape.source, shape.target)
        ]
        shapes = same_ends if len(same_ends) > 1 and self.choices.coin() else [shape]
        mark, hops, where = self._edge_and_bounds(shapes, is_path=is_path)
        names = "|".join(one.name[0].lower() + one.name[1:] for one in shapes)
        # The grammar has no undirected path without an edge variable.
        if shape.is_same_type and (mark or not is_path) and self.choices.chance(5):
            names = f"<{names}>"
        other = self._other_end(anchor, shape, is_path=is_path)
        is_forward = self.choices.coin() if not shape.is_same_type else self.nodes[anchor] == shape.source
        ends = (anchor, other) if is_forward else (other, anchor)
        if shape.is_same_type and self.choices.coin():
            ends = (other, anchor)
        return f"${ends[0]} {mark}{names}{hops} ${ends[1]}{where}"

    def _other_end(self, anchor: str, shape: EdgeShape, *, is_path: bool) -> str:
        type_name = shape.target if self.nodes[anchor] == shape.source else shape.source
        fitting = sorted(name for name, found in self.nodes.items() if found == type_name and name != anchor)
        if fitting and (len(self.nodes) >= _MOST_NODES or self.choices.chance(4)):
            return self.choices.pick(fitting)
        if not is_path and (len(self.nodes) >= _MOST_NODES or self.choices.chance(8)):
            return "_"
        name = self._fresh()
        self.nodes[name] = type_name
        return name

    def _edge_and_bounds(self, shapes: list[EdgeShape], *, is_path: bool) -> tuple[str, str, str]:
        low = self.choices.pick((1, 1, 1, 2)) if shapes[0].is_same_type else 1
        hops = self.choices.pick(("", "", f"{{{low},{low + self.choices.number(0, 2)}}}", f"{{{low},}}"))
        has_condition = self.choices.chance(3)
        is_word = shapes[0].name == "Contains"
        has_edge = (
            self.choices.chance(2) and (not hops or has_condition or is_path) and not (is_path and not has_condition)
        )
        if not has_edge:
            # The grammar has no condition behind an edge whose name is a word between values.
            is_conditional = has_condition and not (is_word and not is_path)
            return "", hops, f" where {self._walk_condition({})}" if is_conditional else ""
        name = f"w{self._fresh()}"
        type_name = "|".join(one.name for one in shapes)
        where = f" where {self._walk_condition({name: type_name})}" if has_condition else ""
        if not hops and not is_path:
            self.edges[name] = type_name
        return f"${name}:", hops, where

    def _walk_condition(self, edge: dict[str, str]) -> str:
        sight = self.sight()
        sight.entities = edge or sight.entities
        sight.block = None
        text = Expressions(self.choices, self.givens, sight).condition(1)
        return text if self.choices.coin() else f"({text}) or {self.choices.pick((1, 1, 2))} = 1"

    def _path(self) -> str:
        walk = self._walk(is_path=True)
        name = f"r{self._fresh()}"
        self.paths.append(name)
        return f"path {self.choices.pick(('', 'all '))}${name}: {walk}"

    def _each(self) -> str:
        family = self.choices.pick(("String", "int"))
        text = self.expressions().list_of(family) if self.choices.coin() else "['a', 'b']"
        family = "String" if text.startswith("['a'") else family
        name = f"i{self._fresh()}"
        self.items[name] = Kind(scalar="String" if family == "String" else "I64")
        return f"each ${name} in {text}"

    def _interface(self) -> str:
        name, interface = self._fresh(), self.choices.pick(sorted(self.schema.interfaces))
        self.nodes[name] = interface
        return f"${name}: {interface}"

    def _optional(self) -> str:
        inner = self._deeper()
        lines = [inner._walk()]
        lines += [inner.expressions().condition(1) for _ in range(self.choices.pick((0, 1)))]
        self.nodes.update(inner.nodes)
        self.edges.update(inner.edges)
        return f"optional {{ {'  '.join(lines)} }}"

    def _block(self) -> str:
        inner = self._deeper()
        inner.names = [f"{name}{len(self.names)}" for name in ("n", "b", "y", "q")]
        lines = [inner._walk()]
        lines += [inner.expressions().condition(1) for _ in range(self.choices.pick((0, 0, 1)))]
        return "  ".join(lines)

    def _deeper(self) -> _Match:
        return _Match(
            choices=self.choices,
            schema=self.schema,
            givens=self.givens,
            names=self.names,
            depth=self.depth + 1,
            nodes=dict(self.nodes),
            edges=dict(self.edges),
            items=dict(self.items),
            names_before=dict(self.names_before),
            paths=list(self.paths),
        )


class _Body:
    """Stages, the return, unions, and what is behind them."""

    def __init__(self, supply: Choices, schema: Schema, givens: Givens) -> None:
        self._choices = supply
        self._schema = schema
        self._givens = givens
        self._aliases = 0

    def write(self) -> str:
        if self._choices.chance(6):
            return self._union()
        match = self._scope()
        parts = [self._match(match)]
        for _ in range(self._choices.pick((0, 0, 0, 1, 1, 2))):
            text, match = self._with(match)
            parts.append(text)
            if self._choices.number(0, 2):
                parts.append(self._match(match, count=self._choices.number(1, 2)))
        parts.append(self._output("return", match, [])[0])
        return "\n    ".join(parts)

    def _alias(self, letter: str) -> str:
        # No stage names a value like another: an order sees the names of both.
        self._aliases += 1
        return f"{letter}{self._aliases}"

    def _scope(self) -> _Match:
        return _Match(choices=self._choices, schema=self._schema, givens=self._givens, names=list(_NAMES))

    def _match(self, match: _Match, count: int | None = None) -> str:
        count = self._choices.pick((0, 1, 1, 2, 3)) if count is None else count
        return f"match {{\n        {match.write(count)}\n    }}"

    def _union(self) -> str:
        families = [self._choices.pick(SCALARS) for _ in range(self._choices.number(1, 2))]
        columns = [f"c{index}" for index in range(len(families))]
        reads = []
        for _ in range(self._choices.number(2, 3)):
            match = self._scope()
            head = self._match(match, count=self._choices.number(0, 1))
            expressions = match.expressions()
            shown = [f"{expressions.of(one)} as {name}" for one, name in zip(families, columns, strict=True)]
            distinct = "distinct " if self._choices.chance(4) else ""
            reads.append(f"{head}\n    return {distinct}{{ {', '.join(shown)} }}")
        words = [self._choices.pick(("union", "union all")) for _ in reads[1:]]
        text = reads[0] + "".join(f"\n    {word}\n    {read}" for word, read in zip(words, reads[1:], strict=True))
        return "\n    ".join([text, *self._tail(columns, columns, is_last=True)])

    def _with(self, match: _Match) -> tuple[str, _Match]:
        kept = [name for name in sorted(match.nodes) if self._choices.number(0, 2)] or sorted(match.nodes)[:1]
        edges = [name for name in sorted(match.edges) if self._choices.chance(3)]
        text, handed_on = self._output("with", match, [*kept, *edges])
        following = self._scope()
        following.names = [name for name in match.names if name not in match.nodes]
        following.nodes = {name: match.nodes[name] for name in kept}
        following.edges = {name: match.edges[name] for name in edges}
        following.names_before = handed_on
        return text, following

    def _output(self, word: str, match: _Match, kept: list[str]) -> tuple[str, dict[str, Kind]]:
        """Return the text of a ``return`` or ``with``, and the values it names."""
        expressions = match.expressions()
        columns: list[str] = [f"${name}" for name in kept]
        named: dict[str, Kind] = {}
        is_grouped = self._choices.chance(2) or (word == "with" and self._choices.coin())
        for _ in range(self._choices.number(0 if columns else 1, 2)):
            family = self._choices.pick(SCALARS)
            name = self._alias("c")
            named[name] = _HANDED_ON[family]
            columns.append(f"{expressions.of(family)} as {name}")
        aggregates: list[str] = []
        if is_grouped:
            for _ in range(self._choices.number(1, 2)):
                text, kind = self._aggregate(match, expressions)
                name = self._alias("n")
                named[name] = kind
                columns.append(f"{text} as {name}")
                aggregates.append(text)
        if word == "return" and not is_grouped:
            columns = unlike([*columns, *self._unnamed(match, expressions)])
        ranking = self._ranking(match) if self._choices.chance(6) else None
        if ranking is not None and self._choices.coin():
            # Nothing is computed of it: the last digits of a distance are not the same everywhere.
            columns.append(f"{ranking} as {self._alias('s')}")
        is_distinct = self._choices.chance(5)
        sortable = [name for name, kind in named.items() if not kind.is_list]
        keys = list(sortable)
        if not is_grouped and not is_distinct:
            keys += [expressions.of(self._choices.pick(SCALARS), 1) for _ in range(2)]
        if is_grouped:
            keys += [f"count(*) + {self._choices.number(0, 2)}"]
        having = self._having(named) if self._choices.chance(7) else ""
        distinct = "distinct " if is_distinct else ""
        head = f"{word} {distinct}{{ {', '.join(columns)} }}{having}"
        tail = self._tail(keys, sortable, is_last=word == "return", ranking=ranking)
        parts = [head, *tail]
        return "\n    ".join(parts), named

    def _unnamed(self, match: _Match, expressions: Expressions) -> list[str]:
        found = []
        if match.nodes and self._choices.chance(4):
            found.append(f"${self._choices.pick(sorted({**match.nodes, **match.edges}))}.*")
        if match.paths:
            path = f"${match.paths[0]}"
            found.append(self._choices.pick((path, f"edges({path})", f"nodes({path})")))
        if self._choices.chance(4):
            found.append(expressions.list_of(self._choices.pick(("String", "int"))))
        if match.nodes and self._choices.chance(3):
            found.append(f"${self._choices.pick(sorted(match.nodes))}")
        if self._choices.chance(4):
            found.append(expressions.of(self._choices.pick(SCALARS)))
        return found

    def _having(self, named: dict[str, Kind]) -> str:
        sight = Sight(schema=self._schema, entities={}, names=named)
        writer = Expressions(self._choices, self._givens, sight)
        return f" having {writer.condition(1)}"

    def _ranking(self, match: _Match) -> str | None:
        found = {
            (name, prop): kind
            for name, type_name in sorted(match.nodes.items())
            for prop, kind in self._schema.properties(type_name).items()
            if kind.dimension is not None or (kind.scalar == "String" and not kind.is_list and not kind.enum_values)
        }
        if not found:
            return None
        chosen = self._choices.pick(sorted(found))
        arms = [
            self._arm(name, prop, found[name, prop])
            for name, prop in (chosen, self._choices.pick([one for one in sorted(found) if one[0] == chosen[0]]))
        ]
        return arms[0] if self._choices.coin() else f"rrf({', '.join(arms)}{self._choices.pick(('', ', 1', ', 60'))})"

    def _arm(self, variable: str, name: str, kind: Kind) -> str:
        if kind.dimension is not None:
            return f"nearest(${variable}.{name}, {self._givens.vector(kind.dimension)})"
        return f"bm25(${variable}.{name}, {self._choices.pick(_WORDS)})"

    def _tail(self, keys: list[str], columns: list[str], *, is_last: bool, ranking: str | None = None) -> list[str]:
        parts = []
        if ranking is not None:
            parts.append(f"order {{ {ranking} }}")
        elif keys and self._choices.number(0, 2):
            chosen = [self._choices.pick(keys) for _ in range(self._choices.number(1, 2))]
            shown = [f"{key}{self._choices.pick(_WAYS)}{self._choices.pick(_NULLS)}" for key in chosen]
            parts.append(f"order {{ {', '.join(shown)} }}")
        if self._choices.chance(4 if is_last else 6):
            parts.append(f"offset {self._amount((0, 0, 1, 2))}")
        if ranking is not None or self._choices.chance(3 if is_last else 5):
            per = f" per {{ {self._choices.pick(columns)} }}" if columns and self._choices.chance(3) else ""
            parts.append(f"limit {self._amount((1, 2, 5, 9, 20, 0))}{per}")
        return parts

    def _amount(self, amounts: tuple[int, ...]) -> str:
        value = self._choices.pick(amounts)
        return str(value) if self._choices.coin() else self._givens.number(value, "I64")

    def _aggregate(self, match: _Match, expressions: Expressions) -> tuple[str, Kind]:  # noqa: C901 - one case each
        choices = self._choices
        where = f" where {expressions.condition(1)}" if choices.chance(4) else ""
        distinct = "distinct " if choices.chance(4) else ""
        integer, number = Kind(scalar="I64"), Kind(scalar="F64")
        match choices.number(0, 9):
            case 0:
                return f"count(*{where})", integer
            case 1:
                entities = sorted({**match.nodes, **match.edges})
                return f"count({distinct}${choices.pick(entities)}{where})", integer
            case 2:
                return f"count({distinct}{expressions.of(choices.pick(SCALARS), 1)}{where})", integer
            case 3:
                family = choices.pick(("String", "int", "Bool", "Date", "Decimal"))
                kind = Kind(scalar=_FAMILY_KINDS[family].scalar, is_list=True)
                return f"collect({distinct}{expressions.of(family, 1)}{where})", kind
            case 4:
                family = choices.pick(SCALARS)
                return f"{choices.pick(('min', 'max'))}({expressions.of(family, 1)}{where})", _FAMILY_KINDS[family]
            case 5:
                return f"{choices.pick(('any', 'every'))}({expressions.condition(1)}{where})", Kind(scalar="Bool")
            case 6:
                return f"sum_int({distinct}{self._summed(match)}{where})", integer
            case 7:
                return f"percentile({self._summed(match)}, {choices.pick(('0.5', '0', '1.0', '0.25'))}{where})", number
            case 8:
                return f"sum({self._summed(match)}) / (count(*) + 1)", number
            case _:
                name = choices.pick(("sum", "avg", "median", "stddev", "variance"))
                if choices.chance(3) and name in {"sum", "avg"}:
                    return f"{name}({distinct}{expressions.of('Decimal', 1)}{where})", Kind(scalar="Decimal")
                return f"{name}({distinct}{self._summed(match)}{where})", number

    def _summed(self, match: _Match) -> str:
        """A whole number whose sums are exact however they are added up."""
        found = [
            f"${variable}.{name}"
            for variable, type_name in sorted({**match.nodes, **match.edges}.items())
            for name, kind in self._schema.properties(type_name).items()
            if not kind.is_list and family_of(kind) == "int" and is_summable(name, kind)
        ]
        return self._choices.pick(found) if found else "length('ab')"
