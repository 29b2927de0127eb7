"""A lookup by key costs the row that it finds, however many there are beside it."""

import numpy as np
import pytest
from tests.big_graph import add_people, create_empty
from tests.session import Session
from tests.session_graph import RELAXED

from omnigraph.engine.query import entities
from omnigraph.engine.query.options import QueryOptions
from omnigraph.store.location import Storage
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.projections.keys import build_keys
from omnigraph.store.tables import lookup as lookups
from omnigraph.store.tables.table import Table

POINT = "query q($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age } }"
CHANGE = "query change($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
INSERT = "query add($name: String) { insert Person { name: $name, age: 7 } }"
DELETE = "query remove($name: String) { delete Person where name = $name }"
CSR, INDEXED = QueryOptions(mode="csr"), QueryOptions(mode="indexed")
SMALL, LARGE = 10_000, 60_000


def create(root, people):
    storage = Storage.open(str(root))
    create_empty(storage)
    with Session.open(storage, settings=RELAXED) as session:
        nobody = np.zeros(0, dtype=np.int64)
        add_people(session, people, nobody, nobody)
    return storage


@pytest.fixture(params=[SMALL, LARGE])
def people(request):
    return request.param


@pytest.fixture
def storage(tmp_path, people):
    return create(tmp_path / "graph", people)


@pytest.fixture
def session(storage):
    with Session.open(storage, settings=RELAXED) as opened:
        yield opened


@pytest.fixture
def columns(monkeypatch):
    """Columns that are searched, or put into one piece."""
    touched = []

    def index(*_, **__):
        touched.append("searched")
        raise AssertionError("a column was searched")

    whole = entities.Entities.whole_column
    monkeypatch.setattr(entities.pc, "index", index)
    monkeypatch.setattr(entities.Entities, "whole_column", lambda self, name: touched.append(name) or whole(self, name))
    return touched


def ages(session, name, options=None):
    return [row["p.age"] for row in session.query(POINT, {"name": name}, options=options or QueryOptions()).rows()]


def stored_keys(storage):
    return sorted(storage.path(PROJECTIONS_PREFIX).rglob("keys.*"))


def test_a_lookup_in_memory_searches_no_column_and_reads_nothing(session, columns, people):
    assert ages(session, "p17", CSR) == [17]
    for number in (0, 33, people - 1):
        for name, expected in ((f"p{number}", [number % 90]), (f"q{number}", [])):
            result = session.query(POINT, {"name": name}, options=CSR)
            assert [row["p.age"] for row in result.rows()] == expected
            assert result.cost.calls == {}
    assert "id" not in columns
    assert "searched" not in columns


def test_a_lookup_in_storage_reads_one_row(session, storage, monkeypatch, people):
    build_keys(session.snapshot().table("node:Person"))
    taken = []
    take = Table.take
    monkeypatch.setattr(Table, "take", lambda self, ids, names: taken.append(len(ids)) or take(self, ids, names))
    for name in ("_scan_for", "_scan_fragments", "_through_index"):
        monkeypatch.setattr(lookups, name, lambda *_: pytest.fail("ids were looked for in a column or an index"))
    with Session.open(storage, settings=RELAXED) as other:
        assert ages(other, f"p{people - 2}", INDEXED) == [(people - 2) % 90]
        assert ages(other, "nobody", INDEXED) == []
    assert taken == [1]


def test_many_ids_in_memory_leave_their_keys_for_other_processes(session, storage, monkeypatch, people):
    assert ages(session, "p17", CSR) == [17]
    assert len(stored_keys(storage)) == (people >= 20_000)
    monkeypatch.setattr(lookups, "build_keys", lambda *_, **__: pytest.fail("keys were made again"))
    if people >= 20_000:
        with Session.open(storage, settings=RELAXED) as other:
            assert ages(other, "p18", CSR) == [18]


def test_a_lookup_after_writes_finds_what_they_left(session, columns, people):
    assert ages(session, "p17", CSR) == [17]
    columns.clear()
    for number in range(3):
        session.mutate(INSERT, {"name": f"late{number}"})
    session.mutate(CHANGE, {"name": "p17", "age": 88})
    session.mutate(DELETE, {"name": "p18"})
    expected = {"p17": [88], "p18": [], "p19": [19], "late0": [7], "late2": [7], f"p{people - 1}": [(people - 1) % 90]}
    for options in (CSR, INDEXED, QueryOptions()):
        assert {name: ages(session, name, options) for name in expected} == expected
    # A table of several fragments has columns of several chunks: putting them together would cost them all.
    assert columns == []


@pytest.mark.parametrize("people", [LARGE], indirect=True)
def test_a_read_of_little_memory_or_time_makes_no_keys(session, storage):
    assert ages(session, "p17", QueryOptions(mode="csr", memory_bytes=1_000_000)) == [17]
    assert ages(session, "p17", QueryOptions(mode="csr", timeout_ms=200)) == [17]
    assert stored_keys(storage) == []
    assert ages(session, "p17", CSR) == [17]
    assert len(stored_keys(storage)) == 1
