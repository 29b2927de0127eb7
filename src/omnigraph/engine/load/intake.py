"""Reading all sources of a load: good rows into the spool, the others into the list of problems."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, assert_never

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog
from omnigraph.engine.load.embedding import MissingVectors
from omnigraph.engine.load.groups import ProblemGroups
from omnigraph.engine.load.options import LoadProgress, LoadSettings, Progress
from omnigraph.engine.load.reading.arrow import read_arrow
from omnigraph.engine.load.reading.csv import read_csv
from omnigraph.engine.load.reading.jsonl import LineDecoder, ReadChunk, read_jsonl
from omnigraph.engine.load.reading.parquet import read_parquet
from omnigraph.engine.load.reading.plain import PlainDecoder
from omnigraph.engine.load.reading.tables import owner_of
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.load.spool import Spool
from omnigraph.engine.rows import ChunkDecoder, TypeRows, rows_of
from omnigraph.engine.rows.cells import BLOB_SOURCE_RULE, EXTERNAL_BLOB_RULE, MAX_PROBLEMS
from omnigraph.errors import (
    BadRowsError,
    BadValue,
    BlobSource,
    ExternalBlobError,
    ExternalBlobSourceError,
    FileAccessError,
    Violation,
    ViolationGroup,
    Violations,
    details_to_json,
)
from omnigraph.records import record
from omnigraph.runtime.environment import IdSource
from omnigraph.values import Ulid
from omnigraph.values.blobs import INLINE_BLOB
from omnigraph.values.temporal import PRECISION

_ENCODER = msgspec.json.Encoder()
_TRUNCATE = "use --truncate (in Python truncate=True) to cut instants to milliseconds"


class ProblemList(AbstractContextManager["ProblemList"]):
    """Counts problems, keeps the first ``limit`` and writes each as a line of JSON to ``errors_to``.

    The file is made when the first problem comes, so a good load leaves none behind. ``is_cut`` says that the input was
    not read to its end because of them.
    """

    def __init__(self, limit: int, errors_to: str | Path | None) -> None:
        self._limit = max(limit, 1)
        self._path = None if errors_to is None else Path(errors_to)
        self._file: BinaryIO | None = None
        self._items: list[Violation] = []
        self._groups = ProblemGroups()
        self.total = 0
        self.is_cut = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def has_file(self) -> bool:
        """Whether all problems are wanted in a file."""
        return self._path is not None

    @property
    def is_full(self) -> bool:
        """Whether so much is wrong that there is no point in reading on."""
        return self.total >= MAX_PROBLEMS

    def add(self, violations: Iterable[Violation]) -> None:
        """Take over problems in the order of the input.

        Raises:
            FileAccessError: the file for them cannot be written.
        """
        for violation in violations:
            self.total += 1
            self._groups.add(violation)
            if len(self._items) < self._limit:
                self._items.append(violation)
            if self._path is not None:
                self._write(self._path, violation)

    def add_counted(
        self, count: int, groups: Sequence[ViolationGroup], violations: Callable[[], Iterable[Violation]]
    ) -> None:
        """Take over ``count`` problems; they are only looked at when one of them is kept or written.

        Raises:
            FileAccessError: the file for them cannot be written.
        """
        if self._path is not None or len(self._items) < self._limit:
            self.add(violations())
        else:
            self._groups.add_groups(groups)
            self.total += count

    def fail(self) -> None:
        """Return if there was no problem.

        Raises:
            ExternalBlobError, ExternalBlobSourceError: the first one is a blob outside of the graph, which is not
                allowed or cannot be read.
            BadRowsError: there was one.
        """
        if not self.total:
            return
        first = self._items[0]
        if first.rule == EXTERNAL_BLOB_RULE:
            value = BadValue(what="blob", value=first.value or "", expected=f"{INLINE_BLOB}…")
            raise ExternalBlobError(f"{first.place()}: {first.message}", details=value)
        if first.rule == BLOB_SOURCE_RULE:
            source = BlobSource(uri=first.value or "", reason=first.message)
            raise ExternalBlobSourceError(f"{first.place()}: {first.message}", details=source)
        rest = f" (and {self.total - 1} more{'; the rest was not read' if self.is_cut else ''})"
        raise BadRowsError(
            first.describe() if self.total == 1 else f"{first.place()}: {first.message}{rest}",
            details=Violations(items=tuple(self._items), total=self.total, groups=self._groups.finish()),
            hint=_TRUNCATE if any(item.rule == PRECISION for item in self._items) else None,
        )

    def _write(self, path: Path, violation: Violation) -> None:
        try:
            if self._file is None:
                self._file = path.open("wb")
            self._file.write(_ENCODER.encode(details_to_json(violation)) + b"\n")
        except OSError as error:
            details = BadValue(what="file", value=str(path), expected="a writable file")
            reason = (error.strerror or str(error)).lower()
            raise FileAccessError(f"file '{path}' is not writable: {reason}", details=details) from error


_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
# Both characters of ten bits, as they lie in memory.
_PAIRS = np.stack([_ALPHABET.repeat(32), np.tile(_ALPHABET, 32)], axis=1).view(np.uint16)[:, 0]
_LENGTH = 26
_PAIR_BITS = 10
_PAIR_MASK = (1 << _PAIR_BITS) - 1


def fill_ids(ids: pa.Array, source: IdSource) -> pa.Array:
    """Return ``ids`` with a fresh ULID in the place of every null."""
    if not ids.null_count:
        return ids
    fresh = ulid_array(source.reserve(ids.null_count), ids.null_count)
    return fresh if ids.null_count == len(ids) else pc.replace_with_mask(ids, ids.is_null(), fresh)


def ulid_array(first: Ulid, count: int) -> pa.Array:
    """Return the texts of ``count`` consecutive ULIDs.

    >>> ulid_array(Ulid("01ARZ3NDEKTSV4RRFFQ69G5FAZ"), 2).to_pylist()
    ['01ARZ3NDEKTSV4RRFFQ69G5FAZ', '01ARZ3NDEKTSV4RRFFQ69G5FB0']
    """
    texts = np.empty((count, _LENGTH // 2), dtype=np.uint16)
    done = 0
    while done < count:
        # As far as nothing is carried into the upper bits.
        upper, start = divmod(first.number + done, 1 << 2 * _PAIR_BITS)
        low = np.arange(start, min(start + count - done, 1 << 2 * _PAIR_BITS))
        part = texts[done : done + len(low)]
        part[:, :-2] = _upper_pairs(upper)
        part[:, -2] = _PAIRS[low >> _PAIR_BITS]
        part[:, -1] = _PAIRS[low & _PAIR_MASK]
        done += len(low)
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))


def _upper_pairs(number: int) -> npt.NDArray[np.uint16]:
    shifts = range(_PAIR_BITS * (_LENGTH // 2 - 3), -1, -_PAIR_BITS)
    return _PAIRS[[number >> shift & _PAIR_MASK for shift in shifts]]


# Names that no property can have, so that a spooled row keeps everything that is known about it in one table.
SOURCE, LINE, GIVEN, MARK = ":source", ":line", ":given ", ":mark "


@record
class Intake:
    """Reads sources against a catalog; with ``vectors`` that is theirs, and rows may lack what they will fill."""

    catalog: Catalog
    settings: LoadSettings
    ids: IdSource
    is_patch: bool = False
    truncate: bool = False
    vectors: MissingVectors | None = None
    # A table file without a row counts as no rows of its type, which an overwrite empties.
    keeps_empty: bool = False
    # Rows are those of a change log.
    takes_changes: bool = False

    def read(self, sources: Sequence[Source], spool: Spool, problems: ProblemList, progress: Progress | None) -> None:
        """Read everything. Once a problem is found rows are only looked at, because nothing will be written.

        After very many problems nothing more is read.

        Raises:
            FileAccessError, SourceTooLargeError, TypeMissingError, UsageError: a source cannot be read at all.
        """
        decoder = ChunkDecoder(
            self.catalog, is_patch=self.is_patch, truncate=self.truncate, takes_changes=self.takes_changes
        )
        sizes = [source.size_bytes for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        done = rows = 0
        for number, source in enumerate(sources):
            with closing(self._chunks(source, decoder)) as chunks:
                for chunk in chunks:
                    rows += self._take(chunk, number, source.name, spool, problems)
                    if progress is not None:
                        progress(
                            LoadProgress(phase="read", bytes_read=done + chunk.bytes_read, bytes_total=total, rows=rows)
                        )
                    if problems.is_full:
                        problems.is_cut = True
                        return
            done += sizes[number] or 0
            owner = owner_of(source, self.catalog) if self.keeps_empty and source.is_table else None
            if owner is not None and not problems.total and owner.table_key not in spool.owners:
                none = rows_of(owner, [], is_patch=self.is_patch)
                spool.add(owner, self._spooled(none, number), has_fresh_ids=True)

    def _take(self, chunk: ReadChunk, number: int, name: str, spool: Spool, problems: ProblemList) -> int:
        """Take over what was read of a source, and return how many rows that is."""
        decoded = chunk.decoded if self.vectors is None else self.vectors.settle(chunk.decoded)
        problems.add(one for problem in decoded.problems for one in problem.violations(name))
        rows = 0
        for part in decoded.types.values():
            rows += part.rows.num_rows
            if not problems.total and part.rows.num_rows:
                is_fresh = part.rows.column("id").null_count == part.rows.num_rows
                spool.add(part.owner, self._spooled(part, number), has_fresh_ids=is_fresh)
        if problems.total:
            spool.forget()
        return rows

    def _chunks(self, source: Source, decoder: ChunkDecoder) -> Generator[ReadChunk]:
        match source.kind:
            case "jsonl":
                return read_jsonl(source, self._lines(source, decoder), self.settings)
            case "csv":
                return read_csv(source, self.catalog, self.settings, is_patch=self.is_patch, truncate=self.truncate)
            case "parquet":
                return read_parquet(source, self.catalog, self.settings, is_patch=self.is_patch, truncate=self.truncate)
            case "arrow":
                return read_arrow(source, self.catalog, self.settings, is_patch=self.is_patch, truncate=self.truncate)
            case _:
                assert_never(source.kind)

    def _lines(self, source: Source, decoder: ChunkDecoder) -> LineDecoder:
        if not source.is_table:
            return decoder
        return PlainDecoder(source, self.catalog, is_patch=self.is_patch, truncate=self.truncate)

    def _spooled(self, part: TypeRows, source: int) -> pa.Table:
        ids = part.rows.column("id").combine_chunks()
        rows = spooled_rows(part, fill_ids(ids, self.ids))
        rows = rows.append_column(SOURCE, pa.array(np.full(len(ids), source, dtype=np.int32)))
        return rows.append_column(LINE, part.lines)


def spooled_rows(part: TypeRows, ids: pa.Array) -> pa.Table:
    """Return rows with their ids, and beside them what is known of each: what it gives, its operation and sequence."""
    rows = part.rows.set_column(0, part.rows.schema.field("id"), ids)
    if part.given is not None:
        for prop in part.owner.properties:
            rows = rows.append_column(f"{GIVEN}{prop.name}", part.given.column(prop.name))
    if part.marks is not None:
        for name in part.marks.column_names:
            rows = rows.append_column(f"{MARK}{name}", part.marks.column(name))
    return rows
