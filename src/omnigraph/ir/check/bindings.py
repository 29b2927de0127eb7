"""Bindings: ``$x: Type { prop: value, … }``."""

from __future__ import annotations

from omnigraph.catalog.model import EdgeType
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import CheckedBinding, CheckedMatch
from omnigraph.ir.check.values import check_inline_value
from omnigraph.lang.gq import ast


def check_binding(binding: ast.Binding, scope: Scope) -> CheckedBinding:
    """Check a binding and bring its variable into scope; binding the same type again adds predicates."""
    name = binding.variable.name
    if name == ast.ANONYMOUS:
        message = "the anonymous variable cannot be bound to a type"
        raise scope.violation(None, message, binding.variable.span, suggestion="give the variable a name")
    bound = scope.entities.get(name)
    if isinstance(bound, EdgeType):
        raise scope.violation("T23", f"'${name}' is an edge variable already", binding.variable.span)
    written = binding.type_name.text
    node = scope.catalog.node(written)
    if node is None:
        message = f"unknown node type '{written}'"
        if written in scope.catalog.edges:
            message = f"'{written}' is an edge type, a binding ranges over nodes"
        suggestion = did_you_mean(written, scope.catalog.nodes)
        raise scope.violation("T1", message, binding.type_name.span, suggestion=suggestion)
    if bound is not None and bound.name != node.name:
        message = f"'${name}' is bound to '{bound.name}' already, not to '{node.name}'"
        raise scope.violation(None, message, binding.type_name.span)
    scope.entities[name] = node
    matches: list[CheckedMatch] = []
    for predicate in binding.predicates:
        prop = node.get(predicate.property.text)
        if prop is None:
            message = f"type '{node.name}' has no property '{predicate.property.text}'"
            suggestion = did_you_mean(predicate.property.text, [item.name for item in node.properties])
            raise scope.violation("T2", message, predicate.property.span, suggestion=suggestion)
        matches.append(CheckedMatch(property=prop, value=check_inline_value(prop, predicate.value, scope)))
    return CheckedBinding(variable=name, node=node, matches=tuple(matches))
