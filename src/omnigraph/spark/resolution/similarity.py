"""How alike the values of pairs of rows are: one array of numbers for many pairs at once, NaN where a value is missing.

A column is encoded once for all rows of a piece; pairs are two arrays of row numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.distribution import pip_install
from omnigraph.engine.results.frames import library
from omnigraph.errors import BadValue, ResolveInputError
from omnigraph.records import record
from omnigraph.spark.resolution.folding import fold, tokens
from omnigraph.spark.resolution.model import Comparison, Method

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Measure = Callable[[Rows, Rows], Floats]

_HINT = f"install it with `{pip_install('resolve')}`"

VALUES: dict[Method, pa.DataType] = {
    "exact": pa.string(),
    "normalised": pa.string(),
    "jaro_winkler": pa.string(),
    "token_overlap": pa.list_(pa.string()),
    "vector_distance": pa.list_(pa.float64()),
}


def check_library(comparison: Comparison) -> None:
    """Make sure that what a comparison needs is there.

    Raises:
        LibraryMissingError: it is not installed.
    """
    if comparison.method == "jaro_winkler":
        library("rapidfuzz", hint=_HINT, what="comparison")


def prepare(comparison: Comparison, values: pa.Array) -> pa.Array:
    """Return the values of a column as they are compared; what counts as missing is null."""
    if comparison.method in {"exact", "vector_distance"}:
        return values
    texts: list[str | None] = values.to_pylist()
    if comparison.folds:
        texts = [None if one is None else fold(one) for one in texts]
    if comparison.method == "token_overlap":
        words = [None if one is None else tokens(one) or None for one in texts]
        return pa.array(words, VALUES["token_overlap"])
    return pa.array([one or None for one in texts], pa.string())


def measure(comparison: Comparison, keys: pa.Array, values: pa.Array) -> Measure:
    """Return what measures pairs of rows by one column.

    Raises:
        ResolveInputError: two vectors have different numbers of dimensions; raised when rows are measured.
        LibraryMissingError: a library is not installed.
    """
    match comparison.method:
        case "exact" | "normalised":
            return _equality(values)
        case "jaro_winkler":
            return _jaro_winkler(values)
        case "token_overlap":
            return _overlap(values)
        case "vector_distance":
            return _vectors(comparison, keys, values)


def _equality(values: pa.Array) -> Measure:
    codes = _codes(values)

    def apply(left: Rows, right: Rows) -> Floats:
        one, two = codes[left], codes[right]
        return np.where((one < 0) | (two < 0), np.nan, (one == two).astype(np.float64))

    return apply


def _jaro_winkler(values: pa.Array) -> Measure:
    process = library("rapidfuzz.process", hint=_HINT, what="comparison")
    scorer = library("rapidfuzz.distance", hint=_HINT, what="comparison").JaroWinkler.similarity
    texts = np.array(values.to_pylist(), dtype=object)
    is_there = pc.is_valid(values).to_numpy(zero_copy_only=False)

    def apply(left: Rows, right: Rows) -> Floats:
        found = np.full(len(left), np.nan)
        both = np.flatnonzero(is_there[left] & is_there[right])
        if len(both):
            one, two = texts[left[both]].tolist(), texts[right[both]].tolist()
            found[both] = process.cpdist(one, two, scorer=scorer, dtype=np.float64)
        return found

    return apply


def _overlap(values: pa.Array) -> Measure:
    lists = Lists.of(values)
    sizes = lists.sizes

    def apply(left: Rows, right: Rows) -> Floats:
        common = lists.common(left, right)
        either = sizes[left] + sizes[right] - common
        is_missing = (sizes[left] == 0) | (sizes[right] == 0)
        return np.where(is_missing, np.nan, common / np.maximum(either, 1))

    return apply


def _vectors(comparison: Comparison, keys: pa.Array, values: pa.Array) -> Measure:
    sizes = pc.fill_null(pc.list_value_length(values), -1).to_numpy().astype(np.int64)
    flat = pc.fill_null(values.flatten(), float("nan")).to_numpy().astype(np.float64)
    starts = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))[:-1]]).astype(np.int64)

    def apply(left: Rows, right: Rows) -> Floats:
        both = np.flatnonzero((sizes[left] >= 0) & (sizes[right] >= 0))
        found = np.full(len(left), np.nan)
        if not len(both):
            return found
        one, two = left[both], right[both]
        misfit = np.flatnonzero(sizes[one] != sizes[two])
        if len(misfit):
            raise _dimensions(comparison, keys, sizes, one[misfit[0]], two[misfit[0]])
        for size in np.unique(sizes[one]).tolist():
            some = np.flatnonzero(sizes[one] == size)
            places = np.arange(size)
            found[both[some]] = _closeness(
                comparison, flat[starts[one[some], None] + places], flat[starts[two[some], None] + places]
            )
        return found

    return apply


def _closeness(comparison: Comparison, one: Floats, two: Floats) -> Floats:
    with np.errstate(all="ignore"):
        if comparison.metric == "l2":
            distance = np.sqrt(((one - two) ** 2).sum(axis=1))
        else:
            lengths = np.sqrt((one**2).sum(axis=1)) * np.sqrt((two**2).sum(axis=1))
            distance = 1.0 - (one * two).sum(axis=1) / np.where(lengths > 0, lengths, np.nan)
        found: Floats = np.clip(1.0 - distance / comparison.reach, 0.0, 1.0)
    is_usable = np.isfinite(one).all(axis=1) & np.isfinite(two).all(axis=1)
    return np.where(is_usable, found, np.nan)


def _dimensions(comparison: Comparison, keys: pa.Array, sizes: Rows, left: int, right: int) -> ResolveInputError:
    one, two = keys[left].as_py(), keys[right].as_py()
    return ResolveInputError(
        f"vectors in column '{comparison.column}' have different lengths: "
        f"{sizes[left]} in record '{one}', {sizes[right]} in record '{two}'",
        details=BadValue(what=comparison.column, value=str(sizes[right]), expected=str(sizes[left])),
    )


@record
class Lists:
    """Sets of values, one per row, as codes; ``keys`` are row and code in one number, ascending."""

    offsets: Rows
    keys: Rows
    universe: int

    @classmethod
    def of(cls, lists: pa.Array) -> Lists:
        """Return the sets of a column of lists without repetitions; null is the empty set."""
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        codes = _codes(lists.flatten())
        universe = int(codes.max(initial=0)) + 1
        rows = np.repeat(np.arange(len(sizes)), sizes)
        return cls(
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            keys=np.sort(rows * universe + codes),
            universe=universe,
        )

    @property
    def sizes(self) -> Rows:
        """How many values each row has."""
        return np.diff(self.offsets)

    def common(self, left: Rows, right: Rows) -> Rows:
        """Return for each pair of rows how many values both have."""
        if not len(self.keys):
            return np.zeros(len(left), np.int64)
        sizes = self.sizes[left]
        pair = np.repeat(np.arange(len(left)), sizes)
        place = self.offsets[left][pair] + spans(sizes)
        wanted = right[pair] * self.universe + self.keys[place] % self.universe
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.bincount(pair[self.keys[at] == wanted], minlength=len(left)).astype(np.int64)


def spans(sizes: Rows) -> Rows:
    """Return the numbers from zero up to each size, one after the other.

    >>> spans(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - sizes, sizes)


def _codes(values: Any) -> Rows:
    """Return a number for each value, equal ones for equal values, -1 for null."""
    encoded = pc.dictionary_encode(values)
    found: Rows = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
