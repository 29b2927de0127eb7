"""What a task does with the rows of a step: it asks the rules, decodes what is left, and puts the rest aside.

All of it happens in the one pass that reads the rows, and what was counted comes back with what was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.entity_ids import entity_ids
from omnigraph.engine.load.embedding import settle_vectors, vectors_missing
from omnigraph.engine.load.reading.parquet import arrow_reader
from omnigraph.engine.load.reading.tables import ColumnBinding
from omnigraph.engine.rows import DecodedChunk
from omnigraph.errors import BadValue, SparkUnsupportedError
from omnigraph.history.origins import RunOrigins
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.keys import row_number
from omnigraph.spark.loads.written import LoadedPart, PartWriter, RowsFile, WriteOrders
from omnigraph.spark.runner import answer_batch
from omnigraph.spark.steps.origins import OriginWriter
from omnigraph.spark.steps.rejected import RejectedFile, RejectedWriter, row_texts
from omnigraph.spark.steps.rows import FILE, EndKey, RowRule

# The rule of rows whose values do not fit their properties.
DECODES = "decodes"
# The place of a row, beside the columns that it came with.
AT = ":at"
_SAMPLES = 5
# A closer look ends after very many problems, and nothing may be passed over.
_MOST_ROWS = 50_000

Mask = npt.NDArray[np.bool_]


@record
class StepReader:
    """How the rows of a step are read. It can be pickled.

    Args:
        title: what problems call the frame.
        binding: which column is which property.
        originals: the columns that rows came with.
        rules: what must hold for each row.
        rule_columns: the column of each rule.
        ends: ends of edges that are named by keys.
        place: the column of a row's place among those of its entity, if only the first of them counts.
        keeps_originals: rows may be rejected later, when only their numbers are known.
        origins: where it is kept which file rows came from; None keeps nothing.
    """

    title: str
    binding: ColumnBinding
    originals: tuple[str, ...]
    rules: tuple[RowRule, ...] = ()
    rule_columns: tuple[str, ...] = ()
    ends: tuple[EndKey, ...] = ()
    place: str | None = None
    keeps_originals: bool = False
    origins: RunOrigins | None = None


@record
class StepPart:
    """What a task counted.

    Args:
        part: what it wrote.
        rows: how many rows it met.
        dropped: how many a rule dropped.
        superseded: how many were not the first of their entity.
        origins: of how many it was kept which file they came from.
        failed: for how many rows each rule does not hold, and last how many do not decode.
        samples: some of these rows, in the same order, as JSON texts.
        rejected: the files of rows that were put aside.
        originals: the files of rows as they came.
    """

    part: LoadedPart
    rows: int = 0
    dropped: int = 0
    superseded: int = 0
    origins: int = 0
    failed: tuple[int, ...] = ()
    samples: tuple[tuple[str, ...], ...] = ()
    rejected: tuple[RejectedFile, ...] = ()
    originals: tuple[RowsFile, ...] = field(default=())


def read_step(
    orders: WriteOrders, reader: StepReader, first: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a partition, for ``mapInArrow``; partitions count from ``first``."""
    from pyspark import TaskContext  # noqa: PLC0415 - Spark is loaded where it is used

    context = TaskContext.get()
    number = first + (0 if context is None else context.partitionId())
    yield answer_batch(number, partial(_read, orders, reader, number, batches))


def _read(orders: WriteOrders, reader: StepReader, number: int, batches: Iterator[pa.RecordBatch]) -> StepPart:
    with orders.taking_blobs(reader.binding.owner.table_key):
        reading = _Reading(orders, reader, number)
        for batch in batches:
            for start in range(0, batch.num_rows, _MOST_ROWS):
                reading.take(batch.slice(start, _MOST_ROWS))
        return reading.finish()


