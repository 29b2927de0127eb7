"""The rows that a statement is about: what their values are computed of, and which of them a condition chooses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import compare, one_array
from omnigraph.engine.mutate.values import RequestValues
from omnigraph.engine.query.frame import Mask, Positions
from omnigraph.engine.query.limits import check_column_bytes
from omnigraph.engine.query.predicates import FLIPPED, storage_filter
from omnigraph.engine.query.values import compute, passing
from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.ir.model import (
    TARGET,
    Apply,
    Column,
    Compare,
    Condition,
    Constant,
    EntityRef,
    EntityType,
    ListContains,
    ParameterRef,
    SameEntity,
    Scalarlike,
    TargetColumn,
    TextMatch,
    Truth,
    inner_values,
)
from omnigraph.ir.types import fit_compared, item_type
from omnigraph.records import record
from omnigraph.store.tables.moves import EdgeEnds
from omnigraph.store.tables.pinned import KEY

_NOTHING: Mapping[str, pa.Table] = {}


class StatementRows:
    """Rows that values of a statement are computed of.

    Args:
        given: the values of the request.
        length: how many rows there are.
        entities: for each variable the columns of its entities, one row each; what is missing is NULL.
        types: the type of each variable, or of each of its entities.
        values: what travels with the rows beside entities.
    """

    fits_literals = True

    def __init__(
        self,
        given: RequestValues,
        length: int,
        entities: Mapping[str, pa.Table] = _NOTHING,
        types: Mapping[str, str | pa.Array] | None = None,
        values: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self._given = given
        self.length = length
        self._entities = entities
        self._types = types or {}
        self._values = values or {}

    def column(self, column: Column) -> pa.Array:
        """Return a property, one value per row."""
        return one_array(self._entities[column.variable].column(column.property))

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""
        return self._given.value(value)

    def value(self, name: str) -> pa.Array:
        """Return a value that travels with the rows."""
        return self._values[name]

    def entity_ids(self, variable: str) -> pa.Array:
        """Return the ids of a variable's entities; NULL where one is missing."""
        return one_array(self._entities[variable].column(KEY))

    def entity_types(self, variable: str) -> pa.Array:
        """Return the types of a variable's entities; NULL where one is missing."""
        missing, of = self.entity_ids(variable).is_null(), self._types[variable]
        return pc.if_else(missing, pa.scalar(None, pa.string()), of)

    def entity_rows(self, variable: str) -> pa.Array:
        """Refuse: an entity that is only pending has no row number."""
        raise _unasked(variable)

    def entity_versions(self, variable: str) -> pa.Array:
        """Refuse: the version of what a statement may have changed is not known before the commit."""
        raise _unasked(variable)

    def matches_text(self, predicate: TextMatch) -> Mask:
        """Refuse: a statement searches nothing."""
        raise _unasked(predicate)

    def same_entity(self, predicate: SameEntity) -> Mask:
        """Refuse: a statement joins nothing."""
        raise _unasked(predicate)

    def passes(self, condition: Condition) -> Mask:
        """Return in which rows a condition is true."""
        return passing(condition, self)

    def check_bytes(self, size_bytes: int) -> None:
        """Raise if a column of so many bytes is more than one array can hold."""
        check_column_bytes(size_bytes)

    def place(self, at: int) -> str:
        """Return nothing: the statement names the entity that it is about."""
        del at
        return ""

    def subset(self, positions: Positions) -> StatementRows:
        """Return some of the rows."""
        at = pa.array(positions, pa.int64())
        return StatementRows(
            self._given,
            len(positions),
            {name: rows.take(at) for name, rows in self._entities.items()},
            {name: of if isinstance(of, str) else of.take(at) for name, of in self._types.items()},
            {name: values.take(at) for name, values in self._values.items()},
        )


def _unasked(what: object) -> InternalError:
    return InternalError(f"a statement asks what only a read can: {what}")


def computed(value: Scalarlike, rows: StatementRows) -> list[Any]:
    """Return the decoded value of an expression for each row: days and milliseconds for dates, as parameters are."""
    return decoded_values(compute(value, rows))


