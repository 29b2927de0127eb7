"""From postings that are known to the index of a version: what they cover of it, and what is left to analyse."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.search.index import IndexPart, TextIndex
from omnigraph.engine.query.search.places import Moves, to_codes, to_places
from omnigraph.engine.query.search.postings import Check, merged, postings_of
from omnigraph.engine.query.search.stored import analyse_fragments, covering, first_places
from omnigraph.records import record
from omnigraph.store.projections.coverage import Match, cover, match
from omnigraph.store.projections.format import CoveredTable
from omnigraph.store.tables.pinned import ROW_ID
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.table import Table


class SupportsTexts(Protocol):
    """One version of a table whose live rows are known by codes, counted from 0 in stored order."""

    @property
    def pin(self) -> TablePin:
        """Which version this is."""
        ...

    @property
    def table(self) -> Table:
        """The version."""
        ...

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        """The stable row id of every code."""
        ...

    def read_segments(self, indexes: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Return columns of the live rows of the fragments at these positions, one after the other."""
        ...


# So few texts are fetched by their row ids; for more their fragments are read.
_FETCHED_ROWS = 2_000


@record
class FittedParts:
    """Postings, and what they cover of a version.

    Args:
        parts: the postings, their places counted through.
        found: what the version has of them.
        live_rows: how many rows the version has of each part.
    """

    parts: tuple[IndexPart, ...]
    found: Match
    live_rows: tuple[int, ...]

    @property
    def stored_rows(self) -> int:
        """How many rows of the version are in parts that are mapped from files."""
        pairs = zip(self.parts, self.live_rows, strict=True)
        return sum(count for part, count in pairs if part.projection is not None)

    @property
    def back_rows(self) -> int:
        """How many rows are in no part because they were deleted when their fragment was analysed."""
        return sum(len(piece.back) for piece in self.found.pieces)

    def uncovered_rows(self, table: Table) -> int:
        """Return how many rows of the version are in no part."""
        return self.back_rows + sum(table.fragments[index].row_count for index in self.found.uncovered)


def fit(parts: Sequence[IndexPart], table: Table, prop: str) -> FittedParts:
    """Tell what the version has of some parts, no two of which are made from the same fragment."""
    lasting = [part for part in parts if part.fragments]
    starts = list(accumulate((part.postings.place_count for part in lasting), initial=0))
    fragments = tuple(fragment for part in lasting for fragment in part.fragments)
    covered = CoveredTable(location=table.pin.location, fragments=fragments)
    found = match(covered, table, covering(table, prop), takes_back=True)
    live_rows = [0] * len(lasting)
    for piece in found.pieces:
        live_rows[bisect_right(starts, piece.start) - 1] += table.fragments[piece.index].row_count - len(piece.back)
    placed = tuple(replace(part, start=start) for part, start in zip(lasting, starts, strict=False))
    return FittedParts(parts=placed, found=found, live_rows=tuple(live_rows))


def with_base(base: IndexPart, fitted: FittedParts, table: Table, prop: str) -> FittedParts:
    """Return what a base and those parts cover that have no fragment in common with it."""
    files = {fragment.files for fragment in base.fragments}
    others = [part for part in fitted.parts if files.isdisjoint(fragment.files for fragment in part.fragments)]
    return fit([base, *others], table, prop)


def with_rest(fitted: FittedParts, image: SupportsTexts, prop: str, check: Check) -> FittedParts:
    """Analyse what is in no part, and return parts that cover everything.

    The new part takes in earlier ones in memory that are not at least twice its size. So each is at least twice as
    large as the next, and there are few of them; a text is never analysed again. Rows that come back to life at an
    older version are for :func:`index_of`.
    """
    table, missing = image.table, fitted.found.uncovered
    kept = [(part, count) for part, count in zip(fitted.parts, fitted.live_rows, strict=True) if count]
    if not missing:
        return fitted if len(kept) == len(fitted.parts) else fit([part for part, _ in kept], table, prop)
    size, taken = fitted.uncovered_rows(table), list[tuple[IndexPart, Match]]()
    while kept and kept[-1][0].projection is None and kept[-1][1] < 2 * size:
        part, count = kept[-1]
        alone = fit([part], table, prop)
        if alone.back_rows:
            break
        kept.pop()
        taken.append((part, alone.found))
        size += count
    indexes = sorted([*missing, *(piece.index for _, found in taken for piece in found.pieces)])
    firsts, place_count = first_places(table, indexes)
    texts = image.read_segments(missing, [prop]).column(prop)
    postings = analyse_fragments(table, missing, firsts, place_count, [texts], check)
    if taken:
        moved = [(part.postings, to_places(found, firsts)) for part, found in taken]
        postings = merged([*moved, (postings, Moves.none())], place_count, check)
    fresh = IndexPart(postings=postings, fragments=cover(table, covering(table, prop), indexes).fragments)
    return fit([*(part for part, _ in kept), fresh], table, prop)


def index_of(fitted: FittedParts, image: SupportsTexts, prop: str, check: Check) -> TextIndex:
    """Return the index of a version whose fragments are all covered; rows that are back to life are analysed."""
    table = image.table
    back = _back_part(fitted.found, image, prop, check) if fitted.back_rows else None
    gone = fitted.found.gone_places
    bounds = np.searchsorted(gone, [*(part.start for part in fitted.parts), np.iinfo(np.int64).max])
    text_count, term_count = (0, 0) if back is None else (back.postings.text_count, back.postings.term_count)
    for number, part in enumerate(fitted.parts):
        texts, terms = part.postings.totals_without(gone[bounds[number] : bounds[number + 1]] - part.start)
        text_count, term_count = text_count + texts, term_count + terms
    return TextIndex(
        fitted.parts if back is None else (*fitted.parts, back),
        to_codes(fitted.found, table),
        row_count=table.row_count,
        text_count=text_count,
        term_count=term_count,
    )


def _back_part(found: Match, image: SupportsTexts, prop: str, check: Check) -> IndexPart:
    """Analyse the rows of covered fragments that were deleted when those were analysed."""
    firsts = list(accumulate((fragment.row_count for fragment in image.table.fragments), initial=0))
    pieces = [piece for piece in found.pieces if len(piece.back)]
    # How many live rows of its fragment are before each.
    offsets = [piece.back.astype(np.int64) - np.searchsorted(piece.deleted, piece.back) for piece in pieces]
    codes = np.concatenate([firsts[piece.index] + inner for piece, inner in zip(pieces, offsets, strict=True)])
    if len(codes) <= _FETCHED_ROWS:
        texts = _fetch(image.table, image.row_ids[codes], prop)
    else:
        starts = accumulate((image.table.fragments[piece.index].row_count for piece in pieces), initial=0)
        rows = np.concatenate([start + inner for start, inner in zip(starts, offsets, strict=False)])
        texts = image.read_segments([piece.index for piece in pieces], [prop]).column(prop).take(pa.array(rows))
    moves = Moves.of(np.arange(len(codes)), codes - np.arange(len(codes)))
    return IndexPart(postings=postings_of(texts, check), moves=moves)


def _fetch(table: Table, row_ids: npt.NDArray[np.uint64], prop: str) -> pa.ChunkedArray:
    rows = table.take(row_ids.tolist(), [prop])
    known = rows.column(ROW_ID).to_numpy()
    order = np.argsort(known)
    texts: pa.ChunkedArray = rows.column(prop).take(pa.array(order[np.searchsorted(known[order], row_ids)]))
    return texts
