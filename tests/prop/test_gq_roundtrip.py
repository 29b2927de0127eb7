"""Formatting queries and reading them back loses nothing, comments included."""

from __future__ import annotations

import os
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import QueryFile
from omnigraph.lang.gq.format import format_queries
from tests.prop.strategies_gq import comment_texts, query_files

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

# Comments may stand wherever white space may; the pattern cuts a text where both are legal.
_TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|[@$]?[A-Za-z_][A-Za-z0-9_]*|[0-9]+\.[0-9]+|[0-9]+|>=|<=|!=|[^\s]', re.DOTALL
)
_profile = settings(
    derandomize=True, deadline=None, max_examples=150 if LONG else 12, suppress_health_check=[HealthCheck.too_slow]
)


@_profile
@given(query_files)
def test_a_formatted_tree_parses_to_the_same_tree(tree: QueryFile):
    written = format_queries(tree)
    parsed = parse_queries(written)
    assert parsed == tree
    assert format_queries(parsed) == written


@_profile
@given(query_files, st.data())
def test_comments_anywhere_survive_formatting_in_their_order(tree: QueryFile, data: st.DataObject):
    pieces: list[str] = []
    for token in _TOKEN.findall(format_queries(tree)):
        pieces.extend(data.draw(st.lists(comment_texts, max_size=2)))
        pieces.append(f" {token} ")
    pieces.extend(data.draw(st.lists(comment_texts, max_size=2)))
    commented = parse_queries("".join(pieces))
    assert commented.queries == tree.queries
    written = format_queries(commented)
    reread = parse_queries(written)
    assert reread == commented
    assert format_queries(reread) == written
