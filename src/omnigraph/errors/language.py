"""Errors in schema and query sources, and in compiled catalogs."""

from __future__ import annotations

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError
from omnigraph.errors.details import BadValue, Diagnostic, FormatMismatch, LimitExceeded, MissingThing, ParameterProblem


class DiagnosticError(OmnigraphError):
    """A finding with a place in a source text; prints the line, a caret and one suggestion.

    Never raised itself: the common base of errors in source texts.
    """

    details: Diagnostic

    def __str__(self) -> str:
        return render_diagnostic(self.message, self.details)


def render_diagnostic(message: str, details: Diagnostic) -> str:
    """Format a finding as text: headline with place, source line, caret, suggestion."""
    place = details.place
    suggestion = [f"suggestion: {details.suggestion}"] if details.suggestion else []
    if place is None:
        return "\n".join([message, *suggestion])
    margin = " " * len(str(place.line))
    # Tabs keep their width under the caret only if the padding repeats them.
    before = place.column - 1 - place.text_start
    padding = "".join("\t" if char == "\t" else " " for char in place.text[:before])
    underline = "^" * max(1, min(place.width, len(place.text) - before))
    return "\n".join(
        [
            f"{place.source}:{place.line}:{place.column}: {message}",
            f"{place.line} | {place.text}",
            f"{margin} | {padding}{underline}",
            *(f"{margin} = {line}" for line in suggestion),
        ]
    )


class SchemaSyntaxError(DiagnosticError):
    """The text is not a valid ``.pg`` schema."""

    row = ErrorRow(code="schema.syntax", kind=Kind.INVALID, details=Diagnostic)


class SchemaCheckError(DiagnosticError):
    """The schema parses but contradicts itself: types, annotations, constraints or names."""

    row = ErrorRow(code="schema.check", kind=Kind.INVALID, details=Diagnostic)


class SchemaPlanError(DiagnosticError):
    """The desired schema cannot be matched with the accepted one, usually because of a rename hint."""

    row = ErrorRow(code="schema.plan", kind=Kind.INVALID, details=Diagnostic)


class CatalogFormatError(OmnigraphError):
    """A compiled catalog has a format that this version does not support."""

    row = ErrorRow(
        code="catalog.format",
        kind=Kind.UNSUPPORTED,
        details=FormatMismatch,
        hint="upgrade omnigraph, or compile the schema again with this version",
    )


class CatalogCorruptError(OmnigraphError):
    """A compiled catalog does not match its own hash or shape."""

    row = ErrorRow(
        code="catalog.corrupt",
        kind=Kind.INTEGRITY,
        details=FormatMismatch,
        hint="compile the schema again; if the catalog came from a graph, stop writing and report it",
    )


class QuerySyntaxError(DiagnosticError):
    """The text is not a valid ``.gq`` file."""

    row = ErrorRow(code="query.syntax", kind=Kind.INVALID, details=Diagnostic)


class QueryTypeError(DiagnosticError):
    """The query does not fit the schema; ``details.rule`` is the violated rule (``T1`` to ``T29``), if any."""

    row = ErrorRow(code="query.type", kind=Kind.INVALID, details=Diagnostic)


class QueryMeaningError(DiagnosticError):
    """The query type-checks but asks for something meaningless, such as ordering by an unknown alias."""

    row = ErrorRow(code="query.meaning", kind=Kind.INVALID, details=Diagnostic)


class QueryParameterError(OmnigraphError):
    """A parameter is missing or does not have its declared type, or the parameters are not an object."""

    details: ParameterProblem
    row = ErrorRow(code="query.parameter", kind=Kind.INVALID, details=ParameterProblem)


class QueryNotFoundError(OmnigraphError, KeyError):
    """No query has that name, or no name was given although the file declares several."""

    row = ErrorRow(code="query.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class StoredQueryDuplicateError(DiagnosticError):
    """Two stored queries of a graph are declared under the same name."""

    row = ErrorRow(code="stored_query.duplicate", kind=Kind.INVALID, details=Diagnostic)


class StoredQueryArgumentsError(OmnigraphError, TypeError):
    """A stored query is called with an argument that it does not declare, or without one that it needs."""

    details: ParameterProblem
    row = ErrorRow(code="stored_query.arguments", kind=Kind.INVALID, details=ParameterProblem)


class WrongQueryKindError(OmnigraphError):
    """A mutation was passed where a read is expected, or a read where a mutation is expected."""

    row = ErrorRow(code="query.lane", kind=Kind.INVALID, details=BadValue)


class SourceEncodingError(DiagnosticError):
    """The source is not UTF-8, or contains a character that is not allowed."""

    row = ErrorRow(code="source.encoding", kind=Kind.INVALID, details=Diagnostic)


class SourceTooLargeError(OmnigraphError):
    """The source is larger or more deeply nested than allowed."""

    row = ErrorRow(
        code="source.too_large",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="split the source into several files, or reduce the nesting",
    )
