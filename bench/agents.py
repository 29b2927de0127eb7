"""What a query costs an agent, as a ratio to the same query of the Python API in the same run.

A lookup by key, two hops and 1,000 rows, asked over standard input and output and over HTTP with the client of the SDK,
in both versions of the protocol. Each figure is the median of calls that follow each other, and so is the Python API
that it is divided by: it opens the same folder in this process. Nothing fails: a figure depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import omnigraph
from mcp import Client, StdioServerParameters

SCHEMA = "node Person { slug: String @key  age: I64 }\nedge Knows: Person -> Person { @key(src, dst) }"
LISTENING = "OMNIGRAPH_LISTEN_ADDR="
POINT = "query point($slug: String) { match { $p: Person { slug: $slug } } return { $p.age } }"
HOPS = """
query hops($slug: String) {
  match { $p: Person { slug: $slug } $p knows $q $q knows $r }
  return { count($r) as n }
}
"""
ROWS = "query rows() { match { $p: Person } return { $p.slug, $p.age } order { $p.slug } limit 1000 }"
CASES: dict[str, tuple[str, dict[str, Any] | None]] = {
    "lookup": (POINT, {"slug": "p7"}),
    "2 hops": (HOPS, {"slug": "p7"}),
    "1,000 rows": (ROWS, None),
}


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--people", type=int, default=20_000, help="nodes of the graph that is asked")
    arguments.add_argument("--calls", type=int, default=200, help="calls of each kind")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "g.omni"
        make_graph(place, given.people)
        python = measure_python(place, given.calls)
        served = asyncio.run(measure_agents(place, given.calls))
    table = Table(title=f"median ms, and times the Python API: {platform.processor() or platform.machine()}")
    for column in ("query", "Python", *served):
        table.add_column(column, justify="left" if column == "query" else "right")
    for name in CASES:
        cells = (f"{found[name] * 1000:.2f} ({found[name] / python[name]:.1f}x)" for found in served.values())
        table.add_row(name, f"{python[name] * 1000:.2f}", *cells)
    Console(width=120).print(table)


def make_graph(place: Path, people: int) -> None:
    with omnigraph.init(place, SCHEMA) as graph:
        nodes = [{"slug": f"p{number}", "age": number % 90} for number in range(people)]
        edges = [
            {"from": f"p{number}", "to": f"p{(number * step + step) % people}"}
            for number in range(people)
            for step in (7, 31, 101)
        ]
        unique = list({(edge["from"], edge["to"]): edge for edge in edges}.values())
        graph.load({"Person": nodes, "Knows": unique})


def median_s(times_s: list[float]) -> float:
    # The first calls open tables and make plans.
    return statistics.median(times_s[len(times_s) // 10 :])


def measure_python(place: Path, calls: int) -> dict[str, float]:
    found = {}
    with omnigraph.open(place, mode="read_only") as graph:
        for name, (text, params) in CASES.items():
            times_s = []
            for _ in range(calls):
                began_s = time.perf_counter()
                assert graph.query(text, params).rows()
                times_s.append(time.perf_counter() - began_s)
            found[name] = median_s(times_s)
    return found


async def measure_agents(place: Path, calls: int) -> dict[str, dict[str, float]]:
    found = {}
    for door, mode in (("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")):
        async with connect(place, door, mode) as agent:
            found[f"{door}, {'new' if mode == 'auto' else 'old'}"] = {
                name: await median_of_calls(agent, text, params, calls) for name, (text, params) in CASES.items()
            }
    return found


async def median_of_calls(agent: Client, text: str, params: dict[str, Any] | None, calls: int) -> float:
    arguments = {"text": text, "params": params, "max_rows": 1000}
    times_s = []
    for _ in range(calls):
        began_s = time.perf_counter()
        answer = await agent.call_tool("query", arguments)
        times_s.append(time.perf_counter() - began_s)
        assert not answer.is_error
        assert not answer.structured_content["has_more"]
    return median_s(times_s)


@asynccontextmanager
async def connect(place: Path, door: str, mode: str) -> AsyncIterator[Client]:
    if door == "stdio":
        arguments = ["-m", "omnigraph", "mcp", str(place), "--read-only"]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments), mode=mode) as agent:
            yield agent
        return
    with serving(place) as address:
        async with Client(f"http://{address}/mcp", mode=mode) as agent:
            yield agent


@contextmanager
def serving(place: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix(LISTENING)
        process.terminate()


if __name__ == "__main__":
    main()
