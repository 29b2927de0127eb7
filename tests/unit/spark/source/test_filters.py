"""Filters of Spark that storage decides keep exactly the rows that Spark would keep."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from tests.session import Session
from tests.session_graph import RELAXED

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.engine.open_graph import init_graph
from omnigraph.spark.source.filters import FilterTranslator
from omnigraph.spark.source.types import spark_schema, to_wire, wire_schema
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import TableTicket, read_fragments
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Thing {
  text: String?
  flag: Bool?
  small: I32?
  large: I64?
  u32: U32?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  moment: DateTime?
  tags: [String]?
}
"""
NEGATIVE_NAN = float(np.uint64(0xFFF8_0000_0000_0000).view(np.float64))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TEXTS = ["", "a", "ab", "a'b", 'a"b', "a\\b", "%", "_", "A", "ä", "😀", "a\nb", "\x00", "`", "b"]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, NEGATIVE_NAN, 1e300, 5e-324, 16777217.0]
F32S = [float(np.float32(value)) for value in [0.0, -0.0, 1.0, 0.1, math.inf, math.nan, -math.nan, 16777216.0]]
COLUMNS = {
    "text": TEXTS,
    "flag": [True, False],
    "small": [0, -1, 1, 2**31 - 1, -(2**31)],
    "large": [0, -1, 1, 2**63 - 1, -(2**63), 2**53 + 1],
    "u32": [0, 1, 2**32 - 1],
    "u64": [0, 1, 2**63, 2**64 - 1],
    "f32": F32S,
    "f64": FLOATS,
    "day": [date(1969, 12, 31), date(1970, 1, 1), date(2026, 2, 28), date(1, 1, 1), date(9999, 12, 31)],
    "moment": [EPOCH, EPOCH - timedelta(milliseconds=1), EPOCH + timedelta(days=20_000, milliseconds=7)],
}
# What a filter may compare with although no row has it.
OTHERS = {
    "text": ["zz", "a%", "''"],
    "small": [7],
    "large": [2**40],
    "u32": [-1, 2**40],
    "u64": [Decimal(5), Decimal(2**64), Decimal("1.5"), -1],
    "f32": [0.1, 1e300],
    "f64": [2.0, -5e-324],
    "moment": [EPOCH + timedelta(microseconds=1), EPOCH + timedelta(seconds=1)],
}
COMPARISONS = {
    EqualTo: lambda found, value: found == value,
    GreaterThan: lambda found, value: found > value,
    GreaterThanOrEqual: lambda found, value: found >= value,
    LessThan: lambda found, value: found < value,
    LessThanOrEqual: lambda found, value: found <= value,
}
TEXT_TESTS = {
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: lambda text, part: part in text,
}


class Ordered:
    """A value as Spark orders it: a NaN equals itself and is the largest, the two zeros are one."""

    def __init__(self, value):
        is_nan = isinstance(value, float) and math.isnan(value)
        self.key = (1, 0) if is_nan else (0, value.encode() if isinstance(value, str) else value)

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def __lt__(self, other):
        return self.key < other.key

    def __gt__(self, other):
        return self.key > other.key

    def __le__(self, other):
        return self.key <= other.key

    def __ge__(self, other):
        return self.key >= other.key


def truth(item, found):
    """What Spark says of a value: true, false, or None for unknown."""
    if isinstance(item, Not):
        inner = truth(item.child, found)
        return None if inner is None else not inner
    if isinstance(item, IsNull | IsNotNull):
        return (found is None) == isinstance(item, IsNull)
    if isinstance(item, EqualNullSafe):
        return (
            found is None if item.value is None else found is not None and Ordered(found).key == Ordered(item.value).key
        )
    if found is None:
        return None
    if isinstance(item, In):
        return any(Ordered(found) == Ordered(value) for value in item.value)
    if type(item) in TEXT_TESTS:
        return TEXT_TESTS[type(item)](found, item.value)
    return COMPARISONS[type(item)](Ordered(found), Ordered(item.value))


