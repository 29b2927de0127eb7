"""Lists in conditions: three-valued logic where the types fit, and an error of the language where they do not."""

from __future__ import annotations

from itertools import product

import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.errors import QueryTypeError

SCHEMA = "node N { k: I32 @key  xs: [I32]?  fs: [F64]?  s: String? }"
LISTS = {"[]": [], "[null]": [None], "[1, 2]": [1, 2], "[1, 2, null]": [1, 2, None], "$n.xs": [1, 2], "$n.fs": [2.5]}
ITEMS = {"null": None, "1": 1, "3": 3, "2.5": 2.5, "$n.k": 1, **LISTS}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    root = tmp_path_factory.mktemp("lists") / "graph"
    create_graph(root, SCHEMA, '{"type": "N", "data": {"k": 1, "xs": [1, 2], "fs": [2.5], "s": null}}')
    with open_session(root) as opened:
        yield opened


def member(item, items):
    """SQL's ``in``."""
    if not items:
        return False
    if item is None:
        return None
    return True if item in items else None if None in items else False


@pytest.mark.parametrize("items", LISTS)
def test_membership_is_known_unknown_or_refused_before_the_read(session, items):
    for item, op in product(ITEMS, ("in", "not in", "contains")):
        condition = f"{items} contains {item}" if op == "contains" else f"{item} {op} {items}"
        text = f"query q() {{ match {{ $n: N }} return {{ {condition} as v }} }}"
        if isinstance(ITEMS[item], list) and any(one is not None for one in LISTS[items]):
            # The items say a type, which no list has.
            with pytest.raises(QueryTypeError):
                session.query(text)
            continue
        if isinstance(ITEMS[item], list):
            # A list without a typed item takes anything; no list is in it.
            expected = None if LISTS[items] else False
        else:
            expected = member(ITEMS[item], LISTS[items])
        if op == "not in" and expected is not None:
            expected = not expected
        assert [row["v"] for row in session.query(text).rows()] == [expected], condition


@pytest.mark.parametrize("op", ["=", "!=", "<", ">="])
def test_lists_are_not_compared_as_wholes(session, op):
    for left, right in product(LISTS, repeat=2):
        with pytest.raises(QueryTypeError, match="cannot be compared"):
            session.query(f"query q() {{ match {{ $n: N  {left} {op} {right} }} return {{ $n.k }} }}")
