"""Change logs and feeds written with the data source, task by task and commit by commit, without Spark around them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.session_graph import create_graph, open_session, read_graph

import omnigraph
from omnigraph.catalog import Catalog
from omnigraph.errors import BadRowsError, ConstraintViolationError, UsageError
from omnigraph.history.feed.rows import ChangeRow, change_batches, change_columns
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.types import plain_schema, spark_schema, to_wire, wire_schema
from omnigraph.spark.source.writer import WritePlan, publish, stage_rows, stream_mark

SCHEMA = """
node Person { name: String @key  mail: String?  big: U64?  born: DateTime?  day: Date?  @unique(mail) }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture
def target(tmp_path):
    create_graph(tmp_path / "copy", SCHEMA, "")
    return tmp_path / "copy"


@pytest.fixture
def source(tmp_path):
    """A graph in which a mail moves from one person to another and back, and people with edges go."""
    with omnigraph.init(tmp_path / "source", SCHEMA) as graph:

        def person(name, op="upsert", **data):
            return {"type": "Person", "_op": op, "data": {"name": name, **data}}

        def commit(*rows):
            (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            graph.load(tmp_path / "log.jsonl", "apply")

        edge = {"edge": "Knows", "from": "p1", "to": "p3", "data": {"id": "e1", "since": 1}}
        first = person("p1", mail="a", born="2020-01-01T00:00:00.001Z", day="2020-02-01")
        commit(first, person("p3", big=1 << 63), edge)
        commit(person("p2", mail="b"))
        commit(person("p2", mail="c"), person("p1", mail="b", big=(1 << 64) - 1))
        commit(person("p2", mail="a"), person("p3", "delete"))
        yield graph


def begin(root, columns, **options):
    parsed = SourceOptions.parse({"graph": str(root), "mode": "apply", **options})
    return WritePlan.begin(parsed, columns, overwrite=False)


def rows_of(root):
    with open_session(root) as session:
        return read_graph(session)


def changes_of(graph, owner):
    """Return the changes of a feed as the change stream gives them: their Arrow columns, and batches of one row."""
    blocks = [
        (batch.begin.sequence + 1 + at, block)
        for batch in graph.feed("beginning")
        for at, block in enumerate(batch.blocks)
    ]
    rows = [
        ChangeRow.of(change, block.cause.commit, sequence)
        for sequence, block in blocks
        for change in block.changes
        if owner is None or change.type.name == owner.name
    ]
    kinds = spark_schema(change_columns(owner))
    batches = [to_wire(batch, wire_schema(kinds)) for row in rows for batch in change_batches([row], owner)]
    return plain_schema(kinds), batches


def catalog_of(root) -> Catalog:
    with open_session(root) as session:
        return session.catalog()


def test_a_feed_of_one_type_keeps_a_copy_although_rows_changed_twice(source, target, tmp_path):
    columns, batches = changes_of(source, catalog_of(target).nodes["Person"])
    plan = begin(target, columns, type="Person")
    # In no order, from partitions that know nothing of each other.
    publish(plan, [stage_rows(plan, number, iter([batch])) for number, batch in enumerate(reversed(batches))])
    assert rows_of(target)["node:Person"] == rows_of(tmp_path / "source")["node:Person"]
    assert set(rows_of(target)["node:Person"]) == {"p1", "p2"}


def test_a_feed_of_all_types_replicates_the_graph_batch_by_batch(source, target, tmp_path):
    columns, batches = changes_of(source, None)
    for number, batch in enumerate([batches[:4], batches[4:], batches[4:]]):
        plan = begin(target, columns, app="copy")
        mark = stream_mark(plan, min(number, 1), None, None)
        publish(plan, [stage_rows(plan, 0, iter(batch))], mark)
    assert rows_of(target) == rows_of(tmp_path / "source")
    with pytest.raises(UsageError, match="changes of all types are applied to all types"):
        begin(target, columns, type="Person")


def test_rows_with_operation_and_sequence_and_what_becomes_of_edges(target):
    people = StructType(
        [StructField(name, StringType()) for name in ("name", "mail", "_op")] + [StructField("_seq", LongType())]
    )

    def apply(*rows, **options):
        plan = begin(target, plain_schema(people), type="Person", **options)
        batches = pa.Table.from_pylist(list(rows), schema=wire_schema(people)).to_batches()
        publish(plan, [stage_rows(plan, 0, iter(batches))])

    apply(
        {"name": "a", "mail": "1", "_seq": 2},
        {"name": "a", "mail": "0", "_seq": 1},
        {"name": "b", "_op": "patch", "_seq": 1},
    )
    assert {name: row["mail"] for name, row in rows_of(target)["node:Person"].items()} == {"a": "1", "b": None}
    ends = StructType([StructField(name, StringType()) for name in ("from", "to", "id")])
    plan = begin(target, plain_schema(ends), type="Knows")
    edges = pa.table({"from": ["a"], "to": ["b"], "id": ["e"]}, schema=wire_schema(ends)).to_batches()
    publish(plan, [stage_rows(plan, 0, iter(edges))])
    with pytest.raises(ConstraintViolationError):
        apply({"name": "b", "_op": "delete"}, on_delete="refuse")
    apply({"name": "b", "_op": "delete"})
    assert (list(rows_of(target)["node:Person"]), rows_of(target)["edge:Knows"]) == (["a"], {})
    with pytest.raises(BadRowsError, match="must be upsert, patch or delete"):
        apply({"name": "b", "_op": "remove"})
    with pytest.raises(UsageError):
        begin(target, plain_schema(people), type="Person", on_delete="never")
