"""Any values of any type come back from the JSON encodings as they were."""

from __future__ import annotations

import json
import math
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.results import Result
from omnigraph.values.temporal import format_date, format_datetime, parse_date, parse_datetime
from tests.results import INFO, column

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Case: TypeAlias = tuple[Result, list[dict[str, Any]], list[pa.DataType]]


def integers(of: pa.DataType, bits: int, *, signed: bool) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return of, st.integers(low, high)


SCALARS = st.sampled_from(
    [
        (pa.string(), _TEXT),
        (pa.bool_(), st.booleans()),
        integers(pa.int32(), 32, signed=True),
        integers(pa.int64(), 64, signed=True),
        integers(pa.uint32(), 32, signed=False),
        integers(pa.uint64(), 64, signed=False),
        (pa.float32(), st.floats(width=32)),
        (pa.float64(), st.floats()),
        (pa.date32(), st.integers(-1_000_000, 4_000_000)),
        (pa.date64(), st.integers(parse_datetime("0000-01-01T00:00:00Z"), parse_datetime("9999-12-31T23:59:59Z"))),
    ]
)


@st.composite
def columns(draw: st.DrawFn, rows: int) -> tuple[pa.DataType, list[Any]]:
    of, values = draw(SCALARS)
    shape = draw(st.sampled_from(["one", "list", "vector"]))
    if shape == "list":
        of, values = pa.list_(of), st.lists(values | st.none(), max_size=3)
    elif shape == "vector":
        of, values = pa.list_(pa.float32(), 2), st.lists(st.floats(width=32), min_size=2, max_size=2)
    return of, draw(st.lists(values | st.none(), min_size=rows, max_size=rows))


@st.composite
def results(draw: st.DrawFn) -> Case:
    """A result in batches of any size, the rows it was made of, and the types of its columns."""
    count = draw(st.integers(0, 5))
    made = draw(st.lists(columns(count), min_size=1, max_size=4))
    names = draw(st.lists(_TEXT, min_size=len(made), max_size=len(made)))
    schema = pa.schema([pa.field(name, of) for name, (of, _) in zip(names, made, strict=True)])
    table = pa.Table.from_arrays([column(of, values) for of, values in made], schema=schema)
    batches = table.to_batches(max_chunksize=draw(st.integers(1, 6)))
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(values for _, values in made), strict=True)]
    last = {name: of for name, (of, _) in zip(names, made, strict=True)}
    return Result(schema, batches, INFO), rows, [last[name] for name in last]


def stored(of: pa.DataType, value: Any) -> Any:
    """The value that a JSON value stands for."""
    if value is None:
        return None
    if pa.types.is_fixed_size_list(of) or pa.types.is_list(of):
        return [stored(of.value_type, item) for item in value]
    if pa.types.is_floating(of):
        return _SPECIAL.get(value, value)
    if pa.types.is_date32(of):
        return parse_date(value)
    if pa.types.is_date64(of):
        return parse_datetime(value)
    return value


def same(of: pa.DataType, found: Any, expected: Any) -> bool:
    if found is None or expected is None:
        return found is expected
    if pa.types.is_fixed_size_list(of):
        return [item if math.isfinite(item) else None for item in expected] == found
    if pa.types.is_list(of):
        pairs = zip(found, expected, strict=True)
        return all(same(of.value_type, item, other) for item, other in pairs)
    if pa.types.is_floating(of) and math.isnan(expected):
        return math.isnan(found)
    return type(found) is type(expected) and bool(found == expected)


@settings(deadline=None)
@given(results())
def test_rows_come_back_from_json_and_from_jsonl(case: Case):
    result, rows, types = case
    document = json.loads(result.to_json())
    lines = [json.loads(line) for line in result.to_jsonl().removesuffix("\n").split("\n")]
    assert document["rows"] == lines[1:]
    assert document["row_count"] == lines[0]["row_count"] == len(result) == len(rows)
    assert document["columns"] == list(result.columns)
    for found, expected in zip(document["rows"], rows, strict=True):
        assert list(found) == list(expected)
        for of, name in zip(types, found, strict=True):
            assert same(of, stored(of, found[name]), expected[name]), (of, name)


@settings(deadline=None)
@given(results())
def test_json_is_laid_out_as_the_standard_library_would(case: Case):
    text = case[0].to_json()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


@settings(deadline=None)
@given(results())
def test_javascript_reads_every_integer_exactly(case: Case):
    def check(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                check(item)
        elif isinstance(value, int):
            assert abs(value) <= 2**53 - 1

    for row in json.loads(case[0].to_json(javascript=True))["rows"]:
        for value in row.values():
            check(value)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.lists(st.integers(-(2**62), 2**62)))
def test_calendar_text_is_the_one_that_we_write_elsewhere(days: list[int], instants: list[int]):
    made = column(pa.date32(), days)
    found = Result(pa.schema([("d", made.type)]), [pa.record_batch([made], names=["d"])], INFO)
    assert found.to_csv().splitlines()[1:] == [format_date(value) for value in days]
    made = column(pa.date64(), instants)
    found = Result(pa.schema([("d", made.type)]), [pa.record_batch([made], names=["d"])], INFO)
    assert found.to_csv().splitlines()[1:] == [format_datetime(value) for value in instants]


@settings(deadline=None)
@given(results())
def test_every_text_has_a_line_for_every_row(case: Case):
    result, rows, _ = case
    # A terminal may break lines at any of these, so the split is by all of them.
    assert len(result.to_table().splitlines()) == 3 + len(rows)
    assert len(result.to_kv().splitlines()) >= 2
    assert result._repr_html_().count("<tr>") == 1 + len(rows)
