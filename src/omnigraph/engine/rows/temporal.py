"""Whole columns of calendar text into counts: the usual spelling by Arrow, every other one by the exact parser."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Scalar
from omnigraph.engine.rows.cells import read_temporal
from omnigraph.errors import ValueFormatError

_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z$"


def read_texts(scalar: Scalar, texts: pa.Array) -> pa.Array:
    """Return day counts (int32) or millisecond counts (int64); a text that is none becomes null."""
    encoded = texts.dictionary_encode()
    counts = _distinct(scalar, encoded.dictionary)
    return counts.take(encoded.indices)


def _distinct(scalar: Scalar, texts: pa.Array) -> pa.Array:
    width = pa.int32() if scalar is Scalar.DATE else pa.int64()
    usual = pc.match_substring_regex(texts, _DATE if scalar is Scalar.DATE else _INSTANT)
    try:
        counts = _by_arrow(scalar, texts.filter(usual))
    except pa.ArrowInvalid:
        # The 30th of February and the like: let the exact parser find it.
        usual = pa.array(np.zeros(len(texts), dtype=bool))
        counts = pa.array([], width)
    unusual = pc.invert(usual)
    if not pc.any(unusual, min_count=0).as_py():
        return counts
    parsed = pa.array([_one(scalar, text) for text in texts.filter(unusual).to_pylist()], width)
    whole = pc.replace_with_mask(pa.nulls(len(texts), width), usual, counts)
    return pc.replace_with_mask(whole, unusual, parsed)


def _by_arrow(scalar: Scalar, texts: pa.Array) -> pa.Array:
    if scalar is Scalar.DATE:
        return texts.cast(pa.date32()).view(pa.int32())
    plain = pc.utf8_slice_codeunits(texts, 0, -1)
    return plain.cast(pa.timestamp("ms")).view(pa.int64())


def _one(scalar: Scalar, text: str) -> int | None:
    try:
        return read_temporal(scalar, text)
    except ValueFormatError:
        return None