class _Reading:
    """The rows of one partition as they come."""

    def __init__(self, orders: WriteOrders, reader: StepReader, number: int) -> None:
        self._orders = orders
        self._reader = reader
        self._number = number
        self._writer = PartWriter(orders, number=number, source_number=number, source_name=reader.title)
        self._rejected = RejectedWriter(orders.scratch)
        catalog = orders.opened or orders.catalog
        self._table = arrow_reader(catalog, reader.binding, truncate=orders.truncate)
        self._line = 1
        self._rows = self._dropped = self._superseded = 0
        self._failed = [0] * (len(reader.rules) + 1)
        self._samples: list[list[str]] = [[] for _ in self._failed]
        self._originals: list[RowsFile] = []
        self._origins = None if reader.origins is None else OriginWriter(reader.origins, reader.binding.owner, number)
        self._kept: list[pa.Table] = []
        self._kept_bytes = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Ask the rules about rows, and hand on those that are good."""
        count = batch.num_rows
        lines = np.arange(self._line, self._line + count)
        self._line += count
        self._rows += count
        left = self._ask(batch, lines)
        if self._reader.place is not None:
            is_first = batch.column(self._reader.place).to_numpy(zero_copy_only=False) == 1
            self._superseded += int((left & ~is_first).sum())
            left &= is_first
        if not left.all():
            batch, lines = batch.filter(pa.array(left)), lines[left]
        if batch.num_rows:
            self._decode(_with_ends(batch, self._reader.ends), lines)

    def finish(self) -> StepPart:
        """Write what is left and return what was counted."""
        self._keep_originals()
        return StepPart(
            part=self._writer.finish(lines=self._line - 1),
            rows=self._rows,
            dropped=self._dropped,
            superseded=self._superseded,
            origins=0 if self._origins is None else self._origins.finish(),
            failed=tuple(self._failed),
            samples=tuple(tuple(some) for some in self._samples),
            rejected=self._rejected.finish(),
            originals=tuple(self._originals),
        )

    def _ask(self, batch: pa.RecordBatch, lines: npt.NDArray[np.int64]) -> Mask:
        """Return which rows are left; the first rule that takes a row out decides what becomes of it."""
        left = np.ones(batch.num_rows, dtype=bool)
        for number, (rule, column) in enumerate(zip(self._reader.rules, self._reader.rule_columns, strict=True)):
            flags = batch.column(column)
            if pc.all(flags, min_count=0).as_py():
                continue
            broken = ~flags.to_numpy(zero_copy_only=False)
            self._failed[number] += int(broken.sum())
            self._sample(number, batch, np.flatnonzero(broken))
            if rule.outcome == "drop":
                self._dropped += int((broken & left).sum())
            elif rule.outcome == "quarantine":
                reason = f"does not hold: {rule.condition}"
                self._reject(batch, lines, np.flatnonzero(broken & left), [(rule.name, reason)])
            if rule.outcome in {"drop", "quarantine"}:
                left &= ~broken
        return left

    def _decode(self, batch: pa.RecordBatch, lines: npt.NDArray[np.int64]) -> None:
        decoded = self._table.read(batch, lines)
        orders, writer = self._orders, self._writer
        if orders.opened is not None:
            decoded = settle_vectors(orders.catalog, decoded)
        bad = np.zeros(0, dtype=np.int64)
        if decoded.problems:
            bad = self._refuse(batch, lines, decoded)
        for rows in decoded.types.values():
            missing = None if orders.opened is None else vectors_missing(rows)
            if missing is not None:
                name = f"{rows.owner.name}.{missing}"
                details = BadValue(what="property", value=name, expected="a vector in every row")
                raise SparkUnsupportedError(f"vectors of property '{name}' are not computed on Spark", details=details)
            writer.add(rows)
            if self._origins is not None:
                at = np.searchsorted(lines, rows.lines.to_numpy())
                self._origins.add(rows.rows.column("id"), batch.column(FILE).take(pa.array(at)))
        if self._reader.keeps_originals:
            good = np.setdiff1d(np.arange(batch.num_rows), bad)
            places = pa.array([row_number(self._number, int(line)) for line in lines[good]], pa.int64())
            rows = pa.Table.from_batches([batch.select(list(self._reader.originals))]).take(pa.array(good))
            self._kept.append(rows.append_column(AT, places))
            self._kept_bytes += rows.nbytes
            if self._kept_bytes > orders.settings.flush_bytes:
                self._keep_originals()

    def _refuse(
        self, batch: pa.RecordBatch, lines: npt.NDArray[np.int64], decoded: DecodedChunk
    ) -> npt.NDArray[np.int64]:
        reasons: dict[int, tuple[str, str]] = {}
        for problem in decoded.problems:
            reasons.setdefault(problem.line or 0, (DECODES, problem.message))
        at = np.searchsorted(lines, sorted(reasons))
        self._failed[-1] += len(at)
        self._sample(len(self._failed) - 1, batch, at)
        self._reject(batch, lines, at, [reasons[line] for line in sorted(reasons)])
        return at

    def _reject(
        self,
        batch: pa.RecordBatch,
        lines: npt.NDArray[np.int64],
        at: npt.NDArray[np.int64],
        why: Sequence[tuple[str, str]],
    ) -> None:
        if not len(at):
            return
        chosen = batch.take(pa.array(at))
        files = chosen.column(FILE).to_pylist() if FILE in chosen.schema.names else [None] * len(at)
        texts = row_texts(chosen.select(list(self._reader.originals)))
        for place, (text, file) in enumerate(zip(texts, files, strict=True)):
            rule, reason = why[place] if len(why) > 1 else why[0]
            line = row_number(self._number, int(lines[at[place]]))
            self._rejected.add(rule, reason, file=file or None, at=line, row=text)

    def _sample(self, number: int, batch: pa.RecordBatch, at: npt.NDArray[np.int64]) -> None:
        room = _SAMPLES - len(self._samples[number])
        if room > 0 and len(at):
            chosen = batch.select(list(self._reader.originals)).take(pa.array(at[:room]))
            self._samples[number] += row_texts(chosen)

    def _keep_originals(self) -> None:
        if self._kept:
            rows = pa.concat_tables(self._kept)
            self._kept, self._kept_bytes = [], 0
            name = f"originals/{self._number:06}-{Runtime.system().ids.ulid()}"
            self._orders.scratch.put(name, rows)
            key = self._reader.binding.owner.table_key
            self._originals.append(RowsFile(table_key=key, name=name, rows=rows.num_rows, size_bytes=rows.nbytes))


def _with_ends(batch: pa.RecordBatch, ends: Sequence[EndKey]) -> pa.RecordBatch:
    """Return rows with the ids of ends that are named by keys; null where a value is missing or does not fit."""
    for end in ends:
        batch = batch.append_column(end.target, _end_ids(batch, end))
    return batch


def _end_ids(batch: pa.RecordBatch, end: EndKey) -> pa.Array:
    columns: dict[str, Any] = {}
    is_whole = np.ones(batch.num_rows, dtype=bool)
    for name, column in zip(end.node.key or (), end.columns, strict=True):
        prop = end.node.get(name)
        kind = pa.string() if prop is None else arrow_type(prop.type)
        values = _cast(batch.column(column), kind)
        is_whole &= values.is_valid().to_numpy(zero_copy_only=False)
        columns[name] = values
    if is_whole.all():
        return entity_ids(end.node, columns)
    mask = pa.array(is_whole)
    ids = entity_ids(end.node, {name: values.filter(mask) for name, values in columns.items()})
    at = np.full(batch.num_rows, -1, dtype=np.int64)
    at[is_whole] = np.arange(len(ids))
    return ids.take(pa.array(at, mask=~is_whole))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        found = []
        for value in values:
            try:
                found.append(value.cast(kind).as_py())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                found.append(None)
        return pa.array(found, kind)
