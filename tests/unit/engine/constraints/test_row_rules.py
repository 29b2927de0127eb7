"""Rules that one row keeps or breaks by itself."""

import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.constraint_graph import catalog_of, change_of, found, messages, part, view_of

from omnigraph.engine.constraints import check_change, find_violations, row_rules
from omnigraph.engine.view import TypeChange
from omnigraph.errors import ConstraintViolationError

TICKETS = catalog_of("""
node Ticket {
    code: String @key
    state: enum(open, done)
    score: F64?
    @range(score, 0..1)
    @check(code, "^[A-Z]{3}-[0-9]+$")
}
""")
NUMBERS = """
node N { v: %s  @range(v, %s) }
"""


def ticket(**values):
    return {"id": "ABC-1", "code": "ABC-1", "state": "open", **values}


def ranged(kind, bounds, *values):
    catalog = catalog_of(NUMBERS % (kind, bounds))
    rows = [{"id": f"n{at}", "v": value} for at, value in enumerate(values)]
    return [item.entity_id for item in found(catalog, part(catalog, "N", rows)).items]


def test_a_row_that_keeps_every_rule_has_no_violation():
    assert messages(TICKETS, part(TICKETS, "Ticket", [ticket(score=0.5)])) == []
    assert messages(TICKETS, part(TICKETS, "Ticket", [ticket(score=None)])) == []


@pytest.mark.parametrize(
    ("row", "rule", "message"),
    [
        (ticket(state="Open"), "enum", "invalid enum value 'Open' for Ticket.state (expected: done, open)"),
        (ticket(score=1.5), "range", "@range violation on Ticket.score: value 1.5 > max 1"),
        (ticket(score=-0.25), "range", "@range violation on Ticket.score: value -0.25 < min 0"),
        (ticket(score=math.nan), "range", "@range violation on Ticket.score: value is NaN"),
        (
            ticket(code="abc"),
            "check",
            "@check violation on Ticket.code: value 'abc' does not match pattern '^[A-Z]{3}-[0-9]+$'",
        ),
        (ticket(state=None), "required", "non-nullable property 'state' of Ticket has null or invalid values"),
    ],
)
def test_each_rule_says_what_is_wrong(row, rule, message):
    (item,) = found(TICKETS, part(TICKETS, "Ticket", [row])).items
    assert (item.rule, item.message, item.type_name, item.entity_id) == (rule, message, "Ticket", "ABC-1")


def test_rules_come_in_the_order_range_check_enum_whatever_the_order_of_rows():
    rows = [ticket(id="1", state="x"), ticket(id="2", code="no"), ticket(id="3", score=2.0), ticket(id="4", state=None)]
    assert [item.rule for item in found(TICKETS, part(TICKETS, "Ticket", rows)).items] == [
        "required",
        "range",
        "check",
        "enum",
    ]


def test_the_error_carries_the_first_message_and_all_violations():
    change = change_of(part(TICKETS, "Ticket", [ticket(id=str(at), state="x") for at in range(5)]))
    with pytest.raises(ConstraintViolationError, match="invalid enum value 'x'") as caught:
        check_change(change, view_of(TICKETS), limit=3)
    assert caught.value.details.total == 5
    assert [item.entity_id for item in caught.value.details.items] == ["0", "1", "2"]


def test_a_violation_names_the_file_and_line_its_row_came_from():
    sources = pa.table({"source": [1, 0], "line": [7, 9]})
    rows = [ticket(id="1"), ticket(id="2", state="x")]
    catalog = TICKETS
    (item,) = found(catalog, part(catalog, "Ticket", rows, sources=sources), sources=("a.jsonl", "b.jsonl")).items
    assert (item.source, item.line) == ("a.jsonl", 9)


