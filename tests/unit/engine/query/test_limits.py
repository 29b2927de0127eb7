"""Limits of a read: memory, time, rows, and being told to stop. The process stays healthy after each of them."""

from __future__ import annotations

import json
import threading
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from tests.session_graph import create_graph, open_session
from tests.unit.engine.query.graphs import SCHEMA, open_ring

from omnigraph.engine.columns import taken_bytes
from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import QueryCancelledError, QueryMemoryError, QueryRowLimitError, QueryTimeoutError, UsageError
from omnigraph.runtime import Runtime, memory_bytes
from omnigraph.runtime.environment import ManualClock

COUNT = 400
PAIRS = "query q() { match { $a: Person  $b: Person } return { $a.name, $b.name } }"
TRIPLES = "query q() { match { $a: Person  $b: Person  $c: Person  $a.age < $b.age } return { count($c.age) as n } }"
HEALTHY = 'query q() { match { $p: Person { name: "p7" }  $p knows $f } return { $f.name } order { $f.name } }'


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with open_ring(tmp_path_factory.mktemp("limits") / "graph", COUNT) as opened:
        yield opened


def assert_healthy(session):
    assert [row["f.name"] for row in session.query(HEALTHY).rows()] == ["p8", "p9"]


def test_a_read_that_needs_more_memory_than_allowed_is_refused(session):
    with pytest.raises(QueryMemoryError) as caught:
        session.query(PAIRS, options=QueryOptions(memory_bytes=100_000))
    assert caught.value.details.limit == 100_000
    assert caught.value.details.actual > 100_000
    assert_healthy(session)


def test_a_read_that_streams_within_its_memory_is_answered(session):
    # 64 million rows pass by, but never more than a few hundred thousand at once.
    body = "query q() { match { $a: Person  $b: Person  $c: Person } return { count($c.age) as n } }"
    found = session.query(body, options=QueryOptions(memory_bytes=64 << 20)).rows()
    assert found == [{"n": COUNT**3}]


def test_more_rows_than_allowed_are_refused_and_as_many_are_not(session):
    body = "query q() { match { $p: Person } return { $p.name } }"
    assert len(session.query(body, options=QueryOptions(max_rows=COUNT))) == COUNT
    with pytest.raises(QueryRowLimitError) as caught:
        session.query(body, options=QueryOptions(max_rows=COUNT - 1))
    assert caught.value.details.limit == COUNT - 1
    assert_healthy(session)


def test_a_read_that_takes_too_long_is_stopped(tmp_path):
    runtime = Runtime.seeded(1)
    with open_ring(tmp_path / "graph", 20, runtime=runtime) as session:
        original = runtime.clock.monotonic_s
        ticks = iter(range(1_000_000))
        # Every look at the clock finds it a second later.
        runtime.clock.monotonic_s = lambda: original() + next(ticks)
        with pytest.raises(QueryTimeoutError) as caught:
            session.query(TRIPLES, options=QueryOptions(timeout_ms=1500))
        assert caught.value.details.limit == 1500
        assert_healthy(session)


def test_a_read_can_be_cancelled_from_another_thread(session):
    cancel = threading.Event()
    reached, failures = threading.Event(), []

    class Watched(threading.Event):
        def is_set(self):
            reached.set()
            return cancel.wait(300)

    def run():
        try:
            session.query(TRIPLES, options=QueryOptions(cancel=Watched()))
        except QueryCancelledError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(300)
    cancel.set()
    thread.join(300)
    assert [error.code for error in failures] == ["query.cancelled"]
    assert_healthy(session)


@pytest.mark.parametrize(
    "options",
    [{"mode": "fast"}, {"memory_bytes": -1}, {"timeout_ms": 1.5}, {"max_rows": True}],
    ids=lambda options: next(iter(options)),
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError):
        QueryOptions(**options)


def test_a_streamed_read_hands_rows_out_before_it_has_all_of_them(session):
    # All pairs at once would not fit; one batch after the other does.
    options = QueryOptions(streams=True, memory_bytes=24 << 20)
    result = session.query(PAIRS, options=options)
    counted = sum(batch.num_rows for batch in result.stream())
    assert counted == COUNT**2
    with pytest.raises(QueryMemoryError):
        session.query(PAIRS, options=QueryOptions(memory_bytes=2 << 20))


