"""New values of entities that exist: computed of the rows as they were, and stored only if all of them fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import FLOATS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.comparison import comparable, one_array
from omnigraph.engine.mutate.rows import StatementRows, decoded_values
from omnigraph.engine.mutate.values import fit_stored, stored_array
from omnigraph.engine.query.frame import Mask
from omnigraph.engine.query.values import compute
from omnigraph.errors import BadValue, OmnigraphError, QueryRuntimeError
from omnigraph.ir.model import Assign, Scalarlike


def assigned_column(
    owner: NodeType | EdgeType, assign: Assign, rows: StatementRows, names: pa.Array, field: pa.Field
) -> pa.Array:
    """Return what a property stores for each row when its value is computed.

    Args:
        owner: the type.
        assign: the property and its value.
        rows: what the value is computed of.
        names: the id of each row's entity, for messages.
        field: the column.

    Raises:
        QueryRuntimeError: a value does not fit the property, or cannot be computed; names the entity.
    """
    found = computed_column(assign.value, rows, owner, names)
    if _fits(found, assign.type, field):
        return found
    fitted = []
    for number, value in enumerate(decoded_values(found)):
        try:
            fitted.append(fit_stored(value, assign.type, owner, assign.property))
        except OmnigraphError as problem:
            raise _named(problem, owner, names[number].as_py()) from problem
    return stored_array(fitted, field.type)


def computed_column(
    value: Scalarlike, rows: StatementRows, owner: NodeType | EdgeType, names: pa.Array | None = None
) -> pa.Array:
    """Return the value of an expression for each row; if that fails, say for which type and entity.

    Raises:
        QueryRuntimeError: it cannot be computed.
    """
    try:
        return compute(value, rows)
    except QueryRuntimeError:
        for number in range(rows.length):
            try:
                compute(value, rows.subset(np.array([number])))
            except QueryRuntimeError as problem:
                raise _named(problem, owner, None if names is None else names[number].as_py()) from problem
        raise


def changed_rows(before: pa.Table, after: pa.Table, assigns: Sequence[Assign]) -> Mask:
    """Return in which rows some assigned property has another value than before."""
    changed: Mask = np.zeros(before.num_rows, dtype=np.bool_)
    for assign in assigns:
        old, new = one_array(before.column(assign.property)), one_array(after.column(assign.property))
        if assign.type.scalar is Scalar.BLOB:
            # Blobs are not read to be compared.
            changed[:] = True
        elif not old.equals(new):
            changed |= _differs(old, new, assign.type)
    return changed


def _differs(old: pa.Array, new: pa.Array, of: PropertyType) -> Mask:
    if of.is_list or of.is_vector:
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.fromiter((left != right for left, right in pairs), np.bool_, len(old))
    same = pc.fill_null(pc.equal(comparable(old), comparable(new)), fill_value=False)
    both_null = pc.and_(old.is_null(), new.is_null())
    return ~np.asarray(pc.or_(same, both_null).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _fits(found: pa.Array, of: PropertyType, field: pa.Field) -> bool:
    """Whether computed values can be stored as they are, without looking at each."""
    if found.type != field.type or of.is_list or of.is_vector or of.scalar is Scalar.BLOB:
        return False
    if found.null_count and not of.nullable:
        return False
    return of.scalar not in FLOATS or bool(pc.all(pc.is_finite(found), min_count=0).as_py() in {True, None})


def _named(problem: OmnigraphError, owner: NodeType | EdgeType, name: str | None) -> QueryRuntimeError:
    shown = "" if name is None else f" '{name}'"
    details = problem.details if isinstance(problem.details, BadValue) else None
    if details is None:
        details = BadValue(what="value", value=owner.name + shown, expected="a value that fits the property")
    return QueryRuntimeError(f"{owner.name}{shown}: {problem.message}", details=details)
