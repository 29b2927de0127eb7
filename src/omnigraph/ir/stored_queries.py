"""Stored queries: the declarations that are invoked by name, parsed once per file and checked against a schema."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from omnigraph.catalog import Catalog
from omnigraph.errors import (
    Diagnostic,
    DiagnosticError,
    OmnigraphError,
    Place,
    QueryParameterError,
    SourceTooLargeError,
    StoredQueryDuplicateError,
    StoredQueryMissingError,
)
from omnigraph.ir.compile import compile_declaration
from omnigraph.ir.parameters import ParameterType, parameter_types
from omnigraph.lang.gq import parse_queries, select_query
from omnigraph.lang.gq.ast import QueryDecl, QueryFile
from omnigraph.lang.source import SourceText
from omnigraph.records import record

_MAX_NEAR = 3


@record
class QuerySource:
    """A file of stored queries.

    Args:
        name: what errors call it.
        text: all of it.
        only: the declarations that are registered; all of them when None.
    """

    name: str
    text: str
    only: frozenset[str] | None = None


@record
class QueryEntry:
    """What a catalogue tells of a stored query: how it is called, and nothing of its text."""

    name: str
    is_mutation: bool
    parameters: tuple[ParameterType, ...] = ()
    description: str | None = None
    instruction: str | None = None
    mcp_expose: bool = False
    reads_rows: bool = True

    def signature(self) -> str:
        """Return the head of the declaration.

        >>> QueryEntry(name="all_teams", is_mutation=False).signature()
        'all_teams()'
        """
        parameters = ", ".join(f"${one.name}: {one.type}" for one in self.parameters)
        return f"{self.name}({parameters})"


@record(slots=False)
class StoredQuery:
    """A declaration of a file, with the text of the whole file."""

    name: str
    source: SourceText = field(repr=False)
    declared: QueryDecl = field(repr=False)

    @property
    def text(self) -> str:
        """The whole file."""
        return self.source.text

    @property
    def source_name(self) -> str:
        """What errors call the file."""
        return self.source.name

    @property
    def is_mutation(self) -> bool:
        """Whether invoking it changes the graph."""
        return self.declared.is_mutation

    @property
    def mcp_expose(self) -> bool:
        """Whether it says that agents get it as a tool of its own."""
        return self.declared.mcp == "expose"

    @cached_property
    def place(self) -> Place:
        """Where its name stands."""
        return self.source.place(self.declared.name.span)

    @cached_property
    def parameters(self) -> tuple[ParameterType, ...]:
        """Its parameters, as they are declared."""
        return parameter_types(self.declared.parameters)

    @cached_property
    def entry(self) -> QueryEntry:
        """What a catalogue tells of it."""
        return QueryEntry(
            name=self.name,
            is_mutation=self.is_mutation,
            parameters=self.parameters,
            description=self.declared.description,
            instruction=self.declared.instruction,
            mcp_expose=self.mcp_expose,
            reads_rows=self.declared.reads_rows,
        )

    @cached_property
    def declaration(self) -> str:
        """The text of this declaration alone, on the lines and columns that it has in its file.

        It is what is run: a plan then costs the declaration instead of the file, and errors still name the right line.
        """
        span = self.declared.span
        before = self.source.text[: span.start]
        column = span.start - (before.rfind("\n") + 1)
        return "\n" * before.count("\n") + " " * column + self.source.text[span.start : span.end]

    def to_json(self) -> dict[str, Any]:
        """Return ``QueryCatalogEntry``."""
        told = {"description": self.declared.description, "instruction": self.declared.instruction}
        return {
            "name": self.name,
            "tool_name": self.name,
            **{name: text for name, text in told.items() if text is not None},
            "mutation": self.is_mutation,
            "params": [one.descriptor() for one in self.parameters],
        }


@record
class QueryProblem:
    """Something about a file of stored queries, or about one of its declarations.

    ``parse``: the file is no query file. ``undeclared``: it lacks a declaration that is to be registered.
    ``duplicate``: another declaration has the name. ``type``: the declaration does not fit the schema. ``vector``, a
    warning: agents get it as a tool, and cannot supply a vector.
    """

    kind: Literal["parse", "undeclared", "duplicate", "type", "vector"]
    source_name: str
    message: str
    query: str | None = None
    place: Place | None = None
    error: OmnigraphError | None = field(default=None, compare=False, repr=False)

    @property
    def is_warning(self) -> bool:
        """Whether the query can be used all the same."""
        return self.kind == "vector"

    def __str__(self) -> str:
        at = self.source_name if self.place is None else f"{self.source_name}:{self.place.line}:{self.place.column}"
        return f"{at}: {self.message}"


@record
class ExaminedQueries:
    """The queries that can be used, and everything that is wrong with the others."""

    queries: StoredQueries
    problems: tuple[QueryProblem, ...]

    @property
    def breakages(self) -> tuple[QueryProblem, ...]:
        """What keeps queries from being used."""
        return tuple(one for one in self.problems if not one.is_warning)

    @property
    def warnings(self) -> tuple[QueryProblem, ...]:
        """What does not."""
        return tuple(one for one in self.problems if one.is_warning)

    def sound(self) -> StoredQueries:
        """Return the queries if all of them can be used; raises the first breakage otherwise."""
        for problem in self.breakages:
            if problem.error is not None:
                raise problem.error
        return self.queries


def examine_queries(
    sources: Iterable[QuerySource], catalog: Catalog | None = None, *, exposes_all: bool = False
) -> ExaminedQueries:
    """Parse every file once, and check every declaration; what they hold raises nothing.

    Args:
        sources: the files. One text given several times, as by a store of payloads by query, is parsed once.
        catalog: the schema; without one, nothing is said about types.
        exposes_all: whether agents get all of them as tools, not only those that say so.
    """
    found: dict[str, StoredQuery] = {}
    problems: list[QueryProblem] = []
    for source in _merged(sources):
        try:
            file = parse_queries(source.text, source.name)
        except (DiagnosticError, SourceTooLargeError) as error:
            problems.append(_problem("parse", source.name, error))
            continue
        declared, missing = _registered(file, source)
        problems += missing
        for one in declared:
            problem = _first(found, one) or _misfit(one, catalog)
            if problem is not None:
                problems.append(problem)
                continue
            found[one.name] = one
            problems += _vectors(one, is_exposed=exposes_all or one.mcp_expose)
    return ExaminedQueries(queries=StoredQueries(found), problems=tuple(problems))


class StoredQueries:
    """The stored queries of one graph, by name."""

    def __init__(self, queries: Mapping[str, StoredQuery]) -> None:
        self._queries = MappingProxyType(dict(sorted(queries.items())))

    @classmethod
    def parse(cls, sources: Iterable[QuerySource]) -> StoredQueries:
        """Parse every file; nothing is said about types.

        Raises:
            QuerySyntaxError, SourceEncodingError, SourceTooLargeError: a file is no query file.
            QueryNotFoundError: a file lacks a declaration that is to be registered.
            StoredQueryDuplicateError: two declarations have the same name.
        """
        return examine_queries(sources).sound()

    @classmethod
    def check(cls, sources: Iterable[QuerySource], catalog: Catalog) -> StoredQueries:
        """Parse every file and check every declaration against a schema.

        Raises:
            QueryTypeError, QueryMeaningError: a declaration is not a query of this schema.
            OmnigraphError: whatever :meth:`parse` raises.
        """
        return examine_queries(sources, catalog).sound()

    def examine(self, catalog: Catalog, *, exposes_all: bool = False) -> ExaminedQueries:
        """Check every declaration against another schema; takes and returns what :func:`examine_queries` does."""
        problems: list[QueryProblem] = []
        found: dict[str, StoredQuery] = {}
        for one in self:
            misfit = _misfit(one, catalog)
            if misfit is None:
                found[one.name] = one
            problems += _vectors(one, is_exposed=exposes_all or one.mcp_expose) if misfit is None else (misfit,)
        return ExaminedQueries(queries=StoredQueries(found), problems=tuple(problems))

    def expect_fit(self, catalog: Catalog) -> None:
        """Return if every declaration fits another schema.

        Raises:
            QueryTypeError, QueryMeaningError: one does not.
        """
        self.examine(catalog).sound()

    def __iter__(self) -> Iterator[StoredQuery]:
        return iter(self._queries.values())

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, name: object) -> bool:
        return name in self._queries

    def get(self, name: str) -> StoredQuery:
        """Return a query.

        Raises:
            StoredQueryMissingError: there is none of that name.
        """
        found = self._queries.get(name)
        if found is None:
            raise StoredQueryMissingError.of(name, near_queries(name, self._queries))
        return found


def near_queries(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names that were probably meant by one that is missing."""
    return tuple(difflib.get_close_matches(name[:200], list(known), n=_MAX_NEAR))


