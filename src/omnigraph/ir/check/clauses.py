"""The match clause: its clauses in text order, negations in a copy of the scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.ir.check.bindings import check_binding
from omnigraph.ir.check.filters import check_filter
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.search import check_text
from omnigraph.ir.check.traversals import check_traversal
from omnigraph.ir.check.tree import (
    CheckedBinding,
    CheckedClause,
    CheckedFilter,
    CheckedNegation,
    CheckedText,
    CheckedTraversal,
    Operand,
)
from omnigraph.lang.gq import ast


def check_clauses(clauses: tuple[ast.Clause, ...], scope: Scope) -> tuple[CheckedClause, ...]:
    """Check clauses in order; ``scope`` holds what they introduced afterwards."""
    return tuple(_check_clause(clause, scope) for clause in clauses)


def _read(operand: Operand) -> Iterator[str]:
    """Yield the entity variables that an expression reads."""
    if isinstance(operand.expression, ast.PropertyAccess):
        yield operand.expression.variable.name
    for part in operand.parts:
        yield from _read(part)


def _check_clause(clause: ast.Clause, scope: Scope) -> CheckedClause:
    match clause:
        case ast.Binding():
            return check_binding(clause, scope)
        case ast.Traversal():
            return check_traversal(clause, scope)
        case ast.Filter():
            return check_filter(clause, scope)
        case ast.TextSearch():
            return CheckedText(call=check_text(clause, scope))
        case ast.Negation():
            return _check_negation(clause, scope)
        case _:
            assert_never(clause)


def _check_negation(negation: ast.Negation, scope: Scope) -> CheckedNegation:
    inner = check_clauses(negation.clauses, scope.nested())
    outer = {name for clause in inner for name in _mentioned(clause) if name in scope.entities}
    if not outer:
        message = "a negation mentions at least one variable bound before it"
        raise scope.violation("T9", message, negation.span)
    return CheckedNegation(clauses=inner, outer=tuple(sorted(outer)))


def _mentioned(clause: CheckedClause) -> Iterator[str]:
    match clause:
        case CheckedBinding():
            yield clause.variable
        case CheckedTraversal():
            yield clause.source
            yield clause.destination
        case CheckedFilter():
            yield from _read(clause.left)
            yield from _read(clause.right)
        case CheckedText():
            yield from _read(clause.call)
        case CheckedNegation():
            yield from clause.outer
        case _:
            assert_never(clause)
