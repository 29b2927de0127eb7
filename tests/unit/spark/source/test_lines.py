"""Rows of several types in one write of the data source, and edges that wait for their ends, without Spark."""

from __future__ import annotations

import json
from functools import partial

import pyarrow as pa
import pytest
from tests.session_graph import add_rows, create_graph, open_session, read_graph

from omnigraph.errors import BadRowsError, ConstraintViolationError, UsageError
from omnigraph.spark.source import writer
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.waiting import when_ends_exist
from omnigraph.spark.source.writer import WritePlan, publish, stage_rows, stream_mark

SCHEMA = "node Person { name: String @key  age: I32? }\nnode Team { code: String @key }\nedge In: Person -> Team\n"
LINES = pa.schema([("value", pa.string())])
ENDS = pa.schema([("from", pa.string()), ("to", pa.string())])


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "g", SCHEMA, person("ada", age=36))
    return tmp_path / "g"


def person(name, **values):
    return json.dumps({"type": "Person", "data": {"name": name, **values}})


def team(code):
    return json.dumps({"type": "Team", "data": {"code": code}})


def in_team(name, code):
    return json.dumps({"edge": "In", "from": name, "to": code})


def begin(root, columns=LINES, **options):
    return WritePlan.begin(SourceOptions.parse({"graph": str(root), **options}), columns, overwrite=False)


def stage(plan, *partitions):
    tables = [
        pa.table([pa.array(rows) for rows in zip(*part, strict=True)], schema=plan.columns) for part in partitions
    ]
    return [stage_rows(plan, number, iter(table.to_batches(2))) for number, table in enumerate(tables)]


def lines(*partitions):
    return [[(line,) for line in part] for part in partitions]


def counts(root):
    with open_session(root) as session:
        return {key: len(rows) for key, rows in read_graph(session).items()}


def commits(root):
    with open_session(root) as session:
        return len(session.log().commits)


@pytest.mark.parametrize("mode", ["append", "merge", "apply"])
def test_nodes_and_edges_of_one_write_are_one_commit(root, mode):
    before = commits(root)
    plan = begin(root, mode=mode)
    publish(plan, stage(plan, *lines([in_team("bo", "core"), person("bo")], [team("core"), in_team("ada", "core")])))
    assert counts(root) == {"node:Person": 2, "node:Team": 1, "edge:In": 2}
    assert commits(root) == before + 1
    assert not [path for path in root.glob("__scratch/**/*") if path.is_file()]


def test_a_change_log_of_several_types_deletes_too(root):
    plan = begin(root, mode="apply")
    gone = json.dumps({"type": "Person", "_op": "delete", "data": {"name": "ada"}})
    publish(plan, stage(plan, *lines([gone, team("core")])))
    assert counts(root) == {"node:Person": 0, "node:Team": 1, "edge:In": 0}


def test_what_is_no_line_is_told_with_its_place(root):
    plan = begin(root)
    split = person("bo").replace(",", ",\n")
    staged = stage(plan, *lines([split, None], ["{", json.dumps({"type": "Nobody", "data": {}})]))
    with pytest.raises(BadRowsError) as caught:
        publish(plan, staged)
    assert [(item.source, item.line) for item in caught.value.details.items] == [
        ("<lines>", 2),
        ("<lines>", 3),
        ("<lines>", 4),
    ]
    assert counts(root)["node:Person"] == 1


def test_columns_that_are_no_lines_need_a_type(root):
    with pytest.raises(UsageError, match="option 'type' is missing"):
        begin(root, ENDS)
    with pytest.raises(UsageError, match="option 'type' is missing"):
        begin(root, pa.schema([("value", pa.int64())]))


def test_edges_wait_for_ends_that_another_stream_writes(root, monkeypatch):
    class Clock:
        """Other commits come while it is slept: one that helps nothing, then the missing team."""

        def __init__(self):
            self.slept, self.coming = 0, [person("bo"), team("core")]

        def monotonic_s(self):
            return float(self.slept)

        def sleep(self, _):
            self.slept += 1
            if self.slept % 3 == 0:
                with open_session(root) as session:
                    add_rows(session, self.coming.pop(0))

    clock = Clock()
    monkeypatch.setattr(writer, "when_ends_exist", partial(when_ends_exist, clock=clock))
    plan = begin(root, ENDS, type="In", wait_for_ends="100")
    waiting_for = stage(plan, [("ada", "core"), ("bo", "core")])
    publish(plan, waiting_for, stream_mark(plan, 0, "edges", None))
    assert counts(root) == {"node:Person": 2, "node:Team": 1, "edge:In": 2}
    assert clock.slept == 6


def test_edges_wait_no_longer_than_they_are_told_to_and_not_for_anything_else(root):
    plan = begin(root, ENDS, type="In", wait_for_ends="1")
    with pytest.raises(ConstraintViolationError) as caught:
        publish(plan, stage(plan, [("ada", "core")]))
    assert {item.rule for item in caught.value.details.items} == {"endpoint"}
    assert counts(root)["edge:In"] == 0
    with pytest.raises(UsageError, match="wait_for_ends"):
        begin(root, ENDS, type="In", wait_for_ends="soon")
