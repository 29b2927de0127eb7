"""Ids that follow from key values: one text per value, one id per row, the same one by one and in columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import ENDPOINTS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.errors import BadValue, UsageError, ValueFormatError
from omnigraph.values.decimals import canonical_decimal
from omnigraph.values.ids import EntityId

_INTEGER_BOUNDS = {
    Scalar.I32: (-(1 << 31), (1 << 31) - 1),
    Scalar.I64: (-(1 << 63), (1 << 63) - 1),
    Scalar.U32: (0, (1 << 32) - 1),
    Scalar.U64: (0, (1 << 64) - 1),
    Scalar.DATE: (-(1 << 31), (1 << 31) - 1),
    Scalar.DATETIME: (-(1 << 63), (1 << 63) - 1),
}
# Texts of this form are already canonical; whatever else Arrow writes for a float (exponents, a trailing ``.0``)
# goes through numpy instead.
_CANONICAL_FLOAT = r"^-?[0-9]+(\.[0-9]*[1-9])?$"
_NEEDS_JSON_ESCAPE = r'[\x00-\x1f"\\]'


def canonical_text(scalar: Scalar, value: object) -> str:  # noqa: C901 - a table: one case per scalar type
    """Return the text that stands for a key value; ``value`` is as stored: dates are day and millisecond counts.

    Raises:
        ValueFormatError: the value is not of that type, is null, or is a float without a decimal text.

    >>> canonical_text(Scalar.F32, 1.23456789), canonical_text(Scalar.F64, 1e21)
    ('1.2345679', '1000000000000000000000')
    """
    match scalar:
        case Scalar.STRING:
            if isinstance(value, str):
                return value
        case Scalar.BOOL:
            if isinstance(value, bool):
                return "true" if value else "false"
        case Scalar.F32 | Scalar.F64:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return _float_text(scalar, value)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64 | Scalar.DATE | Scalar.DATETIME:
            low, high = _INTEGER_BOUNDS[scalar]
            if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
                return str(value)
        case Scalar.DECIMAL:
            if isinstance(value, Decimal) and value.is_finite():
                return canonical_decimal(value)
        case Scalar.BLOB | Scalar.VECTOR:
            pass
        case _:
            assert_never(scalar)
    raise _bad_value(scalar.value, value)


def entity_id(owner: NodeType | EdgeType, values: Mapping[str, object]) -> EntityId:
    """Return the id of one row; ``values`` holds at least the key columns, endpoints as ``src`` and ``dst``.

    Raises:
        UsageError: the type has no key, so ids do not follow from values.
        ValueFormatError: a key value is missing or has no canonical text.
    """
    parts = [canonical_text(_key_type(owner, column).scalar, values.get(column)) for column in _key(owner)]
    return EntityId(parts[0] if len(parts) == 1 else _tuple_text(parts))


def entity_ids(owner: NodeType | EdgeType, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return the ids of many rows as a string array, one per row of ``columns``.

    Raises:
        UsageError: the type has no key, so ids do not follow from values.
        ValueFormatError: a key column is missing, holds a null, or a float without a decimal text.
    """
    texts = {}
    for column in _key(owner):
        if column not in columns:
            raise _bad_value(f"key column {column}", None)
        texts[column] = canonical_texts(_key_type(owner, column), columns[column])
    if len(texts) == 1:
        return next(iter(texts.values()))
    quoted = [_quoted(text, _key_type(owner, column)) for column, text in texts.items()]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*quoted, ","), "]", "")


