"""Writing schema text: what the text cases of the corpus cannot show."""

from __future__ import annotations

import pytest

from omnigraph.lang.pg import format_schema, parse_schema
from omnigraph.lang.pg.ast import Annotation, Literal, NodeDecl, SchemaFile, TypeRef
from omnigraph.lang.pg.format import MAX_COLUMNS, format_type
from omnigraph.lang.source import Comment, Ident


def test_a_tree_built_by_hand_can_be_written():
    node = NodeDecl(name=Ident(text="City"))
    assert format_schema(SchemaFile(declarations=(node, node))) == "node City {}\n\nnode City {}\n"


def test_comments_of_a_tree_built_by_hand_are_not_lost():
    node = NodeDecl(name=Ident(text="City"))
    tree = SchemaFile(declarations=(node,), comments=(Comment(text="/* a */"), Comment(text="// b")))
    written = format_schema(tree)
    assert written == "node City {} /* a */ // b\n"
    assert parse_schema(written) == tree


def test_no_declarations_and_no_comments_give_no_text():
    assert format_schema(parse_schema(" \n\t\n")) == ""


def test_windows_line_ends_become_plain_ones_outside_block_comments():
    written = format_schema(parse_schema("// a\r\n\r\n/* b\r\nc */\r\nnode P {\r\n\r\n  a: String // d\r\n}\r\n"))
    assert written == "// a\n\n/* b\r\nc */\nnode P {\n    a: String // d\n}\n"


def test_an_enum_is_broken_only_when_its_line_is_too_long():
    def written(padding: int) -> list[str]:
        return format_schema(parse_schema(f"node P {{ a: enum({'x' * padding}, y) }}")).splitlines()

    fitting = MAX_COLUMNS - len("    a: enum(, y)")
    assert len(written(fitting)) == 3
    assert len(written(fitting)[1]) == MAX_COLUMNS
    assert written(fitting + 1) == ["node P {", "    a: enum(", f"        {'x' * (fitting + 1)}, y", "    )", "}"]


def test_lines_of_a_broken_enum_stay_within_the_width():
    values = ", ".join(f"value-number-{number}" for number in range(60))
    lines = format_schema(parse_schema(f"node P {{ a: enum({values})? @index }}")).splitlines()
    assert max(map(len, lines)) <= MAX_COLUMNS
    assert len(lines) < 20


@pytest.mark.parametrize("value", [0.1, 1e300, 5e-324, 123456789.125, 1e16, 2.0])
def test_fractions_are_written_without_exponent_and_read_back_exactly(value: float):
    annotation = Annotation(name=Ident(text="x"), value=Literal(value=value))
    tree = SchemaFile(declarations=(NodeDecl(name=Ident(text="P"), annotations=(annotation,)),))
    written = format_schema(tree)
    assert "e" not in written.removeprefix("node")
    assert parse_schema(written) == tree


@pytest.mark.parametrize(
    ("type_ref", "text"),
    [
        (TypeRef(scalar="I32", nullable=True), "I32?"),
        (TypeRef(scalar="String", is_list=True), "[String]"),
        (TypeRef(scalar="Vector", dimension=3), "Vector(3)"),
        (TypeRef(scalar="enum", enum_values=(Ident(text="a"), Ident(text="b")), nullable=True), "enum(a, b)?"),
    ],
)
def test_types_have_one_written_form(type_ref: TypeRef, text: str):
    assert format_type(type_ref) == text
