"""Tasks of Spark find in buckets of keys what one process finds in all of them."""

from __future__ import annotations

import pytest

from omnigraph.errors import KeyExistsError, TableMissingError
from omnigraph.spark.rules import Question, RuleSettings, check_change, judge_here
from omnigraph.spark.runner import SparkRunner
from tests.constraint_graph import catalog_of
from tests.written_graph import change_and_written

pytestmark = pytest.mark.core

GRAPH = catalog_of("""
node Person { name: String @key }
node Box { size: I32? }
edge Owns: Person -> Box @card(1..2) { @unique(src, dst) }
""")
STORED = {
    "Person": [{"id": name, "name": name} for name in ("ada", "bob", "cy")],
    "Box": [{"id": f"b{at}", "size": at} for at in range(4)],
    "Owns": [{"id": "o1", "src": "ada", "dst": "b1"}, {"id": "o2", "src": "bob", "dst": "b2"}],
}
# Every rule about edges finds something, and texts hold what SQL and tuples quote.
MERGED = [
    (
        "Owns",
        [
            {"id": "n1", "src": "it's|\\", "dst": "b0"},
            {"id": "o1", "src": "nobody", "dst": "b`9"},
            {"id": "n2", "src": "it's|\\", "dst": "b0"},
            {"id": "n3", "src": "bob", "dst": "b2"},
            {"id": "n4", "src": "bob", "dst": "b3"},
        ],
        {},
    ),
]
BUCKETS = RuleSettings(bucket_rows=1, split_rows=2)


def test_buckets_find_what_one_process_finds_in_its_order(spark, tmp_path):
    _, made = change_and_written(tmp_path, GRAPH, MERGED, STORED)
    expected = judge_here(made, Question(keeps_problems=True, limit=4))
    found = check_change(made, SparkRunner(spark=spark), limit=4, keeps_problems=True, settings=BUCKETS)
    assert found.error == expected.error
    assert {item.rule for item in found.every_problem(made.scratch)} == {"unique", "endpoint", "cardinality"}
    assert list(found.every_problem(made.scratch)) == list(expected.every_problem(made.scratch))


def test_buckets_find_ids_that_exist_and_edges_that_lose_their_nodes(spark, tmp_path):
    _, strict = change_and_written(tmp_path, GRAPH, [("Box", [{"id": "b9"}, {"id": "b2"}], {"strict": True})], STORED)
    taken = check_change(strict, SparkRunner(spark=spark), settings=BUCKETS)
    assert isinstance(taken.error, KeyExistsError)
    assert taken.error == judge_here(strict).error
    dropped = [("Box", [{"id": "b1"}, {"id": "b3"}], {"replaces_all": True, "has_fresh_ids": True})]
    _, made = change_and_written(tmp_path, GRAPH, dropped, STORED)
    orphaned = check_change(made, SparkRunner(spark=spark), settings=BUCKETS)
    assert orphaned.error == judge_here(made).error
    assert [item.entity_id for item in orphaned.error.details.items] == ["o2"]


def test_a_clean_change_tells_which_rows_later_ones_replace(spark, tmp_path):
    rows = [{"id": "n1", "size": 1}, {"id": "n2"}, {"id": "n1", "size": 2}]
    _, made = change_and_written(tmp_path, GRAPH, [("Box", rows, {})], STORED)
    found = check_change(made, SparkRunner(spark=spark), settings=BUCKETS)
    (superseded,) = found.superseded.values()
    kept = [batch["row"].to_pylist() for name in superseded.files for batch in made.scratch.read_arrow(name)]
    assert [made.places.of(row) for rows in kept for row in rows] == [("a.jsonl", 1)]
    made.scratch.clear()
    for settings in (BUCKETS, RuleSettings()):
        with pytest.raises(TableMissingError):
            check_change(made, SparkRunner(spark=spark), settings=settings)
