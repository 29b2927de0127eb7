"""Query lint: every declaration of a file against a schema, and what no declaration covers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from omnigraph.catalog.model import Catalog, NodeType, PropertyDef
from omnigraph.errors import DiagnosticError, OmnigraphError, QueryMeaningError, QueryTypeError, SourceTooLargeError
from omnigraph.ir.check import CheckedMutation, CheckedQuery, check_query
from omnigraph.ir.check.tree import CheckedUpdate, CheckedUpdateMatched
from omnigraph.ir.descriptor import OperationDescriptor, describe_operation
from omnigraph.ir.lint_rules import doubts_of
from omnigraph.ir.lower import lower_query
from omnigraph.lang.gq import ast, parse_queries
from omnigraph.lang.source import SourceText
from omnigraph.records import record

_Update = CheckedUpdate | CheckedUpdateMatched
Severity = Literal["error", "warning", "info"]
Status = Literal["ok", "error"]

CODES: dict[str, str] = {
    "Q000": "the file does not parse",
    "L201": "no update in the file sets a nullable property of an updated node type",
}

NO_PARAMETERS = "mutation declares no parameters, so every run does the same"

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@record
class SchemaSource:
    """Where the schema came from: a file with its path, or a graph with its URI."""

    kind: Literal["file", "graph"]
    location: str

    def to_json(self) -> dict[str, str]:
        """Return the source as JSON values."""
        return {"kind": self.kind, "path" if self.kind == "file" else "uri": self.location}


@record
class QueryResult:
    """What lint found about one declaration; ``problem`` is the error itself, with its place."""

    name: str
    kind: Literal["read", "mutation"]
    warnings: tuple[str, ...] = ()
    error: str | None = None
    operation: OperationDescriptor | None = None
    problem: QueryTypeError | None = None

    @property
    def status(self) -> Status:
        """Whether the declaration fits the schema."""
        return "ok" if self.error is None else "error"

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values, empty members left out."""
        fields: dict[str, Any] = {"name": self.name, "kind": self.kind, "status": self.status}
        if self.warnings:
            fields["warnings"] = list(self.warnings)
        if self.error is not None:
            fields["error"] = self.error
        if self.operation is not None:
            fields["operation"] = self.operation.to_json()
        return fields


@record
class QueryFinding:
    """A finding about the file as a whole; ``problem`` is the error that kept it from being read."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()
    problem: OmnigraphError | None = None

    def sort_key(self) -> tuple[int, str, str, str]:
        """Findings are listed by severity, type, property, message."""
        return (_RANK[self.severity], self.type_name or "", self.property or "", self.message)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values, empty members left out."""
        optional = {
            "type_name": self.type_name,
            "property": self.property,
            "query_names": list(self.query_names) or None,
        }
        fields = {"severity": self.severity, "code": self.code, "message": self.message}
        return fields | {name: value for name, value in optional.items() if value is not None}


@record
class LintReport:
    """The whole outcome; only errors make it fail."""

    query_path: str
    schema_source: SchemaSource | None
    results: tuple[QueryResult, ...]
    findings: tuple[QueryFinding, ...]

    @property
    def status(self) -> Status:
        """``error`` if anything is an error."""
        return "error" if self.errors else "ok"

    @property
    def errors(self) -> int:
        """How many queries do not fit, plus findings that are errors."""
        return sum(result.error is not None for result in self.results) + self._count("error")

    @property
    def warnings(self) -> int:
        """How many warnings there are, about queries and about the file."""
        return sum(len(result.warnings) for result in self.results) + self._count("warning")

    @property
    def infos(self) -> int:
        """How many findings only inform."""
        return self._count("info")

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        source = {} if self.schema_source is None else {"schema_source": self.schema_source.to_json()}
        return {
            "status": self.status,
            **source,
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [result.to_json() for result in self.results],
            "findings": [finding.to_json() for finding in self.findings],
        }

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def lint_queries(
    data: str | bytes, name: str, catalog: Catalog, schema_source: SchemaSource | None = None
) -> LintReport:
    """Parse a query file once and check every declaration of it; never raises for what the file holds."""
    try:
        file = parse_queries(data, name)
    except (DiagnosticError, SourceTooLargeError) as problem:
        finding = QueryFinding(severity="error", code="Q000", message=_placed(problem), problem=problem)
        return LintReport(query_path=name, schema_source=schema_source, results=(), findings=(finding,))
    results: list[QueryResult] = []
    updates: list[tuple[str, _Update]] = []
    for decl in file.queries:
        result, checked = _lint_query(decl, catalog, file.source)
        results.append(result)
        if isinstance(checked, CheckedMutation):
            updates.extend((result.name, item) for item in checked.statements if isinstance(item, _Update))
    findings = sorted(_unset_properties(updates), key=QueryFinding.sort_key)
    return LintReport(query_path=name, schema_source=schema_source, results=tuple(results), findings=tuple(findings))


def _lint_query(decl: ast.QueryDecl, catalog: Catalog, source: SourceText) -> tuple[QueryResult, CheckedQuery | None]:
    name, kind = decl.name.text, _kind(decl)
    warnings = [NO_PARAMETERS] if decl.is_mutation and not decl.parameters else []
    try:
        checked = check_query(decl, catalog, source)
    except QueryTypeError as problem:
        failed = QueryResult(name=name, kind=kind, warnings=tuple(warnings), error=problem.message, problem=problem)
        return failed, None
    try:
        lower_query(checked)
    except QueryMeaningError as problem:
        # The query fits the schema, so it is no type error; but running it can only fail.
        warnings.append(f"cannot run: {problem.message}")
    for doubt in doubts_of(checked):
        place = source.place(doubt.span)
        warnings.append(f"{place.line}:{place.column}: {doubt.message}; {doubt.advice}")
    operation = describe_operation(checked)
    return QueryResult(name=name, kind=kind, warnings=tuple(warnings), operation=operation), checked


def _kind(decl: ast.QueryDecl) -> Literal["read", "mutation"]:
    return "mutation" if decl.is_mutation else "read"


def _placed(problem: OmnigraphError) -> str:
    place = problem.details.place if isinstance(problem, DiagnosticError) else None
    return problem.message if place is None else f"{place.line}:{place.column}: {problem.message}"


def _unset_properties(updates: Iterable[tuple[str, _Update]]) -> Iterator[QueryFinding]:
    targets: dict[str, NodeType] = {}
    assigned: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    for query_name, update in updates:
        type_name = update.target.name
        if not isinstance(update.target, NodeType):
            continue
        targets[type_name] = update.target
        assigned[type_name].update(item.property.name for item in update.assignments)
        names[type_name].add(query_name)
    for type_name, target in targets.items():
        for prop in target.properties:
            if _is_expected(prop, target) and prop.name not in assigned[type_name]:
                yield QueryFinding(
                    severity="warning",
                    code="L201",
                    message=f"no update of '{type_name}' in this file sets its nullable property '{prop.name}'",
                    type_name=type_name,
                    property=prop.name,
                    query_names=tuple(sorted(names[type_name])),
                )


def _is_expected(prop: PropertyDef, target: NodeType) -> bool:
    return prop.type.nullable and prop.name not in (target.key or ()) and prop.embed is None
