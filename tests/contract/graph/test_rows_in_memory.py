"""Rows that a program holds load like files, whoever executes the request."""

from __future__ import annotations

import enum
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import BadRowsError, ConstraintViolationError, UsageError
from tests.session_graph import RELAXED

SCHEMA = """
node Person {
    name: String @key  age: I32?  born: Date?  seen: DateTime?  pay: Decimal(8, 2)?  ok: Bool?  kind: String?
    face: Vector(2)?  tags: [String]?  photo: Blob?
}
edge Knows: Person -> Person { since: Date? }
"""
NAMES = "query names() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
ALL = """query all() { match { $p: Person }
return { $p.name, $p.age, $p.born, $p.seen, $p.pay, $p.ok, $p.kind, $p.tags } order { $p.name } }"""


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "graph", SCHEMA, settings=RELAXED) as opened:
        yield opened


def names(state):
    return [(row["p.name"], row["p.age"]) for row in state.query(NAMES)]


FRAME = pd.DataFrame({"name": ["c", "d", "a", "b"], "age": [7, 7, 1, None]})
TABLES = {
    "pandas": lambda: pd.DataFrame({"name": ["a", "b"], "age": [1, None]}),
    "pandas with an index": lambda: pd.DataFrame({"age": [1, None]}, index=pd.Index(["a", "b"], name="name")),
    "pandas, filtered": lambda: FRAME[FRAME.age != 7],
    "pandas, each once": lambda: pd.concat([FRAME[2:], FRAME[2:]]).drop_duplicates(),
    "pandas, sorted": lambda: FRAME[2:].sort_values("name", ascending=False),
    "pandas, concatenated": lambda: pd.concat([FRAME[2:3], FRAME[3:4]]),
    "pandas, labelled": lambda: FRAME[2:].set_axis(["x", 3], axis=0),
    "pandas with one name of two": lambda: FRAME[2:].set_index(["name", pd.Index([5, 5])]),
    "polars": lambda: pl.DataFrame({"name": pl.Series(["a", "b"], dtype=pl.Categorical), "age": [1, None]}),
    "arrow table": lambda: pa.table({"name": ["a", "b"], "age": pa.array([1, None], pa.int8())}),
    "record batch": lambda: pa.record_batch({"name": ["a", "b"], "age": pa.array([1, None])}),
    "reader": lambda: pa.table({"name": ["a", "b"], "age": [1, None]}).to_reader(max_chunksize=1),
    "dictionaries": lambda: [{"name": "a", "age": 1}, {"name": "b"}],
    "generator": lambda: ({"name": name, "age": age} for name, age in (("a", 1), ("b", float("nan")))),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_loads_like_a_file(graph, kind):
    rows = TABLES[kind]()
    edges = pd.DataFrame({"from": ["a"], "to": ["b"], "since": [date(2024, 1, 2)]})
    done = graph.load({"Person": rows, "Knows": edges}, message="from memory")
    assert (done.nodes_loaded, done.edges_loaded) == ({"Person": 2}, {"Knows": 1})
    assert names(graph) == [("a", 1), ("b", None)]


def test_values_of_python_mean_what_they_say(graph):
    class Kind(enum.Enum):
        BOSS = "boss"

    number = uuid.UUID(int=7)
    rows = [
        {
            "name": number,
            "age": np.int64(36),
            "born": date(2024, 1, 31),
            "seen": datetime(2024, 1, 31, 10, tzinfo=UTC),
            "pay": Decimal("1.50"),
            "ok": np.bool_(True),
            "kind": Kind.BOSS,
            "face": np.array([1.0, 2.0]),
            "tags": ("a", "b"),
            "photo": b"x",
        },
        {
            "name": 2,
            "age": None,
            "born": pd.NaT,
            "seen": pd.Timestamp("2024-01-31"),
            "ok": pd.NA,
            "pay": Decimal("NaN"),
        },
    ]
    graph.load({"Person": rows})
    first, second = (tuple(row.values()) for row in graph.query(ALL))
    midnight, ten = (datetime(2024, 1, 31, hour, tzinfo=UTC) for hour in (0, 10))
    assert first == (str(number), 36, date(2024, 1, 31), ten, Decimal("1.50"), True, "boss", ["a", "b"])
    assert second == ("2", None, None, midnight, None, None, None, None)


def test_branches_and_transactions_take_them_too(graph):
    graph.create_branch("draft")
    graph.branch("draft").load({"Person": [{"name": "a"}]})
    with graph.transaction() as transaction:
        transaction.load({"Person": pl.DataFrame({"name": ["b"]})})
        transaction.load({"Person": ({"name": name} for name in "cd")})
    assert [name for name, _ in names(graph)] == ["b", "c", "d"]
    assert [name for name, _ in names(graph.branch("draft"))] == ["a"]


def test_rows_of_a_change_log_come_from_memory_too(graph):
    graph.load({"Person": [{"name": "a", "age": 1}, {"name": "b", "age": 2}, {"name": "c", "age": 3}]})
    log = [{"name": "a", "_op": "delete"}, {"name": "b", "_op": "patch", "kind": "x"}, {"name": "d", "age": 4}]
    assert str(graph.load({"Person": log}, "apply").changes) == "2 written, 0 unchanged, 0 superseded, 1 deleted"
    assert names(graph) == [("b", 2), ("c", 3), ("d", 4)]
    frame = pd.DataFrame({"name": ["b", "c", "c"], "_op": "delete", "_seq": [1, 2, 3]})
    graph.load({"Person": frame}, "apply")
    assert names(graph) == [("d", 4)]


def test_an_overwrite_with_no_rows_empties_a_type(graph):
    graph.load({"Person": [{"name": "a"}]})
    graph.load({"Person": []}, "overwrite")
    assert names(graph) == []


def test_files_and_rows_load_together(graph, tmp_path):
    (tmp_path / "people.csv").write_text("name;age\na;1\n")
    people = omnigraph.Source(path=str(tmp_path / "people.csv"), dialect=omnigraph.Dialect(delimiter=";"))
    (tmp_path / "edges.jsonl").write_text('{"from": "a", "to": "b"}\n')
    graph.load({"node:Person": people, "Knows": tmp_path / "edges.jsonl"} | {"Person": [{"name": "b"}]})
    assert names(graph) == [("a", 1), ("b", None)]


@pytest.mark.parametrize("make", [list, iter, pd.DataFrame, pa.Table.from_pylist])
def test_a_bad_row_has_the_index_that_it_has_in_its_table(graph, make):
    rows = [{"name": f"p{at}", "ok": 2 if at in {17, 19} else 1} for at in range(20)]
    with pytest.raises(BadRowsError) as caught:
        graph.load({"Person": make(rows)})
    assert caught.value.message == "Person[17]: property 'ok' expects Bool?, got an integer (and 1 more)"
    assert [(item.source, item.line) for item in caught.value.details.items] == [("Person[]", 17), ("Person[]", 19)]
    assert caught.value.details.groups[0].places == ("Person[17]", "Person[19]")


def test_columns_that_fit_nothing_have_the_table_as_their_place(graph):
    with pytest.raises(BadRowsError) as caught:
        graph.load({"Person": pd.DataFrame({"name": ["a"], "nme": [1], "kind": [1.5]})})
    assert str(caught.value).splitlines()[0] == "Person: unknown input field 'nme' for Person; did you mean 'name'?"
    with pytest.raises(BadRowsError, match=r"^Person: property 'kind' expects String\?, got a column of double"):
        graph.load({"Person": pd.DataFrame({"name": ["a"], "kind": [1.5]})})
    with pytest.raises(ConstraintViolationError) as broken:
        graph.load({"Person": [{"name": "a"}], "Knows": [{"from": "a", "to": "a"}, {"from": "a", "to": "z"}]})
    assert broken.value.details.items[0].place() == "Knows[1]"


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"Person": 3}, "'Person' must be a DataFrame, an Arrow table or reader, or dictionaries, not int"),
        ({"Person": {"name": "a"}}, "'Person' must be a DataFrame"),
        ({"Person": [1]}, r"Person\[0\]: a row is a dictionary, not int"),
        (
            {"Person": [{"name": "a"}, {"name": object()}]},
            r"Person\[1\]\.name: a value of type object cannot be loaded",
        ),
        ({"Person": [{1: "a"}]}, r"Person\[0\]: the name of a column is text, not int"),
        ({"Person": pd.DataFrame({"name": [1, "a"]})}, "the columns of 'Person' cannot be read: .*column name"),
        ({1: []}, "type must be text"),
        ([{"name": "a"}], "cannot load from a value of type dict"),
    ],
)
def test_what_are_no_rows_is_refused(graph, sources, message):
    with pytest.raises(omnigraph.OmnigraphError, match=message):
        graph.load(sources)
    assert len(graph.log()) == 1


def test_a_generator_that_fails_fails_the_load_with_its_own_error(graph):
    def rows():
        yield {"name": "a"}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        graph.load({"Person": rows()})
    assert names(graph) == []


def test_nothing_is_left_behind(graph, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    graph.load({"Person": [{"name": "a"}]})
    with pytest.raises(BadRowsError):
        graph.load({"Person": [{"name": None}]})
    with pytest.raises(UsageError):
        graph.load({"Person": [{"name": "b"}], "Knows": 3})
    assert not [path for path in Path(tmp_path).iterdir() if path.name.startswith("omnigraph-tmp")]
