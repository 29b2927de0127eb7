"""Parameters of many calls: each decoded as it would be alone, and the first bad one named."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import QueryParameterError
from omnigraph.ir import decode_call, decode_calls, parameter_types
from omnigraph.lang.gq import parse_queries

DECLARED = {
    "text": "String",
    "maybe": "String?",
    "flag": "Bool",
    "small": "I32?",
    "large": "U64?",
    "narrow": "F32?",
    "wide": "F64?",
    "day": "Date?",
    "instant": "DateTime?",
    "many": "[I32]?",
    "vector": "Vector(2)?",
}
VALUES = {
    "text": st.sampled_from(["a", "é", "\ud800", 3, None]),
    "maybe": st.sampled_from(["a", None, b"x"]),
    "flag": st.sampled_from([True, False, 1]),
    "small": st.sampled_from([0, -1, 1 << 31, True, 1.0, "7", None]),
    "large": st.sampled_from([0, (1 << 53) + 1, -1, 1 << 63, None]),
    "narrow": st.sampled_from([0.5, 3, 3.4e38, 3.5e38, float("nan"), None]),
    "wide": st.sampled_from([0.5, 1e308, float("inf"), 2, True, None]),
    "day": st.sampled_from(["2020-02-29", "2021-02-29", date(2020, 1, 1), 3, None]),
    "instant": st.sampled_from(["2020-01-01T00:00:00Z", "soon", None]),
    "many": st.sampled_from([[1, 2], [], [None], "1", None]),
    "vector": st.sampled_from([[1.0, 2], [1.0], None]),
}


def declare(**declared):
    text = ", ".join(f"${name}: {kind}" for name, kind in declared.items())
    file = parse_queries(f"query q({text}) {{ insert T {{ x: 1 }} }}")
    return {item.name: item.type for item in parameter_types(file.queries[0].parameters)}


TYPES = declare(**DECLARED)
# A good value most of the time: otherwise hardly any batch would get past its first row.
ROWS = st.fixed_dictionaries(
    {"text": st.just("a") | VALUES["text"], "flag": st.just(True) | VALUES["flag"]},
    optional={name: values for name, values in VALUES.items() if name not in {"text", "flag"}} | {"other": st.just(1)},
)


def alone(row, form):
    """What decoding one row gives: its values, or the message of what is wrong."""
    try:
        return decode_call(TYPES, row, form)
    except QueryParameterError as problem:
        return problem.message


@given(st.lists(ROWS, max_size=4), st.sampled_from(["host", "strict", "javascript"]))
def test_every_call_is_decoded_as_it_would_be_alone(rows, form):
    expected = [alone(row, form) for row in rows]
    bad = next((number for number, found in enumerate(expected, 1) if isinstance(found, str)), None)
    if bad is None:
        decoded = decode_calls(TYPES, rows, form)
        assert decoded.count == len(rows)
        assert repr([decoded.row(number) for number in range(len(rows))]) == repr(expected)
        return
    with pytest.raises(QueryParameterError) as caught:
        decode_calls(TYPES, rows, form)
    assert caught.value.message == f"row {bad}: {expected[bad - 1]}"
    assert caught.value.details.row == bad


@pytest.mark.parametrize("rows", [None, 3, "rows", b"rows", {"a": 1}, iter([{"a": 1}])])
def test_only_a_sequence_is_a_batch(rows):
    with pytest.raises(QueryParameterError, match="must be a sequence of mappings"):
        decode_calls(declare(a="I32"), rows, "host")


@pytest.mark.parametrize("row", [3, "a", [("a", 1)]])
def test_row_that_is_no_mapping_is_named(row):
    with pytest.raises(QueryParameterError, match="row 2: parameters must be a mapping"):
        decode_calls(declare(a="I32"), [{"a": 1}, row], "host")


def test_calls_without_parameters_are_still_counted():
    assert decode_calls({}, [{}, None, {}], "host").count == 3
