"""Walks with conditions and without an upper bound, beyond what the corpus of reads asks."""

from __future__ import annotations

import pytest
from tests.unit.engine.query.graphs import open_ring, steps

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import QueryRuntimeError, QueryTypeError, UsageError

COUNT = 100


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with open_ring(tmp_path_factory.mktemp("walks") / "graph", COUNT) as opened:
        yield opened


def names(session, clause, **options):
    body = f'query q() {{ match {{ $p: Person {{ name: "p7" }}  {clause} }} return {{ $q.name as name }} }}'
    return sorted(row["name"] for row in session.query(body, options=QueryOptions(**options)).rows())


@pytest.mark.parametrize("mode", ["indexed", "csr"])
@pytest.mark.parametrize("clause", ["$p knows{1,} $q", "$p $e:knows{1,} $q where $e.since is null", "$q knows{1,} $p"])
def test_a_walk_without_an_upper_bound_ends_where_it_may_and_fails_beyond(session, clause, mode):
    # Everyone is at most 50 hops away: each knows the next two of 100.
    assert len(names(session, clause, mode=mode, max_hops=50)) == COUNT - 1
    with pytest.raises(QueryRuntimeError, match="after 49 hops"):
        names(session, clause, mode=mode, max_hops=49)
    with pytest.raises(QueryRuntimeError, match="after 32 hops"):
        names(session, clause, mode=mode)


def test_a_walk_whose_condition_asks_rows_is_bounded_too(session):
    clause = "$p $e:knows{1,} $q where $e.since is null or $p.age < 0"
    assert len(names(session, clause, max_hops=50)) == COUNT - 1
    with pytest.raises(QueryRuntimeError, match="after 32 hops"):
        names(session, clause)


def test_a_read_may_go_one_hop_at_least():
    with pytest.raises(UsageError, match="max_hops"):
        QueryOptions(max_hops=0)


def test_the_condition_of_a_walk_is_asked_of_the_edges_that_it_comes_to(session):
    assert names(session, "$p $e:knows{1,2} $q where 10 / (length(id($e)) - 5) < 0 and id($e) > $p.name") == []
    # The ids of all edges around p7 have four characters; those of ten and more, which divide by zero, are far away.
    assert names(session, "$p $e:knows{1,2} $q where 10 / (length(id($e)) - 5) < 0 and id($e) < $p.name") == [
        "p10",
        "p11",
        "p8",
        "p9",
    ]
    with pytest.raises(QueryRuntimeError):
        names(session, "$p $e:knows{1,4} $q where 10 / (length(id($e)) - 5) < 0")


def test_a_block_in_the_condition_of_a_walk_asks_the_row(session):
    walk = "$p $e:knows{1,2} $q where exists { $p knows $q  $q.name = "
    assert names(session, f'{walk}"p9" }}') == ["p10", "p11", "p8", "p9"]
    assert names(session, f'{walk}"p1" }}') == []
    with pytest.raises(QueryTypeError, match="cannot use its edge"):
        names(session, "$p $e:knows{1,2} $q where exists { $p $f:knows $r  $f.since = $e.since }")


def test_explain_shows_what_a_walk_uses():
    assert steps("match { $p: Person  $p $e:knows{1,3} $q where $e.since is null  $q knows{2,} $r } return { $r }") == [
        "scan $p: Person",
        "walk $p -$e:Knows{1,3}-> $q: Person over edges with is_null($e.since)",
        "walk $q -Knows{2,}-> $r: Person",
    ]


def test_explain_shows_the_alternatives_of_an_edge():
    read = "match { $p: Person  $p $e:knows|knows $q } return { type($e) }"
    assert steps(read) == ["scan $p: Person", "expand $p -$e:Knows-> $q: Person"]
