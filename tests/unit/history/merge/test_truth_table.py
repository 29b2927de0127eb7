"""The complete truth table of a three-way merge, a row of a table for every combination of the three sides."""

from __future__ import annotations

from itertools import product

import pytest
from tests.merge_graph import DRAFT, Template, kinds_of, put
from tests.session_graph import read_graph

from omnigraph.errors import MergeConflictsError
from omnigraph.history.merge import merge_branch, preview_merge
from omnigraph.values import BranchName

SCHEMA = """
node Person { name: String  age: I32? }
edge Knows: Person -> Person { note: String? }
"""
ANCHOR = '{"type": "Person", "data": {"id": "anchor", "name": "anchor"}}'
INSERT, UPDATE, DELETE = "divergent_insert", "divergent_update", "delete_vs_update"

# Base, source, target: "-" is no row, letters are values. The decision is what the target has afterwards, or a
# conflict.
DECISIONS = {
    ("-", "-", "-"): "-",
    ("-", "s", "-"): "s",
    ("-", "-", "t"): "t",
    ("-", "-", "s"): "s",
    ("-", "s", "s"): "s",
    ("-", "s", "t"): INSERT,
    ("b", "b", "b"): "b",
    ("b", "b", "t"): "t",
    ("b", "b", "s"): "s",
    ("b", "b", "-"): "-",
    ("b", "s", "b"): "s",
    ("b", "s", "s"): "s",
    ("b", "s", "t"): UPDATE,
    ("b", "s", "-"): DELETE,
    ("b", "-", "b"): "-",
    ("b", "-", "t"): DELETE,
    ("b", "-", "s"): DELETE,
    ("b", "-", "-"): "-",
}
CONFLICTS = {INSERT, UPDATE, DELETE}


def _combinations():
    with_base = product("b", "bs-", "bst-")
    without = product("-", "s-", "st-")
    return {*with_base, *without}


# A combination without a decision must not go unnoticed.
assert set(DECISIONS) == _combinations()

CELLS = {"".join(cell).replace("-", "0"): cell for cell in DECISIONS}
TABLES = {
    "node:Person": lambda value: {"name": f"it's {value} é", "age": None},
    "edge:Knows": lambda value: {"src": "anchor", "dst": "anchor", "note": None if value == "b" else f"{value}'"},
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("truth"), SCHEMA, ANCHOR, branches=())


def _prepare(session, table_key, cells):
    """Bring the three sides about: the base on main, then the source on a branch and the target on main."""
    make = TABLES[table_key]

    def rows(place, names):
        return {name: None if cells[name][place] == "-" else make(cells[name][place]) for name in names}

    put(session, table_key, rows(0, [name for name in cells if cells[name][0] != "-"]) | {"unused": make("u")})
    session.store.create_branch(BranchName(DRAFT))
    for place, branch in ((1, DRAFT), (2, "main")):
        touched = [name for name in cells if cells[name][place] != cells[name][0]]
        put(session, table_key, rows(place, touched) | {f"own-{branch}": make(branch)}, branch)


def _values(session, table_key, cells):
    """The cells that are there, by their letters."""
    make, rows = TABLES[table_key], read_graph(session)[table_key]
    letters = {repr(make(letter)): letter for letter in "bst"}
    return {name: letters[repr(rows[name])] if name in rows else "-" for name in cells}


@pytest.mark.parametrize("table_key", TABLES)
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_of_the_truth_table_comes_out_as_decided(template, table_key, cell):
    decision = DECISIONS[CELLS[cell]]
    one = {cell: CELLS[cell]}
    with template.open() as session:
        _prepare(session, table_key, one)
        preview = preview_merge(session, DRAFT)
        if decision in CONFLICTS:
            with pytest.raises(MergeConflictsError) as refused:
                merge_branch(session, DRAFT)
            assert kinds_of(refused.value.details.items) == [(decision, table_key, cell)]
            assert kinds_of(preview.conflicts) == [(decision, table_key, cell)]
            assert _values(session, table_key, one) == {cell: CELLS[cell][2]}
            assert "own-draft" not in read_graph(session)[table_key]
        else:
            assert preview.conflicts == ()
            result = merge_branch(session, DRAFT)
            assert _values(session, table_key, one) == {cell: decision}
            assert {"own-draft", "own-main", "unused"} <= set(read_graph(session)[table_key])
            assert _written(result.tables) == 1 + (CELLS[cell][2] != decision)


def _written(tables):
    return sum(table.inserted + table.updated + table.deleted for table in tables)


@pytest.mark.parametrize("table_key", TABLES)
def test_all_conflicts_of_a_table_are_reported_together_in_the_order_of_their_ids(template, table_key):
    with template.open() as session:
        _prepare(session, table_key, CELLS)
        with pytest.raises(MergeConflictsError) as refused:
            merge_branch(session, DRAFT)
        expected = [(DECISIONS[CELLS[name]], table_key, name) for name in sorted(CELLS)]
        assert kinds_of(refused.value.details.items) == [item for item in expected if item[0] in CONFLICTS]


@pytest.mark.parametrize("table_key", TABLES)
def test_all_decided_rows_of_a_table_are_merged_together(template, table_key):
    decided = {name: cell for name, cell in CELLS.items() if DECISIONS[cell] not in CONFLICTS}
    with template.open() as session:
        _prepare(session, table_key, decided)
        merge_branch(session, DRAFT)
        assert _values(session, table_key, decided) == {name: DECISIONS[cell] for name, cell in decided.items()}
