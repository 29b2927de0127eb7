"""What the lowering asks of an engine for relations: to move rows, and to join them on ids. Nothing else has meaning.

Everything that looks at values is a :class:`Task`, a function of ours over Arrow batches that runs where the rows are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Literal, Protocol, Self

import pyarrow as pa

from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.spark.runner import job_error, working

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


How = Literal["inner", "left", "semi", "anti"]
# Which side every worker gets whole, or which one is hashed after both were brought together by key.
Build = Literal["broadcast_left", "broadcast_right", "hash_left", "hash_right", "merge"]


class Task(Protocol):
    """Work on the rows of one part, wherever they are. Can be pickled; may run more than once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what becomes of the rows of one part."""


class Relation(Protocol):
    """Rows in parts, described and not yet made. Column names are plain words that the lowering gave."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""

    def map(self, task: Task) -> Self:
        """Return what a task makes of every part."""

    def select(self, columns: Mapping[str, str]) -> Self:
        """Return some columns, by the name they get."""

    def join(self, other: Self, on: Mapping[str, str], *, how: How, build: Build, nulls: Collection[str] = ()) -> Self:
        """Return the rows that agree with one of ``other`` on columns of either side; the left names of them stay.

        ``left`` keeps the left rows that have no partner, with NULL in the right columns; ``semi`` keeps those that
        have one, ``anti`` those that have none, and both drop the right columns. NULL agrees with nothing, but with
        NULL in the left columns ``nulls``. Without a column to agree on, every row is a partner.
        """

    def cross(self, other: Self) -> Self:
        """Return every row with every row of ``other``."""

    def distinct(self, by: Sequence[str]) -> Self:
        """Return one row for each value of some columns."""

    def union(self, other: Self) -> Self:
        """Return the rows of both, which have the same columns."""

    def where_equal(self, left: str, right: str) -> Self:
        """Return the rows in which two columns are equal."""

    def where_different(self, left: str, right: str) -> Self:
        """Return the rows in which two columns differ."""

    def total(self, keys: Sequence[str], factors: Sequence[str], into: str) -> Self:
        """Return for each value of the keys the sum of the products of the factors, one for a row without factors.

        Without keys there is one sum, zero for no rows.
        """

    def spread(self, by: Sequence[str]) -> Self:
        """Return the same rows in parts so that equal values of some columns are in one part; in one without any."""

    def limit(self, count: int) -> Self:
        """Return so many rows at most."""

    def cut(self) -> Self:
        """Return the same rows, made once and kept, so that what comes after does not make them again."""

    def is_empty(self) -> bool:
        """Whether there is no row; makes as many as it takes to know."""

    def collect(self) -> pa.Table:
        """Return all rows."""


class Relations(Protocol):
    """Where relations begin."""

    def read(self, task: Task, parts: int) -> Relation:
        """Return what a task makes of the numbers from zero up to ``parts``, one in each part."""


_DOING = "query"
# What the columns of a right side are called while both sides are there.
_RIGHT = "right_"
# Spark counts limits in 32 bits; a larger one cuts nothing that could be collected.
_MOST_LIMIT = (1 << 31) - 1
_HOW: dict[How, str] = {"inner": "inner", "left": "left_outer", "semi": "left_semi", "anti": "left_anti"}
_HINTS: dict[Build, tuple[str | None, str | None]] = {
    "broadcast_left": ("broadcast", None),
    "broadcast_right": (None, "broadcast"),
    "hash_left": ("shuffle_hash", None),
    "hash_right": (None, "shuffle_hash"),
    "merge": (None, "merge"),
}


