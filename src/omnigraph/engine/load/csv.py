"""CSV sources: a header line, then one record per row of one type.

An empty cell without quotes is null, a quoted one is the empty text. Lists and vectors are JSON arrays in a cell.

The rules are those of RFC 4180: a quote opens a cell at its first byte and nowhere else, a quote inside of a quoted
cell is doubled, and behind the closing one comes a comma or the end of the record. Under these rules the parity of the
quotes before a byte tells whether it is quoted, so that everything here is done for a block at once, without a parser
that goes from byte to byte. A file that breaks them cannot be cut any further, and reading it ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType
from omnigraph.engine.load.jsonl import LineStream, ReadChunk, read_ahead, too_long
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.sources import Source, open_source
from omnigraph.engine.load.tables import (
    ColumnBinding,
    ParsedColumn,
    TableReader,
    bind,
    owner_of,
    parse_texts,
    value_of_text,
)
from omnigraph.engine.rows import DecodedChunk, RowProblem
from omnigraph.engine.rows.cells import MAX_PROBLEMS, show
from omnigraph.records import record

_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'
_BREAKS = b"\r\n"
_MARK = b"\xef\xbb\xbf"
_BLOCK_BYTES = 1 << 20
_SIGNS = bytes([_QUOTE, _COMMA, _NEWLINE, _RETURN])
# One byte for each byte: whether it means something to the form of the text.
_SPECIAL = bytes(byte in _SIGNS for byte in range(256))

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]


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


def iter_records(stream: LineStream, name: str, *, max_record_bytes: int) -> Iterator[Records | BrokenQuote]:
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
        scan = _Scan(data, line, is_end=is_end)
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

    def __init__(self, data: bytes, first_line: int, *, is_end: bool) -> None:
        self._data = data
        self._raw = np.frombuffer(data, np.uint8)
        self._first_line = first_line
        self._is_end = is_end
        # In 32 bits, because there may be as many as there are bytes.
        self._at = np.flatnonzero(np.frombuffer(data.translate(_SPECIAL), bool)).astype(np.int32)
        self._kinds = self._raw[self._at]
        self._is_quote = self._kinds == _QUOTE
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
            is_separator = ~is_inside & ((self._kinds[: self._count] == _COMMA) | self._is_break[: self._count])
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
        at, size = self._at[quotes], len(self._raw)
        before = np.where(at > 0, self._raw[at - 1], _NEWLINE)
        after = np.where(at + 1 < size, self._raw[np.minimum(at + 1, size - 1)], _NEWLINE)
        is_bad = np.where(self._is_inside[quotes], ~_is_special(after), ~_is_special(before))
        bad = np.flatnonzero(is_bad)
        return int(quotes[bad[0]]) if len(bad) else None

    def _opening_before(self, special: int) -> int:
        """Return the last quote before a special byte that opens a cell."""
        quotes = np.flatnonzero(self._is_quote[:special] & ~self._is_inside[:special])
        # One right behind another quote is the second half of a doubled one.
        at = self._at[quotes]
        is_doubled = (self._raw[np.maximum(at - 1, 0)] == _QUOTE) & (at > 0)
        return int(quotes[~is_doubled][-1])

    def _line_of(self, special: int) -> int:
        return self._first_line + int(np.count_nonzero(self._is_break[:special]))

    def _without(self, at: Places, is_dropped: Mask | None) -> pa.Buffer:
        """Return the bytes of the whole records without the special ones that are dropped; None means all of them."""
        if is_dropped is None:
            return pa.py_buffer(self._data[: self.size].translate(None, _SIGNS))
        is_kept = np.ones(self.size, dtype=bool)
        is_kept[at[is_dropped]] = False
        return pa.py_buffer(self._raw[: self.size][is_kept])


def _count_breaks(data: bytes) -> int:
    """Return how many lines the line breaks of ``data`` end; a last one that may go on does not."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n") - data.endswith(b"\r")


def _is_special(bytes_: npt.NDArray[np.uint8]) -> Mask:
    mask: Mask = (bytes_ == _COMMA) | (bytes_ == _NEWLINE) | (bytes_ == _RETURN) | (bytes_ == _QUOTE)
    return mask


def _cells(body: pa.Buffer, ends: Places, quotes_before: Places | None) -> pa.Array:
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    is_there = offsets[1:] > offsets[:-1]
    if quotes_before is not None:
        # With quotes around it, nothing is a text.
        is_there |= np.diff(quotes_before, prepend=0) > 0
    validity = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(ends), [validity, pa.py_buffer(offsets), body])


# Cells of a block, twice as many bytes as its longest record, are counted in 32 bits.
_MOST_RECORD_BYTES = (1 << 30) - 1


