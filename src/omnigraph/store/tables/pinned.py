"""A table at a pinned version: its scans, and what its indexes cover."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from lance import LanceDataset

from omnigraph.errors import OmnigraphError, StorageCorruptError, TableMissingError, TableRef, VersionMissingError
from omnigraph.records import record
from omnigraph.runtime import check_call
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.handles import LOOKUP_STAGES, OPEN_STAGES, SCAN_STAGES, collect, metered
from omnigraph.store.tables.pins import FragmentRef, TablePin
from omnigraph.store.tables.writing import blob_columns, blob_handling, plain_schema
from omnigraph.store.translate import translating
from omnigraph.values.blobs import EXTERNAL_MARK, MAX_ADDRESS_BYTES, external_address, inline_text
from omnigraph.values.printable import Printable

KEY = "id"
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
_ADDRESS_BITS = 32
_OFFSET = (1 << _ADDRESS_BITS) - 1
ROW_META = (ROW_ID, ROW_ADDRESS, "_row_created_at_version", "_row_last_updated_at_version")


@record
class IndexSegment:
    """One part of an index: built at one time, over some fragments."""

    uuid: str
    fragment_ids: frozenset[int]
    dataset_version: int
    index_version: int


@record
class TableIndex:
    """An index as the pinned version has it: what kind, on which column, and which fragments it covers."""

    name: str
    kind: str
    columns: tuple[str, ...]
    fields: tuple[int, ...]
    segments: tuple[IndexSegment, ...]

    @property
    def fragment_ids(self) -> frozenset[int]:
        """The fragments that some segment covers; also of fragments that left the table since."""
        return frozenset().union(*(segment.fragment_ids for segment in self.segments))


@record
class Search:
    """A full-text or a vector search; the result gets a column ``_score`` or ``_distance``.

    ``fast`` asks only the index and leaves out rows that it does not cover.
    """

    full_text: Any = None
    nearest: Mapping[str, Any] | None = None
    fast: bool = False


@record
class BlobPart(Printable):
    """Some bytes of a Blob.

    Args:
        size: how many bytes the whole Blob has.
        tag: the same for as long as the Blob is; another one as soon as it is stored anew.
        data: the bytes that were asked for.
        uri: where the content is, if the graph keeps nothing but its address; then there are no bytes.
    """

    size: int
    tag: str
    data: bytes
    uri: str | None = None

    def lines(self) -> Iterator[str]:
        """Yield how many bytes it holds, and of how many; or where they are."""
        yield f"{len(self.data)} of {self.size} bytes" if self.uri is None else f"at {self.uri}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; bytes are the text that a load takes."""
        where = {} if self.uri is None else {"uri": self.uri}
        return {"size": self.size, "tag": self.tag, "data": inline_text(self.data), **where}


