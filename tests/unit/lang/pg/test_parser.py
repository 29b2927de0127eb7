"""Reading schema text: the tree, its places, and input that is no schema at all."""

from __future__ import annotations

from importlib import resources

import pytest

from omnigraph.errors import (
    LimitExceeded,
    OmnigraphError,
    SchemaCheckError,
    SchemaSyntaxError,
    SourceEncodingError,
    SourceTooLargeError,
)
from omnigraph.lang.pg import parse_schema
from omnigraph.lang.pg.ast import (
    Annotation,
    Cardinality,
    Constraint,
    EdgeDecl,
    InterfaceDecl,
    Literal,
    NodeDecl,
    Property,
    RangeBound,
    TypeRef,
)
from omnigraph.lang.source import MAX_NESTING, MAX_SOURCE_BYTES, Ident, Span


def name(text: str) -> Ident:
    return Ident(text=text)


def only_node(text: str) -> NodeDecl:
    (declaration,) = parse_schema(text).declarations
    assert isinstance(declaration, NodeDecl)
    return declaration


def test_a_node_becomes_a_tree_in_written_order():
    node = only_node('node P @description("x") implements B, A { z: [String]? @index  @key(z, a)  a: Vector(3) }')
    assert node == NodeDecl(
        name=name("P"),
        annotations=(Annotation(name=name("description"), value=Literal(value="x")),),
        implements=(name("B"), name("A")),
        items=(
            Property(
                name=name("z"),
                type=TypeRef(scalar="String", is_list=True, nullable=True),
                annotations=(Annotation(name=name("index")),),
            ),
            Constraint(name="key", arguments=(name("z"), name("a"))),
            Property(name=name("a"), type=TypeRef(scalar="Vector", dimension=3)),
        ),
    )


def test_an_edge_and_an_interface_become_a_tree():
    text = "edge E: A -> B @card(1..) @x { since: enum(b, a)? } interface I { a: Blob }"
    assert parse_schema(text).declarations == (
        EdgeDecl(
            name=name("E"),
            source=name("A"),
            target=name("B"),
            cardinality=Cardinality(minimum=1, maximum=None),
            annotations=(Annotation(name=name("x")),),
            items=(
                Property(
                    name=name("since"),
                    type=TypeRef(scalar="enum", enum_values=(name("b"), name("a")), nullable=True),
                ),
            ),
        ),
        InterfaceDecl(name=name("I"), properties=(Property(name=name("a"), type=TypeRef(scalar="Blob")),)),
    )


def test_an_upper_bound_alone_is_a_maximum():
    (constraint,) = only_node("node P { @range(a, ..-1.5) }").items
    assert isinstance(constraint, Constraint)
    assert constraint.arguments == (name("a"), RangeBound(low=None, high=Literal(value=-1.5)))


def test_a_bare_name_and_a_string_are_told_apart_as_annotation_values():
    bare, quoted = only_node('node P @embed(text, model="m") @embed("text") {}').annotations
    assert (bare.value, bare.keywords) == (name("text"), ((name("model"), Literal(value="m")),))
    assert quoted.value == Literal(value="text")


@pytest.mark.parametrize("word", ["node", "edge", "interface", "implements", "type", "enum", "true", "false", "card"])
def test_keyword_like_words_name_properties_and_constraint_columns(word: str):
    declared, constraint = only_node(f"node P {{ {word}: String @unique({word}) }}").items
    assert declared.name == name(word)
    assert isinstance(constraint, Constraint)
    assert constraint.arguments == (name(word),)


def test_escapes_are_resolved():
    (annotation,) = only_node(r'node P @x("\"\\\n\r\t") {}').annotations
    assert annotation.value == Literal(value='"\\\n\r\t')


def test_spans_cover_exactly_what_was_written():
    text = "// c\nnode P @a(1) {\n  b: [I32]? @c\n  @ key ( b )\n}\nedge E: P -> P @card(0..*)"
    tree = parse_schema(text)
    node, edge = tree.declarations
    assert isinstance(node, NodeDecl)
    assert isinstance(edge, EdgeDecl)

    def written(span: Span) -> str:
        return text[span.start : span.end]

    declared, constraint = node.items
    assert isinstance(declared, Property)
    assert written(node.span) == text[5 : text.index("\nedge")]
    assert written(node.annotations[0].span) == "@a(1)"
    assert written(declared.span) == "b: [I32]? @c"
    assert written(declared.type.span) == "[I32]?"
    assert written(declared.annotations[0].name.span) == "c"
    assert written(constraint.span) == "@ key ( b )"
    assert written(edge.span) == "edge E: P -> P @card(0..*)"
    assert [written(comment.span) for comment in tree.comments] == ["// c"]


def test_a_comment_that_names_a_constraint_does_not_lend_it_its_name():
    text = "node P { @ /* unique */ key // range\n (a) }"
    (constraint,) = only_node(text).items
    assert constraint.name == "key"


def test_windows_line_ends_read_like_others():
    text = "// head\r\nnode P {\r\n  a: String // who\r\n}\r\n"
    tree = parse_schema(text)
    assert tree == parse_schema(text.replace("\r\n", "\n"))
    assert [comment.text for comment in tree.comments] == ["// head", "// who"]


