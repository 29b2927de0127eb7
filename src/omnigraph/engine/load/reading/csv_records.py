"""The text of a CSV file cut into records.

The rules are those of RFC 4180: a quote opens a cell at its first byte and nowhere else, a quote inside of a quoted
cell is doubled, and behind the closing one comes a delimiter or the end of the record. Under these rules the parity of
the quotes before a byte tells whether it is quoted, so that everything here is done for a block at once, without a
parser that goes from byte to byte. A file that breaks them cannot be cut any further, and reading it ends there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.load.reading.jsonl import LineStream, too_long
from omnigraph.engine.load.sources.dialect import Dialect
from omnigraph.records import record

_NEWLINE, _RETURN = b"\n\r"
_BREAKS = b"\r\n"
_MARK = b"\xef\xbb\xbf"
_BLOCK_BYTES = 1 << 20
_BLANKS = b" \t"
# No byte of a text is this.
_NONE = 256

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]


class Signs:
    """The bytes that mean something to the form of a text."""

    def __init__(self, *, delimiter: str = ",", quote: str = '"', has_blanks: bool = False) -> None:
        self.delimiter = ord(delimiter)
        self.quote = ord(quote) if quote else _NONE
        self.all = bytes({self.delimiter, _NEWLINE, _RETURN} | ({self.quote} if quote else set()))
        # One byte for each byte: whether it is one of them.
        self.table = bytes(byte in self.all for byte in range(256))
        # Blanks around a quoted cell, if somebody says that they mean nothing.
        self.blanks = bytes(byte for byte in _BLANKS if byte != self.delimiter) if has_blanks else b""

    @classmethod
    def of(cls, dialect: Dialect, delimiter: str = ",") -> Signs:
        """Return those of a dialect; ``delimiter`` counts if it names none."""
        return cls(delimiter=dialect.delimiter or delimiter, quote=dialect.quote, has_blanks=dialect.trim)


_USUAL = Signs()


@record
class Records:
    """Some whole records; blank lines are not among them.

    ``cells`` holds the cells of all of them one after the other, without quotes, null where there is nothing at all;
    ``widths`` says how many belong to each record, and ``lines`` on which line of the text each begins.
    """

    cells: pa.Array
    widths: Numbers
    lines: Numbers
    bytes_read: int


@record
class BrokenQuote:
    """Why a text cannot be cut into records from some line on."""

    line: int
    message: str


def iter_records(
    stream: LineStream, name: str, *, max_record_bytes: int, signs: Signs = _USUAL
) -> Iterator[Records | BrokenQuote]:
    """Yield the records of a text, some megabytes at a time; a quote out of place is yielded last.

    Raises:
        SourceTooLargeError: a record is longer than ``max_record_bytes``.
        FileAccessError: the stream cannot be read.
    """
    line, rest = 1, stream.read(len(_MARK)).removeprefix(_MARK)
    while True:
        # Twice as much for a record that has not ended yet, so that a long one is looked at a few times and not often.
        block = stream.read(max(_BLOCK_BYTES, len(rest)))
        data = rest + block
        is_end = not block
        if is_end and not data.endswith(b"\n"):
            data += b"\n" if data else b""
        if not is_end and not data.strip(_BREAKS):
            # Blank lines compress so well that there may be very many.
            line, rest = line + _count_breaks(data), data[len(data.rstrip(b"\r")) :][-1:]
            continue
        scan = _Scan(data, line, signs, is_end=is_end)
        if scan.size:
            yield scan.records(stream.bytes_read)
        broken = scan.broken_quote()
        if broken is not None:
            yield broken
        if broken is not None or is_end:
            return
        line += scan.count_breaks()
        rest = data[scan.size :]
        if len(rest) > max_record_bytes:
            raise too_long(name, line, max_record_bytes, len(rest))


class _Scan:
    """The special bytes of a text that begins with a record, in their order; ``size`` bytes of it are whole records."""

    def __init__(self, data: bytes, first_line: int, signs: Signs = _USUAL, *, is_end: bool) -> None:
        self._data = data
        self._signs = signs
        self._raw = np.frombuffer(data, np.uint8)
        self._first_line = first_line
        self._is_end = is_end
        # In 32 bits, because there may be as many as there are bytes.
        self._at = np.flatnonzero(np.frombuffer(data.translate(signs.table), bool)).astype(np.int32)
        self._kinds = self._raw[self._at]
        self._is_quote = self._kinds == signs.quote
        self._has_quotes = bool(self._is_quote.any())
        self._is_inside = self._quoted()
        self._is_break, self._is_paired = self._line_breaks()
        self._bad = self._first_bad_quote()
        is_end_of_record = self._is_break & ~self._is_inside
        # Behind a quote that is out of place nobody knows what is quoted.
        is_end_of_record[self._bad :] &= self._bad is None
        self._ends = np.flatnonzero(is_end_of_record)
        # So many special bytes, and bytes, belong to whole records.
        self._count = int(self._ends[-1]) + 1 if len(self._ends) else 0
        self.size = int(self._at[self._count - 1]) + 1 if self._count else 0

    def count_breaks(self) -> int:
        """Return how many line breaks the whole records hold."""
        return int(np.count_nonzero(self._is_break[: self._count]))

    def records(self, bytes_read: int) -> Records:
        """Return the whole records."""
        at, ends = self._at[: self._count], self._ends
        is_paired = self._is_paired[: self._count]
        starts = np.concatenate([[0], at[ends[:-1]] + 1])
        is_blank = at[ends] - starts - is_paired[ends - 1] == 0
        breaks = np.cumsum(self._is_break[: self._count], dtype=np.int32)
        lines = self._first_line + np.concatenate([[0], breaks[ends[:-1]]])
        if self._has_quotes:
            is_inside = self._is_inside[: self._count]
            is_separator = ~is_inside & (
                (self._kinds[: self._count] == self._signs.delimiter) | self._is_break[: self._count]
            )
            is_quote = self._quotes_to_drop()
            is_dropped = is_separator | (is_paired & ~is_inside) | is_quote
            kept_before = at - (np.cumsum(is_dropped, dtype=np.int32) - is_dropped)
        else:
            is_separator, is_quote, is_dropped = ~is_paired, None, None
            kept_before = at - np.arange(self._count, dtype=np.int32)
        is_separator[ends[is_blank]] = False
        cells_before = np.cumsum(is_separator, dtype=np.int32)
        separators = np.flatnonzero(is_separator)
        return Records(
            cells=_cells(
                self._without(at, is_dropped),
                kept_before[separators],
                None if is_quote is None else np.cumsum(is_quote, dtype=np.int32)[separators],
            ),
            widths=np.diff(cells_before[ends[~is_blank]], prepend=0),
            lines=lines[~is_blank],
            bytes_read=bytes_read,
        )

    def broken_quote(self) -> BrokenQuote | None:
        """Return what is wrong with the first quote that is out of place; None if none is, or not yet."""
        if self._bad is not None and not self._is_inside[self._bad]:
            return BrokenQuote(
                line=self._line_of(self._bad),
                message="a quote inside an unquoted cell; quote the cell and double the quote",
            )
        if self._bad is not None:
            begins, ends = self._line_of(self._opening_before(self._bad)), self._line_of(self._bad)
            where = "" if begins == ends else f" on line {ends}"
            return BrokenQuote(
                line=begins, message=f"the quoted cell that starts here continues after its closing quote{where}"
            )
        if self._is_end and np.count_nonzero(self._is_quote) % 2:
            return BrokenQuote(
                line=self._line_of(self._opening_before(len(self._at))),
                message="the quoted cell that starts here is never closed",
            )
        return None

    def _quoted(self) -> Mask:
        """Return which special bytes are quoted: those with an odd number of quotes before them."""
        if not self._has_quotes:
            return np.zeros(len(self._at), dtype=bool)
        quotes = np.cumsum(self._is_quote, dtype=np.int32)
        mask: Mask = ((quotes - self._is_quote) & 1).astype(bool)
        return mask

    def _line_breaks(self) -> tuple[Mask, Mask]:
        """Return which special bytes end a line, and which are the first byte of a line break of two."""
        is_break = self._kinds == _NEWLINE
        is_paired = np.zeros(len(self._at), dtype=bool)
        returns = np.flatnonzero(self._kinds == _RETURN)
        if len(returns):
            follows = self._at[returns] + 1
            is_last = follows == len(self._raw)
            # What the last byte of all belongs to is not known before the next one is read.
            is_paired[returns] = is_last | (self._raw[np.where(is_last, 0, follows)] == _NEWLINE)
            is_break[returns] = ~is_paired[returns]
        return is_break, is_paired

    def _quotes_to_drop(self) -> Mask:
        """Return which special bytes are quotes that do not belong to the text of a cell."""
        at, is_quote = self._at[: self._count], self._is_quote[: self._count]
        is_doubled = np.zeros(self._count, dtype=bool)
        is_doubled[:-1] = (np.diff(at) == 1) & is_quote[1:]
        mask: Mask = is_quote & ~(self._is_inside[: self._count] & is_doubled)
        return mask

    def _first_bad_quote(self) -> int | None:
        if not self._has_quotes:
            return None
        quotes = np.flatnonzero(self._is_quote)
        before, after = self._neighbours(self._at[quotes])
        is_bad = np.where(self._is_inside[quotes], ~after, ~before)
        bad = np.flatnonzero(is_bad)
        return int(quotes[bad[0]]) if len(bad) else None

    def _neighbours(self, at: Places) -> tuple[Mask, Mask]:
        """Return of places whether something special, or nothing at all, stands before and behind each."""
        size, is_special = len(self._raw), np.frombuffer(self._signs.table, bool)
        before = np.where(at > 0, self._raw[at - 1], _NEWLINE)
        after = np.where(at + 1 < size, self._raw[np.minimum(at + 1, size - 1)], _NEWLINE)
        is_before, is_after = is_special[before], is_special[after]
        if self._signs.blanks:
            # Beyond blanks only what separates cells will do: a quote there belongs to no other one.
            left, right = self._beyond_blanks
            is_bound = is_special.copy()
            is_bound[self._signs.quote] = False
            is_before |= np.where(left[at] >= 0, is_bound[self._raw[left[at]]], True)
            is_after |= np.where(right[at] < size, is_bound[self._raw[np.minimum(right[at], size - 1)]], True)
        return is_before, is_after

    @cached_property
    def _beyond_blanks(self) -> tuple[Places, Places]:
        """The nearest bytes that are no blanks, before and behind each byte; -1 and the size where there are none."""
        size = len(self._raw)
        is_blank = np.zeros(256, dtype=bool)
        is_blank[list(self._signs.blanks)] = True
        places = np.arange(size, dtype=np.int32)
        is_text = ~is_blank[self._raw]
        left = np.maximum.accumulate(np.where(is_text, places, -1))
        right = np.minimum.accumulate(np.where(is_text, places, size)[::-1])[::-1]
        return np.concatenate([[-1], left[:-1]]), np.concatenate([right[1:], [size]])

    def _opening_before(self, special: int) -> int:
        """Return the last quote before a special byte that opens a cell."""
        quotes = np.flatnonzero(self._is_quote[:special] & ~self._is_inside[:special])
        # One right behind another quote is the second half of a doubled one.
        at = self._at[quotes]
        is_doubled = (self._raw[np.maximum(at - 1, 0)] == self._signs.quote) & (at > 0)
        return int(quotes[~is_doubled][-1])

    def _line_of(self, special: int) -> int:
        return self._first_line + int(np.count_nonzero(self._is_break[:special]))

    def _without(self, at: Places, is_dropped: Mask | None) -> pa.Buffer:
        """Return the bytes of the whole records without the special ones that are dropped; None means all of them."""
        if is_dropped is None:
            return pa.py_buffer(self._data[: self.size].translate(None, self._signs.all))
        is_kept = np.ones(self.size, dtype=bool)
        is_kept[at[is_dropped]] = False
        return pa.py_buffer(self._raw[: self.size][is_kept])


def _count_breaks(data: bytes) -> int:
    """Return how many lines the line breaks of ``data`` end; a last one that may go on does not."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n") - data.endswith(b"\r")


def _cells(body: pa.Buffer, ends: Places, quotes_before: Places | None) -> pa.Array:
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    is_there = offsets[1:] > offsets[:-1]
    if quotes_before is not None:
        # With quotes around it, nothing is a text.
        is_there |= np.diff(quotes_before, prepend=0) > 0
    validity = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(ends), [validity, pa.py_buffer(offsets), body])
