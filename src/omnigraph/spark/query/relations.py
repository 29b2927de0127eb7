"""What the lowering asks of an engine for relations: to move rows, and to join them on ids. Nothing else has meaning.

Everything that looks at values is a :class:`Task`, a function of ours over Arrow batches that runs where the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol, Self

import pyarrow as pa

How = Literal["inner", "semi", "anti"]
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

    def join(self, other: Self, on: Mapping[str, str], *, how: How, build: Build) -> Self:
        """Return the rows that agree with one of ``other`` on columns of either side; the left names of them stay.

        ``semi`` keeps the left rows that have a partner, ``anti`` those that have none; both drop the right columns.
        Without a column to agree on, every row is a partner.
        """

    def cross(self, other: Self) -> Self:
        """Return every row with every row of ``other``."""

    def distinct(self, by: Sequence[str]) -> Self:
        """Return one row for each value of some columns."""

    def union(self, other: Self) -> Self:
        """Return the rows of both, which have the same columns."""

    def where_equal(self, left: str, right: str) -> Self:
        """Return the rows in which two columns are equal."""

    def total(self, key: str, factors: Sequence[str], into: str) -> Self:
        """Return for each value of ``key`` the sum of the products of the factors, one for a row without factors."""

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