class PinnedTable:
    """One immutable version of a table, read by scanning or by row id. Safe to share between threads."""

    def __init__(
        self, pin: TablePin, handle: LanceDataset, datasets: DatasetStore, *, lacks_indexes: bool = False
    ) -> None:
        self.pin = pin
        self.handle = handle
        self.datasets = datasets
        self.schema: pa.Schema = plain_schema(handle.schema)
        self.blobs = blob_columns(self.schema)
        self.row_count: int = handle.count_rows()
        self.fragments: tuple[FragmentRef, ...] = tuple(
            FragmentRef.of(fragment.metadata) for fragment in handle.get_fragments()
        )
        self.fields: tuple[tuple[int, str], ...] = tuple(
            (field.id(), field.name()) for field in handle.lance_schema.fields()
        )
        self._indexes: tuple[TableIndex, ...] | None = () if lacks_indexes else None
        # Row ids and addresses of ids that were looked for one by one, None for those that are not there.
        self.places: dict[str, tuple[int, int] | None] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pin}, rows={self.row_count}, fragments={len(self.fragments)})"

    def stored_column(self, name: str) -> str | None:
        """Return the name under which a column is stored with the values that are read; None when it is not."""
        return name if any(name == known for _, known in self.fields) else None

    def lacks_indexes(self) -> bool:
        """Whether it is known without asking that this version has no index."""
        return self._indexes == ()

    def indexes(self) -> tuple[TableIndex, ...]:
        """Return the indexes of this version; read once."""
        if self._indexes is None:
            with (
                self.reading("read the indexes"),
                metered(self.handle, at_most=OPEN_STAGES),
            ):
                self._indexes = tuple(_index(found) for found in self.handle.describe_indices())
        return self._indexes

    def partition_count(self, index_name: str) -> int:
        """Return how many partitions a vector index has, those of all of its segments together."""
        # Otherwise Lance warns that it returns the middle of each partition as well.
        os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")
        with self.reading("read the statistics of an index"), metered(self.handle, at_most=OPEN_STAGES):
            found = self.handle.stats.index_stats(index_name)
        return sum(int(segment.get("num_partitions") or 0) for segment in found["indices"])

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - the word that Arrow and Lance use for it
        *,
        with_row_meta: bool = False,
        limit: int | None = None,
        search: Search | None = None,
        fragment_ids: Sequence[int] | None = None,
        batch_size: int | None = None,
        read_ahead_bytes: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows. Calls are counted as batches are drawn.

        Args:
            columns: which columns, all of them when not given.
            filter: a Lance SQL predicate; with a search it is applied before the search picks its best rows.
            with_row_meta: add row id, row address and the versions that created and last changed the row.
            limit: how many rows at most.
            search: what to search for.
            fragment_ids: read only these fragments.
            batch_size: rows per batch at most.
            read_ahead_bytes: how much is read before it is asked for; some gigabytes when not given.
        """
        self.datasets.handles.check_process()
        names = list(self.schema.names if columns is None else columns)
        if with_row_meta:
            names += [name for name in ROW_META if name not in names]
        chosen = None
        if fragment_ids is not None:
            wanted = frozenset(fragment_ids)
            chosen = [fragment for fragment in self.handle.get_fragments() if fragment.fragment_id in wanted]
        width = len(self.fragments if chosen is None else chosen)
        search = search or Search()
        if search.full_text is not None:
            names += [name for name in ("_score",) if name not in names]
        if search.nearest is not None:
            names += [name for name in ("_distance",) if name not in names]
        with self.reading():
            scanner = self.handle.scanner(
                columns=names,
                filter=filter,
                limit=limit,
                fragments=chosen,
                batch_size=batch_size,
                io_buffer_size=read_ahead_bytes,
                full_text_query=search.full_text,
                nearest=None if search.nearest is None else dict(search.nearest),
                fast_search=search.fast or None,
                disable_scoring_autoprojection=True,
                blob_handling=blob_handling(names, self.blobs),
                # Lance otherwise filters what the search has already cut down to its best rows.
                prefilter=True if filter is not None and (search.full_text or search.nearest) else None,
            )
            reader = scanner.to_reader()
            return pa.RecordBatchReader.from_batches(reader.schema, self._draw(reader, width))

    def read(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - the word that Arrow and Lance use for it
        *,
        with_row_meta: bool = False,
        limit: int | None = None,
        search: Search | None = None,
        fragment_ids: Sequence[int] | None = None,
    ) -> pa.Table:
        """Return the rows of :meth:`scan` in one table."""
        reader = self.scan(
            columns, filter, with_row_meta=with_row_meta, limit=limit, search=search, fragment_ids=fragment_ids
        )
        return reader.read_all()

    def count_rows(self, filter: str | None = None) -> int:  # noqa: A002 - as in scan
        """Count rows, those that match when a predicate is given."""
        if filter is None:
            return self.row_count
        self.datasets.handles.check_process()
        with (
            self.reading(),
            metered(self.handle, at_most=SCAN_STAGES, side_by_side=len(self.fragments)),
        ):
            return int(self.handle.count_rows(filter))

    def take(self, row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return the row id and ``columns`` of rows by row id; unknown row ids are left out."""
        self.datasets.handles.check_process()
        names = [ROW_ID, *(name for name in columns if name != ROW_ID)]
        if not len(row_ids):
            return pa.schema([pa.field(ROW_ID, pa.uint64()), *(self.schema.field(n) for n in names[1:])]).empty_table()
        with self.reading(), metered(self.handle, at_most=LOOKUP_STAGES):
            taken: pa.Table = self.handle._take_rows(list(row_ids), columns=names)  # noqa: SLF001 - the only form by row id
            return taken.select(names)

    def read_blob(self, row_id: int, address: int, column: str, start: int, length: int | None) -> BlobPart | None:
        """Return bytes of the Blob of a row, which alone are read; None when it is null.

        Args:
            row_id: the row.
            address: where it lies in this version.
            column: the Blob.
            start: the first byte.
            length: how many bytes at most; all to the end when None, and none at all, only size and tag, when 0.
        """
        self.datasets.handles.check_process()
        with self.reading("read a Blob"), metered(self.handle, at_most=LOOKUP_STAGES):
            [file] = self.handle.take_blobs(column, ids=[row_id], buffer_size=0)
            if file is None:
                return None
            size, tag = file.size(), self._place_of(address, column)
            # Only what is short can be an address, and then nearly all of it comes with the first page.
            is_short = len(EXTERNAL_MARK) <= size <= len(EXTERNAL_MARK) + MAX_ADDRESS_BYTES
            if is_short and file.read_range(0, len(EXTERNAL_MARK)) == EXTERNAL_MARK:
                uri = external_address(file.read_range(0, size))
                if uri is not None:
                    return BlobPart(size=0, tag=tag, data=b"", uri=uri)
            left = max(0, size - start)
            wanted = left if length is None else min(left, length)
            data = file.read_range(start, wanted) if wanted else b""
            return BlobPart(size=size, tag=tag, data=data)

    def _place_of(self, address: int, column: str) -> str:
        """Return a text for the one place where a value lies: files never change, so neither does what lies there."""
        number = next(number for number, name in self.fields if name == column)
        fragment = next(item for item in self.fragments if item.metadata.id == address >> _ADDRESS_BITS)
        paths = [file.path for file in fragment.metadata.files if number in file.fields]
        place = f"{self.pin.location}\n{','.join(paths)}\n{address & _OFFSET}\n{number}"
        return hashlib.sha256(place.encode()).hexdigest()

    @contextmanager
    def reading(self, doing: str = "read a table") -> Iterator[None]:
        """Tell a version that was reclaimed from a file that the store has lost.

        Raises:
            VersionMissingError: the version was reclaimed, at the latest while the block read it.
            QueryCancelledError, QueryTimeoutError: the call that reads has to end.
        """
        check_call()
        try:
            with translating(doing, self.pin.location, handle=self.handle):
                yield
        except (StorageCorruptError, TableMissingError) as error:
            if self._is_reclaimed():
                raise VersionMissingError(
                    f"version {self.pin.version} of '{self.pin.location}' was reclaimed",
                    details=TableRef(location=self.pin.location, branch=self.pin.branch, version=self.pin.version),
                ) from error
            raise

    def _draw(self, reader: pa.RecordBatchReader, width: int) -> Iterator[pa.RecordBatch]:
        try:
            with self.reading():
                for batch in reader:
                    check_call()
                    yield batch
        finally:
            collect(self.handle, at_most=SCAN_STAGES, side_by_side=width)

    def _is_reclaimed(self) -> bool:
        handles = self.datasets.handles
        handles.forget(self.pin.location, self.pin.branch)
        try:
            handles.open(self.pin)
        except (VersionMissingError, TableMissingError):
            return True
        except OmnigraphError:
            return False
        return False


def _index(found: Any) -> TableIndex:
    return TableIndex(
        name=found.name,
        kind=found.index_type,
        columns=tuple(found.field_names),
        fields=tuple(found.fields),
        segments=tuple(
            IndexSegment(
                uuid=segment.uuid,
                fragment_ids=frozenset(segment.fragment_ids),
                dataset_version=segment.dataset_version_at_last_update,
                index_version=segment.index_version,
            )
            for segment in found.segments
        ),
    )