@pytest.mark.parametrize(
    ("kind", "bounds", "values", "bad"),
    [
        ("I32", "0..10", [0, 10, -1, 11], ["n2", "n3"]),
        ("I32?", "0..", [None, 0, -1], ["n2"]),
        ("I32?", "..0", [None, 0, 1], ["n2"]),
        ("I32", "0.5..1.5", [0, 1, 2], ["n0", "n2"]),
        ("I32", "5..1", [0, 3, 9], ["n0", "n1", "n2"]),
        ("I32?", "..99999999999", [None, 2**31 - 1], []),
        ("I32?", "-99999999999..", [None, -(2**31)], []),
        ("I32?", "99999999999..", [None, 2**31 - 1], ["n1"]),
        ("I32?", "..-99999999999", [None, -(2**31)], ["n1"]),
        ("I64", "..9007199254740992", [2**53, 2**53 + 1], ["n1"]),
        ("I64", "9007199254740993..", [2**53 + 1, 2**53], ["n1"]),
        ("I64", "..9223372036854775807", [2**63 - 1], []),
        ("U64", "..18446744073709551614", [2**64 - 1, 2**64 - 2], ["n0"]),
        ("U32", "-1..", [0, 2**32 - 1], []),
        ("F64", "..9007199254740993", [2.0**53, 2.0**53 + 2], ["n1"]),
        ("F64", "9007199254740993..", [2.0**53, 2.0**53 + 2], ["n0"]),
        ("F64", "0..", [-0.0, 0.0, -5e-324], ["n2"]),
        ("F64?", "0..1", [None, math.nan, 0.5], ["n1"]),
        ("F32", "..0.5", [0.5, 0.75], ["n1"]),
    ],
)
def test_range_compares_exactly_and_inclusively(kind, bounds, values, bad):
    assert ranged(kind, bounds, *values) == bad


def test_range_and_check_hold_for_every_element_of_a_list():
    catalog = catalog_of("""
    node L { nums: [I32]?  words: [String]?  @range(nums, 0..9)  @check(words, "^a") }
    """)
    rows = [
        {"id": "ok", "nums": [0, 9], "words": ["a", "ab"]},
        {"id": "none", "nums": None, "words": None},
        {"id": "empty", "nums": [], "words": []},
        {"id": "bad", "nums": [1, 10, -1], "words": ["a", "b", "c"]},
    ]
    assert messages(catalog, part(catalog, "L", rows)) == [
        "@range violation on L.nums: value 10 > max 9",
        "@check violation on L.words: value 'b' does not match pattern '^a'",
    ]
    assert {item.entity_id for item in found(catalog, part(catalog, "L", rows)).items} == {"bad"}


def test_value_too_long_for_its_pattern_is_refused_without_being_matched(monkeypatch):
    """Time is length times size: a hostile pair of the two would keep a write busy for minutes."""
    catalog = catalog_of('node C { t: String?  u: [String]?  @check(t, "^(x|y){700}")  @check(u, "^x") }')
    matched, match = [], row_rules.pc.match_substring_regex

    def count(texts, pattern):
        matched.append(pc.sum(pc.binary_length(texts)).as_py() or 0)
        return match(texts, pattern)

    monkeypatch.setattr(row_rules.pc, "match_substring_regex", count)
    rows = [
        {"id": "a", "t": "x" * 100_000, "u": ["x" * 100_000, "y"]},
        {"id": "b", "t": "x" * 1000, "u": None},
        {"id": "c", "t": None, "u": ["x"]},
    ]
    assert messages(catalog, part(catalog, "C", rows)) == [
        "@check violation on C.t: value of 100000 bytes is too long for its pattern",
        "@check violation on C.u: value 'y' does not match pattern '^x'",
    ]
    assert set(matched) == {1000, 100_002}


def test_check_searches_anywhere_and_lets_nulls_pass():
    catalog = catalog_of('node C { t: String?  @check(t, "b+") }')
    rows = [{"id": "1", "t": "abba"}, {"id": "2", "t": None}, {"id": "3", "t": "aa"}, {"id": "4", "t": ""}]
    assert [item.entity_id for item in found(catalog, part(catalog, "C", rows)).items] == ["3", "4"]