@record
class FrameRelation:
    """A DataFrame, and the tasks that are still to run over it."""

    frame: DataFrame
    names: tuple[str, ...]
    tasks: tuple[Task, ...] = ()

    def map(self, task: Task) -> FrameRelation:
        """Return what a task makes of every part."""
        return replace(self, names=tuple(task.schema.names), tasks=(*self.tasks, task))

    def made(self) -> DataFrame:
        """Return the frame with its tasks, as one function."""
        if not self.tasks:
            return self.frame
        return self.frame.mapInArrow(_Chain(tasks=self.tasks).run, _struct(self.tasks[-1].schema))

    def select(self, columns: Mapping[str, str]) -> FrameRelation:
        """Return some columns, by the name they get."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

        chosen = self.made().select(*(sql.col(old).alias(new) for new, old in columns.items()))
        return FrameRelation(frame=chosen, names=tuple(columns))

    def join(
        self,
        other: FrameRelation,
        on: Mapping[str, str],
        *,
        how: How,
        build: Build,
        nulls: Collection[str] = (),
    ) -> FrameRelation:
        """Return the rows that agree with one of ``other``; see the protocol."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

        right_names = {right: f"{_RIGHT}{left}" for left, right in on.items()}
        renamed = other.select({right_names.get(name, name): name for name in other.names})
        left_hint, right_hint = _HINTS[build]
        left = self.made() if left_hint is None else self.made().hint(left_hint)
        right = renamed.frame if right_hint is None else renamed.frame.hint(right_hint)
        agree = sql.lit(1) == sql.lit(1)
        for name in on:
            one, two = sql.col(name), sql.col(f"{_RIGHT}{name}")
            agree = agree & (one.eqNullSafe(two) if name in nulls else one == two)
        joined = left.join(right, agree, _HOW[how])
        added = () if how in {"semi", "anti"} else tuple(name for name in other.names if name not in right_names)
        names = (*self.names, *added)
        return FrameRelation(frame=joined.select(*names), names=names)

    def cross(self, other: FrameRelation) -> FrameRelation:
        """Return every row with every row of ``other``."""
        return FrameRelation(frame=self.made().crossJoin(other.made()), names=(*self.names, *other.names))

    def distinct(self, by: Sequence[str]) -> FrameRelation:
        """Return one row for each value of some columns."""
        return FrameRelation(frame=self.made().dropDuplicates(list(by)), names=self.names)

    def union(self, other: FrameRelation) -> FrameRelation:
        """Return the rows of both."""
        return FrameRelation(frame=self.made().unionByName(other.made()), names=self.names)

    def where_equal(self, left: str, right: str) -> FrameRelation:
        """Return the rows in which two columns are equal."""
        made = self.made()
        return FrameRelation(frame=made.where(made[left] == made[right]), names=self.names)

    def where_different(self, left: str, right: str) -> FrameRelation:
        """Return the rows in which two columns differ."""
        made = self.made()
        return FrameRelation(frame=made.where(made[left] != made[right]), names=self.names)

    def total(self, keys: Sequence[str], factors: Sequence[str], into: str) -> FrameRelation:
        """Return for each value of the keys the sum of the products of the factors."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

        product = reduce(lambda left, right: left * right, (sql.col(name) for name in factors), sql.lit(1).cast("long"))
        summed = sql.coalesce(sql.sum(product), sql.lit(0).cast("long"))
        return FrameRelation(frame=self.made().groupBy(*keys).agg(summed.alias(into)), names=(*keys, into))

    def spread(self, by: Sequence[str]) -> FrameRelation:
        """Return the same rows, equal values of some columns in one part."""
        made = self.made()
        return FrameRelation(frame=made.repartition(*by) if by else made.repartition(1), names=self.names)

    def limit(self, count: int) -> FrameRelation:
        """Return so many rows at most."""
        if count > _MOST_LIMIT:
            return self
        return FrameRelation(frame=self.made().limit(count), names=self.names)

    def cut(self) -> FrameRelation:
        """Return the same rows, made once and kept."""
        with translated():
            return FrameRelation(frame=self.made().localCheckpoint(), names=self.names)

    def is_empty(self) -> bool:
        """Whether there is no row."""
        with translated():
            return bool(self.made().isEmpty())

    def collect(self) -> pa.Table:
        """Return all rows."""
        with translated():
            return self.made().toArrow()


@record
class FrameRelations:
    """Begins relations in a session of Spark."""

    spark: SparkSession

    @property
    def parallelism(self) -> int:
        """About how many tasks the session runs at once."""
        return int(self.spark.conf.get("spark.sql.shuffle.partitions", "200") or 1)

    def read(self, task: Task, parts: int) -> FrameRelation:
        """Return what a task makes of the numbers from zero up to ``parts``, one in each part."""
        numbers = self.spark.range(0, parts, 1, max(1, parts))
        return FrameRelation(frame=numbers, names=("id",)).map(task)


@record
class _Chain:
    """Tasks one after the other, over the rows of one part."""

    tasks: tuple[Task, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the last task yields."""
        for task in self.tasks:
            batches = task.run(batches)
        with working():
            yield from batches


class translated:  # noqa: N801 - used as a statement
    """Turns what Spark raises into an error of ours, which says what the work was for."""

    def __init__(self, doing: str = _DOING) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, OmnigraphError):
            raise job_error(self._doing, error) from error


def _struct(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - Spark is loaded when it is used

    return from_arrow_schema(schema)
