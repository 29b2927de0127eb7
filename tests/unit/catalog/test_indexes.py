"""Index intents: which kind for which column, under names that outlive renames."""

from __future__ import annotations

import pytest

from omnigraph.catalog import (
    IdentityMatches,
    IndexIntent,
    IndexKind,
    assign_identities,
    carry_identities,
    compile_schema,
    index_intents,
    indexed_texts,
)
from omnigraph.errors import UsageError
from omnigraph.lang.pg import parse_schema


def _catalog(text: str):
    return assign_identities(compile_schema(parse_schema(text)), "01ARZ3NDEKTSV4RRFFQ69G5FAV")


def _wanted(owner) -> list[tuple[str, str]]:
    return [(intent.column, intent.kind.value) for intent in index_intents(owner)]


def test_system_columns_are_always_indexed():
    catalog = _catalog("node A { a: String }  edge E: A -> A { w: F32 }")
    assert _wanted(catalog.nodes["A"]) == [("id", "btree")]
    assert _wanted(catalog.edges["E"]) == [("id", "btree"), ("src", "btree"), ("dst", "btree")]


def test_free_text_is_indexed_by_order_alone():
    node = _catalog("node A { a: String @key  b: String? @index }").nodes["A"]
    assert _wanted(node) == [("id", "btree"), ("a", "btree"), ("b", "btree")]


def test_words_are_looked_for_in_free_text_that_index_names():
    text = "node A { k: String @key  a: String? @index  b: enum(x)? @index  c: [String]? d: I32 @index  e: String }"
    assert [prop.name for prop in indexed_texts(_catalog(text).nodes["A"])] == ["a"]
    edge = _catalog("node A {}  edge E: A -> A { n: String  w: F32 @index(n, w) }").edges["E"]
    assert [prop.name for prop in indexed_texts(edge)] == ["n"]


@pytest.mark.parametrize("kind", ["enum(x)", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"])
def test_orderable_scalars_get_an_ordered_index(kind):
    node = _catalog(f"node A {{ a: {kind}? @index }}").nodes["A"]
    assert _wanted(node) == [("id", "btree"), ("a", "btree")]


def test_vectors_are_compared_one_by_one_and_get_no_index():
    node = _catalog("node A { v: Vector(4)? @index  w: Vector(4)? }").nodes["A"]
    assert _wanted(node) == [("id", "btree")]


def test_composite_declarations_index_each_column_once():
    node = _catalog("node A { a: I32  b: Date  c: I32 @index @key(b, a) @index(a, c) }").nodes["A"]
    assert _wanted(node) == [("id", "btree"), ("a", "btree"), ("b", "btree"), ("c", "btree")]


def test_edge_properties_are_indexed_and_ends_are_not_indexed_twice():
    edge = _catalog("node A {}  edge E: A -> A { w: F32 @index  d: Date @key(src, dst, d) @index(src) }").edges["E"]
    system = [("id", "btree"), ("src", "btree"), ("dst", "btree")]
    assert _wanted(edge) == [*system, ("w", "btree"), ("d", "btree")]


def test_unique_wants_no_index():
    node = _catalog("node A { a: String @unique }").nodes["A"]
    assert _wanted(node) == [("id", "btree")]


def test_names_hold_property_ids_and_survive_renames():
    accepted = _catalog("node A { a: Date @index }")
    desired = compile_schema(parse_schema("node B { b: Date @index }"))
    matches = IdentityMatches(types={("node", "B"): "A"}, properties={("node", "B", "b"): "a"})
    renamed = carry_identities(desired, accepted, matches)
    assert index_intents(accepted.nodes["A"])[1] == IndexIntent(column="a", kind=IndexKind.BTREE, name="og_p2_btree")
    assert index_intents(renamed.nodes["B"])[1].name == "og_p2_btree"


def test_indexes_cannot_be_named_without_ids():
    node = compile_schema(parse_schema("node A { a: Date @index }")).nodes["A"]
    with pytest.raises(UsageError, match="cannot be named before property"):
        index_intents(node)
