"""Constraints of a type, from both spellings, checked against its full set of properties."""

from __future__ import annotations

import math
from collections.abc import Iterator

from omnigraph.catalog.annotations import CONSTRAINT_WORDS
from omnigraph.catalog.expand import ExpandedType
from omnigraph.catalog.model import ENDPOINTS, NUMERIC, CheckRule, PropertyType, RangeRule, Scalar
from omnigraph.catalog.patterns import pattern_problem
from omnigraph.catalog.rules import broken_rule
from omnigraph.errors import SchemaCheckError
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.pg.ast import Constraint, Literal, RangeBound
from omnigraph.lang.source import Ident, Source, Span
from omnigraph.records import record

_REFUSED_SHAPES = {"key": ("list", "vector", "blob"), "unique": ("list", "vector", "blob"), "index": ("list", "blob")}


@record
class Constraints:
    """What rows of a type must obey. Only the key keeps its written order; everything else is a sorted set."""

    key: tuple[str, ...] | None
    uniques: tuple[tuple[str, ...], ...]
    indexes: tuple[tuple[str, ...], ...]
    ranges: tuple[RangeRule, ...]
    checks: tuple[CheckRule, ...]


def compile_constraints(owner: ExpandedType, source: Source) -> Constraints:
    """Return the constraints of a type; the property form and the body form mean the same.

    Raises:
        SchemaCheckError: with the rule that is broken.
    """
    reader = _Reader(owner=owner, source=source)
    keys: list[tuple[str, ...]] = []
    column_lists: dict[str, set[tuple[str, ...]]] = {"unique": set(), "index": set()}
    for word, columns, span in _column_constraints(owner, source):
        names = reader.columns(word, columns, span)
        if word != "key":
            column_lists[word].add(tuple(sorted(names)))
            continue
        if keys:
            msg = f"multiple @key constraints on {owner.declaration.name.text}"
            suggestion = f"{owner.declaration.name.text} already has @key({', '.join(keys[0])})"
            raise broken_rule("multiple_key", msg, source, span, suggestion=suggestion)
        keys.append(names)
    ranges: set[RangeRule] = set()
    checks: set[CheckRule] = set()
    for item in owner.declaration.items:
        if isinstance(item, Constraint) and item.name == "range":
            ranges.add(reader.range_rule(item))
        elif isinstance(item, Constraint) and item.name == "check":
            checks.add(reader.check_rule(item))
    return Constraints(
        key=keys[0] if keys else None,
        uniques=tuple(sorted(column_lists["unique"])),
        indexes=tuple(sorted(column_lists["index"])),
        ranges=tuple(sorted(ranges, key=lambda rule: (rule.property, str(rule.low), str(rule.high)))),
        checks=tuple(sorted(checks, key=lambda rule: (rule.property, rule.pattern))),
    )


def _column_constraints(owner: ExpandedType, source: Source) -> Iterator[tuple[str, tuple[Ident, ...], Span]]:
    for prop in owner.properties:
        for annotation in prop.annotations:
            if annotation.name.text in CONSTRAINT_WORDS:
                column = Ident(text=prop.name, span=annotation.span)
                yield annotation.name.text, (column,), prop.entry(annotation)
    for item in owner.declaration.items:
        if isinstance(item, Constraint) and item.name in CONSTRAINT_WORDS:
            yield item.name, tuple(_column(argument, source) for argument in item.arguments), item.span


def _column(argument: Ident | RangeBound | Literal, source: Source) -> Ident:
    if isinstance(argument, Ident):
        return argument
    raise broken_rule("constraint_column", "expected property name in constraint", source, argument.span)


