"""Constraints of a type, from both spellings, checked against its full set of properties.

Linear means that the time for a value is its length times the size of the pattern, so both have bounds: a pattern that
is too large is refused by the schema, and a value that is too long for its pattern breaks the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal

from omnigraph.catalog.annotations import CONSTRAINT_WORDS
from omnigraph.catalog.expand import ExpandedType
from omnigraph.catalog.model import ENDPOINTS, NUMERIC, Bound, CheckRule, PropertyType, RangeRule, Scalar
from omnigraph.catalog.rules import broken_rule
from omnigraph.errors import SchemaCheckError
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.pg.ast import Constraint, Literal, RangeBound
from omnigraph.lang.source import Ident, SourceText, Span
from omnigraph.records import record
from omnigraph.values.decimals import canonical_decimal

# Steps that the engine may have to take for each byte of a value, at the most.
MAX_PATTERN_SIZE = 4_000
# Steps for one value: some seconds if the two are made for each other, next to nothing for the usual pattern.
_MAX_STEPS = 1 << 28

_PREFIX = "Invalid regular expression: "
# What counts as one: a quoted text character by character, an escape, a class, the opening of a group with its flags or
# its name. Possessive, so that the pattern of a pattern costs no more than its length.
_TOKEN = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|\Z)
      | \\(?:[pPx]\{[^}]*+\}|.)
      | \[\^?+\]?+(?:\\.|\[:\^?\w++:\]|[^\]\\])*+\]
      | (?P<open>\((?:\?(?:P?<\w++>|[imsU-]*+:?))?+)
      | (?P<close>\))
      | \{(?P<least>\d{1,9}+)(?:,(?P<most>\d{0,9}+))?+\}
      | .""",
    re.VERBOSE | re.DOTALL,
)


def pattern_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern, or return None if rows can be checked against it.

    >>> pattern_problem("^[A-Z]{3}-[0-9]+$") is None
    True
    """
    if len(pattern.encode()) > MAX_PATTERN_SIZE:
        return f"it has more than {MAX_PATTERN_SIZE} bytes"
    # The engine that checks rows judges the pattern, so that a schema cannot be accepted whose writes then fail.
    # Imported here because only schemas with a @check need it, and reading a schema should stay cheap.
    import pyarrow as pa  # noqa: PLC0415 - see above
    import pyarrow.compute as pc  # noqa: PLC0415 - see above

    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix(_PREFIX)
    size = pattern_size(pattern)
    if size > MAX_PATTERN_SIZE:
        return f"its repetitions make it {size} steps long, the limit is {MAX_PATTERN_SIZE}"
    return None


def pattern_size(pattern: str) -> int:
    """Return the size of a pattern that the engine takes: its parts, with counted repetitions written out.

    >>> pattern_size("^[A-Z]{3}-[0-9]+$"), pattern_size("(ab){10}c{2,5}")
    (8, 45)
    """
    # For each open group: the size before its last part, and that part, which a repetition multiplies.
    sizes, parts = [0], [0]
    for token in _TOKEN.finditer(pattern):
        if token["least"] is not None:
            parts[-1] *= max(int(token["least"]), int(token["most"] or 0), 1)
            continue
        sizes[-1] += parts[-1]
        parts[-1] = 1 if token["quoted"] is None else len(token["quoted"])
        if token["open"]:
            sizes.append(0)
            parts.append(0)
        elif token["close"] and len(sizes) > 1:
            # The group as a whole is the last part of what is around it.
            group = sizes.pop() + parts.pop()
            parts[-1] += group
    return sum(sizes) + sum(parts)


def longest_value(pattern: str) -> int:
    """Return how many bytes a value may have that is matched with a pattern."""
    return _MAX_STEPS // max(pattern_size(pattern), 1)


_REFUSED_SHAPES = {"key": ("list", "vector", "blob"), "unique": ("list", "vector", "blob"), "index": ("list", "blob")}


@record
class Constraints:
    """What rows of a type must obey. Only the key keeps its written order; everything else is a sorted set."""

    key: tuple[str, ...] | None
    uniques: tuple[tuple[str, ...], ...]
    indexes: tuple[tuple[str, ...], ...]
    ranges: tuple[RangeRule, ...]
    checks: tuple[CheckRule, ...]


def compile_constraints(owner: ExpandedType, source: SourceText) -> Constraints:
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


def _column_constraints(owner: ExpandedType, source: SourceText) -> Iterator[tuple[str, tuple[Ident, ...], Span]]:
    for prop in owner.properties:
        for annotation in prop.annotations:
            if annotation.name.text in CONSTRAINT_WORDS:
                column = Ident(text=prop.name, span=annotation.span)
                yield annotation.name.text, (column,), prop.entry(annotation)
    for item in owner.declaration.items:
        if isinstance(item, Constraint) and item.name in CONSTRAINT_WORDS:
            yield item.name, tuple(_column(argument, source) for argument in item.arguments), item.span


def _column(argument: Ident | RangeBound | Literal, source: SourceText) -> Ident:
    if isinstance(argument, Ident):
        return argument
    raise broken_rule("constraint_column", "expected property name in constraint", source, argument.span)


@record
class _Reader:
    owner: ExpandedType
    source: SourceText

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
        low, high = (self._bound(bound, is_exact=kind.is_decimal) for bound in (bounds.low, bounds.high))
        return RangeRule(property=column.text, low=low, high=high)

    def check_rule(self, item: Constraint) -> CheckRule:
        """Return what ``@check`` says, or refuse it."""
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

    def _bound(self, literal: Literal | None, *, is_exact: bool) -> Bound | None:
        if literal is None:
            return None
        # The grammar lets numbers through here, nothing else.
        number = literal.value
        if isinstance(number, (bool, str)):
            raise self._refuse("range_arguments", "the bounds of @range must be numbers", literal.span)
        if isinstance(number, float | Decimal):
            if not math.isfinite(number):
                raise self._refuse(
                    "number_range", "number is out of range: it does not fit a 64-bit type", literal.span
                )
            # 1.0 and 1 are one bound, and must be one text wherever the catalog is written.
            if is_exact:
                exact = Decimal(canonical_decimal(Decimal(str(number))))
                return int(exact) if exact == exact.to_integral_value() else exact
            number = float(number)
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
