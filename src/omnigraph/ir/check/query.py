"""The checker's entry: one declaration against one schema."""

from __future__ import annotations

from omnigraph.catalog.model import Catalog
from omnigraph.ir.check.clauses import check_clauses
from omnigraph.ir.check.declarations import check_parameters
from omnigraph.ir.check.mutations import check_statement
from omnigraph.ir.check.ordering import check_limit_rules, check_orderings
from omnigraph.ir.check.projections import check_grouping, check_projections
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.tree import CheckedMutation, CheckedQuery, CheckedRead
from omnigraph.lang.gq import ast
from omnigraph.lang.source import Source


def check_query(decl: ast.QueryDecl, catalog: Catalog, source: Source) -> CheckedQuery:
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
