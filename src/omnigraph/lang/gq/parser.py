"""Parses ``.gq`` source texts."""

from __future__ import annotations

import re
from dataclasses import replace

from omnigraph.errors import QuerySyntaxError
from omnigraph.lang.gq.ast import QueryFile
from omnigraph.lang.gq.tree import TreeBuilder
from omnigraph.lang.parsing import Grammar, scan_comments
from omnigraph.lang.source import read_source

_NAME = "a name"
_TYPE_NAME = "a type name"

_KEYWORDS = (
    *("query", "match", "return", "order", "limit", "not", "as", "asc", "desc", "contains", "starts_with"),
    *("insert", "update", "delete", "set", "where", "now", "nearest", "bm25"),
)

# Where an expression may start there are two dozen tokens: those that never stand alone share a word.
_GRAMMAR = Grammar(
    package=__package__,
    builder=TreeBuilder,
    error=QuerySyntaxError,
    token_words={
        **{word.upper(): f"'{word}'" for word in _KEYWORDS},
        **dict.fromkeys(("AGGREGATE", "FUZZY", "RRF", "TEXT_FUNCTION"), "a function"),
        **dict.fromkeys(("DATE", "DATETIME", "FALSE", "FLOAT", "TRUE"), "a literal"),
        "ANNOTATION": "an annotation",
        "CMP": "a comparison",
        "INTEGER": "a whole number",
        "LESSTHAN": "'<'",
        "MORETHAN": "'>'",
        "NAME": _NAME,
        "STRING": "a string",
        "TYPE_NAME": _TYPE_NAME,
        "VARIABLE": "a $variable",
    },
)


def parse_queries(data: bytes | str, name: str = "<query>") -> QueryFile:
    """Parse a whole ``.gq`` source.

    >>> parse_queries("query all() { match { $p: Person } return { $p.name } }").queries[0].name.text
    'all'

    Raises:
        QuerySyntaxError: the text is not a sequence of query declarations.
        SourceEncodingError: the data is not UTF-8, or holds a character that no source may hold.
        SourceTooLargeError: the source is larger or more deeply nested than the limits.
    """
    source = read_source(data, name)
    try:
        queries = _GRAMMAR.parse(source)
    except QuerySyntaxError as error:
        raise _suggest_case(error) from None
    return QueryFile(queries=queries, comments=scan_comments(source.text), source=source)


def _suggest_case(error: QuerySyntaxError) -> QuerySyntaxError:
    """Say so if a word is refused for its first letter alone, as an edge written like its declaration is."""
    details = error.details
    has_better = (details.suggestion or "").startswith("did you mean")
    word = re.fullmatch(r"'([A-Za-z])([A-Za-z0-9_]*)'", details.found or "")
    if word is None or has_better:
        return error
    first, rest = word.groups()
    if (_NAME if first.isupper() else _TYPE_NAME) not in details.expected:
        return error
    other = f"{first.swapcase()}{rest}"
    return QuerySyntaxError(error.message, details=replace(details, suggestion=f"did you mean '{other}'?"))
