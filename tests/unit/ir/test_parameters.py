"""Host values, descriptors, and texts that are no parameters."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from omnigraph.errors import QueryParameterError
from omnigraph.ir import bind_parameters, decode_parameter_text, decode_parameters, parameter_types
from omnigraph.lang.gq import ast, parse_queries


def declare(written: str) -> tuple[ast.Parameter, ...]:
    return parse_queries(f"query q({written}) {{ match {{ $p: P }} return {{ $p }} }}").queries[0].parameters


def bind(written: str, value: Any) -> Any:
    return bind_parameters(declare(f"$v: {written}"), {"v": value})["v"]


@pytest.mark.parametrize(
    ("written", "value", "bound"),
    [
        ("String", "x", "x"),
        ("I32", np.int16(7), 7),
        ("I64", -(1 << 63), -(1 << 63)),
        ("U64", (1 << 63) - 1, (1 << 63) - 1),
        ("F64", 3, 3.0),
        ("F32", np.float32(0.5), 0.5),
        ("Bool", True, True),
        ("Date", date(1970, 1, 2), 1),
        ("Date", "1970-01-02", 1),
        ("DateTime", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
        ("DateTime", datetime(1970, 1, 1, 1, 0, 0, 1000, tzinfo=timezone(timedelta(hours=1))), 1),
        ("DateTime", datetime(1970, 1, 2), 86_400_000),  # noqa: DTZ001 - a naive instant counts as UTC
        ("Blob", b"hi", "base64:aGk="),
        ("Blob", "s3://bucket/key", "s3://bucket/key"),
        ("[I32]", (1, 2), (1, 2)),
        ("Vector(2)", np.array([1.0, 0.5]), (1.0, 0.5)),
        ("I32?", None, None),
    ],
)
def test_host_values_are_taken(written: str, value: Any, bound: Any) -> None:
    assert bind(written, value) == bound
    assert type(bind(written, value)) is type(bound)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2026, 1, 31, 10, 0, 0, 1999, tzinfo=UTC), "2026-01-31T10:00:00.001999Z"),
        (pd.Timestamp("2026-01-31T10:00:00.001000001Z"), "2026-01-31T10:00:00.001000001Z"),
    ],
)
def test_instants_finer_than_a_millisecond_are_refused(value: Any, shown: str) -> None:
    with pytest.raises(QueryParameterError, match=f"'{shown}' is finer than a millisecond") as caught:
        bind("DateTime", value)
    assert caught.value.hint == "cut it to milliseconds before it is sent"


@pytest.mark.parametrize(
    ("written", "value", "reason"),
    [
        ("F64", float("nan"), "not finite"),
        ("F64", float("inf"), "not finite"),
        ("F64", 10**400, "not finite"),
        ("F32", 1e300, "not finite"),
        ("U64", 1 << 63, "out of range"),
        ("U32", -1, "out of range"),
        ("I64", "7", "expected an integer"),
        ("F64", "1.5", "expected a number"),
        ("I32", True, "expected an integer"),
        ("I32", 1.0, "expected an integer"),
        ("Bool", 1, "expected true or false"),
        ("String", b"x", "expected text"),
        ("String", "\ud800", "not valid Unicode"),
        ("Date", datetime(2020, 1, 1, tzinfo=UTC), "expected text"),
        ("Vector(2)", [1.0], "expected 2 numbers"),
        ("Vector(2)", np.array([[1.0, 2.0]]), "expected 2 numbers"),
        ("Vector(1)", [float("nan")], "item 0: the number is not finite"),
        ("[I32]", {1, 2}, "expected a list"),
        ("[I32]", np.int32(3), "expected a list"),
        ("[String]", "ab", "expected a list"),
        ("String", None, "is null"),
        ("String", object(), "found a object"),
    ],
)
def test_host_values_are_refused(written: str, value: Any, reason: str) -> None:
    with pytest.raises(QueryParameterError, match=reason) as caught:
        bind(written, value)
    assert caught.value.details.name == "v"


def test_host_parameters_are_a_mapping_of_names() -> None:
    with pytest.raises(QueryParameterError, match="must be a mapping"):
        bind_parameters(declare("$v: I32"), [("v", 3)])
    with pytest.raises(QueryParameterError, match="does not have a text name"):
        bind_parameters(declare("$v: I32"), {3: 3})


def test_a_missing_parameter_is_refused_with_the_name_that_was_meant() -> None:
    with pytest.raises(QueryParameterError) as caught:
        decode_parameters(declare("$name: String"), {"$name": "x"})
    assert caught.value.hint == "the call has '$name'; write 'name'"
    assert caught.value.details.expected == "String"


def test_an_unsafe_integer_is_refused_with_advice() -> None:
    with pytest.raises(QueryParameterError) as caught:
        decode_parameters(declare("$v: I64"), {"v": 1 << 60}, "javascript")
    assert caught.value.hint == "send the number as a decimal string"


def test_descriptors_speak_of_kinds() -> None:
    written = "$a: String, $b: [Date]?, $c: Vector(3), $d: U32, $e: U64?, $f: F32, $g: Blob, $h: Bool, $i: DateTime"
    assert [item.descriptor() for item in parameter_types(declare(written))] == [
        {"name": "a", "kind": "string", "nullable": False},
        {"name": "b", "kind": "list", "item_kind": "date", "nullable": True},
        {"name": "c", "kind": "vector", "vector_dim": 3, "nullable": False},
        {"name": "d", "kind": "int", "nullable": False},
        {"name": "e", "kind": "bigint", "nullable": True},
        {"name": "f", "kind": "float", "nullable": False},
        {"name": "g", "kind": "blob", "nullable": False},
        {"name": "h", "kind": "bool", "nullable": False},
        {"name": "i", "kind": "datetime", "nullable": False},
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 10_000,
        b'"\\ud800"',
        "\ud800",
        b"NaN",
        b"1e999",
        b"{} {}",
        b'{"v": 1',
    ],
)
def test_text_that_is_no_json_is_refused(data: str | bytes) -> None:
    with pytest.raises(QueryParameterError):
        decode_parameter_text(data)


def test_any_bytes_give_parameters_or_a_refusal() -> None:
    decls = declare("$a: I64?, $b: [String]?, $c: Vector(2)?, $d: DateTime?, $e: Blob?")
    start = b'{"a": "12", "b": ["x"], "c": [1, 2.5], "d": "2026-01-31T10:00:00Z", "e": "base64:aGk="}'
    rng = Random(7)  # noqa: S311 - the same run for everyone, no secret
    taken = 0
    for _ in range(3000):
        data = bytearray(start)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b'{}[]",:0129.eE+-nulltrue\\\xff\x00 ')
        try:
            decode_parameters(decls, decode_parameter_text(bytes(data)))
            taken += 1
        except QueryParameterError:
            continue
    assert 0 < taken < 3000


def test_a_declared_type_that_does_not_exist_is_refused() -> None:
    unknown = ast.Parameter(name="v", type=ast.TypeRef(scalar="Person"))
    with pytest.raises(QueryParameterError, match="unknown type"):
        bind_parameters((unknown,), {"v": 3})
