"""Generated texts of both editions: what they parse to, and that formatting loses nothing of it."""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings

from omnigraph.errors import QuerySyntaxError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import QueryFile
from omnigraph.lang.gq.format import MAX_COLUMNS, format_queries
from tests.gq_texts import Tokens, commented, first_edition, joined, second_edition

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
_profile = settings(
    derandomize=True,
    deadline=None,
    max_examples=1_000 if LONG else 25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# What the first edition had no node for, and what it left at its default.
_NEW_NODES = {
    *("Arithmetic", "Block", "Call", "Case", "Comparison", "Condition", "DeleteMatched", "Each", "ListExpression"),
    *("ListItem", "Logical", "MatchStatement", "Negative", "Not", "NullLiteral", "NullTest", "OptionalBlock"),
    *("PathClause", "Stage", "Union", "UpdateMatched", "Upsert"),
}
_NEW_FIELDS = {
    *("alternatives", "where", "stages", "is_distinct", "having", "offset", "per", "unions", "if_present", "for_each"),
    *("version", "nulls", "fraction"),
}


def nodes_of(node: Any) -> list[Any]:
    """Return a node and all nodes below it."""
    if isinstance(node, tuple):
        return [inner for item in node for inner in nodes_of(item)]
    if not is_dataclass(node):
        return []
    return [node, *(inner for field in fields(node) if field.compare for inner in nodes_of(getattr(node, field.name)))]


def parse_generated(text: str) -> QueryFile:
    """Parse a text, passing over those that the builder refuses: a direction of a ranking, a name alone as a clause."""
    try:
        return parse_queries(text)
    except QuerySyntaxError as error:
        if "syntax error" in error.message:
            raise
        reject()


def check_formatting(tree: QueryFile) -> None:
    written = format_queries(tree)
    reread = parse_queries(written)
    assert reread.queries == tree.queries
    assert [comment.text for comment in reread.comments] == [comment.text for comment in tree.comments]
    assert format_queries(reread) == written


@_profile
@given(first_edition())
def test_a_text_of_the_first_edition_has_no_node_of_the_second(tokens: Tokens):
    tree = parse_queries(joined(tokens))
    for node in nodes_of(tree.queries):
        assert type(node).__name__ not in _NEW_NODES
        changed = [name for name in _NEW_FIELDS if getattr(node, name, None) not in (None, (), False, "replace")]
        assert changed == []
    check_formatting(tree)


@_profile
@given(second_edition())
def test_a_formatted_text_parses_to_the_same_tree_and_stays_as_it_is(tokens: Tokens):
    check_formatting(parse_generated(joined(tokens)))


@pytest.mark.more
@_profile
@given(commented(second_edition()))
def test_no_comment_of_a_text_is_lost(text: str):
    check_formatting(parse_generated(text))


def test_a_long_expression_is_broken_up_within_the_columns():
    terms = " or ".join(f'$person.property_{number} = "value {number}"' for number in range(12))
    text = (
        f"query q() {{ match {{ $p: Person {terms} }} return {{ case when {terms} then [{'1, ' * 60}2] end as found }} "
        f"having ({terms}) and count(*) > 3 order {{ coalesce($p.{'a' * 40}, $p.{'b' * 40}, $p.{'c' * 40}) desc }} }}"
    )
    written = format_queries(parse_queries(text))
    assert max(map(len, written.splitlines())) <= MAX_COLUMNS
    check_formatting(parse_queries(text))
