"""The tree that the parser builds, and the limits it keeps."""

from __future__ import annotations

import logging
import re
from importlib import resources

import pytest
from lark import Lark, logger

from omnigraph.errors import QuerySyntaxError, SourceEncodingError, SourceTooLargeError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    Assignment,
    Binding,
    Bm25,
    BooleanLiteral,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Expression,
    Filter,
    FloatLiteral,
    Hops,
    Insert,
    IntegerLiteral,
    ListLiteral,
    MutationBody,
    Nearest,
    Negation,
    Now,
    Ordering,
    Parameter,
    Predicate,
    Projection,
    PropertyAccess,
    PropertyMatch,
    QueryDecl,
    ReadBody,
    Rrf,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Update,
    Variable,
)
from omnigraph.lang.source import MAX_NESTING, MAX_SOURCE_BYTES, Ident, Span

P = Variable(name="p")
ONE = IntegerLiteral(value=1)


def only(source: str) -> QueryDecl:
    (query,) = parse_queries(source).queries
    return query


def read(clauses: str = "$p: Person", returned: str = "$p", rest: str = "") -> ReadBody:
    body = only(f"query q() {{ match {{ {clauses} }} return {{ {returned} }} {rest} }}").body
    assert isinstance(body, ReadBody)
    return body


def returned(expression: str) -> Expression:
    return read(returned=expression).projections[0].expression


def prop(variable: str, name: str) -> PropertyAccess:
    return PropertyAccess(variable=Variable(name=variable), property=Ident(text=name))


def test_declaration_holds_name_parameters_annotations_and_body():
    query = only(
        'query q($a: String?, $b: [I32], $c: Vector(3)) @instruction("i") @description("d") { delete P where a = 1 }'
    )
    assert query == QueryDecl(
        name=Ident(text="q"),
        parameters=(
            Parameter(name="a", type=TypeRef(scalar="String", nullable=True)),
            Parameter(name="b", type=TypeRef(scalar="I32", is_list=True)),
            Parameter(name="c", type=TypeRef(scalar="Vector", dimension=3)),
        ),
        description="d",
        instruction="i",
        body=MutationBody(
            statements=(
                Delete(type_name=Ident(text="P"), predicate=Predicate(property=Ident(text="a"), op="=", value=ONE)),
            )
        ),
    )
    assert query.is_mutation


def test_an_empty_annotation_is_not_a_missing_one():
    query = only('query q() @description("") { delete P where a = 1 }')
    assert query.description == ""
    assert query.instruction is None


def test_read_body_holds_its_four_parts():
    body = read("$p: Person { a: 1, b: $x, c: now() }", "$p.a as x, $p", "order { x desc, $p.a } limit 10")
    assert body == ReadBody(
        match=(
            Binding(
                variable=P,
                type_name=Ident(text="Person"),
                predicates=(
                    PropertyMatch(property=Ident(text="a"), value=ONE),
                    PropertyMatch(property=Ident(text="b"), value=Variable(name="x")),
                    PropertyMatch(property=Ident(text="c"), value=Now()),
                ),
            ),
        ),
        projections=(Projection(expression=prop("p", "a"), alias=Ident(text="x")), Projection(expression=P)),
        orderings=(
            Ordering(expression=AliasRef(name="x"), direction="desc"),
            Ordering(expression=prop("p", "a")),
        ),
        limit=10,
    )


def test_limit_zero_is_not_a_missing_limit():
    assert read(rest="limit 0").limit == 0
    assert read().limit is None


@pytest.mark.parametrize(
    ("text", "traversal"),
    [
        ("$p knows $q", {}),
        ("$p knows{1,3} $q", {"hops": Hops(minimum=1, maximum=3)}),
        ("$p knows{2,} $q", {"hops": Hops(minimum=2, maximum=None)}),
        ("$p <knows> $q", {"is_undirected": True}),
        ("$p <knows>{0,0} $q", {"is_undirected": True, "hops": Hops(minimum=0, maximum=0)}),
        ("$p $w:knows $q", {"edge_variable": Variable(name="w")}),
        (
            "$p $w:<knows>{1,1} $q",
            {"edge_variable": Variable(name="w"), "is_undirected": True, "hops": Hops(minimum=1, maximum=1)},
        ),
    ],
)
def test_traversal_holds_what_was_written(text: str, traversal: dict):
    (clause,) = read(text).match
    assert clause == Traversal(source=P, edge=Ident(text="knows"), destination=Variable(name="q"), **traversal)


@pytest.mark.parametrize(
    "word", ["contains", "starts_with", "count", "now", "date", "true", "false", "not", "match_text"]
)
@pytest.mark.parametrize("form", ["$p {0} $q", "$p <{0}> $q", "$p $w:{0} $q", "$p $w:<{0}> $q", "$p {0}{{1,2}} $q"])
def test_edge_named_like_a_keyword_is_traversed(word: str, form: str):
    (clause,) = read(form.format(word)).match
    assert isinstance(clause, Traversal)
    assert clause.edge == Ident(text=word)


