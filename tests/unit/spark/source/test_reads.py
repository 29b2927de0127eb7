"""Queries and types as the data source reads them, planned and read without Spark around it."""

from __future__ import annotations

import json
import pickle

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from tests.session_graph import add_rows, create_graph, open_session

from omnigraph.errors import TypeMissingError, UsageError
from omnigraph.spark.source.datasource import OmnigraphSource
from omnigraph.spark.source.pinning import group_fragments

SCHEMA = "node Person { name: String @key  age: I32?  seen: DateTime? }"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three commits, and so three fragments."""
    root = tmp_path_factory.mktemp("reads") / "g"
    create_graph(root, SCHEMA)
    with open_session(root) as session:
        for start in (0, 4, 8):
            lines = [{"type": "Person", "data": {"name": f"p{at}", "age": at}} for at in range(start, start + 4)]
            add_rows(session, "\n".join(map(json.dumps, lines)))
    return root


def read(root, schema=None, **options):
    """The rows of every partition, as separate processes would read them."""
    source = OmnigraphSource({"graph": str(root), **options})
    schema = schema or source.schema()
    # Spark hands copies to the processes that plan and read.
    reader = _copied(_copied(source).reader(schema))
    return [[row for batch in reader.read(part) for row in batch.to_pylist()] for part in reader.partitions()]


def _copied(item):
    return pickle.loads(pickle.dumps(item))  # noqa: S301 - made a moment ago


def names(parts):
    return [sorted(row["name"] for row in part) for part in parts]


def test_a_type_is_read_in_groups_of_fragments(root):
    assert names(read(root, type="Person", partitions="3")) == [
        ["p0", "p1", "p2", "p3"],
        ["p4", "p5", "p6", "p7"],
        ["p10", "p11", "p8", "p9"],
    ]
    assert len(read(root, type="Person", partitions="1")) == 1
    assert read(root, type="Person", snapshot="main~3") == [[]]


def test_a_schema_chooses_columns_and_must_fit(root):
    wanted = StructType([StructField("age", IntegerType())])
    (rows,) = read(root, wanted, type="Person", partitions="1")
    assert {tuple(row) for row in rows} == {("age",)}
    with pytest.raises(UsageError, match="column 'age string' was not found"):
        read(root, StructType([StructField("age", StringType())]), type="Person")
    with pytest.raises(TypeMissingError, match=r"\[type"):
        read(root, type="Persn")
    with pytest.raises(UsageError, match="option 'query'"):
        read(root, type="Person", query="query q() { match { $p: Person } return { $p } }")
    with pytest.raises(UsageError, match="option 'changes'"):
        OmnigraphSource({"graph": str(root), "type": "Person"}).streamReader(wanted)
    with pytest.raises(UsageError, match="read as a stream"):
        read(root, wanted, changes="true")


def test_a_query_that_is_one_scan_is_read_in_parts_and_any_other_in_one(root):
    text = "query q($n: I32) {{ match {{ $p: Person  $p.age >= $n }} return {{ $p.name as name, $p.age as age }} {} }}"
    parts = read(root, query=text.format(""), params='{"n": 3}', partitions="3")
    assert sorted(name for part in names(parts) for name in part) == sorted(f"p{at}" for at in range(3, 12))
    ordered = read(root, query=text.format("order { $p.age desc } limit 2"), params='{"n": 3}')
    assert [row["name"] for part in ordered for row in part] == ["p11", "p10"]


def test_columns_of_a_query_are_named_without_dots(root):
    text = "query q() {{ match {{ $p: Person }} return {{ $p.name, $p.age as age }} {} }}"
    for end in ("", "order { $p.age } limit 1"):
        assert read(root, query=text.format(end))[0][0].keys() == {"p_name", "age"}
    with pytest.raises(UsageError, match="two columns are named 'p_name'"):
        read(root, query="query q() { match { $p: Person } return { $p.name, $p.age as p_name } }")


def test_groups_of_fragments_are_even_and_not_too_large():
    assert group_fragments([], 4, 10) == []
    assert group_fragments([(0, 100)], 4, 10) == [(0,)]
    sizes = [(number, 10) for number in range(100)]
    assert [len(group) for group in group_fragments(sizes, 4, 1000)] == [25, 25, 25, 25]
    assert max(len(group) for group in group_fragments(sizes, 1, 200)) == 20