def decoded_values(values: pa.Array) -> list[Any]:
    """Return Arrow values decoded.

    >>> decoded_values(pa.array([0], pa.date32()))
    [0]
    """
    kind = values.type
    if pa.types.is_list(kind) and pa.types.is_date(kind.value_type):
        values = values.cast(pa.list_(pa.int32() if pa.types.is_date32(kind.value_type) else pa.int64()))
    elif pa.types.is_date(kind):
        values = values.view(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    found: list[Any] = values.to_pylist()
    return found


def columns_of(values: Iterable[Scalarlike]) -> dict[str, dict[str, None]]:
    """Return the variables and the properties of them that expressions look at, in the order of their first use."""
    found: dict[str, dict[str, None]] = {}
    for value in values:
        for inner in inner_values(value):
            if isinstance(inner, Column):
                found.setdefault(inner.variable, {})[inner.property] = None
            elif isinstance(inner, EntityRef | EntityType):
                found.setdefault(inner.variable, {})
    return found


@record
class ConditionTest:
    """Any condition on the entities of one type, asked like a single comparison."""

    condition: Condition
    given: RequestValues

    is_never = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What deciding needs of a row."""
        return tuple(columns_of([self.condition.value]).get(TARGET, ()))

    def mask(self, rows: pa.Table) -> pa.Array:
        """Return which rows match; where the condition is unknown they do not."""
        return pa.array(passing(self.condition, StatementRows(self.given, rows.num_rows, {TARGET: rows})), pa.bool_())

    def sql(self) -> str | None:
        """Return a predicate that lets through at least the matching rows, or None when storage cannot be asked."""
        return storage_filter([self.condition], self.given.value)

    def ids(self, owner: NodeType | EdgeType) -> list[str] | None:
        """Return the only ids that can match, when the condition fixes the id or the whole key; None otherwise."""
        equal: dict[str, Any] = {}
        for part in _conjuncts(self.condition.value):
            fixed = self._fixed(part)
            if fixed is None:
                continue
            name, values = fixed
            if name == KEY or owner.key == (name,):
                return list(_ids(owner, [{name: value} for value in values]))
            if len(values) == 1:
                equal[name] = values[0]
        if owner.key is not None and equal.keys() >= set(owner.key):
            return list(_ids(owner, [equal]))
        return None

    def ends(self) -> EdgeEnds:
        """Return the ends that every matching edge has; None for one that the condition does not fix."""
        fixed = filter(None, map(self._fixed, _conjuncts(self.condition.value)))
        equal = {name: values[0] for name, values in fixed if len(values) == 1}
        return equal.get("src"), equal.get("dst")

    def _fixed(self, part: Scalarlike) -> tuple[str, Sequence[Any]] | None:
        """Return the column that a part of the condition allows only some values of, and those values."""
        predicate = part.predicate if isinstance(part, Truth) else None
        if isinstance(predicate, Compare):
            left, op, right = predicate.left, predicate.op, predicate.right
            if not isinstance(left, Column):
                left, op, right = right, FLIPPED[op], left
            if op == "=" and isinstance(left, Column) and isinstance(right, Constant | ParameterRef):
                target = TargetColumn(property=left.property, type=left.type)
                found = compare(target, op, self.given.value(right), right.type)
                if found.is_never:
                    return left.property, []
                return None if found.verdict is not None else (left.property, [found.value])
        if isinstance(predicate, ListContains):
            items, item = predicate.items, predicate.item
            if isinstance(item, Column) and isinstance(items, Constant | ParameterRef):
                members = [member for member in self.given.value(items) or () if member is not None]
                fitted = [fit_compared(member, item_type(items.type), item.type) for member in members]
                wanted = item.type.single
                return item.property, [value for value, kind in fitted if kind.single == wanted]
        return None


def _conjuncts(value: Scalarlike) -> Iterator[Scalarlike]:
    if isinstance(value, Apply) and value.function == "and":
        for argument in value.arguments:
            yield from _conjuncts(argument)
    else:
        yield value


def _ids(owner: NodeType | EdgeType, keys: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for key in keys:
        if KEY in key:
            yield str(key[KEY])
            continue
        try:
            yield str(entity_id(owner, key))
        except OmnigraphError:
            # A value that no key can have, such as an empty text.
            continue
