"""Parses ``.gq`` source texts."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from omnigraph.errors import MissingThing, QueryNotFoundError, QuerySyntaxError
from omnigraph.lang.gq.ast import QueryDecl, QueryFile
from omnigraph.lang.gq.builder import TreeBuilder
from omnigraph.lang.gq.lexer import QueryLexing
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
    lexing=QueryLexing,
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


_MAX_NAMES_SHOWN = 5


def select_query(file: QueryFile, name: str | None = None) -> QueryDecl:
    """Return the first declaration called ``name``, or the only one when no name is given.

    Raises:
        QueryNotFoundError: nothing has that name, or no name was given and the file does not hold exactly one.
    """
    if name is None:
        return _only_query(file)
    for query in file.queries:
        if query.name.text == name:
            return query
    near = tuple(difflib.get_close_matches(name, _names(file), n=_MAX_NAMES_SHOWN, cutoff=0.5))
    raise QueryNotFoundError(
        f"query '{name}' was not found in {file.source.name}",
        details=MissingThing(what="query", name=name, near=near),
    )


def _only_query(file: QueryFile) -> QueryDecl:
    if len(file.queries) == 1:
        return file.queries[0]
    names = _names(file)
    reason = "the source declares several queries; name one of them" if names else "the source declares no query"
    raise QueryNotFoundError(
        f"{reason}: {file.source.name} has {len(file.queries)}",
        details=MissingThing(what="query", name="", near=tuple(names[:_MAX_NAMES_SHOWN])),
    )


def _names(file: QueryFile) -> list[str]:
    return list(dict.fromkeys(query.name.text for query in file.queries))