@pytest.mark.parametrize("op", ["=", "!=", ">", "<", ">=", "<=", "contains", "starts_with"])
def test_filter_holds_both_sides_in_their_order(op: str):
    (clause,) = read(f"$p.a {op} $x").match
    assert clause == Filter(left=prop("p", "a"), op=op, right=Variable(name="x"))


def test_negation_holds_its_clauses():
    (clause,) = read("not { $p knows $_ not { $p.a = 1 } }").match
    traversal = Traversal(source=P, edge=Ident(text="knows"), destination=Variable(name="_"))
    inner = Negation(clauses=(Filter(left=prop("p", "a"), op="=", right=ONE),))
    assert clause == Negation(clauses=(traversal, inner))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ('"a\\n\\t\\r\\"\\\\"', StringLiteral(value='a\n\t\r"\\')),
        ("0012", IntegerLiteral(value=12)),
        ("01.50", FloatLiteral(value=1.5, text="01.50")),
        ("true", BooleanLiteral(value=True)),
        ("false", BooleanLiteral(value=False)),
        ('date("2026-01-31")', DateLiteral(text="2026-01-31")),
        ('datetime("x")', DateTimeLiteral(text="x")),
        ("[1, []]", ListLiteral(items=(ONE, ListLiteral(items=())))),
        ("$_", Variable(name="_")),
        ("now()", Now()),
        ("now", AliasRef(name="now")),
        ("sum($p.a)", Aggregate(function="sum", argument=prop("p", "a"))),
        ("search($p.a, $x)", TextSearch(function="search", target=prop("p", "a"), query=Variable(name="x"))),
        ("match_text($p.a, 1)", TextSearch(function="match_text", target=prop("p", "a"), query=ONE)),
        ("fuzzy($p.a, 1)", TextSearch(function="fuzzy", target=prop("p", "a"), query=ONE)),
        ("fuzzy($p.a, 1, $p)", TextSearch(function="fuzzy", target=prop("p", "a"), query=ONE, max_edits=P)),
        (
            "rrf(nearest($p.v, $p), bm25($p.a, 1), 1)",
            Rrf(first=Nearest(target=prop("p", "v"), query=P), second=Bm25(target=prop("p", "a"), query=ONE), k=ONE),
        ),
    ],
)
def test_expression_holds_what_was_written(text: str, expression: Expression):
    assert returned(text) == expression


def test_statements_keep_their_order():
    body = only("query q() { insert P { a: 1 b: $x } update P set { a: 1 } where b >= now() }").body
    assert body == MutationBody(
        statements=(
            Insert(
                type_name=Ident(text="P"),
                assignments=(
                    Assignment(property=Ident(text="a"), value=ONE),
                    Assignment(property=Ident(text="b"), value=Variable(name="x")),
                ),
            ),
            Update(
                type_name=Ident(text="P"),
                assignments=(Assignment(property=Ident(text="a"), value=ONE),),
                predicate=Predicate(property=Ident(text="b"), op=">=", value=Now()),
            ),
        )
    )


def test_spans_cover_exactly_the_text_of_their_node():
    source = (
        "query q($a: [I32]?) { match { $p: P { a: 1, } $p $w:<e>{1,2} $q "
        'not { search($p.a, "é") } } return { $p.* count($p) as n, } order { n desc } limit 3 }'
    )
    (query,) = parse_queries(source).queries
    body = query.body
    assert isinstance(body, ReadBody)
    binding, traversal, negation = body.match
    nodes = {
        source: query,
        "$a: [I32]?": query.parameters[0],
        "[I32]?": query.parameters[0].type,
        source[source.index("match") : -2]: body,
        "$p: P { a: 1, }": binding,
        "$p $w:<e>{1,2} $q": traversal,
        "{1,2}": traversal.hops,
        'not { search($p.a, "é") }': negation,
        'search($p.a, "é")': negation.clauses[0],
        "$p.*": body.projections[0],
        "count($p) as n": body.projections[1],
        "count($p)": body.projections[1].expression,
        "n desc": body.orderings[0],
    }
    for text, node in nodes.items():
        assert source[node.span.start : node.span.end] == text


def test_error_place_counts_bytes_for_the_range_and_characters_for_the_column():
    with pytest.raises(QuerySyntaxError, match="unexpected '%'") as caught:
        parse_queries('query q() @description("é") %', "a.gq")
    place = caught.value.details.place
    assert place is not None
    assert (place.source, place.start, place.end, place.line, place.column) == ("a.gq", 29, 30, 1, 29)
    assert caught.value.details.expected == ("'{'", "an annotation")
    assert caught.value.details.found == "'%'"


