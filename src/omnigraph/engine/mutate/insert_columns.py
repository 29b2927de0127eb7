"""A run of inserts worked out column by column: what is plainly right becomes Arrow arrays in one step.

Whatever is not plainly right is left to the statements, one after the other, which then either find it right after
all or name the first that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.entity_ids import entity_ids
from omnigraph.catalog.model import FLOATS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.mutate.values import fit_stored, stored_array
from omnigraph.errors import OmnigraphError
from omnigraph.ir.model import Constant, InsertPlan, ParameterRef, Scalarlike
from omnigraph.ir.model.expressions import NOW_PARAMETER
from omnigraph.ir.parameters import ParameterRows
from omnigraph.runtime import IdSource
from omnigraph.store.tables.pinned import KEY

_Expressions: TypeAlias = Mapping[str, Scalarlike | None]

_Given = Constant | ParameterRef | None
_TEXT = PropertyType(scalar=Scalar.STRING)
# The class of values that are stored as they are, once their range is known to fit.
_CLASSES: Mapping[Scalar, type] = {
    Scalar.STRING: str,
    Scalar.BOOL: bool,
    Scalar.I32: int,
    Scalar.I64: int,
    Scalar.U32: int,
    Scalar.U64: int,
    Scalar.F32: float,
    Scalar.F64: float,
    Scalar.DATE: int,
    Scalar.DATETIME: int,
}


def insert_tables(
    statements: Sequence[InsertPlan], calls: ParameterRows, *, catalog: Catalog, now_ms: int, ids: IdSource
) -> list[tuple[NodeType | EdgeType, pa.Table]] | None:
    """Return the rows that inserts make, per type in the order in which they are inserted, or None when unsure.

    Args:
        statements: a run of inserts.
        calls: the parameters of each time that the whole run is made.
        catalog: the schema.
        now_ms: the instant of the request.
        ids: makes up the ids of types without a key.
    """
    given = ParameterRows(columns={**calls.columns, NOW_PARAMETER: [now_ms] * calls.count}, count=calls.count)
    by_type: dict[tuple[str, str], list[InsertPlan]] = {}
    for statement in statements:
        by_type.setdefault((statement.entity, statement.type_name), []).append(statement)
    found: list[tuple[NodeType | EdgeType, pa.Table]] = []
    for (entity, name), plans in by_type.items():
        owner: NodeType | EdgeType = catalog.nodes[name] if entity == "node" else catalog.edges[name]
        rows = _rows(owner, plans, given, ids)
        if rows is None:
            return None
        found.append((owner, rows))
    return found


def _rows(
    owner: NodeType | EdgeType, plans: Sequence[InsertPlan], calls: ParameterRows, ids: IdSource
) -> pa.Table | None:
    schema = arrow_schema(owner)
    columns: dict[str, pa.Array] = {}
    assigned = [_expressions(plan) for plan in plans]
    if not all(isinstance(value, _Given) for one in assigned for value in one.values()):
        return None
    for name, of in _columns(owner):
        column = _stored(_values([one.get(name) for one in assigned], calls), of, owner, schema.field(name))
        if column is None:
            return None
        columns[name] = column
    count = len(plans) * calls.count
    try:
        made = [str(ids.ulid()) for _ in range(count)] if owner.key is None else None
        columns[KEY] = entity_ids(owner, columns) if made is None else pa.array(made, pa.string())
    except OmnigraphError:
        return None
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _columns(owner: NodeType | EdgeType) -> Iterator[tuple[str, PropertyType]]:
    if isinstance(owner, EdgeType):
        yield from (("src", _TEXT), ("dst", _TEXT))
    yield from ((prop.name, prop.type) for prop in owner.properties)


def _expressions(plan: InsertPlan) -> _Expressions:
    assigned: dict[str, Scalarlike | None] = {item.property: item.value for item in plan.assigns}
    if plan.entity == "edge":
        assigned |= {"src": plan.from_id, "dst": plan.to_id}
    return assigned


def _values(expressions: Sequence[Scalarlike | None], calls: ParameterRows) -> list[Any]:
    """Return the decoded values of one column: all statements of the first call, then of the next."""
    if calls.count == 1:
        columns = calls.columns
        return [
            columns[item.name][0]
            if isinstance(item, ParameterRef)
            else (item.value if isinstance(item, Constant) else None)
            for item in expressions
        ]
    values: list[Any] = [None] * (len(expressions) * calls.count)
    for place, item in enumerate(expressions):
        if isinstance(item, Constant):
            values[place :: len(expressions)] = [item.value] * calls.count
        elif isinstance(item, ParameterRef):
            values[place :: len(expressions)] = calls.columns[item.name]
    return values


def _stored(values: list[Any], of: PropertyType, owner: NodeType | EdgeType, field: pa.Field) -> pa.Array | None:
    """Return a column as it is stored, or None when some value does not plainly fit."""
    kinds = set(map(type, values))
    if NoneType in kinds and not field.nullable:
        return None
    kinds.discard(NoneType)
    try:
        if of.is_list or not kinds <= {_CLASSES.get(of.scalar)}:
            values = [fit_stored(value, of, owner, field.name) for value in values]
        array = stored_array(values, field.type)
    except (OmnigraphError, pa.ArrowException, OverflowError, UnicodeError):
        return None
    if of.scalar in FLOATS and not of.is_list and not pc.all(pc.is_finite(array), min_count=0).as_py():
        return None
    return array if isinstance(array, pa.Array) else None
