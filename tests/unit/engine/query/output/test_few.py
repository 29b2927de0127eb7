"""Few rows are grouped, made distinct, ordered and cut as the relational engine does it."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.output import relational
from omnigraph.engine.query.output.relational import NUMBER, Measure, RelationalKernel, RowStream, SortKey
from omnigraph.engine.relational import EnginePool
from omnigraph.ir.model import AggregateCall, Constant
from omnigraph.ir.types import BOOL, F64, I64, TEXT
from omnigraph.runtime import SystemClock

VALUES = {
    "text": (pa.string(), TEXT, st.sampled_from(["", "a", "b", "ä", "日", "a\0"])),
    "number": (pa.int64(), I64, st.integers(-3, 3)),
    "large": (pa.int64(), I64, st.integers(-(2**62), 2**62)),
    "float": (pa.float64(), F64, st.sampled_from([0.0, 0.1, 0.2, -1e300, math.inf, -math.inf, math.nan, 1e-300])),
    "flag": (pa.bool_(), BOOL, st.booleans()),
}
FUNCTIONS = {
    "text": ("count", "min", "max", "collect"),
    "number": ("count", "min", "max", "collect", "sum", "avg", "sum_int"),
    "large": ("count", "min", "max", "collect", "sum"),
    "float": ("count", "min", "max", "collect", "sum", "avg"),
    "flag": ("count", "any", "every", "collect"),
}


@st.composite
def tables(draw):
    count = draw(st.integers(0, 12))
    columns = {
        name: pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
        for name, (kind, _, values) in VALUES.items()
    }
    return pa.table({**columns, NUMBER: pa.array(range(count), pa.int64())})


@st.composite
def measures(draw):
    made = []
    for at in range(draw(st.integers(0, 4))):
        argument = draw(st.sampled_from([None, *VALUES]))
        function = "count" if argument is None else draw(st.sampled_from(FUNCTIONS[argument]))
        of = I64 if argument is None else VALUES[argument][1]
        call = AggregateCall(
            function=function,
            argument=None if argument is None else Constant(value=None, type=of),
            type=of,
            is_distinct=argument is not None and draw(st.booleans()),
        )
        where = draw(st.sampled_from([None, "flag"]))
        made.append(Measure(name=f"m{at}", call=call, argument=argument, where=where))
    return made


@pytest.fixture(scope="module")
def pool():
    made = EnginePool()
    yield made
    made.close()


def both(pool, table, work):
    """Return what becomes of a table here, and in the engine."""
    results = []
    for most in (relational.MOST_ROWS, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(relational, "MOST_ROWS", most)
            kernel = RelationalKernel(pool, 1 << 30, Limits(QueryOptions(), SystemClock()))
            try:
                results.append(
                    work(
                        kernel,
                        RowStream(table.schema, [*table.to_batches(), pa.RecordBatch.from_pylist([], table.schema)]),
                    )
                )
            finally:
                kernel.close()
    return results


def rows_of(found):
    return [repr(row) for row in found.to_pylist()]


@settings(max_examples=150, deadline=None)
@given(table=tables(), keys=st.lists(st.sampled_from([*VALUES]), unique=True, max_size=3), wanted=measures())
def test_groups_are_those_of_the_engine(pool, table, keys, wanted):
    found, expected = both(pool, table, lambda kernel, rows: kernel.group(rows, keys, wanted, ["text"]))
    assert sorted(rows_of(found)) == sorted(rows_of(expected))


@settings(max_examples=150, deadline=None)
@given(
    table=tables(),
    shown=st.lists(st.sampled_from([*VALUES]), unique=True, min_size=1),
    order=st.lists(st.tuples(st.sampled_from([*VALUES]), st.booleans(), st.booleans()), max_size=3),
    per=st.lists(st.sampled_from([*VALUES]), unique=True, max_size=2),
    is_distinct=st.booleans(),
    offset=st.integers(0, 3),
    limit=st.none() | st.integers(0, 5),
)
def test_rows_are_arranged_as_by_the_engine(pool, table, shown, order, per, is_distinct, offset, limit):
    keys = [SortKey(column=name, descending=down, nulls_first=nulls) for name, down, nulls in order]
    # Every row has a place of its own.
    keys += [SortKey(column=name) for name in (shown if is_distinct else [NUMBER])]
    found, expected = both(
        pool,
        table,
        lambda kernel, rows: kernel.arrange(
            rows, shown, is_distinct=is_distinct, order=keys, per=per, offset=offset, limit=limit
        ),
    )
    assert rows_of(found) == rows_of(expected)


@settings(max_examples=60, deadline=None)
@given(table=tables(), shown=st.lists(st.sampled_from(["text", "flag"]), unique=True, min_size=1))
def test_rows_that_differ_in_nothing_else_have_the_best_rank(pool, table, shown):
    keys = [SortKey(column="number"), *(SortKey(column=name) for name in shown)]
    found, expected = both(
        pool,
        table,
        lambda kernel, rows: kernel.arrange(
            rows, shown, is_distinct=True, order=keys, per=[], offset=0, limit=None, best="number"
        ),
    )
    assert rows_of(found) == rows_of(expected)


def test_engine_is_not_taken_for_few_rows(pool):
    kernel = RelationalKernel(pool, 1 << 30, Limits(QueryOptions(), SystemClock()))
    table = pa.table({"text": ["b", "a"], NUMBER: [0, 1]})
    rows = RowStream(table.schema, table.to_batches())
    found = kernel.arrange(rows, ["text"], is_distinct=True, order=[SortKey(column="text")], per=[], offset=0, limit=1)
    assert found.to_pylist() == [{"text": "a"}]
    assert kernel._engine is None