def test_error_at_the_end_of_the_file_has_a_place_of_one_byte():
    with pytest.raises(QuerySyntaxError, match="end of file") as caught:
        parse_queries("query q() {\n\n")
    place = caught.value.details.place
    assert place is not None
    assert (place.start, place.end, place.line, place.column) == (11, 12, 1, 12)
    assert caught.value.details.expected == ("'delete'", "'insert'", "'match'", "'update'", "'upsert'")


@pytest.mark.parametrize("word", ["ï", "_x", "9"])
def test_a_word_that_no_change_of_case_would_save_gets_no_such_suggestion(word: str):
    with pytest.raises(QuerySyntaxError, match="expected a type name") as caught:
        parse_queries(f"query q() {{ match {{ $p: {word} }} return {{ $p }} }}")
    assert "did you mean" not in str(caught.value)


def test_first_of_two_declarations_of_a_name_comes_first():
    tree = parse_queries("query a() { delete A where x = 1 } query a() { delete B where x = 1 }")
    assert [query.name.text for query in tree.queries] == ["a", "a"]


def test_comments_are_kept_beside_the_tree():
    tree = parse_queries('// a\nquery q() @description("// no") { /* b */ delete P where a = 1 }')
    assert [comment.text for comment in tree.comments] == ["// a", "/* b */"]
    assert tree.comments[0].span == Span(0, 4)


@pytest.mark.parametrize("data", [b"query \xff", b"\xef\xbb\xbfquery", b"query\0", "query \udc80"])
def test_what_is_no_source_text_is_refused(data: bytes | str):
    with pytest.raises(SourceEncodingError):
        parse_queries(data)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("query q() { match { $p.a = ", " } return { $p } }"),
        ("query q() { match { $p: P ", " } return { $p } }"),
    ],
)
@pytest.mark.parametrize("unit", [("[", "]"), ("not { ", " }"), ("count(", ")")])
def test_deep_nesting_is_refused_before_parsing(opening: str, closing: str, unit: tuple[str, str]):
    for depth in (MAX_NESTING + 1, 100_000):
        with pytest.raises(SourceTooLargeError, match="nested more than 64 levels deep"):
            parse_queries(f"{opening}{unit[0] * depth}1{unit[1] * depth}{closing}")


def test_nesting_up_to_the_limit_parses():
    depth = MAX_NESTING - 2
    assert read(f"$p.a = {'[' * depth}{']' * depth}").match
    assert read(f"{'not { ' * depth}$p: P{' }' * depth}").match


@pytest.mark.parametrize("filler", ["$p ", "{", '"', '\\"', "/*", "//", "9", "a", "\0", "\n"])
def test_ten_megabytes_are_refused_at_once(filler: str):
    with pytest.raises(SourceTooLargeError, match="too large"):
        parse_queries(filler * (10_000_000 // len(filler)))


@pytest.mark.parametrize(
    "unit", ["$", '"', '\\"', "/*", "*/", "9", "a", "$a", "A", "@a", "}", "]", "query", "1.", "query q() { ", "<"]
)
@pytest.mark.parametrize("start", ["", '"', "query q() { match { $p.a = ", "query q() @description("])
def test_a_source_of_the_largest_size_and_one_repeated_mark_is_refused_quickly(start: str, unit: str):
    # Every text is a clause, so all of them are read before the end is missed: which takes linear work.
    is_read = start.endswith("= ") and unit == '"'
    source = start + unit * ((MAX_SOURCE_BYTES - len(start)) // len(unit) // (16 if is_read else 1))
    with pytest.raises((QuerySyntaxError, SourceTooLargeError)):
        parse_queries(source)


@pytest.mark.parametrize("digits", ["9" * 400 + ".0", "9" * 5_000 + ".5"])
def test_a_float_beyond_64_bits_is_refused(digits: str):
    with pytest.raises(QuerySyntaxError, match="does not fit a 64-bit float"):
        returned(digits)


def test_an_integer_of_thousands_of_digits_is_refused():
    with pytest.raises(QuerySyntaxError, match="integer literal is too large"):
        returned("9" * 5_000)


def test_leading_zeros_without_end_are_harmless():
    assert returned("0" * 5_000 + "7") == IntegerLiteral(value=7)


def test_where_a_text_may_go_on_or_begin_anew_it_goes_on(caplog: pytest.LogCaptureFixture):
    # Lark settles a conflict in favour of shifting; only its debug log tells. These are wanted, others are mistakes.
    text = resources.files("omnigraph.lang.gq").joinpath("grammar.lark").read_text(encoding="utf-8")
    with caplog.at_level(logging.DEBUG, logger=logger.name):
        Lark(text, parser="lalr", lexer="contextual", debug=True)
    assert set(re.findall(r"(\S+) conflict for terminal", caplog.text)) == {"Shift/Reduce"}
    ended = set(re.findall(r"\* <(\w+) :", caplog.text))
    assert ended == {"primary", "soft_word", "comparison", "mutation"}
