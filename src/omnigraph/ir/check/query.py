"""The checker's entry: one declaration against one schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from omnigraph.catalog.model import INTEGERS, Catalog, EdgeType, NodeType, PropertyType
from omnigraph.ir.check.match import check_block, check_clauses
from omnigraph.ir.check.operators import check_condition, check_expression, value_type, word_of
from omnigraph.ir.check.output import (
    check_grouping,
    check_limit_rules,
    check_orderings,
    check_projections,
    find_ranking,
    has_aggregate,
    name_columns,
    named_values,
)
from omnigraph.ir.check.scope import Scope, did_you_mean
from omnigraph.ir.check.tree import (
    CheckedMutation,
    CheckedOrdering,
    CheckedProjection,
    CheckedQuery,
    CheckedRead,
    CheckedStage,
    CheckedUnion,
    Operand,
)
from omnigraph.ir.model import NOW_PARAMETER
from omnigraph.ir.types import MAX_DIMENSION, common_type, resolve_type
from omnigraph.lang.gq import ast
from omnigraph.lang.source import SourceText
from omnigraph.values.decimals import MAX_PRECISION


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
    if written.scalar == "Decimal":
        digits = f"a decimal has 1 to {MAX_PRECISION} digits, at most all of them after the point"
        return f"parameter '${parameter.name}' has invalid digits {written.precision}, {written.scale}: {digits}"
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
    scope = Scope(catalog=catalog, source=source, parameters=parameters, block_checker=check_block)
    body = decl.body
    if isinstance(body, ast.MutationBody):
        from omnigraph.ir.check.mutations import check_mutation  # noqa: PLC0415 - a read needs none of it

        statements, projections = check_mutation(body, scope)
        return CheckedMutation(
            decl=decl,
            catalog=catalog,
            source=source,
            parameters=parameters,
            statements=statements,
            projections=projections,
            enum_uses=tuple(scope.enum_uses),
        )
    *earlier, last = _check_stages(body, scope.nested())
    stages = (*earlier, replace(last, projections=name_columns(last.projections, scope)))
    unions = tuple(_check_union(union, stages[-1].projections, scope.nested()) for union in body.unions)
    if unions:
        _check_united_order(body, stages[-1], scope)
    return CheckedRead(
        decl=decl,
        catalog=catalog,
        source=source,
        parameters=parameters,
        stages=stages,
        unions=unions,
        enum_uses=tuple(scope.enum_uses),
    )


def _check_stages(body: ast.ReadBody, scope: Scope) -> tuple[CheckedStage, ...]:
    checked: list[CheckedStage] = []
    for stage in body.stages:
        checked.append(_check_stage(stage, scope))
        scope = _behind(checked[-1], scope)
    checked.append(_check_stage(body, scope))
    return tuple(checked)


def _check_stage(stage: ast.Stage | ast.ReadBody, scope: Scope) -> CheckedStage:
    clauses = check_clauses(stage.match, scope)
    projections = check_projections(stage.projections, scope, is_last=isinstance(stage, ast.ReadBody))
    is_united = isinstance(stage, ast.ReadBody) and bool(stage.unions)
    orderings = () if is_united else check_orderings(stage.orderings, projections, scope)
    check_limit_rules(orderings, projections, stage.limit, scope)
    check_grouping(projections, orderings, scope)
    having = None
    if stage.having is not None:
        having = check_condition(stage.having, named_values(projections, scope))
    for amount in (stage.offset, stage.limit):
        _check_amount(amount, scope)
    per = () if is_united else tuple(check_expression(item, named_values(projections, scope)) for item in stage.per)
    # Groups are distinct by their keys, so that anything about a group has one value.
    operands = [*(item.operand for item in projections), *(item.operand for item in orderings)]
    is_ranked = find_ranking(orderings, projections) is not None
    if stage.is_distinct and not is_ranked and not any(map(has_aggregate, operands)):
        _check_distinct(orderings, projections, scope)
    return CheckedStage(
        clauses=clauses,
        projections=projections,
        orderings=orderings,
        limit=stage.limit,
        variables=tuple(sorted(scope.entities)),
        mixed=frozenset(name for name in scope.entities if scope.ranges_over_several(name)),
        is_distinct=stage.is_distinct,
        having=having,
        offset=stage.offset,
        per=per,
        nullable=frozenset(scope.nullable),
        values=dict(scope.values),
    )


def _behind(checked: CheckedStage, scope: Scope) -> Scope:
    """Return what is visible behind a ``with``: the variables it names, and its values by their aliases."""
    entities: dict[str, NodeType | EdgeType] = {}
    values: dict[str, PropertyType] = {}
    nullable: set[str] = set()
    for item in checked.projections:
        expression, operand = item.operand.expression, item.operand
        if (operand.is_node or operand.is_edge) and isinstance(expression, ast.Variable):
            name = item.alias or expression.name
            if name in entities:
                raise scope.violation(None, f"'${name}' is named twice", operand.span)
            entities[name] = scope.entities[expression.name]
            if expression.name in scope.nullable:
                nullable.add(name)
        else:
            known = item.name_behind
            if known is None:
                message = "a value that is passed to the next stage needs a name"
                raise scope.violation(None, message, operand.span, suggestion="write 'as name' after it")
            if known in values:
                raise scope.violation(None, f"'{known}' occurs twice", operand.span)
            values[known] = value_type(operand, scope)
    return replace(scope, entities=entities, values=values, nullable=nullable)


def _check_amount(amount: ast.Amount | None, scope: Scope) -> None:
    if not isinstance(amount, ast.Variable):
        return
    declared = scope.parameters.get(amount.name)
    if declared is None or declared.is_list or declared.scalar not in INTEGERS:
        message = f"'${amount.name}' must be a parameter that is a whole number"
        whole = [name for name, of in scope.parameters.items() if of.scalar in INTEGERS and not of.is_list]
        suggestion = did_you_mean(amount.name, whole, mark="$") if declared is None else None
        raise scope.violation("T14", message, amount.span, suggestion=suggestion)


def _check_distinct(
    orderings: tuple[CheckedOrdering, ...], projections: tuple[CheckedProjection, ...], scope: Scope
) -> None:
    returned = [item.operand.expression for item in projections]
    for ordering in orderings:
        if not _is_made_of(ordering.operand, returned):
            message = "with distinct, rows are ordered by what is returned"
            raise scope.violation("T9", message, ordering.operand.span, suggestion="return it too")


def _is_made_of(operand: Operand, returned: list[ast.Expression]) -> bool:
    """Whether a value follows from what is returned."""
    expression = operand.expression
    if expression in returned or isinstance(expression, ast.AliasRef | ast.Literal | ast.Now) or operand.is_parameter:
        return True
    is_leaf = isinstance(expression, ast.PropertyAccess | ast.Aggregate | ast.Block | ast.TextSearch | ast.Variable)
    return not is_leaf and all(_is_made_of(part, returned) for part in operand.parts)


def _check_union(union: ast.Union, first: tuple[CheckedProjection, ...], scope: Scope) -> CheckedUnion:
    stages = _check_stages(union.read, scope)
    others = stages[-1].projections
    if len(others) != len(first):
        message = f"the reads of a union return the same columns, not {len(first)} and {len(others)}"
        raise scope.violation(None, message, union.span)
    for one, other in zip(first, others, strict=True):
        types = [value_type(item.operand, scope) for item in (one, other) if not item.operand.is_node]
        if common_type(types) is None:
            message = (
                f"column '{one.column}' is {word_of(one.operand)} in one read and {word_of(other.operand)} in another"
            )
            raise scope.violation(None, message, other.operand.span)
    return CheckedUnion(stages=stages, keeps_duplicates=union.keeps_duplicates)


def _check_united_order(body: ast.ReadBody, last: CheckedStage, scope: Scope) -> None:
    named = {item.alias for item in last.projections}
    for expression in (*(ordering.expression for ordering in body.orderings), *body.per):
        if not isinstance(expression, ast.AliasRef) or expression.name not in named:
            message = "a union is ordered by aliases of its first read"
            written = expression.name if isinstance(expression, ast.AliasRef) else ""
            near = did_you_mean(written, [name for name in named if name is not None])
            suggestion = near or "write 'as name' in the first read"
            raise scope.violation("T9", message, expression.span, suggestion=suggestion)