def read_csv(
    source: Source, catalog: Catalog, settings: LoadSettings, *, is_patch: bool, truncate: bool = False
) -> Generator[ReadChunk]:
    """Yield the rows of a CSV source, a block at a time. A record has the number of the line it begins on.

    Raises:
        FileAccessError: it cannot be read.
        SourceTooLargeError: a record is too long.
        TypeMissingError: the schema has no type for it.
    """
    owner = owner_of(source, catalog)
    longest = min(max(settings.max_line_bytes, source.longest_bytes), _MOST_RECORD_BYTES)
    reader: _RecordReader | None = None
    with (
        open_source(source) as stream,
        # Closed before the source is, because another thread is reading it.
        closing(read_ahead(iter_records(stream, source.name, max_record_bytes=longest))) as blocks,
    ):
        for block in blocks:
            if isinstance(block, BrokenQuote):
                problem = RowProblem(line=block.line, rule="csv", message=block.message, type_name=owner.name)
                yield _refused(problem, stream.bytes_read)
                return
            records = block
            if reader is None and len(block.widths):
                header, records = _behead(block)
                table = partial(TableReader, catalog, parse=_parse, is_patch=is_patch, truncate=truncate)
                made = _open(source, owner, header, table)
                if isinstance(made, RowProblem):
                    yield _refused(made, block.bytes_read)
                    return
                reader = made
            if reader is not None:
                yield ReadChunk(decoded=reader.read(records), bytes_read=block.bytes_read)


def _refused(problem: RowProblem, bytes_read: int) -> ReadChunk:
    return ReadChunk(decoded=DecodedChunk(types={}, problems=(problem,)), bytes_read=bytes_read)


def _behead(block: Records) -> tuple[Records, Records]:
    """Return the header and what follows it."""
    width = int(block.widths[0])
    parts = ((block.cells.slice(0, width), slice(0, 1)), (block.cells.slice(width), slice(1, None)))
    header, rest = (
        Records(cells=cells, widths=block.widths[at], lines=block.lines[at], bytes_read=block.bytes_read)
        for cells, at in parts
    )
    return header, rest


def _open(
    source: Source, owner: NodeType | EdgeType, header: Records, open_table: Callable[[ColumnBinding], TableReader]
) -> _RecordReader | RowProblem:
    names = ["" if cell is None else cell.decode(errors="replace") for cell in header.cells.to_pylist()]
    if _texts(header.cells) is None:
        line, text = int(header.lines[0]), "invalid UTF-8 in a column name"
        return RowProblem(line=line, rule="csv", message=text, type_name=owner.name, value=show(",".join(names)))
    binding = bind(source, owner, names)
    if isinstance(binding, RowProblem):
        return binding
    return _RecordReader(names, owner, open_table(binding))


class _RecordReader:
    """Turns records into rows; those that are no rows of the table are problems with their lines."""

    def __init__(self, header: list[str], owner: NodeType | EdgeType, table: TableReader) -> None:
        self._header = header
        self._owner = owner
        self._table = table

    def read(self, block: Records) -> DecodedChunk:
        """Return the rows of a block of records."""
        width = len(self._header)
        first = np.cumsum(block.widths) - block.widths
        fits = block.widths == width
        problems = [self._crooked(block, at, int(first[at])) for at in np.flatnonzero(~fits)[:MAX_PROBLEMS].tolist()]
        first, lines = first[fits], block.lines[fits]
        texts = _texts(block.cells)
        if texts is None:
            texts, broken = self._without_broken(block.cells, first, lines)
            problems += broken.values()
            is_whole = np.ones(len(first), dtype=bool)
            is_whole[list(broken)] = False
            first, lines = first[is_whole], lines[is_whole]
        columns = [texts.take(pa.array(first + at)) for at in range(width)]
        decoded = self._table.read(pa.record_batch(columns, names=self._header), lines)
        problems = sorted((*problems, *decoded.problems), key=lambda problem: problem.line)
        return DecodedChunk(types=decoded.types, problems=tuple(problems))

    def _crooked(self, block: Records, at: int, first: int) -> RowProblem:
        width = int(block.widths[at])
        some = block.cells.slice(first, min(width, len(self._header) + 1)).to_pylist()
        return RowProblem(
            line=int(block.lines[at]),
            rule="csv",
            message=f"a record has {width} cells, but the header has {len(self._header)}",
            type_name=self._owner.name,
            value=show(b",".join(cell or b"" for cell in some)),
        )

    def _without_broken(
        self, cells: pa.Array, first: npt.NDArray[np.int64], lines: npt.NDArray[np.int64]
    ) -> tuple[pa.Array, dict[int, RowProblem]]:
        """Return the cells with null in place of texts that are none, and a problem for each record that has one."""
        is_broken = np.array([cell is not None and _is_broken(cell) for cell in cells.to_pylist()], dtype=bool)
        problems: dict[int, RowProblem] = {}
        for column, name in enumerate(self._header):
            for at in np.flatnonzero(is_broken[first + column]).tolist():
                problems.setdefault(
                    at,
                    RowProblem(
                        line=int(lines[at]),
                        rule="csv",
                        message=f"invalid UTF-8 in column '{name}'",
                        type_name=self._owner.name,
                        property=name,
                        value=show(cells[int(first[at]) + column].as_py()),
                    ),
                )
        whole = [None if broken else cell for cell, broken in zip(cells.to_pylist(), is_broken, strict=True)]
        return pa.array(whole, pa.binary()).cast(pa.string()), problems


def _texts(cells: pa.Array) -> pa.Array | None:
    """Return the cells as texts; None when one of them is not UTF-8."""
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _is_broken(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return True
    return False


def _parse(kind: PropertyType, column: pa.Array) -> ParsedColumn:
    values, bad = parse_texts(kind, column)

    def value_at(row: int) -> Any:
        text = column[row].as_py()
        return None if text is None else value_of_text(kind, text)

    return ParsedColumn(values=values, flavour="text", bad=bad, value_at=value_at)
