"""What a parameter means does not depend on where the graph is, nor on the zone of the caller."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import omnigraph
from omnigraph.errors import QueryParameterError
from tests.session_graph import RELAXED

SCHEMA = """node P { name: String @key  at: DateTime?  day: Date?  text: String?  number: I64?  share: F64?
  price: Decimal(20, 10)?  yes: Bool?  data: Blob?  numbers: [I64]?  days: [Date]?  v: Vector(2)? }"""
TYPES = {
    "at": "DateTime",
    "day": "Date",
    "text": "String",
    "number": "I64",
    "share": "F64",
    "price": "Decimal(20, 10)",
    "yes": "Bool",
    "data": "Blob",
    "numbers": "[I64]",
    "days": "[Date]",
    "v": "Vector(2)",
}
EAST = timezone(timedelta(hours=5, minutes=30))
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
STORED = [
    ("at", datetime(2026, 1, 1), MIDNIGHT),  # noqa: DTZ001 - without a zone
    ("at", datetime(2026, 7, 1, 12, 0, 0, 5000), datetime(2026, 7, 1, 12, 0, 0, 5000, tzinfo=UTC)),  # noqa: DTZ001
    ("at", datetime(2026, 3, 8, 2, 30), datetime(2026, 3, 8, 2, 30, tzinfo=UTC)),  # noqa: DTZ001 - no such hour in New York
    ("at", datetime(2026, 11, 1, 1, 30, fold=1), datetime(2026, 11, 1, 1, 30, tzinfo=UTC)),  # noqa: DTZ001 - twice there
    ("at", datetime(2026, 1, 1, 5, 30, tzinfo=EAST), MIDNIGHT),
    ("at", pd.Timestamp("2026-01-01"), MIDNIGHT),
    ("at", pd.Timestamp("2025-12-31T19:00", tz="America/New_York"), MIDNIGHT),
    ("at", "2026-01-01T00:00:00", MIDNIGHT),
    ("at", datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)),
    ("day", date(2026, 1, 1), date(2026, 1, 1)),
    ("number", np.int64(7), 7),
    ("share", np.float32(0.5), 0.5),
    ("share", 3, 3.0),
    ("price", Decimal("0.1234567891"), Decimal("0.1234567891")),
    ("price", 0.1, None),
    ("data", b"\0\xff", b"\0\xff"),
    ("data", bytearray(b"x"), b"x"),
    ("numbers", (1, 2), [1, 2]),
    ("numbers", np.array([1, 2]), [1, 2]),
    ("days", [date(2026, 1, 1)], [date(2026, 1, 1)]),
    ("v", np.array([0.5, 1.0], dtype=np.float32), [0.5, 1.0]),
    ("text", "$", "$"),
]
FINE = "is finer than a millisecond, which DateTime keeps"
REFUSED = [
    ("at", datetime(2026, 1, 1, 0, 0, 0, 1), f"'2026-01-01T00:00:00.000001Z' {FINE}"),  # noqa: DTZ001
    ("at", datetime(2026, 1, 1, 5, 30, 0, 1, tzinfo=EAST), f"'2026-01-01T00:00:00.000001Z' {FINE}"),
    ("at", pd.Timestamp("2026-01-01T00:00:00.000000001"), f"'2026-01-01T00:00:00.000000001Z' {FINE}"),
    ("at", date(2026, 1, 1), "expected text, found a date"),
    ("day", datetime(2026, 1, 1, tzinfo=UTC), "expected text, found a datetime"),
    ("text", datetime(2026, 1, 1, tzinfo=UTC), "expected text, found a datetime"),
    ("text", date(2026, 1, 1), "expected text, found a date"),
    ("text", b"x", "expected text, found a bytes"),
    ("text", Decimal(1), "expected text, found 1"),
    ("text", "\ud800", "not valid Unicode"),
    ("text", {"$": "date", "v": "2026-01-01"}, "expected text, found an object"),
    ("number", "5", "expected an integer, found text '5'"),
    ("number", Decimal(5), "expected an integer, found 5"),
    ("number", 5.0, "expected an integer, found 5.0"),
    ("number", True, "expected an integer, found true"),
    ("number", 10**30, "is out of range"),
    ("number", 10**5000, "an integer of many digits is out of range"),
    ("share", float("nan"), "not finite"),
    ("share", float("-inf"), "not finite"),
    ("share", "0.5", "expected a number, found text '0.5'"),
    ("share", Decimal("0.5"), "expected a number, found 0.5"),
    ("yes", 1, "expected true or false, found 1"),
    ("numbers", [1, None], "item 1 is null"),
    ("numbers", [[1]], "expected an integer, found an array of 1"),
    ("numbers", {1: 2}, "expected a list, found an object"),
    ("v", [1.0], "expected 2 numbers, found 1"),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory, backend):
    with omnigraph.init(str(tmp_path_factory.mktemp("g") / "g"), SCHEMA, settings=RELAXED) as graph:
        graph.mutate('query a() { insert P { name: "x" } }')
        yield graph


def set_to(name):
    return f'query q($v: {TYPES[name]}) {{ update P set {{ {name}: $v }} where name = "x" }}'  # noqa: S608 - not SQL


def stored(graph, name):
    if name == "data":
        return graph.entity("P", "x")["data"]
    return graph.query(f"query q() {{ match {{ $p: P }} return {{ $p.{name} as v }} }}").rows()[0]["v"]


@pytest.mark.parametrize(("name", "given", "wanted"), STORED, ids=map(str, range(len(STORED))))
def test_a_value_is_stored_as_the_same_everywhere(graph, name, given, wanted):
    """Each backend is asked from a zone of its own."""
    if wanted is None:
        with pytest.raises(QueryParameterError):
            graph.mutate(set_to(name), {"v": given})
        return
    graph.mutate(set_to(name), {"v": given})
    assert stored(graph, name) == wanted
    graph.mutate_batch(set_to(name), [{"v": given}])
    assert stored(graph, name) == wanted
    if name in {"at", "day", "number", "share", "price", "text"}:
        found = graph.query(
            f"query q($v: {TYPES[name]}) {{ match {{ $p: P {{ {name}: $v }} }} return {{ $p.name }} }}",
            {"v": given},
        )
        assert found.rows() == [{"p.name": "x"}]


@pytest.mark.parametrize(("name", "given", "reason"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_a_value_is_refused_with_the_same_words_everywhere(graph, name, given, reason):
    head = graph.log()[0].id
    for call in (
        lambda: graph.mutate(set_to(name), {"v": given}),
        lambda: graph.mutate_batch(set_to(name), [{"v": given}]),
        lambda: graph.query(
            f"query q($v: {TYPES[name]}) {{ match {{ $p: P }} return {{ $p.name, $v as v }} }}", {"v": given}
        ),
    ):
        with pytest.raises(QueryParameterError) as refused:
            call()
        assert reason in refused.value.message
        assert refused.value.details.name == "v"
    assert graph.log()[0].id == head


def test_keys_that_only_python_has_are_refused_with_the_same_words_everywhere(graph):
    for params in ({1: 2}, {"$": 1, "v": 2}, {("a",): 1}):
        with pytest.raises(QueryParameterError) as refused:
            graph.mutate(set_to("text"), params)
        assert refused.value.code == "query.parameter"
