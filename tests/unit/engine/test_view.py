"""The view asks storage as little as it can, and answers the same however it asks."""

import pyarrow as pa
import pytest
from tests.constraint_graph import owner_of, table_of
from tests.session import Session

from omnigraph.engine import comparison as predicates
from omnigraph.engine.open_graph import init_graph
from omnigraph.engine.view import GraphView
from omnigraph.errors import TypeMissingError
from omnigraph.runtime import counting
from omnigraph.store.location import Storage
from omnigraph.store.staging import IndexBuild
from omnigraph.txn.changes import IndexBuilds, RowChange, TableDrop, TableReplace
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Thing {
    name: String?  flag: Bool?  small: I32?  big: I64?  count: U32?  huge: U64?
    f: F32?  d: F64?  day: Date?  at: DateTime?
}
edge Link: Thing -> Thing
"""
THINGS = [
    {"id": "t0"},
    {
        "id": "t1",
        "name": "it's `odd`",
        "flag": True,
        "small": -(2**31),
        "big": -(2**63),
        "count": 2**32 - 1,
        "huge": 2**64 - 1,
        "f": 0.1,
        "d": -0.0,
        "day": -800_000,
        "at": -1,
    },
    {
        "id": "t2",
        "name": "",
        "flag": False,
        "small": 0,
        "big": 2**63 - 1,
        "count": 0,
        "huge": 0,
        "f": 2.5,
        "d": 1.5,
        "day": 19_723,
        "at": 1_704_067_200_001,
    },
    {"id": "it's", "name": 'a "quoted" text', "small": 7, "big": 7, "count": 7, "huge": 7, "day": 7, "at": 7},
]
LINKS = [{"id": f"l{at}", "src": f"t{at % 3}", "dst": "t0"} for at in range(6)]
COLUMNS = ["name", "flag", "small", "big", "count", "huge", "f", "d", "day", "at"]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    storage = Storage.open(str(tmp_path_factory.mktemp("view")))
    settings = TxnSettings(durability="relaxed")
    init_graph(storage, SCHEMA, settings=settings)
    with Session.open(storage, settings=settings) as opened:
        catalog = opened.catalog()
        _write(opened, RowChange(table_key="node:Thing", inserts=table_of(catalog.nodes["Thing"], THINGS[:2])))
        builds = tuple(IndexBuild(column=name, kind="btree", name=f"og_{name}_btree") for name in ("id", *COLUMNS))
        _write(opened, IndexBuilds(table_key="node:Thing", builds=builds))
        # These rows are outside of the indexes.
        _write(opened, RowChange(table_key="node:Thing", inserts=table_of(catalog.nodes["Thing"], THINGS[2:])))
        _write(opened, RowChange(table_key="edge:Link", inserts=table_of(catalog.edges["Link"], LINKS)))
        yield opened


def _write(session, change):
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.ENSURE_INDICES if isinstance(change, IndexBuilds) else WriteKind.INSERT)
    txn.change(change)
    branch_writer.commit(txn)


def view_on(session, pending=None):
    return GraphView(session.snapshot(), session.catalog(), pending or {})


def strings(*texts):
    return pa.array(texts, pa.string())


@pytest.mark.parametrize("way", ["pushed", "streamed"])
@pytest.mark.parametrize("column", COLUMNS)
def test_rows_are_found_by_the_value_of_any_column(session, column, way, monkeypatch):
    if way == "streamed":
        monkeypatch.setattr(predicates, "_VALUES_PER_PREDICATE", 0)
    rows = table_of(session.catalog().nodes["Thing"], THINGS)
    view = view_on(session)
    for at, row in enumerate(THINGS):
        wanted = rows.column(column).slice(at, 1)
        expected = sorted(
            other["id"] for other in THINGS if row.get(column) is not None and other.get(column) == row[column]
        )
        met = view.rows_where("node:Thing", column, wanted, ("id", column))
        assert sorted(met.column("id").to_pylist()) == expected
        assert met.column_names == ["id", column]
    everything = view.rows_where("node:Thing", column, rows.column(column), ("id",))
    assert sorted(everything["id"].to_pylist()) == sorted(row["id"] for row in THINGS if row.get(column) is not None)


def test_both_zeros_are_one_value(session):
    met = view_on(session).rows_where("node:Thing", "d", pa.array([0.0]), ("id",))
    assert met["id"].to_pylist() == ["t1"]


def test_edges_are_found_by_their_ends(session):
    met = view_on(session).rows_where("edge:Link", "src", strings("t1", "nobody"), ("id", "src"))
    assert sorted(map(tuple, (row.values() for row in met.to_pylist()))) == [("l1", "t1"), ("l4", "t1")]


def test_ids_that_exist_are_told_from_those_that_do_not(session):
    view = view_on(session)
    assert sorted(view.existing_ids("node:Thing", strings("t1", "it's", "x", "t1")).to_pylist()) == ["it's", "t1"]
    assert view.existing_ids("node:Thing", strings()).to_pylist() == []
    assert sorted(view.all_ids("node:Thing").to_pylist()) == ["it's", "t0", "t1", "t2"]


def test_rows_of_ids_come_with_the_columns_asked_for_and_no_others(session):
    met = view_on(session).rows_of("edge:Link", strings("l2"), ("src",))
    assert met.to_pylist() == [{"src": "t2"}]


def test_pending_rows_hide_stored_ones_and_pending_deletes_remove_them(session):
    catalog = session.catalog()
    written = table_of(owner_of(catalog, "Link"), [{"id": "l1", "src": "t0", "dst": "t0"}])
    inserted = table_of(owner_of(catalog, "Link"), [{"id": "fresh", "src": "t1", "dst": "t0"}])
    change = RowChange(table_key="edge:Link", inserts=inserted, upserts=written, deletes=("l4",))
    view = view_on(session, {"edge:Link": change})
    assert view.rows_where("edge:Link", "src", strings("t1"), ("id",))["id"].to_pylist() == ["fresh"]
    assert sorted(view.rows_where("edge:Link", "src", strings("t0"), ("id",))["id"].to_pylist()) == ["l0", "l1", "l3"]
    assert sorted(view.existing_ids("edge:Link", strings("l1", "l4", "l5", "fresh")).to_pylist()) == [
        "fresh",
        "l1",
        "l5",
    ]
    assert sorted(view.all_ids("edge:Link").to_pylist()) == ["fresh", "l0", "l1", "l2", "l3", "l5"]
    assert view.rows_of("edge:Link", strings("l1"), ("src",)).to_pylist() == [{"src": "t0"}]


def test_a_replaced_table_is_only_what_replaces_it_and_a_dropped_one_is_empty(session):
    rows = table_of(owner_of(session.catalog(), "Link"), [{"id": "z", "src": "t0", "dst": "t1"}])
    replaced = view_on(session, {"edge:Link": TableReplace(table_key="edge:Link", rows=rows)})
    assert replaced.all_ids("edge:Link").to_pylist() == ["z"]
    assert replaced.row_count("edge:Link") == 1
    dropped = view_on(session, {"edge:Link": TableDrop(table_key="edge:Link")})
    assert dropped.all_ids("edge:Link").to_pylist() == []
    assert dropped.row_count("edge:Link") == 0


def test_an_unknown_type_is_an_error_of_ours(session):
    with pytest.raises(TypeMissingError, match="node:Nothing"):
        view_on(session).existing_ids("node:Nothing", strings("x"))


def test_small_tables_are_asked_in_memory_once_they_are_there(session):
    view = view_on(session)
    with counting() as counters:
        view.rows_where("edge:Link", "src", strings("t1"), ("id",))
        before = counters.cost()
        assert view.rows_where("edge:Link", "dst", strings("t0"), ("id",)).num_rows == len(LINKS)
    assert counters.cost() == before
