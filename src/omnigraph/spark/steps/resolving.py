"""Records of a step with the id of the entity that each of them means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.spark.resolve import Comparison, Resolution, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CANONICAL = "canonical_id"
_MEMBER = "__og_member"


def with_canonical_ids(
    frame: DataFrame,
    id_column: str,
    *,
    blocking: Sequence[str],
    comparisons: Sequence[tuple[Any, ...]],
    threshold: float,
    review: float | None,
) -> DataFrame:
    """Return records with the column ``canonical_id``: the smallest id of those that mean the same entity.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.spark.resolve.resolve` does.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    resolution = Resolution(
        blocking=tuple(blocking),
        comparisons=tuple(
            Comparison(column=column, method=method, weight=weight) for column, method, weight in comparisons
        ),
        threshold=threshold,
        review=review,
    )
    found = resolve(frame.sparkSession, frame, id_column, resolution)
    members = found.members.select(fn.col("id").alias(_MEMBER), fn.col("canonical").alias(CANONICAL))
    key = fn.col(f"`{id_column}`").cast("string")
    return frame.join(members, key == fn.col(_MEMBER), "left").drop(_MEMBER)
