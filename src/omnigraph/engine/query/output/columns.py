"""Output expressions: what a row of the result shows."""

from __future__ import annotations

from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import PropertyType
from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame
from omnigraph.ir.model import Column, Constant, EntityRef, ParameterRef, Scalarlike


def scalar_column(context: QueryContext, frame: Frame, expression: Scalarlike) -> pa.Array:
    """Return the value of an expression, one per row."""
    match expression:
        case Column():
            return context.values(frame, expression.variable, expression.property)
        case EntityRef():
            return context.ids(frame, expression.variable)
        case ParameterRef() | Constant():
            return repeated(context.given(expression), expression.type, frame.length)
        case _:
            assert_never(expression)


def repeated(value: object, of: PropertyType, count: int) -> pa.Array:
    """Return one decoded value so many times."""
    kind = output_type(of)
    once = pa.array([list(value) if isinstance(value, tuple) else value], kind)
    return once.take(pa.array(np.zeros(count, dtype=np.int64)))


def output_type(of: PropertyType) -> pa.DataType:
    """Return the Arrow type that values of a type have in results."""
    return arrow_type(of)
