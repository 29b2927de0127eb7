"""Compilation as seen from Python: what no text case can show."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from omnigraph.catalog import compile_schema, shape_hash
from omnigraph.errors import SchemaCheckError
from omnigraph.lang.pg import parse_schema
from omnigraph.lang.pg.ast import (
    Annotation,
    Constraint,
    Literal,
    NodeDecl,
    Property,
    RangeBound,
    SchemaFile,
    TypeRef,
)
from omnigraph.lang.source import Ident

_BASE = """
interface Named { name: String @index }
node Person @owner("x") implements Named { slug: String @key  age: I32? @range(age, 0..150) @unique(age, name) }
node City { tenant: String  code: enum(b, a)  @key(tenant, code) }
edge Lives: Person -> City @card(0..1) { since: Date?  weight: F64? }
"""


def test_catalog_without_a_graph_has_no_ids():
    catalog = compile_schema(parse_schema(_BASE))
    assert catalog.identity_domain == ""
    assert {node.id for node in catalog.nodes.values()} == {0}
    assert {prop.id for node in catalog.nodes.values() for prop in node.properties} == {0}


def test_types_are_sorted_by_name_and_edges_are_found_in_any_letter_case():
    catalog = compile_schema(parse_schema(_BASE))
    assert list(catalog.nodes) == ["City", "Person"]
    assert catalog.edge("LIVES") is catalog.edges["Lives"]
    assert catalog.edge("live") is None
    assert catalog.node("person") is None


@pytest.mark.parametrize(
    "text",
    [
        'node X {a: String @rename_from("z") b: I32? @index(b) @unique(a, b) @key(a)} // c',
        'node X @rename_from("Y") { @unique(b, a)  b: I32? @index  a: String @key }',
        "/* c */ node X\n{ b: I32? @index(b, b)  a: String @key @unique(b, a) @unique(a, b) }",
    ],
)
def test_order_comments_hints_and_form_do_not_change_the_shape(text):
    plain = compile_schema(parse_schema("node X { a: String @key  b: I32? @index  @unique(a, b) }"))
    assert compile_schema(parse_schema(text)).shape_hash == plain.shape_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("String @index", "String"),
        ('@owner("x")', '@owner("y")'),
        ('@owner("x")', "@owner"),
        ("implements Named {", "{ name: String @index "),
        ("0..150", "0..151"),
        ("@unique(age, name)", "@unique(age)"),
        ("@key(tenant, code)", "@key(tenant)"),
        ("enum(b, a)", "enum(a, b, c)"),
        ("@card(0..1)", ""),
        ("Person -> City", "City -> City"),
        ("since: Date?", "since: Date"),
        ("age: I32?", "age: I64?"),
    ],
)
def test_every_change_of_meaning_changes_the_shape(old, new):
    assert old in _BASE
    changed = compile_schema(parse_schema(_BASE.replace(old, new)))
    assert changed.shape_hash != compile_schema(parse_schema(_BASE)).shape_hash


def test_key_order_is_kept_in_the_catalog_but_is_not_part_of_the_shape():
    one = compile_schema(parse_schema(_BASE))
    other = compile_schema(parse_schema(_BASE.replace("@key(tenant, code)", "@key(code, tenant)")))
    assert one.nodes["City"].key == ("tenant", "code")
    assert other.nodes["City"].key == ("code", "tenant")
    assert one.shape_hash == other.shape_hash


def test_shape_hash_is_the_one_the_catalog_carries():
    catalog = compile_schema(parse_schema(_BASE))
    assert shape_hash(catalog) == catalog.shape_hash
    assert catalog.shape_hash.startswith("sha256:")


def test_catalogs_survive_pickling():
    catalog = compile_schema(parse_schema(_BASE))
    copy = pickle.loads(pickle.dumps(catalog))  # noqa: S301 - our own bytes
    assert copy == catalog
    assert copy.nodes["Person"].get("age") == catalog.nodes["Person"].get("age")


def test_numbers_that_no_text_can_hold_are_refused_in_trees_too():
    infinite = Literal(value=float("inf"))
    number = Property(name=Ident(text="n"), type=TypeRef(scalar="F64"))
    bounds = Constraint(name="range", arguments=(Ident(text="n"), RangeBound(low=infinite, high=None)))
    annotated = Property(
        name=Ident(text="n"),
        type=TypeRef(scalar="F64"),
        annotations=(Annotation(name=Ident(text="x"), value=infinite),),
    )
    for items in ((number, bounds), (annotated,)):
        tree = SchemaFile(declarations=(NodeDecl(name=Ident(text="A"), items=items),))
        with pytest.raises(SchemaCheckError) as caught:
            compile_schema(tree)
        assert caught.value.details.rule == "number_range"


def test_range_bounds_that_are_not_numbers_are_refused_in_trees():
    number = Property(name=Ident(text="n"), type=TypeRef(scalar="F64"))
    bounds = RangeBound(low=Literal(value="0"), high=None)
    items = (number, Constraint(name="range", arguments=(Ident(text="n"), bounds)))
    with pytest.raises(SchemaCheckError) as caught:
        compile_schema(SchemaFile(declarations=(NodeDecl(name=Ident(text="A"), items=items),)))
    assert caught.value.details.rule == "range_arguments"


def test_reading_a_schema_without_patterns_loads_no_arrow():
    code = (
        "import sys\n"
        "from omnigraph.catalog import compile_schema, catalog_to_json\n"
        "from omnigraph.lang.pg import parse_schema\n"
        "catalog_to_json(compile_schema(parse_schema('node A { a: String @key }')))\n"
        "sys.exit(sorted({'pyarrow', 'numpy'} & set(sys.modules)) != [])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_broken_patterns_leave_nothing_on_standard_error():
    code = (
        "from omnigraph.catalog.constraints import pattern_problem\n"
        "assert pattern_problem('(') == 'missing ): ('\n"
        "assert pattern_problem('(?=a)') == 'invalid perl operator: (?='\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
