"""How rows of an older schema read in a newer one, and which rows need not be read for that."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.catalog.arrow import PROPERTY_ID
from omnigraph.engine.past import ColumnReading
from omnigraph.history.diff.schemas import is_later_schema, read_alike
from omnigraph.history.diff.selection import select_differing
from omnigraph.values import MAIN, BranchName

SCHEMA = "node A { name: String @key  age: I32?  note: String?  tags: [I32]? }\nnode B { name: String @key }\n"
ROWS = "".join(
    json.dumps({"type": "A", "data": {"name": f"a{at}", "age": at, "note": "x", "tags": [at]}}) + "\n"
    for at in range(5)
)


def field(name, kind, number=None):
    return pa.field(name, kind, metadata=None if number is None else {PROPERTY_ID: str(number).encode()})


def reading(old, new):
    schemas = [pa.schema([pa.field("id", pa.string(), nullable=False), *fields]) for fields in (old, new)]
    return ColumnReading.between(*schemas)


AGE, AGE64, NOTE = field("age", pa.int32(), 1), field("age", pa.int64(), 1), field("note", pa.string(), 2)


@pytest.mark.parametrize(
    ("old", "new", "origins"),
    [
        ([AGE], [AGE, NOTE], {"age": "age"}),
        ([AGE, NOTE], [AGE], {"age": "age"}),
        ([AGE], [field("years", pa.int32(), 1)], {"years": "age"}),
        ([AGE], [AGE64], {"age": "age"}),
        ([AGE], [field("age", pa.float64(), 1)], {"age": "age"}),
        ([field("age", pa.list_(pa.int32()), 1)], [field("age", pa.list_(pa.int64()), 1)], {"age": "age"}),
        # Another property of the same name, and another name for the same number on another branch.
        ([AGE], [field("age", pa.string(), 3)], {}),
        ([AGE], [field("note", pa.string(), 1)], {}),
        # A name that was passed on.
        ([AGE, NOTE], [field("note", pa.int32(), 1)], {"note": "age"}),
    ],
)
def test_columns_are_paired_by_what_stays_when_they_are_renamed(old, new, origins):
    found = reading(old, new)
    assert found.origins == {"id": "id", **origins}
    rows = pa.table({"id": ["x"], **{one.name: pa.array([None], one.type) for one in old}})
    assert found.show(rows, found.schema.names).column_names == ["id", *(one.name for one in new)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (AGE64, AGE),
        (NOTE, field("note", pa.int32(), 2)),
        (AGE, field("age", pa.float32(), 1)),
        (AGE, field("age", pa.list_(pa.int32()), 1)),
    ],
)
def test_a_value_that_the_newer_type_cannot_hold_has_no_reading(old, new):
    assert reading([old], [new]) is None


def test_shown_values_are_those_that_were_stored():
    found = reading([AGE, NOTE], [field("years", pa.int64(), 1), field("city", pa.string(), 9)])
    rows = pa.table({"id": ["x", "y"], "age": pa.array([1, None], pa.int32()), "note": ["a", "b"]})
    assert found.show(rows, ["id", "years", "city"]).to_pylist() == [
        {"id": "x", "years": 1, "city": None},
        {"id": "y", "years": None, "city": None},
    ]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The graph before, and after each of several changes of its schema."""
    root = tmp_path_factory.mktemp("reading") / "graph"
    create_graph(root, SCHEMA, ROWS)
    with open_session(root) as session:
        found = {"before": session.store.snapshot(BranchName(MAIN))}
        for name, old, new in (
            ("added", "age: I32?", "age: I32?  city: String?"),
            ("dropped", "note: String?", ""),
            ("renamed", "age: I32?", 'years: I32? @rename_from("age")'),
            ("widened", "age: I32?", "age: I64?"),
        ):
            session.create_branch(name)
            session.apply_schema(SCHEMA.replace(old, new), branch=name)
            found[name] = session.store.snapshot(BranchName(name))
        yield found


@pytest.mark.parametrize(("name", "read"), [("added", 0), ("dropped", 0), ("renamed", 0), ("widened", 5)])
def test_only_files_that_a_schema_change_has_written_are_read(states, name, read):
    before, after = states["before"], states[name]
    old, new = before.table("node:A"), after.table("node:A")
    for pair, forward in (((old, new), True), ((new, old), False)):
        alike = read_alike(*pair, lambda *_, forward=forward: forward)
        lost, gained = select_differing(*alike)
        assert (lost.row_count, gained.row_count) == (read, read)
    shown, _ = read_alike(old, new, lambda *_: True)
    assert shown.read(["id"]).num_rows == 5
    assert shown.lookup(["a3"], shown.schema.names).select(["id", "tags"]).to_pylist() == [{"id": "a3", "tags": [3]}]


@pytest.mark.parametrize("name", ["added", "dropped", "renamed", "widened"])
def test_the_newer_schema_is_the_same_one_in_both_directions(states, name):
    before, after = states["before"], states[name]
    schemas = [state.table("node:A").schema for state in (before, after)]
    assert is_later_schema(before, after, *schemas)
    assert not is_later_schema(after, before, *reversed(schemas))
