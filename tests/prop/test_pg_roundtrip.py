"""Formatting a schema and reading it back loses nothing, comments included."""

from __future__ import annotations

import os
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.lang.pg import format_schema, parse_schema
from omnigraph.lang.pg.ast import SchemaFile
from tests.prop.strategies_pg import comment_texts, schema_files

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

# Comments may stand wherever white space may; the pattern cuts a text where both are legal.
_TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|@[a-z_][A-Za-z0-9_]*|->|\.\.|-?[0-9]+\.[0-9]+|[A-Za-z0-9_-]+|[^\s]', re.DOTALL
)


@settings(derandomize=True, deadline=None, max_examples=150 if LONG else 25)
@given(schema_files)
def test_a_formatted_tree_parses_to_the_same_tree(tree: SchemaFile):
    written = format_schema(tree)
    parsed = parse_schema(written)
    assert parsed == tree
    assert format_schema(parsed) == written


@settings(derandomize=True, deadline=None, max_examples=150 if LONG else 25)
@given(schema_files, st.data())
def test_comments_anywhere_survive_formatting_in_their_order(tree: SchemaFile, data: st.DataObject):
    pieces: list[str] = []
    for token in _TOKEN.findall(format_schema(tree)):
        pieces.extend(data.draw(st.lists(comment_texts, max_size=2)))
        pieces.append(f" {token} ")
    pieces.extend(data.draw(st.lists(comment_texts, max_size=2)))
    commented = parse_schema("".join(pieces))
    assert commented.declarations == tree.declarations
    written = format_schema(commented)
    reread = parse_schema(written)
    assert reread == commented
    assert format_schema(reread) == written