def _merged(sources: Iterable[QuerySource]) -> Iterator[QuerySource]:
    """Yield every text once, with all declarations that are wanted of it.

    Whole files are told apart by their names too: two that hold the same declare everything twice.
    """
    wanted: dict[str, set[str]] = {}
    found: dict[str | tuple[str, str], QuerySource] = {}
    for source in sources:
        if source.only is None:
            found[source.name, source.text] = source
            continue
        wanted.setdefault(source.text, set()).update(source.only)
        found.setdefault(source.text, source)
    for key, source in found.items():
        only = wanted[key] if isinstance(key, str) else None
        yield source if only is None else QuerySource(name=source.name, text=source.text, only=frozenset(only))


def _registered(file: QueryFile, source: QuerySource) -> tuple[list[StoredQuery], list[QueryProblem]]:
    declared = [
        StoredQuery(name=one.name.text, source=file.source, declared=one)
        for one in file.queries
        if source.only is None or one.name.text in source.only
    ]
    missing: list[QueryProblem] = []
    for name in sorted((source.only or frozenset()) - {one.name for one in declared}):
        try:
            select_query(file, name)
        except OmnigraphError as error:
            missing.append(_problem("undeclared", source.name, error, name))
    return declared, missing


def _first(found: Mapping[str, StoredQuery], one: StoredQuery) -> QueryProblem | None:
    before = found.get(one.name)
    if before is None:
        return None
    at = f"{before.source_name}:{before.place.line}"
    details = Diagnostic(place=one.place, expected=("each name once",), found=one.name)
    error = StoredQueryDuplicateError(f"query '{one.name}' is declared already, in {at}", details=details)
    return _problem("duplicate", one.source_name, error, one.name)


def _misfit(one: StoredQuery, catalog: Catalog | None) -> QueryProblem | None:
    try:
        if catalog is not None:
            compile_declaration(one.declared, catalog, one.source)
        # Sizes that no type has are found without a schema, too.
        _ = one.parameters
    except (DiagnosticError, QueryParameterError) as error:
        return _problem("type", one.source_name, error, one.name, one.place)
    return None


def _vectors(one: StoredQuery, *, is_exposed: bool) -> Iterator[QueryProblem]:
    for parameter in one.declared.parameters if is_exposed else ():
        if parameter.type.dimension is not None:
            message = f"'{one.name}' is exposed as an MCP tool, but agents cannot supply the vector '${parameter.name}'"
            place = one.source.place(parameter.span)
            yield QueryProblem(kind="vector", source_name=one.source_name, message=message, query=one.name, place=place)


def _problem(
    kind: Literal["parse", "undeclared", "duplicate", "type"],
    source_name: str,
    error: OmnigraphError,
    query: str | None = None,
    place: Place | None = None,
) -> QueryProblem:
    place = getattr(error.details, "place", None) or place
    return QueryProblem(
        kind=kind, source_name=source_name, message=error.message, query=query, place=place, error=error
    )
