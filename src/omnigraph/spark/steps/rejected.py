"""Rows that a run rejects: why, by which rule, and as they were, put aside by tasks and kept as Parquet.

Tasks write what they reject to the scratch place, because an attempt may be repeated. What counts is written once more,
under names that follow from its place, so that whoever repeats that writes the same.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.keys import row_sources
from omnigraph.spark.runner import Runner
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import stores_of

# As tasks write them: the place of a row is a number until it is known how many rows came before its partition.
REJECTED = pa.schema(
    [("rule", pa.string()), ("reason", pa.string()), ("file", pa.string()), ("at", pa.int64()), ("row", pa.string())]
)
# As they are kept.
QUARANTINE = pa.schema(
    [
        ("pipeline", pa.string()),
        ("run", pa.string()),
        ("step", pa.string()),
        ("type", pa.string()),
        ("rule", pa.string()),
        ("reason", pa.string()),
        ("source", pa.string()),
        ("file", pa.string()),
        # Its place among the rows of the step. Readers of Spark do not tell lines of files.
        ("row_number", pa.int64()),
        ("columns", pa.string()),
        ("row", pa.string()),
    ]
)
_ROWS_PER_FILE = 1 << 18


@record
class RejectedFile:
    """Rejected rows of one step, by the name of their file in the scratch place."""

    name: str
    rows: int


@record
class QuarantinePlace:
    """Where rejected rows of a run are kept: below ``folder`` of a graph's root, or of another one."""

    storage: Storage
    folder: str

    @property
    def uri(self) -> str:
        """What people call it."""
        return f"{self.storage.root.rstrip('/')}/{self.folder}"

    def put(self, name: str, rows: pa.Table) -> None:
        """Write a file, whatever was there."""
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd")
        stores_of(self.storage).control.put(f"{self.folder}/{name}", sink.getvalue())

    def names(self) -> tuple[str, ...]:
        """Return the names of all files, sorted."""
        keys = stores_of(self.storage).control.list_keys(self.folder)
        return tuple(key.removeprefix(f"{self.folder}/") for key in keys if key.endswith(".parquet"))

    def read(self, name: str) -> pa.Table:
        """Return the rows of a file; none when it is gone."""
        data = stores_of(self.storage).control.get(f"{self.folder}/{name}")
        return QUARANTINE.empty_table() if data is None else pq.read_table(io.BytesIO(data), schema=QUARANTINE)

    def clear(self) -> None:
        """Remove everything; harmless when there is nothing."""
        stores_of(self.storage).control.delete_prefix(self.folder)


class RejectedWriter:
    """Takes the rows that a task rejects, and writes them to the scratch place."""

    def __init__(self, scratch: ScratchPlace, *, limit: int = 1 << 16) -> None:
        self._scratch = scratch
        self._limit = limit
        self._waiting: list[tuple[str, str, str | None, int, str]] = []
        self.files: list[RejectedFile] = []
        self.rows = 0

    def add(self, rule: str, reason: str, *, file: str | None, at: int, row: str) -> None:
        """Take one row."""
        self._waiting.append((rule, reason, file, at, row))
        self.rows += 1
        if len(self._waiting) >= self._limit:
            self._flush()

    def finish(self) -> tuple[RejectedFile, ...]:
        """Write what is left and return all files."""
        self._flush()
        return tuple(self.files)

    def _flush(self) -> None:
        if self._waiting:
            columns = list(zip(*self._waiting, strict=True))
            rows = pa.table([pa.array(values, at.type) for values, at in zip(columns, REJECTED, strict=True)], REJECTED)
            name = f"rejected/{Runtime.system().ids.ulid()}"
            self._scratch.put(name, rows)
            self.files.append(RejectedFile(name=name, rows=rows.num_rows))
            self._waiting.clear()


def row_texts(rows: pa.RecordBatch | pa.Table) -> list[str]:
    """Return rows as JSON objects."""
    encoder = msgspec.json.Encoder(enc_hook=_plain, decimal_format="number")
    return [encoder.encode(row).decode() for row in rows.to_pylist()]


def _plain(value: object) -> Any:
    """Return a value of Arrow as JSON, in a form that Spark reads back."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return value
    return str(value)


@record
class QuarantineTask:
    """Files of rejected rows that become one file of Parquet."""

    scratch: ScratchPlace
    place: QuarantinePlace
    name: str
    files: tuple[RejectedFile, ...]
    offsets: tuple[int, ...]
    beside: Mapping[str, str]


def keep_rejected(
    runner: Runner,
    scratch: ScratchPlace,
    place: QuarantinePlace,
    rejected: Sequence[tuple[Mapping[str, str], Sequence[RejectedFile]]],
    offsets: tuple[int, ...],
) -> int:
    """Write rejected rows to where they are kept, and return how many there are.

    Args:
        runner: who works.
        scratch: where tasks put them.
        place: where they are kept.
        rejected: by step what all its rows have in common, and its files.
        offsets: how many rows came before each partition.
    """
    tasks: list[QuarantineTask] = []
    for beside, files in rejected:
        for group in _groups(files):
            name = f"{beside['step']}-{len(tasks):05}.parquet"
            task = QuarantineTask(
                scratch=scratch, place=place, name=name, files=group, offsets=offsets, beside=dict(beside)
            )
            tasks.append(task)
    return sum(runner.run(write_quarantine, tasks, "keep the rejected rows"))


def write_quarantine(task: QuarantineTask) -> int:
    """Write one file of rejected rows."""
    found = pa.Table.from_batches(
        [batch for file in task.files for batch in task.scratch.read_arrow(file.name)], REJECTED
    )
    sources, lines = row_sources(found.column("at").to_numpy())
    lines = lines + np.asarray(task.offsets, dtype=np.int64)[sources] if task.offsets else lines
    order = np.argsort(lines, kind="stable")
    columns: dict[str, Any] = {name: pa.repeat(value, found.num_rows) for name, value in task.beside.items()}
    columns |= {name: found.column(name) for name in ("rule", "reason", "file", "row")}
    columns["row_number"] = pa.array(lines)
    rows = pa.table([columns[name] for name in QUARANTINE.names], schema=QUARANTINE).take(pa.array(order))
    task.place.put(task.name, rows)
    return int(rows.num_rows)


def rejected_rows(spark: Any, place: QuarantinePlace, step: str) -> Any | None:
    """Return the rejected rows of a step as the frame that they came in; None when there are none."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used
    from pyspark.sql.types import StructType  # noqa: PLC0415 - see above

    names = [name for name in place.names() if name.rpartition("-")[0] == step]
    if not names:
        return None
    schema = StructType.fromJson(msgspec.json.decode(place.read(names[0]).column("columns")[0].as_py()))
    if place.storage.is_local:
        rows = spark.read.parquet(*(str(place.storage.path(f"{place.folder}/{name}")) for name in names))
    else:
        # Spark itself does not reach buckets.
        rows = spark.createDataFrame(pa.concat_tables([place.read(name).select(["row"]) for name in names]))
    return rows.select(fn.from_json("row", schema).alias("row")).select("row.*")


def _groups(files: Sequence[RejectedFile]) -> Iterator[tuple[RejectedFile, ...]]:
    group: list[RejectedFile] = []
    for file in files:
        if group and sum(one.rows for one in group) + file.rows > _ROWS_PER_FILE:
            yield tuple(group)
            group = []
        group.append(file)
    if group:
        yield tuple(group)
