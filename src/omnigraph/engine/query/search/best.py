"""The best rows of a ranking by words, without scoring the others.

The rows of a term are known by class (see :mod:`omnigraph.engine.query.search.classes`), each with a bound on what its
rows can get for the term. Some rows of the best classes are scored first: the ``limit``-th best of them is a floor that
so many rows reach. From then on only rows matter whose bounds for all terms add up to the floor; they are scored as all
rows would be, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from omnigraph.engine.query.search.classes import Places, TermClasses
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.engine.query.search.index import TextIndex

Codes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

# Rows of each term that are scored first, and so many for each row that is wanted.
_TRIED_ROWS = 256
_TRIED_SHARE = 16
# Fewer rows are scored one and all, and so are all where so large a share of them is wanted.
FEW_ROWS = 4096
FEW_SHARE = 64
# Far more than what sums of a few numbers in another order differ by.
_SLACK = 1e-9


@record
class ScoredTexts:
    """Rows and their scores: of all that hold a word, or of the best ``limit`` at least; codes ascend."""

    codes: Codes
    scores: Scores
    limit: int | None

    def serves(self, limit: int | None, among: Codes | None) -> bool:
        """Whether the best ``limit`` rows are here, or, of some rows, all that hold a word."""
        if self.limit is None:
            return True
        if among is not None:
            return bool(np.isin(among, self.codes).all())
        return limit is not None and limit <= self.limit


@record
class BoundedTerm:
    """A term in one part: its rows by class, what each class can get, and what no row gets more than.

    ``bounds`` begins with what a row gets that does not hold the term.
    """

    classes: TermClasses
    bounds: Scores
    most: float

    @classmethod
    def of(cls, classes: TermClasses, rarity: float, index: TextIndex) -> BoundedTerm:
        """Return the bounds of a term in the index of one version."""
        bounds = np.concatenate([[0.0], index.score(rarity, classes.counts, classes.lengths)])
        return cls(classes=classes, bounds=bounds, most=float(bounds.max()))

    def top(self, count: int) -> Places:
        """Return about so many of the rows that can get the most."""
        order = np.argsort(-self.bounds[1:], kind="stable")
        reached = np.searchsorted(np.cumsum(self.classes.sizes[order]), count)
        is_chosen = np.zeros(len(order), dtype=np.bool_)
        is_chosen[order[: reached + 1]] = True
        places, numbers = self.classes.rows(is_chosen)
        # The last class may have far more rows than are wanted.
        best = np.argsort(-self.bounds[1:].take(numbers), kind="stable")[:count]
        return places[best]


def tried_rows(terms: Sequence[BoundedTerm], limit: int) -> Places:
    """Return rows of one part that are likely to be among the best, ascending."""
    count = max(_TRIED_ROWS, _TRIED_SHARE * limit)
    return np.unique(np.concatenate([term.top(count) for term in terms]))


def reaching(terms: Sequence[BoundedTerm], floor: float) -> Places:
    """Return the rows of one part whose bounds add up to the floor, ascending."""
    ordered = sorted(terms, key=lambda term: -term.most)
    left = [sum(term.most for term in ordered[number:]) for number in range(len(ordered) + 1)]
    enough = floor - _SLACK * max(floor, left[0])
    found = [np.zeros(0, dtype=np.uint32)]
    for number, term in enumerate(ordered):
        if left[number] < enough:
            break
        # Rows that hold a term before this one were found there, so that only the terms behind it can add to these.
        places, numbers = term.classes.rows(term.bounds[1:] >= enough - left[number + 1])
        sums = term.bounds[1:].take(numbers)
        for behind, other in enumerate(ordered[number + 1 :], start=number + 1):
            sums += other.bounds.take(other.classes.find(places))
            is_kept = sums >= enough - left[behind + 1]
            places, sums = places[is_kept], sums[is_kept]
        found.append(places)
    return np.unique(np.concatenate(found))