def test_the_caret_points_at_the_word_on_a_line_with_windows_line_ends():
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema("node P {\r\n  a: Strin\r\n}\r\n", "people.pg")
    assert str(caught.value).splitlines() == [
        "people.pg:2:6: syntax error: unexpected 'Strin'; expected 'Decimal', 'Vector', '[', 'enum' or a type",
        "2 |   a: Strin",
        "  |      ^^^^^",
        "  = suggestion: did you mean 'String'?",
    ]


def test_the_caret_keeps_tabs_so_that_it_stands_under_the_word():
    with pytest.raises(SchemaCheckError) as caught:
        parse_schema("node P {\n\tname: String\tid: String\n}")
    assert str(caught.value).splitlines()[1:3] == ["2 | \tname: String\tid: String", "  | \t            \t^^"]


def test_places_count_characters_for_columns_and_bytes_for_offsets():
    text = 'node P @x("äöü☃") { a: Vector(0) }'
    with pytest.raises(SchemaCheckError) as caught:
        parse_schema(text)
    place = caught.value.details.place
    assert place is not None
    assert place.column == text.index("0") + 1
    assert place.start == len(text[: text.index("0")].encode())
    assert place.end == place.start + 1


def test_an_unfinished_text_is_reported_behind_its_last_word():
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema("node P {\n  a: String\n\n\n")
    place = caught.value.details.place
    assert place is not None
    assert (place.line, place.column) == (2, 12)
    assert place.end > place.start


def test_an_error_lists_what_could_have_stood_there():
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema("nod P {}")
    details = caught.value.details
    assert details.expected == ("'edge'", "'interface'", "'node'")
    assert details.found == "'nod'"
    assert details.suggestion == "did you mean 'node'?"


def test_control_characters_are_not_echoed_in_the_headline():
    with pytest.raises(SchemaSyntaxError) as caught:
        parse_schema("\x1b[2J")
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("data", [b"\xff\xfe", b"node P {} \xc3", b"node \xed\xa0\x80", "node \udc80", b"\xf8\x88\x80"])
def test_bytes_that_are_not_utf8_are_refused(data: bytes | str):
    with pytest.raises(SourceEncodingError):
        parse_schema(data)


@pytest.mark.parametrize("data", ["node P {\0}", "\0", '// "\0'])
def test_a_nul_character_is_refused_wherever_it_stands(data: str):
    with pytest.raises(SourceEncodingError, match="NUL"):
        parse_schema(data)


def test_a_byte_order_mark_is_refused():
    with pytest.raises(SourceEncodingError, match="byte order mark"):
        parse_schema(b"\xef\xbb\xbfnode P {}")


def test_every_single_byte_is_answered():
    for value in range(256):
        try:
            parse_schema(bytes([value]))
        except OmnigraphError:
            continue
        assert bytes([value]) in b" \t\r\n"


def test_a_source_past_the_size_limit_is_refused_before_it_is_read():
    with pytest.raises(SourceTooLargeError) as caught:
        parse_schema(b"node P {}\n" * 1_000_000)
    assert isinstance(caught.value.details, LimitExceeded)
    assert caught.value.details.limit == MAX_SOURCE_BYTES
    assert caught.value.details.actual == 10_000_000


@pytest.mark.parametrize("opening", ["[", "(", "{", "node P {"])
def test_deep_nesting_is_refused(opening: str):
    with pytest.raises(SourceTooLargeError) as caught:
        parse_schema(opening * 10_000)
    assert isinstance(caught.value.details, LimitExceeded)
    assert caught.value.details.limit == MAX_NESTING


def test_brackets_in_strings_and_comments_are_no_nesting():
    brackets = "(" * 1000
    tree = parse_schema(f'// {brackets}\n/* {brackets} */ node P @x("{brackets}") {{}}')
    assert len(tree.declarations) == 1


@pytest.mark.parametrize(
    "unit", ['"\\', '"\\"', "/*", "/**", "*/", "}", "@", "@ ", "@/**/", "-", "9", "node ", "\\", "é", "..", "{}"]
)
def test_hostile_repetition_is_answered_quickly(unit: str):
    """Each of these made some pattern of a scanner start over at every character."""
    with pytest.raises(OmnigraphError):
        parse_schema(f"node P {unit * (400_000 // len(unit))}")


@pytest.mark.parametrize("digits", [20, 400, 5_000, 100_000])
def test_numbers_of_any_length_are_answered(digits: int):
    nines = "9" * digits
    for text in (
        f"node P {{ a: Vector({nines}) }}",
        f"node P @x(1{nines}) {{}}",
        f"edge E: A -> B @card(0..{nines})",
        f"node P {{ @range(a, -{nines}..) }}",
    ):
        with pytest.raises(SchemaCheckError):
            parse_schema(text)


def test_a_fraction_too_large_for_a_float_is_refused():
    with pytest.raises(SchemaCheckError, match="out of range"):
        parse_schema(f"node P @x({'9' * 400}.0) {{}}")


def test_leading_zeros_do_not_make_a_number_large():
    tree = parse_schema(f"node P {{ a: Vector({'0' * 5_000}7) }}")
    (declaration,) = tree.declarations
    assert isinstance(declaration, NodeDecl)
    (declared,) = declaration.items
    assert isinstance(declared, Property)
    assert declared.type.dimension == 7


def test_the_grammar_is_a_file_of_the_installed_package():
    grammar = resources.files("omnigraph.lang.pg").joinpath("grammar.lark")
    assert "start: declaration*" in grammar.read_text(encoding="utf-8")
