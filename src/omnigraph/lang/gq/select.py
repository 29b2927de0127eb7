"""Picks the one declaration of a file that a caller means."""

from __future__ import annotations

import difflib

from omnigraph.errors import MissingThing, QueryNotFoundError
from omnigraph.lang.gq.ast import QueryDecl, QueryFile

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
        f"query not found: source={file.source.name} name={name}",
        details=MissingThing(what="query", name=name, near=near),
    )


def _only_query(file: QueryFile) -> QueryDecl:
    if len(file.queries) == 1:
        return file.queries[0]
    names = _names(file)
    reason = "the source declares several queries, name one of them" if names else "the source declares no query"
    raise QueryNotFoundError(
        f"{reason}: source={file.source.name} queries={len(file.queries)}",
        details=MissingThing(what="query", name="", near=tuple(names[:_MAX_NAMES_SHOWN])),
    )


def _names(file: QueryFile) -> list[str]:
    return list(dict.fromkeys(query.name.text for query in file.queries))
