"""Values of rows: every expression becomes one Arrow array, computed by kernels over all rows at once.

A condition is true, false or unknown; unknown is NULL. What a branch of ``case``, or a later part of ``and`` and
``or``, is not asked for is not computed, so it cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import PropertyType
from omnigraph.engine.query.frame import Mask, Positions
from omnigraph.engine.query.functions.kernels import EVERY_ROW, cast_to, value_arrow_type
from omnigraph.engine.query.predicates import SupportsRows, evaluate
from omnigraph.errors import BadValue, QueryRuntimeError
from omnigraph.ir.model import (
    Apply,
    Column,
    Condition,
    Constant,
    EntityRef,
    EntityRow,
    EntityType,
    EntityVersion,
    ListContains,
    ParameterRef,
    Predicate,
    SameEntity,
    Scalarlike,
    TextMatch,
    Truth,
    ValueRef,
    operands_of,
)


class ValueRows(SupportsRows, Protocol):
    """Rows that values are computed of."""

    def value(self, name: str) -> pa.Array:
        """Return a value that travels with the rows."""

    def entity_ids(self, variable: str) -> pa.Array:
        """Return the ids of a variable's entities; NULL where one is missing."""

    def entity_rows(self, variable: str) -> pa.Array:
        """Return the row numbers of a variable's entities."""

    def entity_types(self, variable: str) -> pa.Array:
        """Return the types of a variable's entities."""

    def entity_versions(self, variable: str) -> pa.Array:
        """Return the ids of the commits that last changed a variable's entities; NULL where one is missing."""

    def subset(self, positions: Positions) -> ValueRows:
        """Return some of the rows."""

    def check_bytes(self, size_bytes: int) -> None:
        """Raise if a column of so many bytes may not be made."""

    def place(self, at: int) -> str:
        """Return the entities of one of the rows, for messages; an empty text where they are not known."""


def repeated(value: object, of: PropertyType, count: int, check: Callable[[int], None]) -> pa.Array:
    """Return one decoded value so many times."""
    if value is None:
        return pa.nulls(count, value_arrow_type(of))
    once = pa.array([list(value) if isinstance(value, tuple) else value], value_arrow_type(of))
    check(once.nbytes * count)
    return once.take(pa.array(np.zeros(count, dtype=np.int64)))


def compute(value: Scalarlike, rows: ValueRows) -> pa.Array:
    """Return the value of an expression, one per row."""
    match value:
        case Column():
            return rows.column(value)
        case EntityRef():
            return rows.entity_ids(value.variable)
        case EntityRow():
            return rows.entity_rows(value.variable)
        case EntityType():
            return rows.entity_types(value.variable)
        case EntityVersion():
            return rows.entity_versions(value.variable)
        case ParameterRef() | Constant():
            return repeated(rows.given(value), value.type, rows.length, rows.check_bytes)
        case ValueRef():
            return rows.value(value.name)
        case Truth():
            return truth(value.predicate, rows)
        case Apply():
            return _apply(value, rows)
        case _:
            assert_never(value)


