"""CSV sources: a header line, then one record per row of one type.

An empty cell without quotes is null, a quoted one is the empty text. Lists and vectors are JSON arrays in a cell.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.reading.csv_records import BrokenQuote, Records, Signs, iter_records
from omnigraph.engine.load.reading.jsonl import LineStream, ReadChunk, read_ahead
from omnigraph.engine.load.reading.tables import ColumnBinding, TableReader, bind, owner_of
from omnigraph.engine.load.reading.texts import parsed_texts
from omnigraph.engine.load.sources.dialect import UTF_8, Dialect
from omnigraph.engine.load.sources.source import Source, open_source, reading
from omnigraph.engine.rows import DecodedChunk, RowProblem
from omnigraph.engine.rows.cells import MAX_PROBLEMS, show

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
        closing(read_ahead(iter_csv(stream, source, max_record_bytes=longest))) as blocks,
    ):
        for block in blocks:
            if isinstance(block, BrokenQuote):
                problem = RowProblem(line=block.line, rule="csv", message=block.message, type_name=owner.name)
                yield _refused((problem,), stream.bytes_read)
                return
            records = block
            if reader is None and len(block.widths):
                names: list[str] | RowProblem = list(source.dialect.header or ())
                if source.dialect.header is None:
                    header, records = behead(block)
                    names = header_names(header, owner, source.dialect)
                table = partial(
                    TableReader,
                    catalog,
                    parse=partial(parsed_texts, dialect=source.dialect),
                    is_patch=is_patch,
                    truncate=truncate,
                    dialect=source.dialect,
                )
                made = (names,) if isinstance(names, RowProblem) else _open(source, owner, names, table)
                if isinstance(made, tuple):
                    yield _refused(made, block.bytes_read)
                    return
                reader = made
            if reader is not None:
                yield ReadChunk(decoded=reader.read(records), bytes_read=block.bytes_read)


class _Recoded:
    """A stream of some encoding, read as UTF-8.

    Bytes that stand for no character of theirs make the cell that they are in one that is no text, as they do in UTF-8.
    A stream that begins with the byte order mark of UTF-8 is UTF-8, whatever the encoding of others beside it.
    """

    def __init__(self, stream: LineStream, name: str, encoding: str) -> None:
        self._stream = stream
        self._name = name
        # Only bytes can be kept aside; a broken unit of an encoding of two bytes or four breaks the file.
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        self._rest = b""
        self._is_done = False
        self._is_begun = False

    @property
    def bytes_read(self) -> int:
        """How far the stored bytes are read."""
        return self._stream.bytes_read

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes; none only at the end.

        Raises:
            FileAccessError: the stream cannot be read, or is not of its encoding.
        """
        while not self._is_done and len(self._rest) < count:
            data = self._stream.read(count) if self._is_begun else self._begin(count)
            self._is_done = not data
            with reading(self._name):
                text = self._decoder.decode(data, final=self._is_done)
            self._rest += text.encode(errors="surrogatepass")
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def _begin(self, count: int) -> bytes:
        """Return the first bytes, at least as many as a byte order mark has, if there are so many."""
        start = b""
        while len(start) < len(codecs.BOM_UTF8) and (more := self._stream.read(max(count, 1))):
            start += more
        if start.startswith(codecs.BOM_UTF8):
            self._decoder = codecs.getincrementaldecoder(UTF_8)("surrogateescape")
        self._is_begun = True
        return start


def invalid_text(encoding: str, where: str) -> str:
    """Return what is wrong with bytes that stand for no text."""
    advice = "; if the file has another encoding, name it, as in --encoding cp1252" if encoding == UTF_8 else ""
    return f"invalid {encoding.upper()} in {where}{advice}"


def iter_csv(stream: LineStream, source: Source, *, max_record_bytes: int) -> Iterator[Records | BrokenQuote]:
    """Yield the records of a CSV source, as its dialect writes them.

    Raises:
        SourceTooLargeError: a record is longer than ``max_record_bytes``.
        FileAccessError: the stream cannot be read.
    """
    dialect = source.dialect
    text = stream if dialect.encoding == UTF_8 else _Recoded(stream, source.name, dialect.encoding)
    signs = Signs.of(dialect, source.delimiter)
    return iter_records(text, source.name, max_record_bytes=max_record_bytes, signs=signs)


def _refused(problems: tuple[RowProblem, ...], bytes_read: int) -> ReadChunk:
    return ReadChunk(decoded=DecodedChunk(types={}, problems=problems), bytes_read=bytes_read)


def behead(block: Records) -> tuple[Records, Records]:
    """Return the header and what follows it."""
    width = int(block.widths[0])
    parts = ((block.cells.slice(0, width), slice(0, 1)), (block.cells.slice(width), slice(1, None)))
    header, rest = (
        Records(cells=cells, widths=block.widths[at], lines=block.lines[at], bytes_read=block.bytes_read)
        for cells, at in parts
    )
    return header, rest


def header_names(header: Records, owner: NodeType | EdgeType, dialect: Dialect) -> list[str] | RowProblem:
    """Return the names of the columns, or what is wrong with them."""
    names = ["" if cell is None else cell.decode(errors="replace") for cell in header.cells.to_pylist()]
    if _texts(header.cells) is None:
        line, text = int(header.lines[0]), invalid_text(dialect.encoding, "a column name")
        return RowProblem(line=line, rule="csv", message=text, type_name=owner.name, value=show(",".join(names)))
    return dialect.names(names)


def _open(
    source: Source, owner: NodeType | EdgeType, names: list[str], open_table: Callable[[ColumnBinding], TableReader]
) -> _RecordReader | tuple[RowProblem, ...]:
    binding = bind(source, owner, names)
    if isinstance(binding, tuple):
        return binding
    return _RecordReader(names, owner, open_table(binding), source.dialect)


class _RecordReader:
    """Turns records into rows; those that are no rows of the table are problems with their lines."""

    def __init__(self, header: list[str], owner: NodeType | EdgeType, table: TableReader, dialect: Dialect) -> None:
        self._header = header
        self._encoding = dialect.encoding
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
        problems = sorted((*problems, *decoded.problems), key=lambda problem: problem.line or 0)
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
                        message=invalid_text(self._encoding, f"column '{name}'"),
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
