"""Columns as the texts of their values, made by Arrow and not row by row: JSON values, and cells of CSV.

What is written here is read back by ``engine.rows`` and ``engine.load`` to the very same value: floats are the
shortest text that names the double, and always look like one, since ``-0`` as an integer would lose its sign.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.results.texts import quote_json
from omnigraph.engine.rows.cells import INLINE_BLOB
from omnigraph.errors import BadValue, ChangeValueError
from omnigraph.values.temporal import format_date, parse_date, parse_datetime

TEXT = pa.large_string()
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_WHOLE = r"^-?[0-9]+$"
# Between these Arrow writes the calendar exactly as we read it.
_DAYS = (parse_date("0001-01-01"), parse_date("9999-12-31"))
_MILLIS = (parse_datetime("0001-01-01T00:00:00Z"), parse_datetime("9999-12-31T23:59:59.999Z"))


def json_texts(column: pa.Array, name: str) -> pa.Array:
    """Return the JSON of every value; days and milliseconds as integers, blobs as base64 text, absence as ``null``.

    Raises:
        ChangeValueError: a float is not finite, which JSON cannot say.
    """
    return _json(column, name).fill_null("null")


def csv_texts(column: pa.Array, name: str) -> pa.Array:
    """Return every value as a cell of CSV; texts are quoted, absence is the empty cell, a list is JSON in quotes.

    Raises:
        ChangeValueError: a float is not finite.
    """
    of = column.type
    if _is_list(of):
        cells = quote_csv(_json(column, name))
    elif pa.types.is_date32(of):
        cells = _calendar(column.view(pa.int32()), _DAYS, lambda days: days.view(pa.date32()).cast(TEXT), format_date)
    elif pa.types.is_date64(of):
        cells = _calendar(column.view(pa.int64()), _MILLIS, _instants, lambda millis: f"{millis:+d}")
    elif pa.types.is_string(of):
        cells = quote_csv(column)
    elif pa.types.is_large_binary(of):
        cells = _blobs(column)
    else:
        cells = _json(column, name)
    return cells.fill_null("")


def quote_csv(texts: pa.Array) -> pa.Array:
    """Return texts in double quotes, those inside doubled."""
    return join('"', pc.replace_substring(texts.cast(TEXT), pattern='"', replacement='""'), '"')


def join(*parts: pa.Array | str) -> pa.Array:
    """Return the parts of each row as one text; null where a part is."""
    return pc.binary_join_element_wise(*(_part(part) for part in parts), _part(""))


def _part(part: pa.Array | str) -> pa.Array | pa.Scalar:
    return pa.scalar(part, TEXT) if isinstance(part, str) else part


def _json(column: pa.Array, name: str) -> pa.Array:
    of = column.type
    if _is_list(of):
        return _lists(column, json_texts(column.flatten(), name))
    if pa.types.is_string(of):
        return _quoted(column.cast(TEXT))
    if pa.types.is_large_binary(of):
        return join('"', _blobs(column), '"')
    if pa.types.is_floating(of):
        return _floats(column, name)
    if pa.types.is_date32(of):
        return column.view(pa.int32()).cast(TEXT)
    if pa.types.is_date64(of):
        return column.view(pa.int64()).cast(TEXT)
    return column.cast(TEXT)


def _is_list(of: pa.DataType) -> bool:
    return bool(pa.types.is_list(of) or pa.types.is_fixed_size_list(of))


def _lists(column: pa.Array, items: pa.Array) -> pa.Array:
    # Flattening left out what stands below nulls, so the bounds are counted again.
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    grouped = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items)
    texts = join("[", pc.binary_join(grouped, _part(",")), "]")
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, TEXT)) if column.null_count else texts


def _quoted(texts: pa.Array) -> pa.Array:
    odd = pc.fill_null(pc.match_substring_regex(texts, _NEEDS_ESCAPE), fill_value=False)
    quoted = join('"', texts, '"')
    if not pc.any(odd, min_count=0).as_py():
        return quoted
    escaped = [quote_json(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(escaped, TEXT))


def _floats(column: pa.Array, name: str) -> pa.Array:
    check_finite(column, name)
    texts = column.cast(pa.float64()).cast(TEXT)
    whole = pc.match_substring_regex(texts, _WHOLE)
    return pc.if_else(whole, join(texts, ".0"), texts)


def check_finite(column: pa.Array, name: str) -> None:
    """Refuse floats that a load would refuse.

    Raises:
        ChangeValueError: one of them is not finite.
    """
    finite = pc.is_finite(column)
    if not pc.all(finite, min_count=0).as_py():
        found = str(column.filter(pc.invert(finite))[0].as_py())
        details = BadValue(what=name, value=found, expected="a finite number")
        raise ChangeValueError(f"a value cannot be exported property={name} value={found}", details=details)


def _blobs(column: pa.Array) -> pa.Array:
    values = column.to_pylist()
    return pa.array(
        [None if value is None else INLINE_BLOB + base64.b64encode(value).decode() for value in values], TEXT
    )


def _calendar(
    counts: pa.Array, bounds: tuple[int, int], usual: Callable[[pa.Array], pa.Array], unusual: Callable[[int], str]
) -> pa.Array:
    is_usual = pc.and_(pc.greater_equal(counts, bounds[0]), pc.less_equal(counts, bounds[1]))
    if pc.all(is_usual, min_count=0).as_py():
        return usual(counts)
    texts = usual(pc.if_else(is_usual, counts, pa.scalar(0, counts.type)))
    odd = pc.fill_null(pc.invert(is_usual), fill_value=False)
    rest = [unusual(count) for count in counts.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(rest, TEXT))


def _instants(millis: pa.Array) -> pa.Array:
    texts = millis.view(pa.timestamp("ms")).cast(TEXT)
    return join(pc.replace_substring(texts, pattern=" ", replacement="T"), "Z")