def passing(condition: Condition, rows: ValueRows) -> Mask:
    """Return in which rows a condition is true."""
    found = compute(condition.value, rows)
    if pa.types.is_null(found.type):
        return np.zeros(rows.length, dtype=np.bool_)
    return np.asarray(pc.fill_null(found, fill_value=False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def truth(predicate: Predicate, rows: ValueRows) -> pa.Array:
    """Return whether a predicate holds, NULL where something that it looks at is."""
    holds = evaluate(predicate, rows)
    unknown = np.zeros(rows.length, dtype=np.bool_)
    if not isinstance(predicate, SameEntity):
        for operand in operands_of(predicate):
            if isinstance(operand, ParameterRef | Constant):
                if rows.given(operand) is None:
                    unknown[:] = True
            elif isinstance(operand, Column) and not isinstance(predicate, TextMatch):
                unknown |= np.asarray(rows.column(operand).is_null())
    if isinstance(predicate, ListContains):
        # An empty list has no member, whatever is looked for.
        unknown &= ~_is_empty(predicate.items, rows)
    return pa.array(holds, pa.bool_(), mask=unknown)


def _is_empty(items: Scalarlike, rows: ValueRows) -> Mask:
    if isinstance(items, Constant | ParameterRef):
        return np.full(rows.length, rows.given(items) is not None and not len(rows.given(items)))
    lengths = pc.list_value_length(compute(items, rows))
    return np.asarray(pc.fill_null(pc.equal(lengths, 0), fill_value=False), dtype=np.bool_)


def _apply(call: Apply, rows: ValueRows) -> pa.Array:
    special = _SPECIAL.get(call.function)
    if special is not None:
        return special(call, rows)
    arguments = [compute(argument, rows) for argument in call.arguments]
    types = [argument.type for argument in call.arguments]
    from omnigraph.engine.query.functions.table import KERNELS  # noqa: PLC0415 - loaded for the reads that call a function
    from omnigraph.engine.query.functions.texts import grown_bytes  # noqa: PLC0415 - see above

    grown = grown_bytes(call, arguments)
    if grown:
        rows.check_bytes(grown)
    kernel, kind = KERNELS[call.function], value_arrow_type(call.type)
    try:
        return cast_to(kernel(call, arguments, types), kind)
    except QueryRuntimeError as problem:

        def run(count: int) -> pa.Array:
            return cast_to(kernel(call, [argument.slice(0, count) for argument in arguments], types), kind)

        raise _placed(problem, rows, run) from problem


def _placed(problem: QueryRuntimeError, rows: ValueRows, run: Callable[[int], pa.Array]) -> QueryRuntimeError:
    """Return the error about the first row that has no value, with the entities of that row.

    ``run`` computes the first so many rows.
    """
    details = problem.details
    if not isinstance(details, BadValue) or details.expected != EVERY_ROW:
        return problem
    low, high = 1, rows.length
    while low < high:
        middle = (low + high) // 2
        if _problem_of(run, middle) is None:
            low = middle + 1
        else:
            high = middle
    found, place = _problem_of(run, low) or problem, rows.place(low - 1)
    if not place:
        return found
    return QueryRuntimeError(f"{found.message}, in the row of {place}", details=found.details, hint=found.hint)


def _problem_of(run: Callable[[int], pa.Array], count: int) -> QueryRuntimeError | None:
    try:
        run(count)
    except QueryRuntimeError as problem:
        return problem
    return None


def _logical(call: Apply, rows: ValueRows) -> pa.Array:
    """Join conditions, asking each only of the rows that those before it have not decided."""
    decisive = call.function == "or"
    state = np.full(rows.length, 2, dtype=np.int8)
    is_unknown = np.zeros(rows.length, dtype=np.bool_)
    for argument in call.arguments:
        open_rows = np.flatnonzero(state == 2)
        if not len(open_rows):
            break
        part = rows if len(open_rows) == rows.length else rows.subset(open_rows)
        found = cast_to(compute(argument, part), pa.bool_())
        is_null = np.asarray(found.is_null())
        decided = np.asarray(pc.fill_null(found, fill_value=not decisive)) == decisive
        is_unknown[open_rows[is_null]] = True
        state[open_rows[decided & ~is_null]] = 1
    settled = state == 1
    values = settled if decisive else ~settled
    return pa.array(values, pa.bool_(), mask=is_unknown & ~settled)


def _case(call: Apply, rows: ValueRows) -> pa.Array:
    """Compute each branch for the rows that reach it."""
    kind = value_arrow_type(call.type)
    pairs, rest = call.arguments, None
    if len(pairs) % 2:
        pairs, rest = pairs[:-1], pairs[-1]
    left = np.arange(rows.length, dtype=np.int64)
    pieces: list[pa.Array] = []
    places: list[Positions] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not len(left):
            break
        chosen = passing(Condition(value=condition), rows.subset(left))
        places.append(left[chosen])
        pieces.append(cast_to(compute(value, rows.subset(left[chosen])), kind))
        left = left[~chosen]
    if len(left):
        places.append(left)
        pieces.append(pa.nulls(len(left), kind) if rest is None else cast_to(compute(rest, rows.subset(left)), kind))
    if not pieces:
        return pa.array([], kind)
    order = np.empty(rows.length, dtype=np.int64)
    order[np.concatenate(places)] = np.arange(rows.length)
    return pa.concat_arrays(pieces).take(pa.array(order))


def _coalesce(call: Apply, rows: ValueRows) -> pa.Array:
    """Take the first value that is there, computing the later ones only where those before are missing."""
    kind = value_arrow_type(call.type)
    found = pa.nulls(rows.length, kind)
    for argument in call.arguments:
        missing = np.flatnonzero(np.asarray(found.is_null()))
        if not len(missing):
            break
        filled = cast_to(compute(argument, rows.subset(missing)), kind)
        order = np.arange(rows.length, dtype=np.int64)
        order[missing] = rows.length + np.arange(len(missing))
        found = pa.concat_arrays([found, filled]).take(pa.array(order))
    return found


def _null_test(call: Apply, rows: ValueRows) -> pa.Array:
    found = compute(call.arguments[0], rows)
    return pc.is_null(found) if call.function == "is_null" else pc.is_valid(found)


def _member(call: Apply, rows: ValueRows) -> pa.Array:
    from omnigraph.engine.query.functions.comparisons import member_of  # noqa: PLC0415 - see above

    item, items = call.arguments
    values = compute(item, rows)
    if isinstance(items, Constant | ParameterRef):
        members = rows.given(items)
        return member_of(values, None if members is None else list(members))
    return member_of(values, compute(items, rows))


_SPECIAL: dict[str, Callable[[Apply, Any], pa.Array]] = {
    "and": _logical,
    "or": _logical,
    "case": _case,
    "coalesce": _coalesce,
    "is_null": _null_test,
    "is_not_null": _null_test,
    "in": _member,
}
