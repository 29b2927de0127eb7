"""How a table is written, where that is not the usual way."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.records import record
from omnigraph.values import check_choice, check_flag, check_text, checked_names, unfit

UTF_8 = "utf-8"
_DECIMALS = (".", ",")
# What only the text of a CSV file has; the others hold for rows of every table.
OF_TEXT = frozenset({"delimiter", "quote", "encoding", "header", "decimal"})


@record
class Dialect:
    """How the tables of a source are written.

    Args:
        delimiter: what stands between the cells of a CSV file; a tab in ``.tsv`` files and a comma in others when None.
        quote: what stands around cells of a CSV file; nothing does when it is empty.
        encoding: how a CSV file writes its characters, by a name that Python knows; UTF-8 may have a byte order mark.
        header: the names of the columns of a CSV file whose first line is a row already.
        null: texts that stand for no value, such as ``NULL``, with or without quotes around them.
        decimal: the decimal mark of numbers in a CSV file, a point or a comma.
        trim: drop blanks around names of columns and texts; a text of blanks alone is no value.
        ignore_extra_columns: leave out columns that no property has, instead of refusing them.

    Raises:
        UsageError: a value is of another type, or nothing can be written so.
    """

    delimiter: str | None = None
    quote: str = '"'
    encoding: str = UTF_8
    header: Sequence[str] | None = None
    null: Sequence[str] = ()
    decimal: str = "."
    trim: bool = False
    ignore_extra_columns: bool = False

    def __post_init__(self) -> None:
        if self.delimiter is not None and not _is_sign(self.delimiter, " \t"):
            raise unfit("delimiter", self.delimiter, "one ASCII character except letters and digits")
        if self.quote != "" and not _is_sign(self.quote, ""):
            raise unfit("quote", self.quote, "one ASCII character except letters and digits, or nothing")
        if self.quote and self.quote == self.delimiter:
            raise unfit("quote", self.quote, "another character than the delimiter")
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        if self.header is not None:
            object.__setattr__(self, "header", checked_names("header", self.header))
            if not self.header:
                raise unfit("header", self.header, "at least one name")
        object.__setattr__(self, "null", checked_names("null", self.null))
        check_choice("decimal", self.decimal, _DECIMALS)
        check_flag("trim", self.trim)
        check_flag("ignore_extra_columns", self.ignore_extra_columns)

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of what differs from the usual way."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) != getattr(USUAL, one.name))

    def names(self, header: Sequence[str]) -> list[str]:
        """Return the names of columns as they are meant."""
        return [name.strip() for name in header] if self.trim else list(header)

    def clean(self, column: pa.Array) -> pa.Array:
        """Return a column, with null where a text stands for no value, and no blanks around texts if they mean nothing.

        Columns of other types are returned as they are.
        """
        if not self.trim and not self.null:
            return column
        texts = plain_column(column)
        if not is_text(texts.type):
            return column
        texts = texts.cast(pa.string())
        if self.trim:
            bare = pc.utf8_trim_whitespace(texts)
            is_nothing = pc.and_(pc.equal(bare, ""), pc.not_equal(texts, ""))
            texts = pc.if_else(is_nothing, pa.scalar(None, pa.string()), bare)
        if self.null:
            texts = pc.if_else(pc.is_in(texts, value_set=pa.array(self.null)), pa.scalar(None, pa.string()), texts)
        return texts

    def clean_value(self, value: Any) -> Any:
        """Return one value as :meth:`clean` gives it."""
        if not isinstance(value, str):
            return value
        bare = value.strip() if self.trim else value
        return None if bare in self.null or (not bare and value) else bare


def plain_column(column: pa.Array) -> pa.Array:
    """Return a column without the tricks of its layout: no dictionary, no views."""
    if pa.types.is_dictionary(column.type):
        values = plain_column(column.dictionary)
        column = pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_binary_view(column.type) else column


def is_text(given: pa.DataType) -> bool:
    """Whether an Arrow type holds texts."""
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))


def _is_sign(text: object, blanks: str) -> bool:
    if not isinstance(text, str) or len(text) != 1 or not text.isascii():
        return False
    return text in blanks or (text.isprintable() and not text.isalnum() and text not in " .+-")


def _encoding(name: object) -> str:
    check_text("encoding", name)
    try:
        # Python has codecs that are none of characters; they refuse a text.
        b"".decode(str(name))
        "".encode(str(name))
    except (LookupError, ValueError) as problem:
        raise unfit("encoding", name, "the name of an encoding, such as utf-8, latin-1, cp1252 or utf-16") from problem
    # However it is spelt, UTF-8 is what needs no conversion.
    return UTF_8 if codecs.lookup(str(name)).name == UTF_8 else str(name).lower().replace("_", "-")


USUAL = Dialect()
