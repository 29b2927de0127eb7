"""A server beside the embedded graph, in one run: requests per second, latencies, streams.

Point query, two hops and one-row insert with 1, 16 and 64 clients over HTTP and with as many threads on an embedded
graph; an Arrow result of many rows; the time from the answer of a write to its event in the change stream. Clients are
threads of this process with a connection each, the server is a process of its own. It never fails: a figure depends on
the machine, and the machine is printed with it.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import omnigraph

SCHEMA = "node Person { slug: String @key  age: I64 }\nedge Knows: Person -> Person"
POINT = "query point($slug: String) { match { $p: Person { slug: $slug } } return { $p.age } }"
HOPS = """
query hops($slug: String) {
  match { $p: Person { slug: $slug } $p knows $q $q knows $r }
  return { count($r) as n }
}
"""
INSERT = "query add($slug: String) { insert Person { slug: $slug, age: 1 } }"
ALL = "query all() { match { $p: Person } return { $p.slug, $p.age } }"
CLIENTS = (1, 16, 64)
LISTENING = "OMNIGRAPH_LISTEN_ADDR="


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What many calls took."""

    per_s: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, times_s: list[float], wall_s: float) -> Figure:
        """Return the figure of single times and the time of all."""
        ordered = sorted(times_s)
        last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return cls(per_s=len(ordered) / wall_s, p50_ms=statistics.median(ordered) * 1000, p99_ms=last * 1000)


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--people", type=int, default=20_000, help="nodes of the graph that is asked")
    arguments.add_argument("--seconds", type=float, default=3.0, help="how long each figure is measured")
    arguments.add_argument("--rows", type=int, default=1_000_000, help="rows of the Arrow result")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "g.omni"
        make_graph(place, given.people, Path(folder))
        rows = measure_embedded(place, given)
        with serving(place) as address:
            served = measure_served(address, given)
            lags = feed_lags(address)
        arrow = arrow_rate(Path(folder), given.rows)
    Console(width=120).print(show(rows, served), f"Arrow result of {given.rows:,} rows: {arrow:.0f} MB/s")
    Console(width=120).print(f"write to event: p50 {statistics.median(lags):.1f} ms, worst {max(lags):.1f} ms")


def make_graph(place: Path, people: int, folder: Path) -> None:
    """Create the graph that is asked: everybody knows four others."""
    file = folder / "people.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        for number in range(people):
            lines.write(json.dumps({"type": "Person", "data": {"slug": f"p{number}", "age": number % 90}}) + "\n")
        for number, step in itertools.product(range(people), (1, 7, 77, 777)):
            ends = {"from": f"p{number}", "to": f"p{(number + step) % people}"}
            lines.write(json.dumps({"edge": "Knows", **ends}) + "\n")
    with omnigraph.init(place, SCHEMA) as graph:
        graph.load(file, mode="append")
        graph.optimize()


_fresh = itertools.count()


def calls(people: int) -> dict[str, Callable[[int], tuple[str, str, dict[str, str]]]]:
    """Return, by name, what the n-th call of a kind asks: the path, the text and its parameters."""
    return {
        "point query": lambda n: ("query", POINT, {"slug": f"p{n * 7919 % people}"}),
        "two hops": lambda n: ("query", HOPS, {"slug": f"p{n * 7919 % people}"}),
        "one-row insert": lambda n: ("mutate", INSERT, {"slug": f"new{n}-{next(_fresh)}"}),
    }


def measure(run: Callable[[int], None], clients: int, seconds: float) -> Figure:
    """Let threads make calls for some seconds."""
    times: list[list[float]] = [[] for _ in range(clients)]
    numbers, begin = itertools.count(), threading.Barrier(clients + 1)

    def work(mine: list[float]) -> None:
        run(next(numbers))
        begin.wait()
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            run(next(numbers))
            mine.append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in times]
    for thread in threads:
        thread.start()
    begin.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return Figure.of([one for mine in times for one in mine], time.perf_counter() - began)


