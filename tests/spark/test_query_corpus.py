"""Reads on real Spark give the rows, the order and the types of the embedded engine."""

from __future__ import annotations

import os
import threading
from collections import Counter
from datetime import date
from functools import partial
from pathlib import Path

import pytest

from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import QueryCancelledError, QueryRowLimitError
from omnigraph.runtime import Runtime, start_thread
from omnigraph.spark.queries import frame, query
from omnigraph.spark.queries.reading import Sizes
from omnigraph.spark.queries.relations import FrameRelations
from omnigraph.spark.queries.run import collect, lower, watched
from tests.arrow_relations import prepared_read
from tests.corpus.cases import read_expectation
from tests.corpus.test_reads import CASES, _parameters, _Sessions, _world_of
from tests.marks import number_of, with_core
from tests.query_oracle.agreement import table_rows

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SEARCHES = ("search(", "match_text(", "fuzzy(", "bm25(", "nearest(", "rrf(")
# One of each kind of join, task and order; all of them run in process, and here in the long run.
CHOSEN = {
    "bindings-15",
    "corners-18",
    "corners-30",
    "negation-04",
    "output-01",
    "output-03",
    "output-08",
    "traversals-14",
}
CORE = {"bindings-15", "negation-04", "traversals-14"}
READS = [
    case
    for case in CASES
    if not any(word in case.sections["query"] for word in SEARCHES) and (LONG or number_of(case) in CHOSEN)
]
NOTHING_LOCAL = Sizes(broadcast_rows=0, local_edges=0)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    made = _Sessions(tmp_path_factory)
    yield made
    for session in made.values():
        session.close()


@pytest.mark.parametrize("case", with_core(READS, CORE, number_of), ids=lambda case: case.id)
def test_read_gives_on_spark_what_it_gives_in_process(case, sessions, spark):
    session, text, params = sessions[_world_of(case), "none"], case.sections["query"], _parameters(case)
    found = query(session, text, params, params_form="strict", spark=spark).to_arrow()
    _assert_same(case, found, session.query(text, params, params_form="strict").to_arrow())


@pytest.mark.parametrize("chosen", ["traversals-15", "traversals-20"])
def test_shuffled_joins_and_walks_by_hop_give_the_same_rows(chosen, sessions, spark):
    (case,) = [case for case in CASES if case.id.startswith(chosen)]
    session, text, params = sessions[_world_of(case), "none"], case.sections["query"], _parameters(case)
    prepared = prepared_read(session, text, params, params_form="strict")
    lowered = lower(FrameRelations(spark=spark), session.store.storage, prepared, 2, sizes=NOTHING_LOCAL)
    _assert_same(case, collect(lowered, prepared), session.query(text, params, params_form="strict").to_arrow())


def test_frame_is_ordered_and_has_the_types_of_spark(sessions, spark):
    text = """query q() {
        match { $p: Person  $p $k:knows $q }
        return { $p.name, $k.since as since, $p.tags as tags, now() as at }
        order { $p.name, since }
        limit 3
    }"""
    shown = frame(sessions["graph", "none"], text, spark=spark)
    kinds = [field.dataType.simpleString() for field in shown.schema]
    assert shown.columns == ["p_name", "since", "tags", "at"]
    assert kinds == ["string", "date", "array<string>", "timestamp"]
    rows = shown.collect()
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert len(rows) == 3
    assert any(isinstance(row[1], date) for row in rows)


def test_frame_counts_nothing_as_one_row_where_spark_drops_all_parts(sessions, spark):
    text = """query q() {
        match { $p: Person { name: "nobody" }  $p knows $q }
        return { count($q) as n, min($q.age) as low }
    }"""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        assert [row.asDict() for row in frame(sessions["graph", "none"], text, spark=spark).collect()] == [
            {"n": 0, "low": None}
        ]
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")


@pytest.mark.core
def test_read_stops_at_its_limits(sessions, spark):
    session, text = sessions["graph", "none"], "query q() { match { $p: Person } return { $p.name } }"
    with pytest.raises(QueryRowLimitError):
        query(session, text, spark=spark, options=QueryOptions(max_rows=2))
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(QueryCancelledError):
        query(session, text, spark=spark, options=QueryOptions(cancel=cancel))


@pytest.mark.core
def test_cancelling_ends_the_job_that_runs(spark, tmp_path):
    cancel, started = threading.Event(), tmp_path / "started"
    options = QueryOptions(cancel=cancel)

    def cancel_once_started():
        while not started.exists():
            cancel.wait(0.01)
        cancel.set()

    watcher = start_thread("test-cancel", cancel_once_started)
    with (
        pytest.raises(QueryCancelledError),
        watched(spark, options, Limits(options, Runtime.system().clock)),
    ):
        spark.range(0, 1, 1, 1).mapInArrow(partial(_start_and_never_end, str(started)), "id long").collect()
    watcher.join()


def _start_and_never_end(started, batches):
    Path(started).touch()
    threading.Event().wait(600)
    yield from batches


def _assert_same(case, found, expected):
    assert found.schema == expected.schema
    if read_expectation(case.sections["expect"]).verdict == "rows":
        assert table_rows(found) == table_rows(expected)
    else:
        assert Counter(map(repr, table_rows(found))) == Counter(map(repr, table_rows(expected)))
