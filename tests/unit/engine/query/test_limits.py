"""Limits of a read: memory, time, rows, and being told to stop. The process stays healthy after each of them."""

from __future__ import annotations

import threading

import pytest
from tests.unit.engine.query.graphs import open_ring

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import (
    QueryCancelledError,
    QueryMemoryError,
    QueryRowLimitError,
    QueryTimeoutError,
    UsageError,
)
from omnigraph.runtime import World

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
    world = World.seeded(1)
    with open_ring(tmp_path / "graph", 20, world=world) as session:
        original = world.clock.monotonic_s
        ticks = iter(range(1_000_000))
        # Every look at the clock finds it a second later.
        world.clock.monotonic_s = lambda: original() + next(ticks)
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
            return cancel.wait(5)

    def run():
        try:
            session.query(TRIPLES, options=QueryOptions(cancel=Watched()))
        except QueryCancelledError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(10)
    cancel.set()
    thread.join(10)
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


def test_the_environment_can_force_a_way_to_walk(monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    assert QueryOptions().expand_mode == "csr"
    assert QueryOptions(mode="indexed").expand_mode == "indexed"
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "sideways")
    with pytest.raises(UsageError):
        _ = QueryOptions().expand_mode


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
