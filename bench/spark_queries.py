"""How fast a read on Spark is: counting two-hop paths as a query beside DataFrames written by hand.

By hand there are two ways: joining the linked pairs with themselves, which is what the query says, and joining how
many pairs end at a node with how many begin there. Both scan the edges with one function of Arrow, as fast as Spark
can be given them, and get the best of the hints. The session of Spark is started and warm.

Usage: python bench/spark_queries.py [--size S|M|XS] [--rounds N] [--data DIR]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.spark_alone import alone, timed
from tests.session import Session

from omnigraph.spark.queries import query
from omnigraph.store.tables.portable import TableTicket, fragment_sizes, read_fragments

TARGET = 1.3
TEXT = "query q() { match { $a: Person  $a knows $b  $b knows $c } return { count($c) as n } }"
HINTS = ("broadcast", "shuffle_hash", "merge")


def measure_two_hops(graph: Session, spark, rounds: int = 3) -> dict[str, float]:
    """Return the best seconds of each way and the ratio that has a target."""
    pairs = _pairs(graph, spark)
    ways: dict[str, Callable[[], int]] = {"query": lambda: query(graph, TEXT, spark=spark).rows()[0]["n"]}
    ways |= {f"joins, {hint}": partial(_joined, pairs, hint) for hint in HINTS}
    ways["degrees"] = partial(_by_degree, pairs)
    counted = {name: way() for name, way in ways.items()}
    if len(set(counted.values())) != 1:
        msg = f"the ways disagree: {counted}"
        raise ValueError(msg)
    seconds = {name: min(timed(way) for _ in range(rounds)) for name, way in ways.items()}
    return {**seconds, "ratio": seconds["query"] / min(seconds[f"joins, {hint}"] for hint in HINTS)}


def _pairs(graph: Session, spark):
    table = graph.snapshot().table("edge:Knows")
    ticket = TableTicket(storage=graph.store.storage, pin=table.pin)
    fragments = [number for number, _ in fragment_sizes(table)]
    numbers = spark.range(0, len(fragments), 1, len(fragments))
    edges = numbers.mapInArrow(partial(_read, ticket, fragments), "src string, dst string")
    return edges.distinct()


def _read(ticket, fragments, batches):
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for found in read_fragments(ticket, [fragments[number]], ["src", "dst"]):
                yield pa.record_batch([found["src"], found["dst"]], names=["src", "dst"])


def _joined(pairs, hint: str) -> int:
    further = pairs.selectExpr("src as dst", "dst as far").hint(hint)
    return pairs.join(further, "dst").count()


def _by_degree(pairs) -> int:
    into = pairs.groupBy("dst").count().withColumnRenamed("count", "i")
    out = pairs.groupBy("src").count().selectExpr("src as dst", "count as o").hint("broadcast")
    return into.join(out, "dst").selectExpr("sum(i * o)").collect()[0][0]


def main() -> None:
    with alone(__doc__, "M") as given:
        found = measure_two_hops(given.graph, given.spark, given.rounds)
    table = Table("two-hop count", "s")
    for name, seconds in found.items():
        if name != "ratio":
            table.add_row(name, f"{seconds:.2f}")
    console = Console(width=140)
    console.print(table)
    console.print(f"query to the best joins by hand: {found['ratio']:.2f} x (target {TARGET} x)")


if __name__ == "__main__":
    main()