def measure_embedded(place: Path, given: argparse.Namespace) -> dict[tuple[str, int], Figure]:
    """Measure the graph in this process."""
    found = {}
    with omnigraph.open(place, group_commit=True) as graph:
        for name, ask in calls(given.people).items():

            def run(number: int, ask: Callable[[int], tuple[str, str, dict[str, str]]] = ask) -> None:
                path, text, params = ask(number)
                graph.query(text, params).to_arrow() if path == "query" else graph.mutate(text, params)

            for clients in CLIENTS:
                found[name, clients] = measure(run, clients, given.seconds)
    return found


@contextmanager
def serving(place: Path) -> Iterator[str]:
    """Run a server of the graph."""
    command = [sys.executable, "-m", "omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    limits = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "1000", "OMNIGRAPH_INFLIGHT_MAX": "1000", "OMNIGRAPH_LOG": "error"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **limits})  # noqa: S603 - our own command
    try:
        line = "" if process.stdout is None else process.stdout.readline().strip()
        if not line.startswith(LISTENING):
            sys.exit("the server did not start")
        yield line.removeprefix(LISTENING)
    finally:
        process.terminate()
        process.wait()


def measure_served(address: str, given: argparse.Namespace) -> dict[tuple[str, int], Figure]:
    """Measure the graph over HTTP, with a connection for each client."""
    mine = threading.local()

    def post(path: str, text: str, params: dict[str, str]) -> None:
        connection = getattr(mine, "connection", None)
        if connection is None:
            connection = mine.connection = http.client.HTTPConnection(address)
        body = json.dumps({"query": text, "params": params})
        connection.request("POST", f"/graphs/g/{path}", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(content.decode())

    return {
        (name, clients): measure(lambda number, ask=ask: post(*ask(number)), clients, given.seconds)
        for name, ask in calls(given.people).items()
        for clients in CLIENTS
    }


def arrow_rate(folder: Path, rows: int) -> float:
    """Return the megabytes per second of an Arrow result on loopback."""
    place = folder / "big.omni"
    table = pa.table({"slug": [f"person-{number:08}" for number in range(rows)], "age": pa.array(range(rows))})
    pq.write_table(table, folder / "Person.parquet")
    with omnigraph.init(place, SCHEMA) as graph:
        graph.load(folder / "Person.parquet", mode="append")
    rates = []
    with serving(place) as address:
        for _ in range(3):
            connection = http.client.HTTPConnection(address)
            headers = {"Content-Type": "application/json", "Accept": "application/vnd.apache.arrow.stream"}
            began = time.perf_counter()
            connection.request("POST", "/graphs/big/query", json.dumps({"query": ALL}), headers)
            size = len(connection.getresponse().read())
            rates.append(size / 1e6 / (time.perf_counter() - began))
            connection.close()
    return max(rates)


def feed_lags(address: str, count: int = 20) -> list[float]:
    """Return the milliseconds from the answer of a write to its event in the change stream."""
    stream = http.client.HTTPConnection(address)
    stream.request("GET", "/graphs/g/changes/stream", headers={"Accept": "text/event-stream"})
    events = stream.getresponse()
    writes = http.client.HTTPConnection(address)
    lags = []
    for number in range(count):
        slug = f"event{number}-{next(_fresh)}"
        body = json.dumps({"query": INSERT, "params": {"slug": slug}})
        writes.request("POST", "/graphs/g/mutate", body, {"Content-Type": "application/json"})
        writes.getresponse().read()
        answered = time.perf_counter()
        while slug.encode() not in events.readline():
            pass
        lags.append((time.perf_counter() - answered) * 1000)
    for connection in (stream, writes):
        connection.close()
    return lags


def show(embedded: dict[tuple[str, int], Figure], served: dict[tuple[str, int], Figure]) -> Table:
    """Return both beside each other."""
    table = Table(title=f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.machine()}")
    for column in (
        "call",
        "clients",
        "embedded /s",
        "p50 ms",
        "p99 ms",
        "server /s",
        "p50 ms",
        "p99 ms",
        "overhead ms",
    ):
        table.add_column(column, justify="left" if column == "call" else "right")
    for key, here in embedded.items():
        there = served[key]
        figures = (here.per_s, here.p50_ms, here.p99_ms, there.per_s, there.p50_ms, there.p99_ms)
        shown = [f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in figures]
        table.add_row(key[0], str(key[1]), *shown, f"{there.p50_ms - here.p50_ms:.1f}")
    return table


if __name__ == "__main__":
    main()