def test_a_streamed_read_fails_where_its_rows_are_drawn(session):
    cancel = threading.Event()
    result = session.query(PAIRS, options=QueryOptions(streams=True, cancel=cancel))
    drawn = result.stream()
    next(drawn)
    cancel.set()
    with pytest.raises(QueryCancelledError):
        list(drawn)
    assert_healthy(session)


def product(variables, returned="$v0.name"):
    """Every combination of so many persons: the rows double with each when there are two."""
    names = "  ".join(f"$v{number}: Person" for number in range(variables))
    return f"query q() {{ match {{ {names} }} return {{ {returned} }} }}"


def test_rows_that_wait_between_steps_count_together(tmp_path):
    # One frame fits, the frames that all steps have in hand at the same time do not.
    limit, slack = 128 << 20, 64 << 20
    with open_ring(tmp_path / "graph", 2) as session:
        tracemalloc.start()
        try:
            with pytest.raises(QueryMemoryError) as caught:
                session.query(product(40), options=QueryOptions(memory_bytes=limit))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert caught.value.details.limit == limit
        assert peak <= limit + slack


def test_long_texts_that_many_rows_repeat_are_refused_before_they_are_copied(tmp_path):
    people = [{"type": "Person", "data": {"name": f"p{at}", "bio": str(at) * (1 << 20)}} for at in range(2)]
    create_graph(tmp_path / "graph", SCHEMA, "\n".join(map(json.dumps, people)))
    with open_session(tmp_path / "graph") as session:
        before = pa.total_allocated_bytes()
        with pytest.raises(QueryMemoryError) as caught:
            session.query(product(16, "$v0.bio"), options=QueryOptions(memory_bytes=256 << 20))
        assert caught.value.details.actual > 1 << 30
        assert pa.total_allocated_bytes() - before < 64 << 20
        # Not even a machine that has the memory can hold them as one column.
        with pytest.raises(QueryMemoryError, match="a column needs"):
            session.query(product(16, "$v0.bio"), options=QueryOptions(memory_bytes=1 << 50))


def test_what_taking_rows_costs_is_known_before(session):
    places = np.array([1, 1, 2, 0])
    for column in (
        pa.array(["a", "bcd", None]),
        pa.array(["x", "a", "bcd", None])[1:],
        pa.array([1, 2, 3], pa.int32()),
        pa.array([[1], [2, 3], []], pa.list_(pa.int64())),
        pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
    ):
        taken = column.take(pa.array(places))
        assert taken.nbytes - 8 <= taken_bytes(column, places) <= taken.nbytes + 8
    assert taken_bytes(pa.array([], pa.string()), np.zeros(0, dtype=np.int64)) == 0


def test_columns_that_frames_share_count_once_and_for_as_long_as_one_of_them_is_kept():
    limits = Limits(QueryOptions(memory_bytes=100), ManualClock())
    first = Frame(length=5, ids={"a": np.zeros(5, dtype=np.int64)})
    second = first.binding({"b": np.zeros(5, dtype=np.int64)})
    limits.keep(first)
    limits.keep(second)
    limits.drop(first)
    limits.check(20)
    with pytest.raises(QueryMemoryError):
        limits.check(21)
    limits.drop(second)
    limits.check(100)
    assert limits.peak_bytes == 100


def test_a_frame_counts_until_the_next_one_is_there_and_the_last_one_until_the_end():
    limits = Limits(QueryOptions(memory_bytes=1000), ManualClock())
    frames = [Frame(length=size, ids={"a": np.zeros(size, dtype=np.int64)}) for size in (10, 20)]
    drawn = limits.holding(iter(frames))
    next(drawn)
    limits.check(1000 - 80)
    next(drawn)
    with pytest.raises(QueryMemoryError):
        limits.check(1000 - 80)
    limits.check(1000 - 160)
    drawn.close()
    limits.check(1000)


def test_a_read_without_a_limit_gets_a_share_of_the_machine(session, monkeypatch):
    assert QueryOptions().most_memory_bytes == memory_bytes() // 4
    monkeypatch.setenv("OMNIGRAPH_QUERY_MEMORY", "1.5M")
    assert QueryOptions().most_memory_bytes == 3 << 19
    assert QueryOptions(memory_bytes=7).most_memory_bytes == 7
    with pytest.raises(QueryMemoryError) as caught:
        session.query(PAIRS)
    assert caught.value.details.limit == 3 << 19
    monkeypatch.setenv("OMNIGRAPH_QUERY_MEMORY", "plenty")
    with pytest.raises(UsageError):
        session.query(PAIRS)
