"""Every type in every encoding: the table of the specification, line by line."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.results import result_of

from omnigraph.engine.results import Result
from omnigraph.errors import InternalError

I32, I64, U32, U64 = pa.int32(), pa.int64(), pa.uint32(), pa.uint64()
F32, F64, TEXT, BOOL = pa.float32(), pa.float64(), pa.string(), pa.bool_()
DAY, INSTANT = pa.date32(), pa.date64()
VECTOR = pa.list_(F32, 2)
NAN, INF = math.nan, math.inf
AT_TEN = 1769853600000

# type, stored value, JSON, cell
VALUES: list[tuple[pa.DataType, Any, str, str]] = [
    (TEXT, None, "null", "null"),
    (VECTOR, None, "null", "null"),
    (pa.list_(TEXT), None, "null", "null"),
    (INSTANT, None, "null", "null"),
    (TEXT, "", '""', ""),
    (TEXT, "null", '"null"', "null"),
    (TEXT, "Zoë 💡", '"Zoë 💡"', "Zoë 💡"),
    (pa.large_string(), "long", '"long"', "long"),
    (BOOL, True, "true", "true"),
    (BOOL, False, "false", "false"),
    (I32, -(2**31), "-2147483648", "-2147483648"),
    (U32, 2**32 - 1, "4294967295", "4294967295"),
    (I64, 2**53, "9007199254740992", "9007199254740992"),
    (I64, -(2**63), "-9223372036854775808", "-9223372036854775808"),
    (U64, 2**64 - 1, "18446744073709551615", "18446744073709551615"),
    (F32, 0.1, "0.10000000149011612", "0.10000000149011612"),
    (F32, 2, "2.0", "2.0"),
    (F64, 0.1, "0.1", "0.1"),
    (F64, 30.0, "30.0", "30.0"),
    (F64, -0.0, "-0.0", "-0.0"),
    (F64, 123456789012345.0, "123456789012345.0", "123456789012345.0"),
    (F64, 1e300, "1e+300", "1e+300"),
    (F64, 5e-324, "5e-324", "5e-324"),
    (F64, NAN, '"NaN"', "NaN"),
    (F32, INF, '"Infinity"', "Infinity"),
    (F64, -INF, '"-Infinity"', "-Infinity"),
    (DAY, 20484, '"2026-01-31"', "2026-01-31"),
    (DAY, -1, '"1969-12-31"', "1969-12-31"),
    (DAY, -719162, '"0001-01-01"', "0001-01-01"),
    (DAY, -735525, '"-0044-03-15"', "-0044-03-15"),
    (DAY, 3000000, '"+10183-09-21"', "+10183-09-21"),
    (INSTANT, AT_TEN, '"2026-01-31T10:00:00.000Z"', "2026-01-31T10:00:00.000Z"),
    (INSTANT, AT_TEN + 7, '"2026-01-31T10:00:00.007Z"', "2026-01-31T10:00:00.007Z"),
    (INSTANT, -1, '"1969-12-31T23:59:59.999Z"', "1969-12-31T23:59:59.999Z"),
    (INSTANT, 10**17, '"+3170843-11-07T09:46:40.000Z"', "+3170843-11-07T09:46:40.000Z"),
    (pa.list_(TEXT), [], "[]", "[]"),
    (pa.list_(TEXT), ["a b", None, 'say "x"'], '["a b",null,"say \\"x\\""]', '["a b",null,"say \\"x\\""]'),
    (pa.list_(I64), [1, 2**60], "[1,1152921504606846976]", "[1,1152921504606846976]"),
    (pa.list_(F64), [1.0, NAN], '[1.0,"NaN"]', '[1.0,"NaN"]'),
    (pa.list_(BOOL), [True, None], "[true,null]", "[true,null]"),
    (pa.list_(DAY), [0, None], '["1970-01-01",null]', '["1970-01-01",null]'),
    (pa.list_(INSTANT), [AT_TEN], '["2026-01-31T10:00:00.000Z"]', '["2026-01-31T10:00:00.000Z"]'),
    (VECTOR, [1.0, 0.1], "[1.0,0.10000000149011612]", "[1.0,0.10000000149011612]"),
    (VECTOR, [NAN, INF], "[null,null]", "[null,null]"),
]
IDS = [f"{of}-{value}" for of, value, _, _ in VALUES]


def one(of: pa.DataType, value: Any) -> Result:
    """A result of one value; its neighbours see to it that no encoding looks at more than its own row."""
    other = [None] if not pa.types.is_list(of) else [[None]]
    whole = result_of(("v", of, [*other, value, *other])).to_arrow().slice(1, 1)
    return Result(whole.schema, whole, result_of(("v", of, [])).info)


@pytest.mark.parametrize(("of", "value", "in_json", "in_cell"), VALUES, ids=IDS)
def test_a_value_is_told_alike_in_every_encoding(of: pa.DataType, value: Any, in_json: str, in_cell: str):
    found = one(of, value)
    assert found.to_jsonl().splitlines()[1] == f'{{"v":{in_json}}}'
    text = found.to_json()
    assert json.loads(text)["rows"] == [{"v": json.loads(in_json)}]
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    quoted = f'"{in_cell}"'.replace('"', '""')[1:-1] if "," in in_cell or '"' in in_cell else in_cell
    assert found.to_csv() == f"v\n{quoted}\n"
    assert found.to_kv() == f"1 row from branch main via q\nrow 1\nv: {in_cell}\n"
    # The light bulb is two columns wide.
    width = max(1, len(in_cell) + in_cell.count("💡"))
    lines = [f"v{' ' * (width - 1)}", "-" * width, in_cell or " "]
    assert found.to_table() == "\n".join(["1 row from branch main via q", *lines, ""])


@pytest.mark.parametrize(
    ("of", "value", "written"),
    [
        (I64, 2**53 - 1, "9007199254740991"),
        (I64, -(2**53) + 1, "-9007199254740991"),
        (I64, 2**53, '"9007199254740992"'),
        (I64, -(2**53), '"-9007199254740992"'),
        (U64, 2**64 - 1, '"18446744073709551615"'),
        (pa.list_(I64), [1, 2**60, None], '[1,"1152921504606846976",null]'),
        (I32, 7, "7"),
        (F64, 1e300, "1e+300"),
        (I64, None, "null"),
    ],
)
def test_javascript_gets_integers_that_it_cannot_hold_as_text(of: pa.DataType, value: Any, written: str):
    found = one(of, value)
    assert found.to_jsonl(javascript=True).splitlines()[1] == f'{{"v":{written}}}'
    assert json.loads(found.to_json(javascript=True))["rows"] == [{"v": json.loads(written)}]


@pytest.mark.parametrize(
    ("of", "value", "host"),
    [
        (TEXT, "a", "a"),
        (BOOL, True, True),
        (I64, 2**60, 2**60),
        (F32, 0.1, 0.10000000149011612),
        (DAY, 20484, date(2026, 1, 31)),
        (DAY, -719162, date(1, 1, 1)),
        (DAY, 3000000, "+10183-09-21"),
        (INSTANT, AT_TEN + 7, datetime(2026, 1, 31, 10, 0, 0, 7000, tzinfo=UTC)),
        (INSTANT, -1, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        (INSTANT, 10**17, "+3170843-11-07T09:46:40.000Z"),
        (pa.list_(INSTANT), [AT_TEN, None], [datetime(2026, 1, 31, 10, tzinfo=UTC), None]),
        (pa.list_(DAY), [0], [date(1970, 1, 1)]),
        (pa.list_(TEXT), [], []),
        (VECTOR, [1.0, 2.5], [1.0, 2.5]),
        (VECTOR, None, None),
    ],
)
def test_rows_hold_values_of_python(of: pa.DataType, value: Any, host: Any):
    assert one(of, value).rows() == [{"v": host}]
    assert type(one(of, value).rows()[0]["v"]) is type(host)


def test_host_values_that_are_no_number_stay_what_they_are():
    [row] = one(VECTOR, [NAN, INF]).rows()
    assert math.isnan(row["v"][0])
    assert row["v"][1] == INF


def test_column_that_no_encoding_knows_is_a_bug_of_ours():
    with pytest.raises(InternalError, match="of type binary has no encoding"):
        result_of(("v", pa.binary(), [b"x"])).to_json()
