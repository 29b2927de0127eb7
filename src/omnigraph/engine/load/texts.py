"""Columns of text cells, as CSV files have them, into the parsed columns that the checker takes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.engine.rows.checking import mask_of
from omnigraph.engine.rows.columns import Mask, json_type

_INTEGER = r"-?[0-9]+"
_NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
# Instants outside of the calendar's years have no other text.
_COUNT = r"[+-][0-9]{1,19}"
_WORDS = {"true": True, "false": False}


def parse_texts(kind: PropertyType, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return the cells in the type of :func:`json_type`, and those that are not of it."""
    if kind.is_list or kind.is_vector:
        # Cells hold JSON arrays; only the exact decoder is strict about their items.
        return pa.nulls(len(texts), json_type(kind, "text")), mask_of(texts.is_valid())
    if kind.scalar in INTEGERS:
        return _numbers(kind, texts, _INTEGER)
    if kind.scalar in FLOATS:
        return _numbers(kind, texts, _NUMBER)
    if kind.scalar is Scalar.BOOL:
        is_word = pc.is_in(texts, value_set=pa.array(list(_WORDS)))
        bad = mask_of(pc.and_not(texts.is_valid(), is_word))
        return pc.if_else(texts.is_valid(), pc.equal(texts, "true"), None), bad if bad.any() else None
    return texts, None


def value_of_text(kind: PropertyType, text: str) -> Any:
    """Return the JSON value that a cell stands for; the text itself when it stands for none."""
    if kind.is_list or kind.is_vector:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return text
    if kind.scalar in INTEGERS and re.fullmatch(_INTEGER, text, re.ASCII) and len(text) <= 64:
        return int(text)
    if kind.scalar in FLOATS and re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if kind.scalar is Scalar.BOOL:
        return _WORDS.get(text, text)
    if kind.scalar is Scalar.DATETIME and re.fullmatch(_COUNT, text, re.ASCII):
        return int(text)
    return text


def _numbers(kind: PropertyType, texts: pa.Array, form: str) -> tuple[pa.Array, Mask | None]:
    wanted = json_type(kind, "text")
    is_number = pc.match_substring_regex(texts, f"^{form}$")
    bad = mask_of(pc.fill_null(pc.invert(is_number), fill_value=False))
    plain = texts if not bad.any() else pc.if_else(is_number, texts, None)
    try:
        return plain.cast(wanted), bad if bad.any() else None
    except pa.ArrowInvalid:
        # One of them is out of range; the exact decoder finds which.
        return pa.nulls(len(texts), wanted), mask_of(texts.is_valid())
