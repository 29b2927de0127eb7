"""Queries at the endpoint: what a lookup by key and a step along an edge cost in a warm session, and until it is."""

import itertools
from contextlib import contextmanager

import numpy as np
import pytest

from omnigraph.engine.query.options import QueryOptions
from omnigraph.store.location import Storage
from tests.big_graph import add_people, create_empty
from tests.cost.driver import sample
from tests.cost.hops import assert_hops
from tests.query_graph import build_indexes
from tests.session import Session
from tests.session_graph import RELAXED

PEOPLE = 60_000
POINT = "query q($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age } }"
HOP = "query q($name: String) { match { $p: Person { name: $name }  $p knows $f } return { $f.name, $f.age } }"
INSERT = "query add($name: String) { insert Person { name: $name, age: 7 } }"
LINK = 'query link($to: String) { insert Knows { from: "p1", to: $to } }'

WARM_CALLS = 3
# Another writer's commit: the manifest again, the table again, and the rows that are not in memory yet.
AFTER_WRITE_CALLS = 8
# So many lookups may pass before a table of this size is in memory.
COLD_LOOKUPS = 4

CSR = QueryOptions(mode="csr")


@pytest.fixture(scope="module", params=[True, False], ids=["indexed", "unindexed"])
def storage(request, s3_endpoint):
    """A graph in which everybody knows the next two, with or without its indexes."""
    storage = Storage.open(s3_endpoint.fresh_prefix(), s3_endpoint.storage_options)
    create_empty(storage)
    with open_at(storage) as session:
        everybody = np.arange(PEOPLE)
        ends = np.concatenate([(everybody + step) % PEOPLE for step in (1, 2)])
        add_people(session, PEOPLE, np.tile(everybody, 2), ends)
        if request.param:
            build_indexes(session)
    return storage


@pytest.fixture
def session(storage, endpoint):
    with open_at(storage) as opened:
        yield opened


@pytest.fixture
def warm(session):
    for number in range(2 * COLD_LOOKUPS):
        look_up(session, f"p{number * 37}")
    return session


@contextmanager
def open_at(storage):
    with Session.open(storage, settings=RELAXED) as session:
        yield session


def look_up(session, name):
    result = session.query(POINT, {"name": name})
    assert [row["p.name"] for row in result.rows()] == [name]
    return result


def step(session, name, *expected):
    result = session.query(HOP, {"name": name}, options=CSR)
    assert sorted(row["f.name"] for row in result.rows()) == sorted(expected)
    return result


def write_elsewhere(storage, text, **parameters):
    with open_at(storage) as other:
        other.mutate(text, parameters)


def test_a_warm_lookup_by_key_is_within_three_calls(warm, endpoint):
    for number in range(5):
        found = sample(endpoint, lambda chosen=f"p{number * 11 + 5}": look_up(warm, chosen))
        assert found.calls <= WARM_CALLS
        assert found.cost.total_calls == found.calls


def test_a_warm_lookup_of_a_key_that_nobody_has_is_within_three_calls(warm, endpoint):
    found = sample(endpoint, lambda: warm.query(POINT, {"name": "nobody"}))
    assert found.calls <= WARM_CALLS
    assert found.cost.total_calls == found.calls


def test_the_log_shows_the_hops_of_a_warm_lookup(warm, endpoint):
    names = (f"p{number * 13}" for number in itertools.count())
    stages = look_up(warm, next(names)).cost.serial_stages
    assert stages <= WARM_CALLS
    assert_hops(endpoint, lambda: look_up(warm, next(names)), stages, stages=stages)


def test_a_session_is_warm_after_a_few_lookups(session, endpoint):
    found = [sample(endpoint, lambda chosen=f"p{number * 101}": look_up(session, chosen)) for number in range(12)]
    assert [item.cost.total_calls for item in found] == [item.calls for item in found]
    assert max(item.calls for item in found[COLD_LOOKUPS:]) <= WARM_CALLS


def test_the_first_lookup_after_another_writer_rereads_no_more_than_what_changed(warm, storage, endpoint):
    write_elsewhere(storage, INSERT, name="late")
    found = sample(endpoint, lambda: look_up(warm, "p77"))
    assert found.calls <= AFTER_WRITE_CALLS
    assert found.cost.total_calls == found.calls
    assert "table_index" not in {object_class for (_, object_class), _ in found.kinds}
    for name in ("late", "p78", "p79"):
        again = sample(endpoint, lambda chosen=name: look_up(warm, chosen))
        assert again.calls <= WARM_CALLS
        assert again.cost.total_calls == again.calls


def test_a_warm_step_along_an_edge_in_memory_is_within_three_calls_and_builds_nothing(session, endpoint):
    step(session, "p0", "p1", "p2")
    before = session.reads.memory.topology.stats
    for number in (0, 0, 8, 500):
        expected = (f"p{number + 1}", f"p{number + 2}")
        found = sample(endpoint, lambda start=number, ends=expected: step(session, f"p{start}", *ends))
        assert found.calls <= WARM_CALLS
        assert found.cost.total_calls == found.calls
    after = session.reads.memory.topology.stats
    assert before.builds == 1
    assert (after.builds, after.extensions, after.evictions) == (before.builds, before.extensions, before.evictions)


def test_a_step_after_another_writer_extends_the_adjacency_that_is_there(session, storage, endpoint):
    step(session, "p0", "p1", "p2")
    before = session.reads.memory.topology.stats
    write_elsewhere(storage, LINK, to="p9")
    found = sample(endpoint, lambda: step(session, "p1", "p2", "p3", "p9"))
    assert found.calls <= AFTER_WRITE_CALLS
    assert found.cost.total_calls == found.calls
    after = session.reads.memory.topology.stats
    assert (after.builds, after.extensions) == (before.builds, before.extensions + 1)
    again = sample(endpoint, lambda: step(session, "p0", "p1", "p2"))
    assert again.calls <= WARM_CALLS
