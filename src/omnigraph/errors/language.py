"""Errors about the two languages, their sources and their compiled forms."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Diagnostic, FormatMismatch, LimitExceeded, MissingThing, ParameterProblem
from omnigraph.errors.kinds import Kind


class DiagnosticError(OmnigraphError):
    """A finding with a place in a source text; prints the line, a caret and one suggestion.

    Not raised itself: it is what the errors of both languages have in common.
    """

    details: Diagnostic

    def __str__(self) -> str:
        return render_diagnostic(self.message, self.details)


def render_diagnostic(message: str, details: Diagnostic) -> str:
    """Lay a finding out for people: headline with place, source line, caret, suggestion."""
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
    """The text is not a ``.pg`` schema."""

    row = Row(code="schema.syntax", kind=Kind.INVALID, details=Diagnostic)


class SchemaCheckError(DiagnosticError):
    """The schema parses but contradicts itself: types, annotations, constraints or names."""

    row = Row(code="schema.check", kind=Kind.INVALID, details=Diagnostic)


class SchemaPlanError(DiagnosticError):
    """The desired schema cannot be related to the accepted one, usually because of a rename hint."""

    row = Row(code="schema.plan", kind=Kind.INVALID, details=Diagnostic)


class CatalogFormatError(OmnigraphError):
    """A compiled catalog was written by a version of the format that this one does not know."""

    row = Row(
        code="catalog.format",
        kind=Kind.UNSUPPORTED,
        details=FormatMismatch,
        hint="upgrade omnigraph, or compile the schema again with this version",
    )


class CatalogCorruptError(OmnigraphError):
    """A compiled catalog contradicts its own hash or shape."""

    row = Row(
        code="catalog.corrupt",
        kind=Kind.INTEGRITY,
        details=FormatMismatch,
        hint="compile the schema again; if the catalog came from a graph, stop writing and report it",
    )


class QuerySyntaxError(DiagnosticError):
    """The text is not a ``.gq`` file."""

    row = Row(code="query.syntax", kind=Kind.INVALID, details=Diagnostic)


class QueryTypeError(DiagnosticError):
    """A query parses but does not fit the schema; ``details.rule`` is the rule (``T1`` to ``T24``) if it has one."""

    row = Row(code="query.type", kind=Kind.INVALID, details=Diagnostic)


class QueryMeaningError(DiagnosticError):
    """A query type-checks but asks for something that has no meaning, such as ordering by an unknown alias."""

    row = Row(code="query.meaning", kind=Kind.INVALID, details=Diagnostic)


class QueryParameterError(OmnigraphError):
    """A parameter is missing, is not of its declared type, or the parameters are not an object."""

    details: ParameterProblem
    row = Row(code="query.parameter", kind=Kind.INVALID, details=ParameterProblem)


class QueryNotFoundError(OmnigraphError, KeyError):
    """No declaration of that name, or no name given although the file holds several."""

    row = Row(code="query.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class QueryLaneError(OmnigraphError):
    """A mutation was sent where reads are answered, or a read where mutations are run."""

    row = Row(code="query.lane", kind=Kind.INVALID, details=BadValue)


class SourceEncodingError(DiagnosticError):
    """The source is not UTF-8, or holds a character that no source may hold."""

    row = Row(code="source.encoding", kind=Kind.INVALID, details=Diagnostic)


class SourceTooLargeError(OmnigraphError):
    """The source is larger or more deeply nested than the limit that protects the process."""

    row = Row(
        code="source.too_large",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="split the source into several files, or flatten what is nested",
    )
