"""How fast graph algorithms are on a graph of two million edges, beside igraph and networkx on the same edges.

Each algorithm runs in a process of its own: first with nothing in memory, then on the arrays that the open graph keeps.
The others get the edges ready made. It never fails because of a figure: that depends on the machine.

Usage: python bench/algorithms.py [--size S|M|XS] [--rounds N] [--networkx] [--only NAME …] [--data DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import merges
from bench.generate import SIZES

import omnigraph
from omnigraph.engine.algorithms import ALGORITHMS

# Exact betweenness of so many nodes takes hours in every engine.
GIVEN = {
    "betweenness": {"samples": 16},
    "shortest_paths": {"sources": ["per-0"]},
    "fast_rp": {"dimension": 64},
    "node_similarity": {"top": 10},
}
# What is measured beside an algorithm's plain form.
EXTRA = {
    "pagerank, weighted": ("pagerank", {"weight": "weight"}),
    "shortest_paths, weighted": ("shortest_paths", {"sources": ["per-0"], "weight": "weight"}),
}
CASES = {name: (name, GIVEN.get(name, {})) for name in ALGORITHMS} | EXTRA


def measure(root: Path, case: str, rounds: int) -> dict[str, float]:
    """Return the seconds of one algorithm, cold and warm, and the peak of memory in MB."""
    name, params = CASES[case]
    with omnigraph.open(root, mode="read_only") as graph:
        graph.query("query q() { match { $p: Person } return { count($p) } }")
        before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started = time.perf_counter()
        found = graph.algorithms.run(name, "Knows", params)
        cold = time.perf_counter() - started
        warm = []
        for _ in range(rounds):
            started = time.perf_counter()
            graph.algorithms.run(name, "Knows", params)
            warm.append(time.perf_counter() - started)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "cold": cold,
            "warm": statistics.median(warm),
            "added_mb": peak_mb - before_mb,
            "rows": found.num_rows,
        }


def raw(root: Path, rounds: int, *, with_networkx: bool) -> dict[str, dict[str, float]]:
    """Return the seconds of igraph and networkx for what they have, on edges that are in memory."""
    import igraph  # noqa: PLC0415 - only for this comparison
    import networkx as nx  # noqa: PLC0415 - see above

    from omnigraph.engine.algorithms.run import AlgorithmCall, AlgorithmState, project  # noqa: PLC0415 - see above
    from omnigraph.engine.query.limits import Limits  # noqa: PLC0415 - see above

    with omnigraph.open(root, mode="read_only") as graph:
        engine = graph.backend.engine
        pinned = engine.reads.pin("main", None, "current")
        state = AlgorithmState(tables=pinned.tables, catalog=pinned.catalog, memory=pinned.memory)
        call = AlgorithmCall.of("pagerank", "Knows", {"weight": "weight"})
        limits = Limits(call.options, engine.runtime.clock)
        edges = project(state, call.edge_types(pinned.catalog), "weight", "not negative", limits)
    pairs = np.column_stack([edges.sources, edges.targets])
    directed = igraph.Graph(n=edges.node_count, edges=pairs, directed=True)
    simple = igraph.Graph(n=edges.node_count, edges=np.column_stack(_pair_arrays(edges)))
    weights = edges.weights.tolist()
    theirs = {
        "igraph": {
            "degree": directed.degree,
            "pagerank": directed.pagerank,
            "pagerank, weighted": lambda: directed.pagerank(weights=weights),
            "connected_components": lambda: directed.connected_components(mode="weak"),
            "strongly_connected_components": lambda: directed.connected_components(mode="strong"),
            "k_core": simple.coreness,
            "label_propagation": simple.community_label_propagation,
            "louvain": simple.community_multilevel,
            "clustering_coefficient": lambda: simple.transitivity_local_undirected(mode="zero"),
            "triangle_count": lambda: simple.transitivity_local_undirected(mode="zero"),
            "shortest_paths": lambda: directed.distances(source=[0]),
            "shortest_paths, weighted": lambda: directed.distances(source=[0], weights=weights),
            "betweenness": lambda: directed.betweenness(sources=list(range(16))),
        },
        "networkx": {},
    }
    if with_networkx:
        one, plain = nx.DiGraph(pairs.tolist()), nx.Graph(pairs.tolist())
        plain.remove_edges_from(list(nx.selfloop_edges(plain)))
        theirs["networkx"] = {
            "degree": lambda: dict(one.degree()),
            "pagerank": lambda: nx.pagerank(one),
            "connected_components": lambda: list(nx.weakly_connected_components(one)),
            "strongly_connected_components": lambda: list(nx.strongly_connected_components(one)),
            "k_core": lambda: nx.core_number(plain),
            "label_propagation": lambda: list(nx.community.asyn_lpa_communities(plain, seed=0)),
            "louvain": lambda: nx.community.louvain_communities(plain, seed=0),
            "clustering_coefficient": lambda: nx.clustering(plain),
            "triangle_count": lambda: nx.triangles(plain),
            "shortest_paths": lambda: nx.single_source_shortest_path_length(one, 0),
        }
    found: dict[str, dict[str, float]] = {}
    for engine_name, calls in theirs.items():
        for case, run in calls.items():
            took = []
            for _ in range(rounds if engine_name == "igraph" else 1):
                started = time.perf_counter()
                run()
                took.append(time.perf_counter() - started)
            found.setdefault(case, {})[engine_name] = statistics.median(took)
    return found


def _pair_arrays(edges):
    pairs = edges.pairs()
    return [pairs.first, pairs.second]


def show(ours: dict[str, dict[str, float]], theirs: dict[str, dict[str, float]]) -> Table:
    """Return the figures as a table; a ratio below one means that omnigraph is faster."""
    table = Table(title="graph algorithms, seconds")
    for column in ("algorithm", "rows", "cold", "warm", "added MB", "igraph", "ratio", "networkx", "ratio"):
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for case, one in ours.items():
        cells = [case, f"{one['rows']:,.0f}", f"{one['cold']:.2f}", f"{one['warm']:.3f}", f"{one['added_mb']:.0f}"]
        for engine in ("igraph", "networkx"):
            other = theirs.get(case, {}).get(engine)
            cells += ["-", "-"] if other is None else [f"{other:.3f}", f"{one['warm'] / max(other, 1e-9):.2f} x"]
        table.add_row(*cells)
    return table


def in_process(root: Path, *arguments: str) -> dict:
    """Return what this script prints when it is called for one thing."""
    command = [sys.executable, __file__, "--graph", str(root), *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - this script itself
    return json.loads(finished.stdout.splitlines()[-1])


def main() -> None:
    """Build the graph, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--networkx", action="store_true", help="networkx too: minutes at size M")
    parser.add_argument("--only", nargs="*", choices=sorted(CASES), help="these alone")
    parser.add_argument("--data", type=Path, default=None, metavar="DIR", help="keep the graph here between runs")
    parser.add_argument("--graph", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.graph is not None:
        if arguments.case is None:
            print(json.dumps(raw(arguments.graph, arguments.rounds, with_networkx=arguments.networkx)))
        else:
            print(json.dumps(measure(arguments.graph, arguments.case, arguments.rounds)))
        return
    console = Console(width=120)
    console.print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    console.print(f"size {arguments.size}: {SIZES[arguments.size].knows:,} edges, {arguments.rounds} rounds")
    rounds = ["--rounds", str(arguments.rounds)]
    with tempfile.TemporaryDirectory() as folder:
        work = arguments.data or Path(folder)
        root = work / f"history-{arguments.size}"
        if not root.exists():
            work.mkdir(parents=True, exist_ok=True)
            merges.build_graph(root, arguments.size)
        chosen = arguments.only or list(CASES)
        ours = {case: in_process(root, "--case", case, *rounds) for case in chosen}
        theirs = in_process(root, *rounds, *(["--networkx"] if arguments.networkx else []))
        console.print(show(ours, theirs))


if __name__ == "__main__":
    main()