def column(values, kind):
    """Values as an array; Arrow itself would cut instants to days."""
    if not pa.types.is_date64(kind):
        return pa.array(values, kind)
    return pa.array(values, pa.timestamp("ms", tz="UTC")).cast(pa.int64()).view(kind)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A graph's table whose columns hold every value, each beside nulls."""
    storage = Storage.open(str(tmp_path_factory.mktemp("filters") / "graph"))
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as session:
        owner = session.catalog().nodes["Thing"]
        schema = arrow_schema(owner)
        size = max(map(len, COLUMNS.values())) + 1
        values = {name: found + [None] * (size - len(found)) for name, found in COLUMNS.items()}
        values["id"] = [f"t{number}" for number in range(size)]
        values["tags"] = [["x"], None] + [[]] * (size - 2)
        rows = pa.table({name: column(values[name], schema.field(name).type) for name in schema.names}, schema=schema)
        branch_writer = session.store.branch_writer(BranchName(MAIN))
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(owner.table_key, rows)
        branch_writer.commit(txn)
        pin = session.snapshot().entry(owner.table_key).pin
    return TableTicket(storage=storage, pin=pin), schema, values


@st.composite
def filters(draw):
    name = draw(st.sampled_from(sorted(COLUMNS)))
    operands = st.sampled_from(COLUMNS[name] + OTHERS.get(name, []))
    kinds = [IsNull, IsNotNull, EqualNullSafe, In, *COMPARISONS, *(TEXT_TESTS if name == "text" else ())]
    kind = draw(st.sampled_from(kinds))
    if kind in {IsNull, IsNotNull}:
        item = kind((name,))
    elif kind is In:
        item = In((name,), tuple(draw(st.lists(operands, min_size=1, max_size=3))))
    else:
        item = kind((name,), draw(operands))
    return Not(item) if draw(st.booleans()) else item


@given(wanted=st.lists(filters(), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_pushed_filters_keep_the_rows_that_spark_would_keep(table, wanted):
    ticket, schema, values = table
    taken, back = FilterTranslator(schema).split(wanted)
    pushed = [item for item in wanted if not any(item is other for other in back)]
    assert len(taken) == len(pushed)
    if not taken:
        return
    batches = read_fragments(ticket, None, ["id"], filter=" AND ".join(taken))
    found = sorted(text for batch in batches for text in batch.column("id").to_pylist())
    names = [(item.child if isinstance(item, Not) else item).attribute[0] for item in pushed]
    expected = [
        values["id"][row]
        for row in range(len(values["id"]))
        if all(truth(item, values[name][row]) for item, name in zip(pushed, names, strict=True))
    ]
    assert found == sorted(expected)


@pytest.mark.parametrize(
    "item",
    [
        EqualTo(("text",), "a"),
        In(("large",), (1, 2)),
        GreaterThan(("f64",), 0.0),
        LessThan(("moment",), EPOCH),
        EqualTo(("u64",), Decimal(2**64 - 1)),
        Not(StringStartsWith(("text",), "a")),
        EqualNullSafe(("day",), None),
    ],
)
def test_what_storage_can_decide_exactly_is_taken(table, item):
    assert FilterTranslator(table[1]).predicate(item) is not None


@pytest.mark.parametrize(
    "item",
    [
        EqualTo(("u32",), -1),
        EqualTo(("f64",), math.nan),
        EqualTo(("f32",), 0.1),
        LessThan(("flag",), True),
        EqualTo(("moment",), EPOCH + timedelta(microseconds=1)),
        EqualTo(("moment",), EPOCH.replace(tzinfo=None)),
        In(("small",), (1, None)),
        IsNull(("tags",)),
        EqualTo(("text", "part"), "a"),
        EqualTo(("nothing",), "a"),
        EqualTo(("small",), None),
        Not(EqualTo(("small",), 1.5)),
    ],
)
def test_what_storage_cannot_decide_exactly_is_given_back(table, item):
    assert FilterTranslator(table[1]).split([item]) == ((), [item])


def test_every_value_crosses_to_spark_unchanged(table):
    ticket, schema, values = table
    wire = wire_schema(spark_schema(schema))
    (batch,) = [to_wire(batch, wire) for batch in read_fragments(ticket, None, None)]
    assert batch.schema.equals(wire)
    for name, found in COLUMNS.items():
        shown = batch.column(name).to_pylist()
        assert [repr(value) for value in shown if value is not None] == [
            repr(Decimal(value) if name == "u64" else value) for value in found
        ] or name == "moment"
    assert [value for value in batch.column("moment").to_pylist() if value is not None] == COLUMNS["moment"]
    assert batch.column("tags").to_pylist() == values["tags"]
