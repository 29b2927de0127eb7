"""Reads of an agent beside the Python API, in one run: what the Model Context Protocol adds to a query.

A lookup by key, two hops and a result of 1,000 rows, asked by the client of the SDK over standard input and output and
over HTTP, each of a server in a process of its own, and by ``graph.query`` in this process. The three take turns, so
that a busy machine slows all of them. It never fails: a figure depends on the machine, and the machine is printed
with it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.server import HOPS, POINT, make_graph, serving

import omnigraph
from mcp import Client, StdioServerParameters

MANY = "query many($least: I64) { match { $p: Person  $p.age >= $least } return { $p.slug, $p.age } limit 1000 }"
# Rows of a call are bounded for agents; these bounds let 1,000 of them through.
WHOLE = {"max_rows": 1000, "max_bytes": 1 << 20}
FACES = ("Python", "stdio", "HTTP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A read, and the parameters of its n-th call."""

    name: str
    text: str
    params: Callable[[int, int], dict[str, Any]]
    rows: int


CASES = (
    Case(name="lookup", text=POINT, params=lambda n, people: {"slug": f"p{n * 7919 % people}"}, rows=1),
    Case(name="two hops", text=HOPS, params=lambda n, people: {"slug": f"p{n * 7919 % people}"}, rows=1),
    Case(name="1,000 rows", text=MANY, params=lambda n, _: {"least": n % 30}, rows=1000),
)


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--people", type=int, default=20_000, help="nodes of the graph that is asked")
    arguments.add_argument("--calls", type=int, default=300, help="calls of each read over each face")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "g.omni"
        make_graph(place, given.people, Path(folder))
        with omnigraph.open(place, mode="read_only") as graph, serving(place) as address:
            times = anyio.run(measure, graph, place, f"http://{address}/mcp", given)
    Console(width=120).print(show(times))


async def measure(
    graph: omnigraph.Graph, place: Path, url: str, given: argparse.Namespace
) -> dict[tuple[str, str], list[float]]:
    """Return the milliseconds of every call by read and face; the faces take turns, call by call."""
    command = ["-m", "omnigraph", "mcp", str(place), "--read-only"]
    process = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    times: dict[tuple[str, str], list[float]] = {(case.name, face): [] for case in CASES for face in FACES}
    async with Client(process) as stdio, Client(url) as http:
        for case in CASES:
            asks: dict[str, Callable[[dict[str, Any]], Awaitable[int]]] = {
                "Python": lambda params, case=case: here(graph, case, params),
                "stdio": lambda params, case=case: there(stdio, case, params),
                "HTTP": lambda params, case=case: there(http, case, params),
            }
            for number in warm_and(given.calls):
                params = case.params(abs(number), given.people)
                for face, ask in asks.items():
                    began = time.perf_counter()
                    rows = await ask(params)
                    took = time.perf_counter() - began
                    assert rows == case.rows, f"{case.name} over {face} gave {rows} rows"
                    if number >= 0:
                        times[case.name, face].append(took * 1000)
    return times


def warm_and(calls: int, warm: int = 20) -> Iterator[int]:
    """Yield negative numbers for calls that only warm up, and then the others."""
    yield from range(-warm, calls)


async def here(graph: omnigraph.Graph, case: Case, params: dict[str, Any]) -> int:
    """Ask the graph in this process."""
    return len(graph.query(case.text, params).rows())


async def there(client: Client, case: Case, params: dict[str, Any]) -> int:
    """Ask a server."""
    answer = await client.call_tool("query", {"text": case.text, "params": params, **WHOLE})
    if answer.is_error or answer.structured_content is None:
        raise RuntimeError(str(answer.structured_content))
    return len(answer.structured_content["rows"])


def show(times: dict[tuple[str, str], list[float]]) -> Table:
    """Return a table of medians, 95th percentiles and what each face takes for one call of Python."""
    table = Table(title=f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.machine()}")
    table.add_column("read")
    for face in FACES:
        for column in ("p50 ms", "p95 ms", *(() if face == "Python" else ("ratio", "added ms"))):
            table.add_column(f"{face}\n{column}", justify="right")
    for case in CASES:
        plain = statistics.median(times[case.name, "Python"])
        cells: list[str] = []
        for face in FACES:
            ordered = sorted(times[case.name, face])
            middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
            cells += [f"{middle:.2f}", f"{late:.2f}"]
            cells += [] if face == "Python" else [f"{middle / plain:.1f}", f"{middle - plain:.2f}"]
        table.add_row(case.name, *cells)
    return table


if __name__ == "__main__":
    main()
