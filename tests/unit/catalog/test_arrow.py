"""Table layouts: columns in declaration order, with the metadata that storage relies on."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.catalog import PropertyType, Scalar, assign_identities, compile_schema
from omnigraph.catalog.arrow import arrow_schema, arrow_type
from omnigraph.lang.pg import parse_schema


def _catalog(text: str):
    return assign_identities(compile_schema(parse_schema(text)), "01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_node_columns_are_id_then_properties_as_declared():
    node = _catalog("interface I { m: Date }  node A implements I { z: String  a: I32? }").nodes["A"]
    schema = arrow_schema(node)
    assert schema.names == ["id", "z", "a", "m"]
    assert [field.nullable for field in schema] == [False, False, True, False]


def test_edge_columns_start_with_id_and_both_ends():
    edge = _catalog("node A {}  edge E: A -> A { w: F32? }").edges["E"]
    schema = arrow_schema(edge)
    assert schema.names == ["id", "src", "dst", "w"]
    assert [schema.field(name).type for name in ("id", "src", "dst")] == [pa.string()] * 3
    assert [schema.field(name).nullable for name in ("id", "src", "dst")] == [False] * 3


def test_metadata_marks_the_primary_key_and_the_property_ids():
    node = _catalog("node A { b: String  a: Blob? }").nodes["A"]
    schema = arrow_schema(node)
    assert schema.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    assert schema.field("b").metadata == {b"omnigraph.stable_property_id": b"3"}
    assert schema.field("a").metadata == {
        b"omnigraph.stable_property_id": b"2",
        b"lance-encoding:blob": b"true",
    }


def test_ids_that_are_made_up_are_compressed():
    catalog = compile_schema(parse_schema("node P { name: String @key }  edge E: P -> P"))
    assert b"lance-encoding:compression" not in arrow_schema(catalog.nodes["P"]).field("id").metadata
    assert arrow_schema(catalog.edges["E"]).field("id").metadata[b"lance-encoding:compression"] == b"zstd"


def test_without_a_graph_there_are_no_property_ids():
    node = compile_schema(parse_schema("node A { b: String }")).nodes["A"]
    assert arrow_schema(node).field("b").metadata is None


def test_every_scalar_has_its_arrow_type():
    plain = [scalar for scalar in Scalar if scalar not in {Scalar.VECTOR, Scalar.DECIMAL}]
    found = {scalar: arrow_type(PropertyType(scalar=scalar)) for scalar in plain}
    assert found == {
        Scalar.STRING: pa.string(),
        Scalar.BLOB: pa.large_binary(),
        Scalar.BOOL: pa.bool_(),
        Scalar.I32: pa.int32(),
        Scalar.I64: pa.int64(),
        Scalar.U32: pa.uint32(),
        Scalar.U64: pa.uint64(),
        Scalar.F32: pa.float32(),
        Scalar.F64: pa.float64(),
        Scalar.DATE: pa.date32(),
        Scalar.DATETIME: pa.date64(),
    }


def test_decimals_have_the_digits_that_are_declared():
    node = _catalog("node A { price: Decimal(12, 2)  all: [Decimal(38, 38)]? }").nodes["A"]
    schema = arrow_schema(node)
    assert schema.field("price").type == pa.decimal128(12, 2)
    assert schema.field("all").type == pa.list_(pa.field("item", pa.decimal128(38, 38), nullable=True))


def test_lists_and_vectors_hold_nullable_items():
    node = _catalog("node A { tags: [Date]  v: Vector(3)?  e: enum(a, b) }").nodes["A"]
    schema = arrow_schema(node)
    assert schema.field("tags").type == pa.list_(pa.field("item", pa.date32(), nullable=True))
    assert schema.field("v").type == pa.list_(pa.field("item", pa.float32(), nullable=True), 3)
    assert schema.field("v").type.value_field.name == "item"
    assert schema.field("e").type == pa.string()