@record
class _Reader:
    owner: ExpandedType
    source: Source

    def columns(self, word: str, columns: tuple[Ident, ...], span: Span) -> tuple[str, ...]:
        """Check a column list and return its names, each once, in written order."""
        names = tuple(dict.fromkeys(column.text for column in columns))
        if word == "key" and self.owner.is_edge and not set(ENDPOINTS) <= set(names):
            msg = "@key without src and dst is not supported on edges"
            rest = [name for name in names if name not in ENDPOINTS]
            suggestion = f"write @key({', '.join([*ENDPOINTS, *rest])})"
            raise broken_rule("edge_key_endpoints", msg, self.source, span, suggestion=suggestion)
        for column in columns:
            if not (self.owner.is_edge and column.text in ENDPOINTS):
                self._check_column(word, column, self._type_of(word, column))
        return names

    def range_rule(self, item: Constraint) -> RangeRule:
        """Return what ``@range`` says, or refuse it."""
        self._refuse_on_edge(item)
        if len(item.arguments) != 2:
            raise self._refuse("range_arguments", "@range requires a property and bounds", item.span)
        column, bounds = _column(item.arguments[0], self.source), item.arguments[1]
        if not isinstance(bounds, RangeBound):
            raise self._refuse("range_arguments", "expected range bounds such as 0..100 in @range", bounds.span)
        kind = self._type_of("range", column)
        # On a list the bounds hold for every element.
        if kind.scalar not in NUMERIC:
            msg = f"@range requires a numeric type, '{column.text}' is {kind}"
            raise self._refuse("range_type", msg, column.span)
        return RangeRule(property=column.text, low=self._bound(bounds.low), high=self._bound(bounds.high))

    def check_rule(self, item: Constraint) -> CheckRule:
        """Return what ``@check`` says, or refuse it."""
        self._refuse_on_edge(item)
        if len(item.arguments) != 2:
            raise self._refuse("check_arguments", "@check requires a property and a pattern", item.span)
        column, pattern = _column(item.arguments[0], self.source), item.arguments[1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self._refuse("check_arguments", "expected string argument with a pattern in @check", pattern.span)
        kind = self._type_of("check", column)
        # On a list the pattern holds for every element.
        if kind.scalar is not Scalar.STRING:
            msg = f"@check requires String type, '{column.text}' is {kind}"
            raise self._refuse("check_type", msg, column.span)
        problem = pattern_problem(pattern.value)
        if problem is not None:
            msg = f"@check on '{column.text}' has invalid regex: {problem}"
            raise self._refuse("check_pattern", msg, pattern.span)
        return CheckRule(property=column.text, pattern=pattern.value)

    def _refuse(self, rule: str, message: str, span: Span) -> SchemaCheckError:
        return broken_rule(rule, message, self.source, span)

    def _refuse_on_edge(self, item: Constraint) -> None:
        if self.owner.is_edge:
            raise self._refuse("edge_constraint", f"@{item.name} is not supported on edges", item.span)

    def _bound(self, literal: Literal | None) -> int | float | None:
        if literal is None:
            return None
        # The grammar lets numbers through here, nothing else.
        number = literal.value
        if isinstance(number, (bool, str)):
            raise self._refuse("range_arguments", "expected range bounds made of numbers in @range", literal.span)
        if isinstance(number, float):
            if not math.isfinite(number):
                raise self._refuse("number_range", "number is out of range: it fits no 64-bit type", literal.span)
            # 1.0 and 1 are one bound, and must be one text wherever the catalog is written.
            return int(number) if number.is_integer() else number
        return number

    def _type_of(self, word: str, column: Ident) -> PropertyType:
        kind = self.owner.types.get(column.text)
        if kind is None:
            known = [*self.owner.types, *(ENDPOINTS if self.owner.is_edge else ())]
            near = nearest_name(column.text, known)
            msg = f"@{word} on {self.owner.declaration.name.text} references unknown property '{column.text}'"
            suggestion = f"did you mean '{near}'?" if near else None
            raise broken_rule("unknown_property", msg, self.source, column.span, suggestion=suggestion)
        return kind

    def _check_column(self, word: str, column: Ident, kind: PropertyType) -> None:
        if word == "key" and kind.nullable:
            msg = f"@key property '{column.text}' cannot be nullable"
            suggestion = f"write {str(kind).removesuffix('?')}"
            raise broken_rule("key_nullable", msg, self.source, column.span, suggestion=suggestion)
        shape = _shape(kind)
        if shape in _REFUSED_SHAPES[word]:
            msg = f"@{word} is not supported on {shape} property '{column.text}'"
            raise self._refuse(f"{word}_{shape}", msg, column.span)


def _shape(kind: PropertyType) -> str:
    if kind.is_list:
        return "list"
    if kind.is_vector:
        return "vector"
    return "blob" if kind.scalar is Scalar.BLOB else "scalar"
