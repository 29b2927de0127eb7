"""The checker's entry: one declaration against one schema."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from omnigraph.catalog.model import Catalog, PropertyType
from omnigraph.ir.check.match import check_clauses
from omnigraph.ir.check.mutations import check_statement
from omnigraph.ir.check.output import check_grouping, check_limit_rules, check_orderings, check_projections
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.tree import CheckedMutation, CheckedQuery, CheckedRead
from omnigraph.ir.model import NOW_PARAMETER
from omnigraph.ir.types import MAX_DIMENSION, resolve_type
from omnigraph.lang.gq import ast
from omnigraph.lang.source import SourceText


def check_parameters(decl: ast.QueryDecl, catalog: Catalog, source: SourceText) -> Mapping[str, PropertyType]:
    """Return the declared types by name, in declaration order."""
    types: dict[str, PropertyType] = {}
    scope = Scope(catalog=catalog, source=source, parameters=types)
    for parameter in decl.parameters:
        name = parameter.name
        if name == NOW_PARAMETER:
            raise scope.violation(None, f"parameter name '${name}' is reserved", parameter.span)
        if name == ast.ANONYMOUS:
            message = "a parameter needs a name, '$_' is the anonymous variable"
            raise scope.violation(None, message, parameter.span)
        if name in types:
            raise scope.violation(None, f"parameter '${name}' is declared twice", parameter.span)
        resolved = resolve_type(parameter.type)
        if resolved is None:
            raise scope.violation(None, _unknown(parameter), parameter.type.span)
        types[name] = resolved
    return MappingProxyType(types)


def _unknown(parameter: ast.Parameter) -> str:
    written = parameter.type
    if written.scalar == "Vector" and not written.is_list:
        bounds = f"a vector has 1 to {MAX_DIMENSION} dimensions"
        return f"parameter '${parameter.name}' has an invalid dimension {written.dimension}: {bounds}"
    shown = f"[{written.scalar}]" if written.is_list else written.scalar
    return f"parameter '${parameter.name}' has unknown type {shown}"


def check_query(decl: ast.QueryDecl, catalog: Catalog, source: SourceText) -> CheckedQuery:
    """Check a declaration against a schema; the first violation is reported.

    Args:
        decl: the selected declaration.
        catalog: the accepted schema.
        source: the text the declaration was read from, for places in errors.

    Raises:
        QueryTypeError: the first violated rule, with its code in ``details.rule`` if it has one.
    """
    parameters = check_parameters(decl, catalog, source)
    scope = Scope(catalog=catalog, source=source, parameters=parameters)
    body = decl.body
    if isinstance(body, ast.MutationBody):
        statements = tuple(check_statement(statement, scope) for statement in body.statements)
        return CheckedMutation(decl=decl, catalog=catalog, source=source, parameters=parameters, statements=statements)
    clauses = check_clauses(body.match, scope)
    projections = check_projections(body.projections, scope)
    orderings = check_orderings(body.orderings, projections, scope)
    check_limit_rules(orderings, projections, body.limit, scope)
    check_grouping(projections, scope)
    return CheckedRead(
        decl=decl,
        catalog=catalog,
        source=source,
        parameters=parameters,
        clauses=clauses,
        projections=projections,
        orderings=orderings,
        limit=body.limit,
        variables=tuple(sorted(scope.entities)),
    )
