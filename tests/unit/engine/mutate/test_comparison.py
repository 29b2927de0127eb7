"""Predicates: exact whatever the types, and never narrower in storage than in memory."""

from __future__ import annotations

import operator
import struct

import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.comparison import column_of, compare
from omnigraph.engine.mutate.values import rows_of
from omnigraph.ir.model import TargetColumn
from omnigraph.ir.types import F64, I64, TEXT
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SCHEMA = """
node Row {
    key: String @key
    i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
    innerText: String?  flag: Bool?  day: Date?  at: DateTime?
}
edge Arc: Row -> Row
"""
STORED = {
    "i32": [-(1 << 31), -1, 0, 2, (1 << 31) - 1],
    "i64": [-(1 << 63), -(1 << 53) - 1, 0, (1 << 53) + 1, (1 << 63) - 1],
    "u32": [0, 1, (1 << 32) - 1],
    "u64": [0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1],
    "f32": [-3.4028234663852886e38, -0.0, 0.0, 0.10000000149011612, 16777216.0],
    "f64": [-1e300, -0.0, 0.0, 0.1, float(1 << 53), float((1 << 53) + 2), 9.223372036854775807e18],
    "innerText": ["", "it's", "Ann", "ann", "é", "a\x00b", "\\", "`"],
    "flag": [False, True],
    "day": [-(1 << 31), -719528, 0, 20484, (1 << 31) - 1],
    "at": [-62167219200001, -1, 0, 1769853600123, (1 << 53) + 1],
}
NUMBERS = [
    *((number, I64) for number in (-(1 << 63), -1, 0, 1, 2, 16777217, (1 << 31), (1 << 53) + 1, (1 << 63) - 1)),
    *((number, F64) for number in (-1e300, -0.5, -0.0, 0.0, 0.1, 1.5, 2.0, 9.3e18, 2e19, 1e300)),
]
ASKED = {
    **dict.fromkeys(("i32", "i64", "u32", "u64", "f32", "f64"), NUMBERS),
    "innerText": [(text, TEXT) for text in STORED["innerText"]],
    "flag": [(value, PropertyType(scalar=Scalar.BOOL)) for value in (False, True)],
    "day": [(value, PropertyType(scalar=Scalar.DATE)) for value in STORED["day"]],
    "at": [(value, PropertyType(scalar=Scalar.DATETIME)) for value in (*STORED["at"], 1769853600122)],
}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    root = tmp_path_factory.mktemp("comparison") / "graph"
    create_graph(root, SCHEMA)
    with open_session(root) as session:
        node = session.catalog().nodes["Row"]
        count = max(map(len, STORED.values())) + 1
        names = [prop.name for prop in node.properties if prop.name != "key"]
        rows = [
            {"id": str(at), "key": str(at)} | {name: dict(enumerate(STORED[name])).get(at) for name in names}
            for at in range(count)
        ]
        branch_writer = session.store.branch_writer(BranchName(MAIN))
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(node.table_key, rows_of(node, rows))
        branch_writer.commit(txn)
        yield session


@pytest.fixture(scope="module")
def table(session):
    return session.snapshot().table("node:Row")


@pytest.fixture(scope="module")
def rows(table):
    return table.read()


@pytest.mark.parametrize("column", STORED)
def test_comparison_is_that_of_the_exact_numbers_and_null_never_matches(session, table, rows, column):
    kind = session.catalog().nodes["Row"].get(column).type
    places = rows["key"].to_pylist()
    for value, of in ASKED[column]:
        exact = _in_width(value) if column == "f32" else value
        for op, holds in OPS.items():
            found = compare(TargetColumn(property=column, type=kind), op, value, of)
            wanted = {str(at) for at, stored in enumerate(STORED[column]) if holds(stored, exact)}
            matched = {place for place, hit in zip(places, found.mask(rows).to_pylist(), strict=True) if hit}
            assert matched == wanted, (op, value)
            predicate = found.sql()
            if predicate is not None:
                read = table.read(["key"], predicate)["key"].to_pylist()
                assert wanted <= set(read), predicate


@pytest.mark.parametrize("column", [name for name in STORED if name not in {"f32", "f64"}])
def test_storage_is_asked_for_every_value_but_a_float_zero(session, column):
    kind = session.catalog().nodes["Row"].get(column).type
    predicates = [
        compare(TargetColumn(property=column, type=kind), op, value, of).sql()
        for value, of in ASKED[column]
        for op in OPS
    ]
    assert None not in predicates


@pytest.mark.parametrize("op", OPS)
def test_null_value_matches_no_row(session, rows, op):
    kind = session.catalog().nodes["Row"].get("i32").type
    found = compare(TargetColumn(property="i32", type=kind), op, None, I64)
    assert found.is_never
    assert not any(found.mask(rows).to_pylist())


def test_ends_of_an_edge_have_columns_of_their_own(session):
    catalog = session.catalog()
    assert [column_of(catalog.edges["Arc"], name) for name in ("from", "to", "since")] == ["src", "dst", "since"]
    assert column_of(catalog.nodes["Row"], "from") == "from"


def _in_width(value):
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return value
