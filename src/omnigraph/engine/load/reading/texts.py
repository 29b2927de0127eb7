"""Cells that are texts, of CSV files above all, into values of a property; what would lose something is left alone.

Tables come from elsewhere, so that a truth value may be written as 0 or ``yes`` and a date as ``31.01.2024``. Each text
means one value or none, whatever the other cells hold.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.engine.load.reading.tables import ParsedColumn
from omnigraph.engine.load.sources.dialect import USUAL, Dialect
from omnigraph.engine.rows.columnar import mask_of
from omnigraph.engine.rows.columns import TEMPORAL, Mask, json_type
from omnigraph.errors import ValueFormatError
from omnigraph.values.decimals import MAX_PRECISION, WrittenFloat
from omnigraph.values.temporal import parse_date, parse_datetime

_INTEGER = r"-?[0-9]+"
_NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
# Instants outside of the calendar's years have no other text.
_COUNT = r"[+-][0-9]{1,19}"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_WORDS = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
_JSON = msgspec.json.Decoder(float_hook=WrittenFloat)

# What the calendar reads by itself, and for other spellings that have one meaning the one that it reads. Days and
# months with slashes behind them are not among them: nobody knows which comes first.
_CALENDAR = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}:[0-9]{2}.*)?$"
_SPELLINGS = (
    (r"^([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})($|[T ])", r"\1-\2-\3\4"),
    (r"^([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})($|[T ])", r"\3-\2-\1\4"),
    (r" ?UTC$", "Z"),
    (r"^([0-9-]+[T ][0-9]{2}:[0-9]{2})( ?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?$", r"\1:00\2"),
)


def parse_texts(kind: PropertyType, texts: pa.Array, dialect: Dialect = USUAL) -> tuple[pa.Array, Mask | None]:
    """Return the cells in the type of :func:`json_type`, and those that are not of it."""
    if kind.is_list or kind.is_vector:
        # Cells hold JSON arrays; only the exact decoder is strict about their items.
        return pa.nulls(len(texts), json_type(kind, "text")), mask_of(texts.is_valid())
    if kind.scalar in INTEGERS:
        return _numbers(kind, texts, _INTEGER)
    if kind.scalar in FLOATS:
        return _numbers(kind, _with_point(texts, dialect), _NUMBER)
    if kind.is_decimal:
        return read_decimals(kind, _with_point(texts, dialect))
    if kind.scalar is Scalar.BOOL:
        return read_words(texts)
    return (usual_dates(texts) if kind.scalar in TEMPORAL else texts), None


def parsed_texts(kind: PropertyType, column: pa.Array, *, dialect: Dialect = USUAL) -> ParsedColumn:
    """Return a column of texts with the values that they stand for."""
    values, bad = parse_texts(kind, column, dialect)

    def value_at(row: int) -> Any:
        text = column[row].as_py()
        return None if text is None else value_of_text(kind, text, dialect)

    return ParsedColumn(values=values, flavour="text", bad=bad, value_at=value_at)


def value_of_text(kind: PropertyType, text: str, dialect: Dialect = USUAL) -> Any:
    """Return the JSON value that a cell stands for; the text itself when it stands for none."""
    if kind.is_list or kind.is_vector:
        try:
            return _JSON.decode(text)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return text
    if kind.scalar in INTEGERS and re.fullmatch(_INTEGER, text, re.ASCII) and len(text) <= 64:
        return int(text)
    if kind.scalar in FLOATS and re.fullmatch(_NUMBER, _pointed(text, dialect), re.ASCII):
        return float(_pointed(text, dialect))
    if kind.is_decimal and dialect.decimal != ".":
        pointed = _pointed(text, dialect)
        # The blank keeps a text with a point from being read as the number that it would be elsewhere.
        return pointed if re.fullmatch(_NUMBER, pointed, re.ASCII) else f"{text} "
    if kind.scalar is Scalar.BOOL:
        return value_of_word(text)
    if kind.scalar is Scalar.DATETIME and re.fullmatch(_COUNT, text, re.ASCII):
        return int(text)
    return value_of_date(kind, text) if kind.scalar in TEMPORAL else text


def read_words(texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return the truth values that texts write, in whichever case, and the rows whose text is none."""
    words = pc.ascii_lower(texts)
    is_true, is_false = (pc.is_in(words, value_set=pa.array(some)) for some in (_TRUE, _FALSE))
    bad = mask_of(pc.and_not(texts.is_valid(), pc.or_(is_true, is_false)))
    return pc.if_else(texts.is_valid(), is_true, None), bad if bad.any() else None


def value_of_word(text: str) -> bool | str:
    """Return the truth value of a text; the text itself when it has none."""
    return _WORDS.get(text.lower(), text) if text.isascii() else text


def usual_dates(texts: pa.Array) -> pa.Array:
    """Return texts of dates and instants as the calendar reads them; one that nobody can read stays as it is."""
    if pc.all(pc.match_substring_regex(texts, _CALENDAR), min_count=0).as_py() is not False:
        return texts
    for pattern, replacement in _SPELLINGS:
        texts = pc.replace_substring_regex(texts, pattern, replacement)
    return texts


def value_of_date(kind: PropertyType, text: str) -> str:
    """Return one text as :func:`usual_dates` does; one that is no date all the same stays as it was written."""
    usual = text
    for pattern, replacement in _SPELLINGS:
        usual = re.sub(pattern, replacement, usual, flags=re.ASCII)
    try:
        if kind.scalar is Scalar.DATE:
            parse_date(usual)
        else:
            parse_datetime(usual, truncate=True)
    except ValueFormatError:
        return text
    return usual


def read_decimals(kind: PropertyType, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return the decimals that plain texts write, and the rows whose text the exact decoder has to look at."""
    precision, scale = kind.digits
    # What Arrow makes of an exponent or of more digits than a type has is not always right.
    plain = rf"^[+-]?0*[0-9]{{0,{precision - scale}}}(\.[0-9]{{0,{scale}}})?$"
    is_plain = pc.and_(
        pc.match_substring_regex(texts, plain),
        pc.and_(pc.match_substring_regex(texts, "[0-9]"), pc.less_equal(pc.utf8_length(texts), MAX_PRECISION)),
    )
    bad = mask_of(pc.fill_null(pc.invert(is_plain), fill_value=False))
    chosen = texts if not bad.any() else pc.if_else(is_plain, texts, None)
    return chosen.cast(arrow_type(kind.single)), bad if bad.any() else None


def _with_point(texts: pa.Array, dialect: Dialect) -> pa.Array:
    if dialect.decimal == ".":
        return texts
    # A point may stand between thousands here, so that no number has one.
    return pc.replace_substring(pc.replace_substring(texts, ".", "?"), ",", ".")


def _pointed(text: str, dialect: Dialect) -> str:
    return text if dialect.decimal == "." else text.replace(".", "?").replace(",", ".")


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