def canonical_texts(kind: PropertyType, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the canonical texts of a whole column that holds stored values of type ``kind``.

    Raises:
        ValueFormatError: a value is null or a float without a decimal text, or the column has another type.
    """
    array = _stored(kind, column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    if array.null_count:
        raise _bad_value(str(kind), None)
    match kind.scalar:
        case Scalar.DATE:
            return array.view(pa.int32()).cast(pa.string())
        case Scalar.DATETIME:
            # A cast would drop the time of day.
            return array.view(pa.int64()).cast(pa.string())
        case Scalar.F32 | Scalar.F64:
            return _float_texts(kind.scalar, array)
        case Scalar.DECIMAL:
            return _decimal_texts(array)
        case _:
            return array.cast(pa.string())


def _stored(kind: PropertyType, array: pa.Array) -> pa.Array:
    demanded = arrow_type(kind)
    if kind.is_list or kind.scalar in {Scalar.BLOB, Scalar.VECTOR}:
        raise _bad_value("a type that can be a key", kind)
    if array.type == demanded:
        return array
    # Text has several layouts in Arrow. Converting numbers or dates here could change them, and is the loader's work.
    value_type = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if kind.is_text and (pa.types.is_large_string(value_type) or pa.types.is_string(value_type)):
        return array.cast(demanded)
    details = BadValue(what="key column", value=str(array.type), expected=str(demanded))
    raise ValueFormatError(f"key column has type {array.type}, expected {demanded}", details=details)


def _key(owner: NodeType | EdgeType) -> tuple[str, ...]:
    if owner.key is None:
        details = BadValue(what="type", value=owner.name, expected="a type with @key")
        raise UsageError(f"ids of {owner.table_key} cannot be derived from values: it has no @key", details=details)
    return owner.key


def _key_type(owner: NodeType | EdgeType, column: str) -> PropertyType:
    prop = owner.get(column)
    if prop is None and isinstance(owner, EdgeType) and column in ENDPOINTS:
        return PropertyType(scalar=Scalar.STRING)
    if prop is None:
        raise _bad_value(f"key column of {owner.name}", column)
    return prop.type


def _bad_value(expected: str, value: object) -> ValueFormatError:
    details = BadValue(what="key value", value=repr(value), expected=expected)
    return ValueFormatError(f"key value {value!r} has no canonical text, expected {expected}", details=details)


def _non_finite(value: object) -> ValueFormatError:
    details = BadValue(what="key value", value=repr(value), expected="a finite number")
    return ValueFormatError(f"non-finite key value {value!r}", details=details)


def _float_text(scalar: Scalar, value: float) -> str:
    try:
        wide = float(value)
    except OverflowError:
        raise _non_finite(value) from None
    with np.errstate(over="ignore"):
        number = np.float32(wide) if scalar is Scalar.F32 else np.float64(wide)
    if not math.isfinite(number):
        raise _non_finite(value)
    # Adding zero turns -0.0 into 0.0.
    return np.format_float_positional(number + number.dtype.type(0), unique=True, trim="-")


def _float_texts(scalar: Scalar, stored: pa.Array) -> pa.Array:
    finite = pc.is_finite(stored)
    if not pc.all(finite, min_count=0).as_py():
        raise _non_finite(stored.filter(pc.invert(finite))[0].as_py())
    numbers = pc.add(stored, pa.scalar(0, stored.type))
    texts = numbers.cast(pa.string())
    odd = pc.invert(pc.match_substring_regex(texts, _CANONICAL_FLOAT))
    if not pc.any(odd, min_count=0).as_py():
        return texts
    written = [_float_text(scalar, number) for number in numbers.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(written, pa.string()))


def _decimal_texts(stored: pa.Array) -> pa.Array:
    texts = stored.cast(pa.string())
    if stored.type.scale:
        # Arrow writes what is very small with an exponent.
        odd = pc.match_substring(texts, "E")
        texts = pc.replace_substring_regex(texts, r"\.?0+$", "")
        if pc.any(odd, min_count=0).as_py():
            written = [canonical_decimal(number) for number in stored.filter(odd).to_pylist()]
            texts = pc.replace_with_mask(texts, odd, pa.array(written, pa.string()))
    return texts


def _tuple_text(parts: list[str]) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _quoted(texts: pa.Array, kind: PropertyType) -> pa.Array:
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    if kind.scalar is not Scalar.STRING:
        return quoted
    special = pc.match_substring_regex(texts, _NEEDS_JSON_ESCAPE)
    if not pc.any(special, min_count=0).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.string()))
