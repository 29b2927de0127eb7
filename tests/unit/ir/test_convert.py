"""Fitting values to columns."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.errors import ValueFormatError
from omnigraph.ir.types import DATE, F64, I64, INTERVAL, NULL, PATH, TEXT, fit_assigned, fit_compared


def of(scalar: Scalar, **flags: Any) -> PropertyType:
    return PropertyType(scalar=scalar, **flags)


@pytest.mark.parametrize(
    ("value", "given", "column", "fitted"),
    [
        (2.0, F64, Scalar.I32, 2),
        (2.7, F64, Scalar.I32, 2.7),
        (float("inf"), F64, Scalar.I32, float("inf")),
        (3_000_000_000, I64, Scalar.I32, 3_000_000_000),
        (-1, I64, Scalar.U32, -1),
        (0.1, F64, Scalar.F32, 0.10000000149011612),
        (1e300, F64, Scalar.F32, 1e300),
        ((1 << 53) + 1, I64, Scalar.F64, (1 << 53) + 1),
        (1 << 53, I64, Scalar.F64, float(1 << 53)),
        ("x", TEXT, Scalar.STRING, "x"),
        (1, DATE, Scalar.DATE, 1),
        (None, I64, Scalar.F64, None),
    ],
)
def test_a_compared_value_is_converted_only_without_loss(
    value: Any, given: PropertyType, column: Scalar, fitted: Any
) -> None:
    result, kind = fit_compared(value, given, of(column, nullable=True))
    assert result == fitted
    assert type(result) is type(fitted)
    assert not kind.nullable


@pytest.mark.parametrize(
    ("value", "target", "stored"),
    [
        (3, of(Scalar.F64), 3.0),
        (0.1, of(Scalar.F32), 0.10000000149011612),
        ((1, 2.5), of(Scalar.VECTOR, dimension=2), (1.0, 2.5)),
        ((1, 2), of(Scalar.F32, is_list=True), (1.0, 2.0)),
        ("a", of(Scalar.STRING, enum_values=("a", "b")), "a"),
        (None, of(Scalar.I32, nullable=True), None),
    ],
)
def test_an_assigned_value_takes_the_type_of_its_property(value: Any, target: PropertyType, stored: Any) -> None:
    assert fit_assigned(value, target) == stored


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (2.0, of(Scalar.I32)),
        (True, of(Scalar.I32)),
        (1 << 31, of(Scalar.I32)),
        (-1, of(Scalar.U64)),
        (float("nan"), of(Scalar.F64)),
        (10**400, of(Scalar.F64)),
        (1e300, of(Scalar.F32)),
        ((1.0,), of(Scalar.VECTOR, dimension=2)),
        ((1.0, float("inf")), of(Scalar.VECTOR, dimension=2)),
        ((1, None), of(Scalar.I32, is_list=True)),
        ("c", of(Scalar.STRING, enum_values=("a", "b"))),
        (None, of(Scalar.I32)),
    ],
)
def test_an_assigned_value_that_does_not_fit_is_refused(value: Any, target: PropertyType) -> None:
    with pytest.raises(ValueFormatError, match="does not fit"):
        fit_assigned(value, target)


@pytest.mark.parametrize("kind", [NULL, INTERVAL, PATH], ids=str)
def test_a_type_of_which_there_is_one_is_the_same_after_a_journey(kind: PropertyType) -> None:
    assert pickle.loads(pickle.dumps(kind)) is kind  # noqa: S301 - made here
