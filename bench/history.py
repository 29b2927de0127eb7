"""How fast history is on a graph of two million edges of which a branch changed a hundred, and on one of many commits.

It never fails because of a figure: that depends on the machine, which is printed with it.

Then a branch that changed very many rows is previewed, merged, compared and reverted, with the memory that takes.

Usage: python bench/history.py [--size S|M|XS] [--rounds N] [--commits N] [--changed N] [--data DIR]
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import big_merges, diffs, lineage, merges
from bench.generate import SIZES


def main() -> None:
    """Build the graph, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="M")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commits", type=int, default=1000, help="length of the long history, 10000 takes minutes")
    parser.add_argument("--changed", type=int, default=2_000_000, help="rows of the large merge; 20000000 needs 30 GB")
    parser.add_argument("--data", type=Path, default=None, metavar="DIR", help="keep the graph here between runs")
    arguments = parser.parse_args()
    console = Console(width=100)
    console.print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    console.print(f"size {arguments.size}: {SIZES[arguments.size].knows:,} edges, {arguments.rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        work = arguments.data or Path(folder)
        root = work / f"history-{arguments.size}"
        if not root.exists():
            work.mkdir(parents=True, exist_ok=True)
            merges.build_graph(root, arguments.size)
        console.print(diffs.show(diffs.measure(root, arguments.rounds)))
        console.print(merges.show(merges.measure(root, arguments.rounds)))
        console.print(lineage.show(lineage.measure(work, arguments.commits, arguments.rounds)))
        console.print(big_merges.measure_in(work, arguments.changed))


if __name__ == "__main__":
    main()
