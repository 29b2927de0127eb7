"""Postings kept beside their table: the text projection of one property.

It covers every row of a version, and answers for every other version as far as the two have rows in common. Nothing
depends on there being one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.query.search.analysis import ANALYSER
from omnigraph.engine.query.search.index import IndexPart
from omnigraph.engine.query.search.places import Moves, to_places
from omnigraph.engine.query.search.postings import Check, Postings, PostingsBuilder, merged
from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.store.projections.coverage import Match, cover, deleted_rows, match
from omnigraph.store.projections.files import Projection
from omnigraph.store.projections.format import CoveredFragment, CoveredTable
from omnigraph.store.projections.kinds import TEXT
from omnigraph.store.tables.pinned import PinnedTable

# What is read before it is analysed.
_READ_AHEAD_BYTES = 64 << 20
# More files than that are looked at only when maintenance has not cleaned up for long.
_MOST_CANDIDATES = 16
# Places are unsigned numbers of 32 bits.
_MOST_PLACES = 1 << 32


@record
class MadeText:
    """Postings of every row of a version.

    Args:
        part: the postings, mapped where they could be kept.
        analysed_rows: how many texts were analysed for them.
    """

    part: IndexPart
    analysed_rows: int


def build_text(table: PinnedTable, prop: str, check: Check | None = None) -> Projection | None:
    """Make sure that the postings of a property are kept for all rows of a version.

    Args:
        table: the version.
        prop: which property, a String.
        check: called with the bytes about to be taken, often enough to stop the work; it stops it by raising.

    Returns:
        What is kept, whoever wrote it; None when there is nothing to keep, or it cannot be written.
    """
    if not table.row_count or table.stored_column(prop) is None:
        return None
    return make_text(table, prop, check or _go_on).part.projection


def make_text(table: PinnedTable, prop: str, check: Check) -> MadeText:
    """Return postings of every row of a version, and keep them; only rows that no kept ones cover are analysed.

    The property is one that is stored.
    """
    base = find_text(table, prop, refresh=True)
    columns = covering(table, prop)
    known = None if base is None else match(_covered(table, base.fragments), table, columns)
    if base is not None and known is not None and known.is_exact:
        return MadeText(part=base, analysed_rows=0)
    if known is not None and 2 * live_rows(known, table) < table.row_count:
        known = None
    indexes = range(len(table.fragments)) if known is None else known.uncovered
    firsts, place_count = first_places(table, range(len(table.fragments)))
    texts = read_texts(table, prop, indexes)
    postings = analyse_fragments(table, indexes, firsts, place_count, texts, check)
    if base is not None and known is not None:
        parts = [(base.postings, to_places(known, firsts)), (postings, Moves.none())]
        postings = merged(parts, place_count, check)
    covered = cover(table, columns)
    facts = {"analyser": ANALYSER, "texts": postings.text_count, "terms": postings.term_count}
    projections = table.datasets.projections
    kept = projections.save(TEXT, field_of(table, prop), [covered], postings.arrays, facts)
    mapped = None if kept is None else _open(kept)
    return MadeText(
        part=mapped or IndexPart(postings=postings, fragments=covered.fragments),
        analysed_rows=sum(table.fragments[index].row_count for index in indexes),
    )


def is_usable(facts: Mapping[str, Any]) -> bool:
    """Whether kept postings are of the words that this version of the program looks for."""
    return facts.get("analyser") == ANALYSER


def find_text(table: PinnedTable, prop: str, *, refresh: bool = False) -> IndexPart | None:
    """Return the kept postings that cover most rows of a version, the newest of several; None when there are none.

    ``refresh`` looks again for what other processes have written.
    """
    if table.stored_column(prop) is None:
        return None
    ranked: list[tuple[int, Projection]] = []
    found = table.datasets.projections.find(table.pin.location, TEXT, field_of(table, prop), refresh=refresh)
    for projection in found[:_MOST_CANDIDATES]:
        if is_usable(projection.facts) and len(projection.tables) == 1:
            fitting = match(projection.tables[0], table, covering(table, prop), takes_back=True)
            ranked.append((live_rows(fitting, table), projection))
            if fitting.is_exact:
                break
    for row_count, projection in sorted(ranked, key=lambda item: -item[0]):
        part = _open(projection) if row_count else None
        if part is not None:
            return part
    return None


def field_of(table: PinnedTable, prop: str) -> str:
    """Return what names a stored property in files: its number, which it keeps when its name changes."""
    [column] = covering(table, prop)
    return next(str(number) for number, name in table.fields if name == column)


def covering(table: PinnedTable, prop: str) -> list[str]:
    """Return the stored columns that the texts of a property are in."""
    return [table.stored_column(prop) or prop]


def live_rows(found: Match, table: PinnedTable) -> int:
    """Return how many rows of a version a match covers."""
    return sum(table.fragments[piece.index].row_count - len(piece.back) for piece in found.pieces)


def first_places(table: PinnedTable, indexes: Iterable[int]) -> tuple[dict[int, int], int]:
    """Return at which place each of some fragments begins, one behind the other, and how many places there are."""
    chosen = list(indexes)
    starts = list(accumulate((table.fragments[index].metadata.physical_rows for index in chosen), initial=0))
    return dict(zip(chosen, starts, strict=False)), starts[-1]


def read_texts(table: PinnedTable, prop: str, indexes: Sequence[int]) -> Iterable[pa.ChunkedArray]:
    """Yield the texts of the live rows of some fragments, in stored order."""
    numbers = [table.fragments[index].metadata.id for index in indexes]
    if numbers:
        for batch in table.scan([prop], fragment_ids=numbers, read_ahead_bytes=_READ_AHEAD_BYTES):
            yield pa.chunked_array([batch.column(0)])


def analyse_fragments(
    table: PinnedTable,
    indexes: Iterable[int],
    firsts: dict[int, int],
    place_count: int,
    texts: Iterable[pa.ChunkedArray],
    check: Check,
) -> Postings:
    """Return the postings of some fragments.

    Args:
        table: the version.
        indexes: which fragments.
        firsts: the place of the first row of each.
        place_count: how many places there are, those of other fragments too.
        texts: the texts of their live rows, in stored order.
        check: asked before each step that takes memory or time.
    """
    if place_count >= _MOST_PLACES:
        raise InternalError(f"table '{table.pin.location}' has {place_count} rows, too many for a text index")
    places = [np.zeros(0, dtype=np.int64)]
    for index in indexes:
        fragment = table.fragments[index]
        offsets = np.arange(fragment.metadata.physical_rows, dtype=np.int64)
        places.append(firsts[index] + np.delete(offsets, deleted_rows(table, fragment)))
    builder = PostingsBuilder(np.concatenate(places), place_count, check)
    for each in texts:
        builder.add(each)
    return builder.finish()


def _open(projection: Projection) -> IndexPart | None:
    """Map kept postings; None when they are damaged or do not fit what they say they cover."""
    arrays, covered = projection.load(), projection.tables[0]
    if arrays is None:
        return None
    try:
        postings = Postings(
            text_count=int(projection.facts["texts"]), term_count=int(projection.facts["terms"]), **arrays
        )
    except (KeyError, TypeError, ValueError):
        return None
    if not postings.is_consistent or postings.place_count != covered.row_count:
        return None
    return IndexPart(postings=postings, fragments=covered.fragments, projection=projection)


def _covered(table: PinnedTable, fragments: tuple[CoveredFragment, ...]) -> CoveredTable:
    return CoveredTable(location=table.pin.location, fragments=fragments)


def _go_on(size_bytes: int) -> None:
    """Let everything pass."""
