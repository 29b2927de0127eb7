"""Texts that try to bring the reader down: each gets the right tree or a typed error."""

from __future__ import annotations

import pytest

from omnigraph.errors import OmnigraphError, QuerySyntaxError, SourceTooLargeError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import Condition, ListLiteral, Logical, ReadBody
from omnigraph.lang.source import MAX_SOURCE_BYTES

pytestmark = pytest.mark.more


def condition(text: str) -> str:
    return f"query q() {{ match {{ {text} }} return {{ $p }} }}"


def parsed_condition(text: str) -> Condition:
    body = parse_queries(condition(text)).queries[0].body
    assert isinstance(body, ReadBody)
    (clause,) = body.match
    assert isinstance(clause, Condition)
    return clause


@pytest.mark.parametrize("word", ["or", "and"])
def test_ten_thousand_terms_are_one_node(word: str):
    clause = parsed_condition(f" {word} ".join(["$p.a = 1"] * 10_000))
    assert isinstance(clause.expression, Logical)
    assert len(clause.expression.operands) == 10_000


def test_a_huge_list_is_one_literal():
    clause = parsed_condition(f"$p.a in [{', '.join(['1'] * 50_000)}]")
    assert isinstance(clause.expression.right, ListLiteral)
    assert len(clause.expression.right.items) == 50_000


@pytest.mark.parametrize("text", ["(" * 10_000 + "$p.a" + ")" * 10_000, "-" * (MAX_SOURCE_BYTES - 100)])
def test_what_is_nested_without_end_is_refused(text: str):
    with pytest.raises(SourceTooLargeError, match="levels deep"):
        parse_queries(condition(text))


@pytest.mark.parametrize(
    "text",
    [
        "not " * 4_000 + "$p.a",
        "-" * 4_000 + "$p.a = 1",
        "1" + " + 1" * 10_000 + " = 1",
        "$p.a = " + "$p.a" + "[0]" * 1_000,
        "case when $p.a then " * 200 + "1" + " end" * 200,
        "exists { " * 60 + "$p.a + " * 60 + "1 > 2" + " }" * 60,
    ],
)
def test_an_expression_that_is_too_deep_to_be_walked_is_refused(text: str):
    with pytest.raises(QuerySyntaxError, match="nested more than 100 levels deep"):
        parse_queries(condition(text))


@pytest.mark.parametrize("unit", ["-", "not ", "(", "case when ", "$a and ", "1 + ", "[", "exists {", "|", "$a <", "&"])
def test_one_repeated_mark_up_to_the_largest_size_is_refused(unit: str):
    # What may go on for ever is read to its end: were the work not linear in its length, it would never come there.
    share = 16 if unit == "$a and " else 1
    with pytest.raises(OmnigraphError):
        parse_queries(condition(unit * ((MAX_SOURCE_BYTES - 100) // len(unit) // share)))
