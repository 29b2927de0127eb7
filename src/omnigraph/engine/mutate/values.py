"""From what a statement assigns to what the table stores."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.defaults import default_value
from omnigraph.catalog.model import EdgeType, NodeType, PropertyDef, PropertyType, Scalar
from omnigraph.engine.embedding.settings import configure_hint
from omnigraph.engine.external_blobs import current_intake
from omnigraph.errors import (
    Diagnostic,
    ExternalBlobError,
    ExternalBlobSourceError,
    QueryMeaningError,
    ValueFormatError,
)
from omnigraph.ir.model import (
    Constant,
    InsertPlan,
    MutationPlan,
    ParameterRef,
    StatementPlan,
    UpdateMatchedPlan,
    UpdatePlan,
)
from omnigraph.ir.parameters import ParameterRows
from omnigraph.ir.types import fit_assigned
from omnigraph.records import record
from omnigraph.store.tables.layouts import array_of
from omnigraph.values.blobs import INLINE_BLOB, external_address

_TEXT = pa.string()


@record
class RequestValues:
    """The values of one request: its decoded parameters and its instant."""

    parameters: Mapping[str, Any]
    now_ms: int

    def value(self, expression: Constant | ParameterRef) -> Any:
        """Return the decoded value that an expression stands for; None is NULL."""
        if isinstance(expression, Constant):
            return expression.value
        return self.now_ms if expression.is_now else self.parameters[expression.name]


def fit_end(value: Any, owner: EdgeType, name: str) -> str:
    """Return the id of an end of an edge.

    Raises:
        QueryMeaningError: it is NULL.
    """
    if value is None:
        raise _refusal(f"missing required edge endpoint: '{name}' of '{owner.name}' is NULL")
    return str(value)


def fit_stored(value: Any, of: PropertyType, owner: NodeType | EdgeType, name: str) -> Any:
    """Return what a property of type ``of`` stores for a value.

    Whether a text belongs to an enum is asked of the net effect, like every rule about values.

    Raises:
        QueryMeaningError: the value does not fit the property.
        ExternalBlobError: a Blob is given as an address outside the graph.
    """
    where = f"{owner.name}.{name}"
    if value is None:
        if of.nullable:
            return None
        raise _refusal(f"property '{where}' of type {of} cannot be NULL")
    if of.scalar is Scalar.BLOB:
        return _blob(value, where)
    try:
        return fit_assigned(value, of if of.enum_values is None else replace(of, enum_values=None))
    except ValueFormatError as problem:
        raise _refusal(f"{problem.message} of property '{where}'") from problem


def decode_blobs(plan: MutationPlan, calls: ParameterRows) -> tuple[MutationPlan, ParameterRows]:
    """Return the mutation with the Blobs that it assigns decoded, once for however often its statements are run.

    What is no Blob stays as it is given: whether that matters shows when the statements are run.
    """
    columns = dict(calls.columns)
    statements = tuple(_with_blobs(statement, columns) for statement in plan.statements)
    if len(columns) == len(calls.columns):
        return plan, calls
    return replace(plan, statements=statements), ParameterRows(columns=columns, count=calls.count)


def _with_blobs(statement: StatementPlan, columns: dict[str, Sequence[Any]]) -> StatementPlan:
    if not isinstance(statement, InsertPlan | UpdatePlan | UpdateMatchedPlan) or all(
        item.type.scalar is not Scalar.BLOB for item in statement.assigns
    ):
        return statement
    assigns = []
    for item in statement.assigns:
        if item.type.scalar is Scalar.BLOB and isinstance(item.value, ParameterRef):
            # No declared parameter can have a space in its name.
            name = f"blob {item.value.name}"
            if name not in columns:
                columns[name] = [_decoded(value) for value in columns[item.value.name]]
            assigns.append(replace(item, value=replace(item.value, name=name)))
        else:
            assigns.append(item)
    return replace(statement, assigns=tuple(assigns))


def _decoded(value: Any) -> Any:
    try:
        return value if value is None else _blob(value, "")
    except (ExternalBlobError, ExternalBlobSourceError, QueryMeaningError):
        return value


def whole_row(owner: NodeType | EdgeType, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of every property; what is not assigned has its default, or is NULL.

    Raises:
        QueryMeaningError: a required property is missing, which only a vector that nothing computes can be here.
    """
    whole = {prop.name: values[prop.name] if prop.name in values else default_value(prop) for prop in owner.properties}
    for prop in owner.properties:
        if not prop.type.nullable and whole[prop.name] is None:
            raise _missing(owner, prop)
    return whole


def rows_of(owner: NodeType | EdgeType, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return whole rows, system columns included, in the layout of the type's table."""
    schema = arrow_schema(owner)
    columns = [stored_array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def stored_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return stored values as Arrow has them; dates are given as numbers of days and milliseconds.

    >>> stored_array([1], pa.date64()).view(pa.int64()).to_pylist()
    [1]
    """
    if kind == _TEXT:
        return array_of(values, kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_date64(kind):
        # A cast from Python values would cut the time of day.
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_list(kind) and pa.types.is_date(kind.value_type):
        lists = pa.array(values, pa.list_(pa.int32() if pa.types.is_date32(kind.value_type) else pa.int64()))
        items = lists.values.view(kind.value_type)
        return pa.ListArray.from_arrays(lists.offsets, items, type=kind, mask=lists.is_null())
    return array_of(values, kind)


def repeated(value: Any, of: PropertyType, kind: pa.DataType, count: int) -> pa.Array:
    """Return one stored value ``count`` times."""
    single = stored_array([value], kind)
    return pa.nulls(count, kind) if value is None and of.nullable else single.take(pa.array([0] * count, pa.int64()))


def _blob(text: str | bytes, where: str) -> bytes:
    if isinstance(text, bytes):
        # Decoded before, with everything that was to be decided about it.
        return text
    if not text.startswith(INLINE_BLOB):
        return _external(text, where)
    try:
        content = base64.b64decode(text[len(INLINE_BLOB) :], validate=True)
    except (binascii.Error, ValueError) as problem:
        raise _refusal(f"invalid base64 blob data for property '{where}'") from problem
    address = external_address(content)
    return content if address is None else _external(address, where)


def _external(address: str, where: str) -> bytes:
    try:
        return current_intake().take(address)
    except (ExternalBlobError, ExternalBlobSourceError) as problem:
        message = f"{problem.message} (property '{where}')"
        raise type(problem)(message, details=problem.details) from problem


def _missing(owner: NodeType | EdgeType, prop: PropertyDef) -> QueryMeaningError:
    if prop.embed is None:
        return _refusal(f"missing required property '{prop.name}' of '{owner.name}'")
    message = (
        f"no value for the required vector '{prop.name}' of '{owner.name}': it is computed from"
        f" '{prop.embed.source}', and no embedding provider is configured"
    )
    return _refusal(message, suggestion=f"assign the vector, or {configure_hint()}")


def _refusal(message: str, *, suggestion: str | None = None) -> QueryMeaningError:
    return QueryMeaningError(message, details=Diagnostic(suggestion=suggestion))