def test_numbers_that_are_not_finite_are_refused_everywhere():
    catalog = catalog_of("""
    node F { f: F32?  r: F64?  l: [F64]?  v: Vector(2)?  @range(r, 0..) }
    """)
    inf = math.inf
    rows = [
        {"id": "ok", "f": 1.5, "r": 1.0, "l": [1.0], "v": [0.0, 1.0]},
        {"id": "null"},
        {"id": "f", "f": math.nan},
        {"id": "r", "r": inf},
        {"id": "l", "l": [1.0, -inf]},
        {"id": "v", "v": [1.0, math.nan]},
    ]
    items = found(catalog, part(catalog, "F", rows)).items
    assert [(item.rule, item.entity_id) for item in items] == [
        ("type", "f"),
        ("type", "r"),
        ("type", "l"),
        ("type", "v"),
    ]
    assert items[0].message == "property 'f' of F expects a finite number, got nan"


def test_null_items_of_lists_and_vectors_are_refused():
    catalog = catalog_of("node L { l: [String]?  v: Vector(2)? }")
    rows = [{"id": "a", "l": ["x", None]}, {"id": "b", "v": [1.0, None]}, {"id": "c", "l": ["x"], "v": [1.0, 2.0]}]
    items = found(catalog, part(catalog, "L", rows)).items
    assert [(item.rule, item.entity_id, item.property) for item in items] == [("type", "a", "l"), ("type", "b", "v")]
    assert "null or invalid item" in items[0].message


def test_a_required_vector_and_a_required_blob_are_called_by_their_kind():
    catalog = catalog_of("node V { v: Vector(2)  b: Blob }")
    assert messages(catalog, part(catalog, "V", [{"id": "a"}])) == [
        "non-nullable vector property 'v' of V has null or invalid values",
        "non-nullable blob property 'b' of V has null or invalid values",
    ]


def test_enum_membership_holds_on_edges_too():
    catalog = catalog_of("node P { name: String @key }\nedge E: P -> P { kind: enum(a, b)? }")
    people = part(catalog, "P", [{"id": "x", "name": "x"}])
    edges = [{"id": "1", "src": "x", "dst": "x", "kind": kind} for kind in ("a", None)]
    assert messages(catalog, people, part(catalog, "E", edges)) == []
    edges.append({"id": "2", "src": "x", "dst": "x", "kind": "c"})
    assert messages(catalog, people, part(catalog, "E", edges)) == [
        "invalid enum value 'c' for E.kind (expected: a, b)"
    ]


def test_a_column_of_another_type_is_one_violation_and_stops_the_comparison_of_rows():
    owner = TICKETS.nodes["Ticket"]
    rows = pa.table({"id": ["a", "a"], "code": [1, 1], "state": ["open"] * 2, "score": pa.nulls(2, pa.float64())})
    violations = find_violations(change_of(TypeChange(type=owner, rows=rows)), view_of(TICKETS))
    assert [item.message for item in violations.items] == ["property 'code' of Ticket expects String, got int64"]


def test_a_missing_endpoint_column_value_is_a_required_value():
    catalog = catalog_of("node P { name: String @key }\nedge E: P -> P")
    edge = part(catalog, "E", [{"id": "1", "src": "x", "dst": None}])
    stored = {"P": [{"id": "x", "name": "x"}]}
    assert messages(catalog, edge, stored=stored) == ["non-nullable property 'dst' of E has null or invalid values"]


def test_rows_spread_over_many_chunks_are_counted_from_the_start_of_the_change():
    catalog = catalog_of("node L { n: I32?  nums: [I32]?  @range(n, 0..9)  @range(nums, 0..9) }")
    pieces = [
        part(catalog, "L", [{"id": f"{piece}-{at}", "n": at, "nums": [at, at]} for at in range(piece, piece + 3)]).rows
        for piece in (0, 5, 8)
    ]
    whole = TypeChange(type=catalog.nodes["L"], rows=pa.concat_tables(pieces))
    violations = find_violations(change_of(whole), view_of(catalog))
    assert [(item.property, item.entity_id) for item in violations.items] == [("n", "8-10"), ("nums", "8-10")]
