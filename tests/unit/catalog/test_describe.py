"""The text form of a catalog."""

from __future__ import annotations

from omnigraph.catalog import assign_identities, compile_schema, describe_catalog
from omnigraph.lang.pg import parse_schema


def test_ids_are_shown_once_they_are_assigned():
    text = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person { since: Date? }"
    catalog = assign_identities(compile_schema(parse_schema(text)), "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert describe_catalog(catalog) == (
        "node Person #1-6\n"
        "  name #4: String\n"
        "  age #3: I32?\n"
        "  key (name)\n"
        "edge Knows #2-7: Person -> Person 0..*\n"
        "  since #5: Date?\n"
    )


def test_bounds_are_written_as_a_schema_could_hold_them():
    text = "node A { x: F64  @range(x, 0.00000001..100000000000000000000000.0) }"
    described = describe_catalog(compile_schema(parse_schema(text)))
    assert "  range x 0.00000001..99999999999999991611392\n" in described
