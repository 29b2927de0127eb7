"""Parses ``.gq`` source texts."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import replace

from omnigraph.errors import MissingThing, QueryNotFoundError, QuerySyntaxError
from omnigraph.lang.gq.ast import QueryDecl, QueryFile
from omnigraph.lang.gq.builder import TreeBuilder
from omnigraph.lang.gq.lexer import QueryLexing
from omnigraph.lang.lalr import Scan
from omnigraph.lang.parsing import Grammar, TokenGroup, scan_comments
from omnigraph.lang.source import read_source

_NAME = "a name"
_TYPE_NAME = "a type name"

# Words that are names where nothing else may stand, and begin an expression elsewhere.
_SOFT_WORDS = frozenset(
    {
        *("NOW", "NEAREST", "BM25", "RRF", "TEXT_FUNCTION", "FUZZY", "COUNT", "AGGREGATE", "DATE", "DATETIME"),
        *("NOT", "EXISTS", "CASE", "OPTIONAL", "EACH", "PATH", "DISTINCT"),
    }
)
_LITERALS = frozenset({"STRING", "INTEGER", "FLOAT", "TRUE", "FALSE", "NULL"})
_JOINING = frozenset(
    {
        *("CMP", "MORETHAN", "LESSTHAN", "CONTAINS", "STARTS_WITH", "ENDS_WITH", "MATCHES", "IN", "NOT_IN"),
        *("IS_NULL", "IS_NOT_NULL", "AND", "OR"),
    }
)
_ARITHMETIC = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "LSQB_ITEM", "LPAR_CALL"})


def _foreign_hint(text: str, start: int, found: str, accepted: AbstractSet[str]) -> str | None:
    from omnigraph.lang.gq.foreign import foreign_hint  # noqa: PLC0415 - for mistakes

    return foreign_hint(text, start, found, accepted)


_GRAMMAR = Grammar(
    package=__package__,
    builder=TreeBuilder,
    lexing=QueryLexing,
    error=QuerySyntaxError,
    token_words={
        **dict.fromkeys(("AGGREGATE", "FUZZY", "RRF", "TEXT_FUNCTION"), "a function"),
        **dict.fromkeys(("DATE", "DATETIME", "FALSE", "FLOAT", "TRUE", "NULL"), "a literal"),
        "ANNOTATION": "an annotation",
        "CMP": "a comparison",
        "INTEGER": "a whole number",
        "NAME": _NAME,
        "STRING": "a string",
        "TYPE_NAME": _TYPE_NAME,
        "VARIABLE": "a $variable",
    },
    token_kinds=dict.fromkeys((*_SOFT_WORDS, "TRUE", "FALSE", "NULL"), "NAME"),
    # Where an expression may begin or go on there are two dozen tokens: they share a word.
    token_groups=(
        TokenGroup(
            "an expression",
            _SOFT_WORDS | _LITERALS | {"VARIABLE", "NAME", "LSQB", "LPAR", "MINUS"},
            least=len(_SOFT_WORDS) + len(_LITERALS),
            is_guessed=False,
        ),
        TokenGroup("an operator", _JOINING | _ARITHMETIC, least=3, is_guessed=True),
    ),
    hint=_foreign_hint,
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


def scan_queries(text: str) -> Scan:
    """Return the tokens of the beginning of a ``.gq`` source, and the terminals that can follow it."""
    return _GRAMMAR.scan(text)


def words_of(terminal: str) -> tuple[str, ...]:
    """Return the words that a terminal of the language stands for.

    >>> words_of("NOT_IN"), words_of("NAME")
    (('not in',), ())
    """
    return _GRAMMAR.words(terminal)


def _suggest_case(error: QuerySyntaxError) -> QuerySyntaxError:
    """Say so if a word is refused for its first letter alone, as an edge written like its declaration is."""
    details = error.details
    word = re.fullmatch(r"'([A-Za-z])([A-Za-z0-9_]*)'", details.found or "")
    if word is None or details.suggestion is not None:
        return error
    first, rest = word.groups()
    if not ({_NAME, "an expression"} if first.isupper() else {_TYPE_NAME}) & set(details.expected):
        return error
    other = f"{first}{rest}".lower() if f"{first}{rest}".isupper() else f"{first.swapcase()}{rest}"
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
    import difflib  # noqa: PLC0415 - for mistakes

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
