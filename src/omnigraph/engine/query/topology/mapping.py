"""From the codes of one image to those of another version of the same table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.topology.image import Codes, TableImage
from omnigraph.engine.query.topology.segments import Mask, Segment
from omnigraph.records import record


@record
class Run:
    """Rows that stay together: ``count`` codes from ``start`` on are found again from ``to`` on.

    Args:
        start: the first code in the older image.
        count: how many rows the older image has there.
        to: the first code in the later image.
        kept: which of the rows stay; None when all do.
        places: where those that stay are, counted from ``to``; None when they follow one another.
    """

    start: int
    count: int
    to: int
    kept: Mask | None = None
    places: Codes | None = None

    def pick(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what an array by older code holds for the rows that stay."""
        part = values[self.start : self.start + self.count]
        return part if self.kept is None else part[self.kept]

    def into(self) -> slice | Codes:
        """Return the later codes of the rows that stay."""
        if self.places is not None:
            return self.places + self.to
        stays = self.count if self.kept is None else int(np.count_nonzero(self.kept))
        return slice(self.to, self.to + stays)


@record
class CodeMap:
    """What became of an image's rows.

    Args:
        older_count: how many rows the older image has.
        later_count: how many rows the later image has.
        runs: rows of the same files, in the order of their older codes.
        moved: rows that were written again: their older and their later codes.
    """

    older_count: int
    later_count: int
    runs: tuple[Run, ...]
    moved: tuple[Codes, Codes]

    @property
    def is_identity(self) -> bool:
        """Whether no row left or moved, so that later rows only follow."""
        stays = sum(run.count for run in self.runs if run.kept is None and run.places is None and run.start == run.to)
        return stays == self.older_count

    @property
    def is_complete(self) -> bool:
        """Whether every later row was there before."""
        return not len(self.fresh())

    @property
    def is_ascending(self) -> bool:
        """Whether rows that stay keep their order."""
        starts = [run.to for run in self.runs]
        return not len(self.moved[0]) and starts == sorted(starts)

    def fresh(self) -> Codes:
        """Return the later codes that no older row has become, ascending."""
        is_fresh = np.ones(self.later_count, dtype=np.bool_)
        for run in self.runs:
            is_fresh[run.into()] = False
        is_fresh[self.moved[1]] = False
        return np.flatnonzero(is_fresh)

    def carry(self, values: npt.NDArray[Any], into: npt.NDArray[Any]) -> None:
        """Copy values by older code to the places of their rows in an array by later code."""
        for run in self.runs:
            into[run.into()] = run.pick(values)
        into[self.moved[1]] = values[self.moved[0]]

    def table(self, of: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
        """Return the later code of every older one, -1 where the row left; so is the last, which -1 refers to."""
        table = np.full(self.older_count + 1, -1, dtype=of)
        every = np.arange(self.later_count, dtype=of)
        for run in self.runs:
            mine = table[run.start : run.start + run.count]
            mine[slice(None) if run.kept is None else run.kept] = every[run.into()]
        table[self.moved[0]] = self.moved[1]
        return table


def map_codes(older: TableImage, later: TableImage, *, by_row_id: bool) -> CodeMap:
    """Map codes: rows of the same files by their place there, and others by row id if asked for.

    Rows of the same files hold the same values. A row that was written again keeps its row id and its id, but may
    hold other values elsewhere; and row ids mean the same only on one branch of a table.
    """
    nothing = np.zeros(0, dtype=np.int64)
    mapped = CodeMap(
        older_count=older.row_count,
        later_count=later.row_count,
        runs=tuple(_runs(older, later)),
        moved=(nothing, nothing),
    )
    if not by_row_id or (older.pin.location, older.pin.branch) != (later.pin.location, later.pin.branch):
        return mapped
    moved = _match_row_ids(older, later, _uncovered(mapped.runs, older.row_count), mapped.fresh())
    return CodeMap(older_count=older.row_count, later_count=later.row_count, runs=mapped.runs, moved=moved)


def _runs(older: TableImage, later: TableImage) -> Iterator[Run]:
    places = {segment.files: index for index, segment in enumerate(later.segments)}
    for index, segment in enumerate(older.segments):
        found = places.get(segment.files)
        if found is None:
            continue
        into, start, to = later.segments[found], int(older.starts[index]), int(later.starts[found])
        if into is segment or into.key == segment.key:
            yield Run(start=start, count=segment.row_count, to=to)
        else:
            yield _partial_run(segment, into, start, to)


def _partial_run(segment: Segment, into: Segment, start: int, to: int) -> Run:
    kept = segment.shared_with(into)
    follows = int(np.count_nonzero(kept)) == into.row_count
    places = None if follows else np.flatnonzero(into.shared_with(segment))
    return Run(start=start, count=segment.row_count, to=to, kept=kept, places=places)


def _uncovered(runs: Sequence[Run], count: int) -> Codes:
    is_gone = np.ones(count, dtype=np.bool_)
    for run in runs:
        mine = is_gone[run.start : run.start + run.count]
        mine[:] = False if run.kept is None else ~run.kept
    return np.flatnonzero(is_gone)


def _match_row_ids(older: TableImage, later: TableImage, gone: Codes, fresh: Codes) -> tuple[Codes, Codes]:
    _, at_gone, at_fresh = np.intersect1d(
        older.row_ids[gone], later.row_ids[fresh], assume_unique=True, return_indices=True
    )
    return gone[at_gone], fresh[at_fresh]
