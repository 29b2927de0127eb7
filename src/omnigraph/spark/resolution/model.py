"""What an entity resolution is told: which records are compared, how, and from which score on they are the same.

Plain values without Spark, checked when they are made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.values import (
    check_choice,
    check_flag,
    check_instance,
    check_number,
    check_text,
    check_whole,
    checked_names,
    unfit,
)

Method = Literal["exact", "normalised", "jaro_winkler", "token_overlap", "vector_distance"]
Metric = Literal["cosine", "l2"]
OnLargeBlock = Literal["skip", "fail"]
Verdict = Literal["same", "different"]
Decision = Literal["same", "review", "same by overrule", "different by overrule", "cut by overrule"]

METHODS: Final = get_args(Method)
DECISIONS: Final = get_args(Decision)
# What people decided, as it is stored and as it is given.
OVERRULES: Final[dict[str, Verdict]] = {"same by overrule": "same", "different by overrule": "different"}
# Methods that compare texts, which can be folded first.
TEXT_METHODS: Final = ("normalised", "jaro_winkler", "token_overlap")
# Every pair of a block is compared: a block of this many rows has half a million.
_BLOCK_ROWS = 1000
_MOST_BLOCK_ROWS = 100_000


@record
class Comparison:
    """How one column of two records is compared; the similarity is a number from 0 to 1.

    Args:
        column: the column.
        method: ``exact`` is 1 for equal values and 0 for others. ``normalised`` does the same with folded texts: no
            accents, letter case, punctuation or extra spaces. ``jaro_winkler`` is the similarity of two texts by that
            name, ``token_overlap`` the share of common words (Jaccard). ``vector_distance`` is 1 at distance zero and
            falls evenly to 0 at ``reach``.
        weight: how much it counts in the mean of all comparisons.
        name: what the evidence calls it; the column by default.
        missing: the similarity if one of the values is missing; None leaves the comparison out of the mean. A value is
            missing if it is null, a vector with a number that is not finite, or of zeros where the direction counts;
            for every method but ``exact`` also a text that is empty, once it is folded.
        fold: whether ``jaro_winkler`` and ``token_overlap`` fold texts first.
        metric: ``cosine`` or ``l2``, of ``vector_distance``.
        reach: the distance from which on vectors have nothing in common.

    Raises:
        UsageError: one of them does not fit.
    """

    column: str
    method: Method = "exact"
    weight: float = 1.0
    name: str = ""
    missing: float | None = None
    fold: bool = True
    metric: Metric = "cosine"
    reach: float = 1.0

    def __post_init__(self) -> None:
        check_text("column", self.column)
        if not self.column:
            raise unfit("column", self.column, "the name of a column")
        check_choice("method", self.method, METHODS)
        _check_above_zero("weight", self.weight)
        check_text("name", self.name)
        check_number("missing", self.missing, most=1.0, optional=True)
        check_flag("fold", self.fold)
        check_choice("metric", self.metric, get_args(Metric))
        _check_above_zero("reach", self.reach)
        object.__setattr__(self, "name", self.name or self.column)

    @property
    def folds(self) -> bool:
        """Whether texts are folded before they are compared."""
        return self.method == "normalised" or (self.method in TEXT_METHODS and self.fold)


@record
class Resolution:
    """Which records are compared, and from which score on they are the same entity.

    The score of a pair is the mean of its comparisons by weight, from 0 to 1. A pair in which everything that counts is
    missing has no score, and is neither joined nor shown.

    Args:
        blocking: SQL expressions over the columns of a record. Records with an equal value of one of them are compared;
            a null puts a record into no block, a list into one block for each of its elements.
        comparisons: what is compared.
        threshold: the score from which on two records are the same entity.
        review: a lower score from which on pairs are shown, but not joined.
        max_block_rows: a block of more records is not compared.
        on_large_block: whether such a block is skipped and counted, or makes the resolution fail.

    Raises:
        UsageError: one of them does not fit.
    """

    blocking: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    threshold: float
    review: float | None = None
    max_block_rows: int = _BLOCK_ROWS
    on_large_block: OnLargeBlock = "skip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocking", checked_names("blocking", self.blocking))
        if not self.blocking or not all(text.strip() for text in self.blocking):
            raise unfit("blocking", self.blocking, "at least one SQL expression")
        object.__setattr__(self, "comparisons", _checked_comparisons(self.comparisons))
        # With a threshold of zero every pair of a block would be the same.
        _check_above_zero("threshold", self.threshold, most=1.0)
        if self.review is not None:
            _check_above_zero("review", self.review, most=1.0)
            if self.review >= self.threshold:
                raise unfit("review", self.review, f"lower than the threshold {self.threshold:g}")
        check_whole("max_block_rows", self.max_block_rows, least=2, most=_MOST_BLOCK_ROWS)
        check_choice("on_large_block", self.on_large_block, get_args(OnLargeBlock))

    @property
    def floor(self) -> float:
        """The score from which on pairs are shown."""
        return self.threshold if self.review is None else self.review


@record
class Overrule:
    """What people decided about two records; it counts more than any score.

    Raises:
        UsageError: it names no two records, or another decision than ``same`` and ``different``.
    """

    left: str
    right: str
    decision: Verdict

    def __post_init__(self) -> None:
        check_text("left", self.left)
        check_text("right", self.right)
        check_choice("decision", self.decision, get_args(Verdict))
        if self.left == self.right:
            raise unfit("right", self.right, "a record other than the left one")


@record
class ResolveCounts:
    """How much there was of everything.

    Args:
        records: the records.
        blocks: values of blocking expressions that at least two records share.
        skipped_blocks: those of them that were too large to be compared.
        skipped_pairs: the pairs in them, each as often as it is in one. Another block may have compared some.
        compared: the pairs that were compared, each once.
        same: pairs of the threshold and above that are joined.
        review: pairs below it that are to be looked at.
        same_by_overrule: pairs that people joined.
        different_by_overrule: pairs that people separated.
        cut_by_overrule: pairs of the threshold and above that are apart because of what people decided about others.
        unknown_overrules: decisions about records that are not there; they have no effect.
        entities: the entities.
        retired: earlier canonical ids that no entity has any more.
    """

    records: int
    blocks: int
    skipped_blocks: int
    skipped_pairs: int
    compared: int
    same: int
    review: int
    same_by_overrule: int
    different_by_overrule: int
    cut_by_overrule: int
    unknown_overrules: int
    entities: int
    retired: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever reads the result should know."""
        found = []
        if self.skipped_blocks:
            found.append(
                f"{self.skipped_blocks:,} blocks were too large and skipped, with {self.skipped_pairs:,} pairs"
            )
        if self.unknown_overrules:
            found.append(f"{self.unknown_overrules:,} decisions name records that do not exist")
        return tuple(found)


def _check_above_zero(what: str, value: object, *, most: float | None = None) -> None:
    if most is None:
        check_number(what, value)
    else:
        check_number(what, value, most=most)
    if not value:
        raise unfit(what, value, "a number above zero" + ("" if most is None else f" and up to {most:g}"))


def _checked_comparisons(given: object) -> tuple[Comparison, ...]:
    if isinstance(given, Comparison) or not isinstance(given, Iterable):
        raise unfit("comparisons", given, "several comparisons")
    found = tuple(given)
    for one in found:
        check_instance("comparisons", one, Comparison, optional=False)
    if not found:
        raise unfit("comparisons", found, "at least one comparison")
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        details = BadValue(what="comparisons", value=twice, expected="another name for each")
        raise UsageError(f"two comparisons have the name '{twice}'", details=details, hint="name one of them")
    return found
