"""What travels through Spark comes back as it was, and what cannot run there is turned away before Spark is touched."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.errors import SparkUnsupportedError
from omnigraph.spark.queries import frame, query
from omnigraph.spark.queries.reading import Sizes
from omnigraph.spark.queries.tasks.wire import decode, encode, spark_column_type, wire_schema

VECTOR = pa.list_(pa.field("item", pa.float32(), nullable=True), 2)
FAR_MS = 300_000_000_000_000
COLUMNS = {
    "text": pa.array(["é", None, ""], pa.string()),
    "u32": pa.array([4_294_967_295, None, 0], pa.uint32()),
    "u64": pa.array([18_446_744_073_709_551_615, None, 0], pa.uint64()),
    "f32": pa.array([0.1, None, -0.0], pa.float32()),
    "day": pa.array([-800_000, None, 19_000], pa.int32()).view(pa.date32()),
    "instant": pa.array([FAR_MS, None, -1], pa.int64()).view(pa.date64()),
    "vector": pa.array([[1.0, 2.5], None, [0.0, -1.0]], VECTOR),
    "many": pa.array([[18_446_744_073_709_551_615, None], None, []], pa.list_(pa.field("item", pa.uint64()))),
    "days": pa.array([[dt.date(2024, 2, 29)], [], None], pa.list_(pa.field("item", pa.date32()))),
}
SCHEMA = """
node Doc { slug: String @key  title: String @index  vec: Vector(2)? }
edge Cites: Doc -> Doc
"""
SEARCHES = {
    "nearest": "match { $d: Doc } return { $d.slug } order { nearest($d.vec, [1.0, 0.0]) } limit 1",
    "bm25": 'match { $d: Doc } return { $d.slug } order { bm25($d.title, "x") } limit 1',
    "rrf": "match { $d: Doc } return { $d.slug }"
    ' order { rrf(nearest($d.vec, [1.0, 0.0]), bm25($d.title, "x")) } limit 1',
    "fuzzy": 'match { $d: Doc  not { $d cites $e  fuzzy($e.title, "x") } } return { $d.slug }',
    "search": 'match { $d: Doc  search($d.title, "x") } return { count($d) as n }',
}
# Wherever the second edition lets a construct stand.
HIDDEN = {
    "path": "match { $d: Doc  path $w: $d cites{1,3} $e } return { length($w) as n }",
    "path in optional": "match { $d: Doc  optional { path all $w: $d cites $e } } return { nodes($w) as n }",
    "path in a later stage": "match { $d: Doc } with { $d } match { path $w: $d cites $e } return { $w }",
    "search in a block": 'match { $d: Doc  count { $d cites $e  search($e.title, "x") } > 1 } return { $d.slug }',
    "search in or": 'match { $d: Doc  search($d.title, "x") or $d.slug = "a" } return { $d.slug }',
    "search in return": 'match { $d: Doc } return { $d.slug, search($d.title, "x") as found, 1 + 1 as two }',
    "search in an aggregate": 'match { $d: Doc } return { count($d where search($d.title, "x")) as n }',
    "nearest in a stage": """match { $d: Doc } with { $d } order { nearest($d.vec, [1.0, 0.0]) } limit 1
        match { $d cites $e } return { $e.slug }""",
    "bm25 in a union": """match { $d: Doc } return { $d.slug as s }
        union match { $d: Doc } with { $d } order { bm25($d.title, "x") } limit 1 return { $d.slug as s }""",
    "rrf of computed rows": """match { $d: Doc } return { upper($d.slug) as s }
        order { rrf(bm25($d.slug, "x"), bm25($d.title, "x")) } limit 1""",
    "fuzzy in a union": """match { $d: Doc } return { $d.slug as s }
        union match { $d: Doc  fuzzy($d.title, "x") } return { $d.slug as s }""",
    "match_text in optional": """match { $d: Doc  optional { $d cites $e  match_text($e.title, "x") } }
        return { $d.slug, $e.slug as cited }""",
}


def test_values_of_every_type_come_back_as_they_were():
    rows = pa.table(COLUMNS)
    sent = encode(rows.slice(1))
    assert sent.schema == wire_schema(rows.schema)
    assert decode(sent, rows.schema).equals(rows.slice(1))
    assert decode(encode(rows), rows.schema).equals(rows)


def test_types_for_spark_hold_every_value():
    assert spark_column_type(pa.uint64()) == pa.decimal128(20, 0)
    assert spark_column_type(VECTOR) == pa.list_(pa.field("element", pa.float32()))
    largest = COLUMNS["u64"].cast(spark_column_type(pa.uint64())).to_pylist()[0]
    assert int(largest) == 18_446_744_073_709_551_615
    assert COLUMNS["instant"].cast(spark_column_type(pa.date64())).cast(pa.int64()).to_pylist()[0] == FAR_MS * 1000


@pytest.mark.parametrize("function", SEARCHES)
def test_search_is_refused_by_name_before_spark_is_touched(function, tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    with open_session(tmp_path / "graph") as session:
        for run in (query, frame):
            with pytest.raises(SparkUnsupportedError, match=f"^{function} does not run on Spark") as refused:
                run(session, f"query q() {{ {SEARCHES[function]} }}", spark=_Untouchable())
    assert refused.value.details.value == function
    assert refused.value.hint == "use the local engine"


@pytest.mark.parametrize("place", HIDDEN)
def test_construct_is_refused_by_name_wherever_it_stands(place, tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    construct = place.split()[0]
    with open_session(tmp_path / "graph") as session:
        for run in (query, frame):
            with pytest.raises(SparkUnsupportedError, match=f"^{construct} does not run on Spark") as refused:
                run(session, f"query q() {{ {HIDDEN[place]} }}", spark=_Untouchable())
    assert refused.value.details.value == construct
    assert refused.value.hint == "use the local engine"


def test_only_a_known_bound_lets_a_worker_hold_a_side_of_a_join():
    sizes = Sizes(broadcast_rows=100)
    unknown = float("inf")
    assert sizes.build(unknown, 5, 100) == "broadcast_right"
    assert sizes.build(1, 1, 10_000) == "broadcast_left"
    assert sizes.build(unknown, 5, 10_000) == "hash_left"
    assert sizes.build(1, 1, 10_000, "anti") == "hash_right"
    assert sizes.build(unknown, 1e9, 1e9) == "merge"


def test_importing_the_data_plane_loads_no_spark():
    code = "import sys, omnigraph.spark; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class _Untouchable:
    """Stands where a session would: nothing of it may be asked."""

    def __getattr__(self, name):
        msg = f"spark was asked for {name}"
        raise AssertionError(msg)
