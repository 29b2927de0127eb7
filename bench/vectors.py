"""Nearest vectors, exact and approximate, beside numpy and bare Lance on the same vectors in one run.

The vectors are generated: points around many centres, as embeddings are, or numbers without any order
(``--spread independent``), which is the hardest case for an index. Every engine answers the same queries in turn; the
median and the least of its times are shown, and which share of the true ten nearest it returned. It never fails: a
figure depends on the machine, and the machine is printed with it.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import omnigraph
from omnigraph import QueryOptions

WIDTH = 128
LIMIT = 10
CENTRES = 2_000
QUERIES = 30
WARM_UP = 3
PIECE = 100_000
SCHEMA = f"node Doc {{ slug: String @key  v: Vector({WIDTH}) @index(ann) }}"
BODY = (
    f"query near($q: Vector({WIDTH})) {{ match {{ $d: Doc }} return {{ $d.slug }} "
    f"order {{ nearest($d.v, $q) }} limit {LIMIT} }}"
)

Vectors = npt.NDArray[np.float32]
Answer = Callable[[Vectors], list[int]]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=100_000)
    asked.add_argument("--spread", choices=("clustered", "independent"), default="clustered")
    asked.add_argument("--probes", type=int, nargs="+", default=[8, 32, 128])
    given = asked.parse_args()
    console = Console(width=110)
    stored, queries = generate(given.rows, given.spread)
    with tempfile.TemporaryDirectory() as folder:
        graph, took = make_graph(Path(folder), stored)
        with graph:
            answers = engines(graph, Path(folder), stored, given.probes)
            times, recalls = measure(answers, queries, truth(stored, queries))
    title = f"{given.rows} x {WIDTH} {given.spread} vectors, top {LIMIT}"
    console.print(table(title, times, recalls))
    console.print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items()))
    console.print(
        f"{platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores, lance {lance.__version__}"
    )


def generate(rows: int, spread: str) -> tuple[Vectors, Vectors]:
    """Return the vectors and the queries, which are spread alike."""
    random = np.random.default_rng(11)
    centres = random.normal(size=(CENTRES, WIDTH)).astype(np.float32)

    def some(count: int) -> Vectors:
        noise = random.normal(size=(count, WIDTH)).astype(np.float32)
        return (
            noise if spread == "independent" else centres[random.integers(0, CENTRES, count)] + np.float32(0.6) * noise
        )

    made = np.empty((rows, WIDTH), dtype=np.float32)
    for start in range(0, rows, PIECE):
        made[start : start + PIECE] = some(len(made[start : start + PIECE]))
    return made, some(QUERIES)


def truth(stored: Vectors, queries: Vectors) -> list[set[int]]:
    """Return the ten nearest of each query, by double precision."""
    found = []
    for query in queries:
        squares = np.concatenate(
            [
                np.einsum("ij,ij->i", away, away)
                for start in range(0, len(stored), PIECE)
                for away in [stored[start : start + PIECE].astype(np.float64) - query]
            ]
        )
        found.append(set(np.argpartition(squares, LIMIT)[:LIMIT].tolist()))
    return found


def make_graph(folder: Path, stored: Vectors) -> tuple[omnigraph.Graph, Mapping[str, float]]:
    """Load the vectors and build their index."""
    rows = pa.table({"slug": [f"d{number:08}" for number in range(len(stored))], "v": column(stored)})
    pq.write_table(rows, folder / "Doc.parquet")
    graph = omnigraph.init(str(folder / "graph"), SCHEMA)
    begun = time.perf_counter()
    graph.load(str(folder / "Doc.parquet"))
    loaded = time.perf_counter()
    graph.optimize()
    return graph, {"load": loaded - begun, "optimize": time.perf_counter() - loaded}


def column(stored: Vectors) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(stored.ravel()), stored.shape[1])


def engines(graph: omnigraph.Graph, folder: Path, stored: Vectors, probes: list[int]) -> dict[str, Answer]:
    """Return what answers a query, by name."""
    norms = np.einsum("ij,ij->i", stored, stored)
    dataset = lance.write_dataset(pa.table({"v": column(stored)}), folder / "bare.lance", enable_stable_row_ids=True)
    indexed = lance.write_dataset(
        pa.table({"v": column(stored)}), folder / "bare_ann.lance", enable_stable_row_ids=True
    )
    partitions = max(1, len(stored) // 4096)
    indexed.create_index("v", "IVF_SQ", metric="L2", num_partitions=partitions)

    def by_numpy(query: Vectors) -> list[int]:
        return np.argpartition(norms - 2 * (stored @ query), LIMIT)[:LIMIT].tolist()

    def by_lance(of: lance.LanceDataset, **how: int) -> Answer:
        def answer(query: Vectors) -> list[int]:
            near = {"column": "v", "q": query, "k": LIMIT, **how}
            return of.to_table(columns=["_rowid", "_distance"], nearest=near)["_rowid"].to_pylist()

        return answer

    def by_graph(options: QueryOptions) -> Answer:
        def answer(query: Vectors) -> list[int]:
            return [int(row["d.slug"][1:]) for row in graph.query(BODY, {"q": query.tolist()}, options=options)]

        return answer

    found = {
        "numpy, exact": by_numpy,
        "lance, exact": by_lance(dataset),
        "omnigraph, exact": by_graph(QueryOptions(nearest="exact")),
    }
    for count in probes:
        found[f"lance, {count} probes"] = by_lance(indexed, nprobes=count, refine_factor=4)
        found[f"omnigraph, {count} probes"] = by_graph(QueryOptions(probes=count))
    return found


def measure(
    answers: Mapping[str, Answer], queries: Vectors, true: list[set[int]]
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Ask every engine every query in turn; return its times in ms and its recall."""
    times: dict[str, list[float]] = {name: [] for name in answers}
    hits = dict.fromkeys(answers, 0)
    for query in queries[:WARM_UP]:
        for answer in answers.values():
            answer(query)
    for query, right in zip(queries, true, strict=True):
        for name, answer in answers.items():
            begun = time.perf_counter()
            found = answer(query)
            times[name].append((time.perf_counter() - begun) * 1000)
            hits[name] += len(right & set(found))
    return times, {name: count / (LIMIT * len(queries)) for name, count in hits.items()}


def table(title: str, times: Mapping[str, list[float]], recalls: Mapping[str, float]) -> Table:
    shown = Table("engine", "median ms", "least ms", "exact / this", f"recall@{LIMIT}", title=title)
    exact = float(np.median(times["omnigraph, exact"]))
    for name, taken in times.items():
        middle = float(np.median(taken))
        shown.add_row(name, f"{middle:.2f}", f"{min(taken):.2f}", f"{exact / middle:.1f}", f"{recalls[name]:.3f}")
    return shown


if __name__ == "__main__":
    main()
