"""What algorithms on Spark share: what they find, edges as they are walked, nodes by their names, groups by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.errors import AlgorithmInputError, BadValue
from omnigraph.records import record
from omnigraph.spark.algorithms.reading import SEPARATOR, Frames
from omnigraph.values import unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@record
class FoundFrame:
    """Rows about nodes, by ``key`` and other columns; ``order`` sorts them as the result has them.

    ``hidden`` are columns that only the order needs.
    """

    rows: DataFrame
    order: tuple[tuple[str, bool], ...]
    hidden: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


Iterate = Callable[[Frames, Mapping[str, Any]], FoundFrame]


def walked(graph: Frames, direction: str) -> DataFrame:
    """Return the edges as they are walked; ``both`` has each at both its ends, a loop once."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    back = graph.edges.select(sql.col("target").alias("source"), sql.col("source").alias("target"), "weight")
    if direction == "out":
        return graph.edges
    return back if direction == "in" else graph.edges.unionAll(back.where("source != target"))


def find_key(graph: Frames, what: str, node: object) -> str:
    """Return the key of a node, given as its id, as ``Type:id``, or as a pair of type and id.

    Raises:
        UsageError: it is none of these.
        AlgorithmInputError: there is no such node, or several types have one of that id.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    match node:
        case str():
            wanted = [sql.col("key").endswith(SEPARATOR + node), sql.col("key") == node.replace(":", SEPARATOR, 1)]
        case [str() as type_name, str() as node_id]:
            wanted = [sql.col("key") == type_name + SEPARATOR + node_id]
        case _:
            raise unfit(what, node, "an id, Type:id, or a pair of type and id")
    shown = node if isinstance(node, str) else ":".join(node)
    for condition in reversed(wanted):
        found = sorted(row.key for row in graph.nodes.where(condition).limit(3).collect())
        if len(found) == 1:
            return str(found[0])
        if found:
            owners = " and ".join(key.partition(SEPARATOR)[0] for key in found)
            first = found[0].replace(SEPARATOR, ":")
            details = BadValue(what=what, value=shown, expected="a node of one type")
            raise AlgorithmInputError(
                f"{what} '{shown}' is an id of {owners}", details=details, hint=f"write '{first}'"
            )
    details = BadValue(what=what, value=shown, expected="a node at the ends of these edges")
    raise AlgorithmInputError(f"{what} '{shown}' was not found", details=details)


def in_groups(labels: DataFrame, name: str, warnings: tuple[str, ...] = ()) -> FoundFrame:
    """Return nodes with the number of their group, by its first member, and its size."""
    from pyspark.sql import Window  # noqa: PLC0415 - see above
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    groups = labels.groupBy("label").agg(sql.min("key").alias("first"), sql.count("key").alias("size"))
    # One row for each group passes through one task here.
    number = (sql.row_number().over(Window.orderBy("first")) - 1).cast("long").alias(name)
    rows = labels.join(groups.select("label", number, "size"), "label").select("key", name, "size")
    return FoundFrame(rows=rows, order=((name, True), ("key", True)), warnings=warnings)
