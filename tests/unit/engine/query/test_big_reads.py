"""Reads of two million edges: they stay near their memory budget, and Ctrl-C ends them where they are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.big_graph import add_people, create_empty
from tests.marks import first
from tests.session import Session
from tests.session_graph import RELAXED
from tests.unit.engine.query.graphs import open_ring

from omnigraph.store.location import Storage

pytestmark = [pytest.mark.more, pytest.mark.long]

PEOPLE = 100_000
EDGES = 2_000_000
BUDGET_BYTES = 256 << 20
# What the budget does not count: rows on their way between two steps, and what allocators keep for later.
SLACK_BYTES = 224 << 20
# The looks at its limits that an interrupt may find a read at: the first ones, and one in the middle of its work.
INTERRUPTED_AT = (1, 3, 6)
READS = pytest.mark.parametrize(
    ("query", "is_fresh"),
    first(2, [("paths", True), ("list", False), ("reach", False), ("order pairs", False), ("group pairs", False)]),
    ids=["building adjacency", "expanding", "walking", "ordering", "aggregating"],
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("big") / "graph"
    storage = Storage.open(str(path))
    create_empty(storage)
    numbers = np.random.default_rng(5)
    # Some are known by thousands, most by a few.
    targets = (numbers.random(EDGES) ** 3 * PEOPLE).astype(np.int64)
    with Session.open(storage, settings=RELAXED) as session:
        add_people(session, PEOPLE, numbers.integers(0, PEOPLE, EDGES), targets)
    return path


class Reader:
    """A process that reads the graph."""

    def __init__(self, root):
        command = [sys.executable, "-m", "tests.unit.engine.query.reading_child", str(root)]
        place = Path(__file__).parents[4]
        self._process = subprocess.Popen(
            command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, query, **how):
        self._start(query, how)
        return self._answer()

    def interrupt(self, query, look, **how):
        """Send Ctrl-C as soon as the query has looked at its limits so many times; return its answer."""
        self._start(query, {**how, "of_notice": look})
        said = self._answer()
        if said == {"looks": look}:
            os.kill(self._process.pid, signal.SIGINT)
            said = self._answer()
        return said

    def close(self):
        self._process.stdin.close()
        code = self._process.wait(300)
        self._process.stdout.close()
        return code

    def _start(self, query, how):
        self._process.stdin.write(json.dumps({"query": query, **how}) + "\n")
        self._process.stdin.flush()
        assert self._answer() == {"started": True}

    def _answer(self):
        return json.loads(self._process.stdout.readline())


@contextmanager
def reading(root):
    """A process that has the graph in memory."""
    reader = Reader(root)
    try:
        for warm_up in ("paths", "people"):
            assert reader.ask(warm_up)["outcome"] == "finished"
        yield reader
    finally:
        assert reader.close() == 0


@pytest.fixture(scope="module")
def interrupted_reader(root):
    """One process for all interrupts: it has to be as good as new after each."""
    with reading(root) as reader:
        yield reader


@pytest.mark.parametrize("query", first(1, ["list", "order", "group", "reach"]))
def test_a_read_beyond_its_memory_is_refused_before_the_process_grows_much_beyond_it(root, query):
    with reading(root) as reader:
        answer = reader.ask(query, memory_bytes=BUDGET_BYTES)
        assert answer["outcome"] == "query.memory"
        assert answer["growth_bytes"] <= BUDGET_BYTES + SLACK_BYTES
        assert answer["threads_left"] == []
        assert reader.ask("one")["rows"] == 1


def test_hundreds_of_variables_stay_near_the_memory_that_they_may_take(tmp_path):
    # Two persons are in the graph, and every row is one of 2 ** 300 ways to name them.
    open_ring(tmp_path / "graph", 2).close()
    reader = Reader(tmp_path / "graph")
    try:
        reader.ask("one")
        answer = reader.ask("wide", memory_bytes=200 << 20)
        assert answer["outcome"] == "query.memory"
        assert answer["growth_bytes"] <= (200 << 20) + SLACK_BYTES
    finally:
        assert reader.close() == 0


@pytest.mark.parametrize(("query", "rows"), first(1, [("paths", 1), ("first", 5)]))
def test_a_read_that_only_passes_by_forty_million_rows_finishes_within_its_memory(root, query, rows):
    with reading(root) as reader:
        answer = reader.ask(query, memory_bytes=BUDGET_BYTES)
        assert (answer["outcome"], answer["rows"]) == ("finished", rows)
        assert answer["growth_bytes"] <= BUDGET_BYTES


@READS
def test_a_read_does_nothing_more_when_an_interrupt_has_come(interrupted_reader, query, is_fresh):
    for look in INTERRUPTED_AT:
        answer = interrupted_reader.ask(query, is_fresh=is_fresh, of_signal=look)
        # A read that took larger steps would be finished before it has looked so often.
        assert (answer["outcome"], answer["looks"]) == ("interrupted", look)
        assert answer["threads_left"] == []
    assert interrupted_reader.ask("one")["rows"] == 1


@READS
def test_an_interrupt_in_the_middle_of_a_step_leaves_no_thread(interrupted_reader, query, is_fresh):
    for look in INTERRUPTED_AT:
        answer = interrupted_reader.interrupt(query, look, is_fresh=is_fresh)
        # One that came with the last row may find the read finished.
        assert answer["outcome"] in {"interrupted", "finished"}
        assert answer["threads_left"] == []
    assert interrupted_reader.ask("one")["rows"] == 1
