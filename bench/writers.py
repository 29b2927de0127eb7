"""Many writers at once: processes and threads that write for a while, and what each of them saw.

Processes are started once, because loading the libraries takes longer than a measurement. Each opens the graph for one
cell, writes once off the clock, and then begins at the same moment as the others.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Literal

import omnigraph
from omnigraph.errors import OmnigraphError
from omnigraph.txn.settings import TxnSettings

SCHEMA = """
node Person { slug: String @key  name: String?  age: I32? }
node Organisation { slug: String @key  name: String? }
edge WorksAt: Person -> Organisation
"""
INSERT = "query add($slug: String, $age: I32) { insert Person { slug: $slug, age: $age } }"
UPDATE = "query grow($slug: String, $age: I32) { update Person set { age: $age } where slug = $slug }"
# The counters that are printed where the graph has them, with their headings.
COUNTS = {
    "publishes": "versions",
    "commits": "commits",
    "groups": "groups",
    "offers_made": "offered",
    "offers_taken": "taken",
    "offers_published": "published",
    "offers_withdrawn": "withdrawn",
    "rebases": "rebases",
    "turns_waited": "turns",
    "claims_waited": "claims",
}
_ROWS_EACH = 16
_START_S = 0.1

Work = Literal["insert", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a graph is, and how its storage is reached."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    def below(self, name: str) -> Place:
        """Return a place of its own below this one."""
        return Place(uri=f"{self.uri}/{name}", options=self.options)

    def open(self, **options: Any) -> omnigraph.Graph:
        """Open the graph."""
        return omnigraph.open(self.uri, storage_options=self.options or None, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one process does in a cell; ``first`` is the number of the first of its threads among all writers."""

    place: Place
    work: Work
    branch: str
    first: int
    threads: int
    seconds: float
    group_commit: bool | None
    durability: Literal["full", "relaxed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """What one process did: commits and times by thread, errors by code, counters, and its processor time."""

    commits: tuple[int, ...]
    times_ms: tuple[float, ...]
    errors: Counter[str]
    counts: Counter[str]
    processor_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What all writers of a cell did together."""

    seconds: float
    commits: tuple[int, ...]
    times_ms: tuple[float, ...]
    errors: Mapping[str, int]
    counts: Mapping[str, int]
    processor_s: float

    @property
    def rate(self) -> float:
        """Commits per second."""
        return sum(self.commits) / self.seconds

    @property
    def share(self) -> float:
        """How often the slowest of equal writers got through for each time of the quickest."""
        return min(self.commits) / max(*self.commits, 1)

    @property
    def group_size(self) -> float:
        """How many commits a published version held."""
        return self.counts.get("commits", 0) / max(self.counts.get("publishes", 0), 1)

    def percentile(self, part: float) -> float:
        """Return the time of a write, from its call to its answer, that this part of them does not exceed."""
        ordered = sorted(self.times_ms)
        return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a file of a run keeps them."""
        return {
            "commits_per_s": round(self.rate, 2),
            "p50_ms": round(self.percentile(0.5), 2),
            "p99_ms": round(self.percentile(0.99), 2),
            "longest_ms": round(self.percentile(1.0), 2),
            "share": round(self.share, 3),
            "commits": list(self.commits),
            "group_size": round(self.group_size, 2),
            "processor_ms_per_commit": round(self.processor_s * 1000 / max(sum(self.commits), 1), 2),
            "counts": dict(self.counts),
            "errors": dict(self.errors),
        }


def prepare(place: Place, writers: int) -> None:
    """Create a graph with a branch and rows of its own for every writer."""
    with omnigraph.init(place.uri, SCHEMA, storage_options=place.options or None) as graph:
        rows = [{"slug": row_of(writer, number)} for writer in range(writers) for number in range(_ROWS_EACH)]
        graph.load({"Person": rows})
        for writer in range(writers):
            graph.create_branch(branch_of(writer))


def row_of(writer: int, number: int) -> str:
    """Return the key of a row that one writer alone updates."""
    return f"row-{writer}-{number % _ROWS_EACH}"


def branch_of(writer: int) -> str:
    """Return the name of a writer's own branch."""
    return f"writer-{writer}"


class Crew:
    """Processes that write on request."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def run(self, tasks: Sequence[Task]) -> Cell:
        """Let as many processes as there are tasks write at once."""
        pipes = self._pipes[: len(tasks)]
        for pipe, task in zip(pipes, tasks, strict=True):
            pipe.send(task)
        for pipe in pipes:
            pipe.recv()
        start_s = time.monotonic() + _START_S
        for pipe in pipes:
            pipe.send(start_s)
        return _together(tasks[0].seconds, [pipe.recv() for pipe in pipes])


@contextmanager
def crew(count: int) -> Iterator[Crew]:
    """Start processes, all at once, and end them behind the block."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(count):
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        for pipe in pipes:
            pipe.recv()
        yield Crew(pipes)
        for pipe in pipes:
            pipe.send(None)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join()


def serve(pipe: Connection) -> None:
    """Do what is asked until nothing more is, or whoever asks is gone."""
    pipe.send("ready")
    try:
        while (task := pipe.recv()) is not None:
            _serve(pipe, task)
    except EOFError:
        return


def _serve(pipe: Connection, task: Task) -> None:
    options: dict[str, Any] = {} if task.group_commit is None else {"group_commit": task.group_commit}
    with task.place.open(settings=TxnSettings(durability=task.durability), **options) as graph:
        writers = [writer(graph, task, number) for number in range(task.first, task.first + task.threads)]
        writers[0]()
        before, processor_s = counts_of(graph), time.process_time()
        pipe.send("open")
        start_s = pipe.recv()
        found = _in_threads(writers, start_s, start_s + task.seconds)
        pipe.send(
            Did(
                commits=tuple(commits for commits, _, _ in found),
                times_ms=tuple(itertools.chain.from_iterable(times for _, times, _ in found)),
                errors=sum((errors for _, _, errors in found), Counter()),
                counts=Counter(counts_of(graph)) - Counter(before),
                processor_s=time.process_time() - processor_s,
            )
        )


def writer(graph: omnigraph.Graph, task: Task, number: int) -> Callable[[], None]:
    """Return what makes one write of a writer."""
    line = graph if task.branch == "main" else graph.branch(task.branch)
    serials = itertools.count()

    def insert() -> None:
        serial = next(serials)
        line.mutate(INSERT, {"slug": f"new-{os.getpid()}-{number}-{serial}", "age": serial % 90})

    def update() -> None:
        serial = next(serials)
        line.mutate(UPDATE, {"slug": row_of(number, serial), "age": serial % 90})

    return insert if task.work == "insert" else update


def counts_of(graph: omnigraph.Graph) -> dict[str, int]:
    """Return the counters of an open graph."""
    figures = graph.backend.figures()
    return {name: int(figures[name]) for name in COUNTS if name in figures}


_Wrote = tuple[int, list[float], Counter[str]]


def _in_threads(writers: Sequence[Callable[[], None]], start_s: float, end_s: float) -> list[_Wrote]:
    found: list[_Wrote] = []
    threads = [
        threading.Thread(target=lambda write=write: found.append(_write_on(write, start_s, end_s))) for write in writers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(writers), "a writer ended with an error"
    return found


def _write_on(write: Callable[[], None], start_s: float, end_s: float) -> _Wrote:
    commits, times_ms, errors = 0, [], Counter[str]()
    time.sleep(max(start_s - time.monotonic(), 0.0))
    began_s = time.monotonic()
    while began_s < end_s:
        try:
            write()
        except OmnigraphError as error:
            errors[error.code] += 1
            began_s = time.monotonic()
            continue
        ended_s = time.monotonic()
        # A write that was under way at the end counts for how long writes take, but not for how many there were.
        commits += ended_s <= end_s
        times_ms.append((ended_s - began_s) * 1000)
        began_s = ended_s
    return commits, times_ms, errors


def _together(seconds: float, found: Sequence[Did]) -> Cell:
    return Cell(
        seconds=seconds,
        commits=tuple(itertools.chain.from_iterable(did.commits for did in found)),
        times_ms=tuple(itertools.chain.from_iterable(did.times_ms for did in found)),
        errors=sum((did.errors for did in found), Counter()),
        counts=sum((did.counts for did in found), Counter()),
        processor_s=sum(did.processor_s for did in found),
    )
