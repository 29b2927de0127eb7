"""What is made of matched rows: types, column names, the grouping rule, and the limits that rankings demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from omnigraph.catalog.model import Scalar
from omnigraph.ir.check.expressions import refuse_blob
from omnigraph.ir.check.operators import check_expression
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.tree import CheckedOrdering, CheckedProjection, Operand
from omnigraph.ir.types import INTERVAL
from omnigraph.lang.gq import ast
from omnigraph.lang.gq.format_expressions import format_expression
from omnigraph.lang.source import Ident


def check_projections(
    projections: tuple[ast.Projection, ...], scope: Scope, *, is_last: bool = True
) -> tuple[CheckedProjection, ...]:
    """Check projections in order; ``$x.*`` becomes one per property that is not a Blob.

    Between stages an edge goes on as a variable; in a result it has no value of its own.
    """
    checked: list[CheckedProjection] = []
    for projection in projections:
        if isinstance(projection.expression, ast.AllProperties) and projection.alias is None:
            checked.extend(_all_properties(projection.expression, scope))
        else:
            checked.append(_check_projection(projection, checked, scope))
            if is_last or not checked[-1].operand.is_edge:
                _refuse_bare(checked[-1].operand, scope)
    return tuple(checked)


def name_columns(projections: tuple[CheckedProjection, ...], scope: Scope) -> tuple[CheckedProjection, ...]:
    """Return the columns of a result, whose names differ: a row that is a dictionary has a value for each of them.

    What has no alias is named as in the first edition, an aggregate by its argument. If that is the name of another
    column, too, it is named by its text.
    """
    counts = Counter(item.column for item in projections)
    named = tuple(
        replace(item, column=format_expression(item.operand.expression))
        if counts[item.column] > 1 and item.alias is None
        else item
        for item in projections
    )
    seen: set[str] = set()
    for item in named:
        is_value = item.operand.is_value or not isinstance(item.operand.expression, ast.AliasRef)
        if item.column in seen and is_value:
            message = f"two columns are called '{item.column}'"
            raise scope.violation("T29", message, item.operand.span, suggestion="name one of them with 'as'")
        seen.add(item.column)
    return named


def check_grouping(
    projections: tuple[CheckedProjection, ...], orderings: tuple[CheckedOrdering, ...], scope: Scope
) -> None:
    """Beside an aggregate, what is projected without one is a group key; nothing else has one value per group."""
    if not any(has_aggregate(item.operand) for item in projections):
        return
    keys = [item.operand.expression for item in projections if not has_aggregate(item.operand)]
    ranked = find_ranking(orderings, projections)
    for item in projections:
        is_search = isinstance(item.operand.expression, ast.Nearest | ast.Bm25 | ast.Rrf | ast.TextSearch)
        if is_search and (ranked is None or item.operand.expression != ranked.expression):
            raise scope.violation("T9", "a search cannot be returned with an aggregate", item.operand.span)
        if has_aggregate(item.operand):
            _check_group_value(item.operand, keys, scope)


def has_aggregate(operand: Operand) -> bool:
    """Whether an aggregate stands in an expression."""
    return isinstance(operand.expression, ast.Aggregate) or any(map(has_aggregate, operand.parts))


def _check_group_value(operand: Operand, keys: list[ast.Expression], scope: Scope) -> None:
    if operand.expression in keys:
        return
    if isinstance(operand.expression, ast.Aggregate):
        return
    expression = operand.expression
    if isinstance(expression, ast.PropertyAccess) and expression.variable in keys:
        return
    is_identity = isinstance(expression, ast.Call) and expression.function.text in {"id", "type", "version"}
    if is_identity and operand.parts[0].expression in keys:
        return
    if isinstance(expression, ast.PropertyAccess | ast.Block) or operand.is_node or operand.is_value:
        message = "together with an aggregate, a value must be a group key"
        raise scope.violation("T9", message, operand.span, suggestion="return it by itself too")
    for part in operand.parts:
        _check_group_value(part, keys, scope)


def _check_projection(projection: ast.Projection, earlier: list[CheckedProjection], scope: Scope) -> CheckedProjection:
    operand = check_expression(projection.expression, scope)
    if isinstance(operand.expression, ast.AliasRef) and not operand.is_value:
        operand = _typed_alias(operand.expression, earlier, operand.hint)
    refuse_blob(operand, scope, "returned")
    alias = None if projection.alias is None else projection.alias.text
    return CheckedProjection(
        operand=operand,
        alias=alias,
        column=alias or _column(projection.expression),
        label=alias or _label(projection.expression),
    )


def _refuse_bare(operand: Operand, scope: Scope) -> None:
    expression = operand.expression
    if operand.is_edge and isinstance(expression, ast.Variable):
        message = f"edge variable '${expression.name}' cannot be used by itself"
        raise scope.violation("T23", message, operand.span, suggestion="use one of its properties")
    if operand.type is INTERVAL:
        message = "an interval cannot be returned"
        raise scope.violation("T25", message, operand.span, suggestion="write in_days(…), in_hours(…) or in_seconds(…)")


def _typed_alias(reference: ast.AliasRef, earlier: list[CheckedProjection], hint: str | None) -> Operand:
    types = [item.operand.type for item in earlier if item.alias == reference.name]
    return Operand(expression=reference, type=types[-1] if types else None, hint=hint)


def _all_properties(expression: ast.AllProperties, scope: Scope) -> Iterator[CheckedProjection]:
    name = expression.variable.name
    bound = scope.entities.get(name)
    if bound is None:
        message, suggestion = scope.unbound(name)
        raise scope.violation("T6", message, expression.variable.span, suggestion=suggestion)
    for prop in bound.properties:
        if prop.type.scalar is Scalar.BLOB:
            continue
        access = ast.PropertyAccess(
            variable=expression.variable,
            property=Ident(text=prop.name, span=expression.span),
            span=expression.span,
        )
        operand = Operand(expression=access, type=prop.type, definition=prop)
        yield CheckedProjection(operand=operand, alias=None, column=f"{name}.{prop.name}", label=prop.name)


def _column(expression: ast.Expression) -> str:
    match expression:
        case ast.PropertyAccess():
            return f"{expression.variable.name}.{expression.property.text}"
        case ast.Aggregate() if _is_plain_aggregate(expression):
            return _column(expression.argument or expression)
        case _:
            return _label(expression)


def _label(expression: ast.Expression) -> str:
    match expression:
        case ast.PropertyAccess():
            return expression.property.text
        case ast.Variable() | ast.AliasRef():
            return expression.name
        case ast.AllProperties():
            return expression.variable.name
        case ast.Aggregate() if _is_plain_aggregate(expression):
            return expression.function
        case ast.TextSearch():
            return expression.function
        case ast.Now() | ast.Nearest() | ast.Bm25() | ast.Rrf():
            return type(expression).__name__.lower()
        case _ if isinstance(expression, ast.Literal):
            return "literal"
        case _:
            return format_expression(expression)


def _is_plain_aggregate(call: ast.Aggregate) -> bool:
    """Whether an aggregate is named by its argument, as the first ones are."""
    argument = call.argument
    is_first = call.function in {"count", "sum", "avg", "min", "max"} and not call.is_distinct and call.where is None
    if not is_first or argument is None:
        return False
    plain = ast.PropertyAccess | ast.Variable | ast.AliasRef | ast.Now | ast.Literal | ast.Aggregate
    return isinstance(argument, plain | ast.Nearest | ast.Bm25 | ast.Rrf | ast.TextSearch)


def check_orderings(
    orderings: tuple[ast.Ordering, ...], projections: tuple[CheckedProjection, ...], scope: Scope
) -> tuple[CheckedOrdering, ...]:
    """Type the order keys; a name that is no alias has no type and is refused when the query is lowered."""
    checked: list[CheckedOrdering] = []
    for ordering in orderings:
        operand = check_expression(ordering.expression, named_values(projections, scope))
        if isinstance(operand.expression, ast.AliasRef):
            named = find_alias(operand.expression.name, projections)
            known = operand.type if named is None else named.operand.type
            operand = replace(operand, type=known)
        refuse_blob(operand, scope, "ordered by")
        _refuse_bare(operand, scope)
        nulls = None if ordering.nulls is None else ordering.nulls == "first"
        checked.append(CheckedOrdering(operand=operand, descending=ordering.direction == "desc", nulls_first=nulls))
    return tuple(checked)


def named_values(projections: tuple[CheckedProjection, ...], scope: Scope) -> Scope:
    """Return a scope in which the aliases of projections name their values."""
    inner = scope.nested()
    for item in projections:
        if item.alias is not None and item.operand.type is not None:
            inner.values[item.alias] = item.operand.type
    return inner


def find_alias(name: str, projections: tuple[CheckedProjection, ...]) -> CheckedProjection | None:
    """Return the projection an order key names; of several equal aliases the last wins, as in row objects."""
    return next((item for item in reversed(projections) if item.alias == name), None)


def find_ranking(orderings: tuple[CheckedOrdering, ...], projections: tuple[CheckedProjection, ...]) -> Operand | None:
    """Return the ranking that the first order key is or names."""
    if not orderings:
        return None
    operand = orderings[0].operand
    if isinstance(operand.expression, ast.AliasRef):
        named = find_alias(operand.expression.name, projections)
        operand = operand if named is None else named.operand
    return operand if isinstance(operand.expression, ast.Nearest | ast.Bm25 | ast.Rrf) else None


def check_limit_rules(
    orderings: tuple[CheckedOrdering, ...],
    projections: tuple[CheckedProjection, ...],
    limit: ast.Amount | None,
    scope: Scope,
) -> None:
    """Check what ordering by ``nearest`` and ``rrf`` demands."""
    resolved = [(item, _resolve(item.operand, projections)) for item in orderings]
    nearest = next((item for item, key in resolved if isinstance(key, ast.Nearest)), None)
    if nearest is not None and limit is None:
        raise scope.violation("T17", "ordering by nearest needs a limit", nearest.operand.span)
    if nearest is not None:
        alias = next((item for item, _ in resolved if isinstance(item.operand.expression, ast.AliasRef)), None)
        if alias is not None:
            message = "ordering by nearest cannot be combined with an alias key"
            raise scope.violation("T18", message, alias.operand.span, suggestion="order by nearest(…) itself")
    fused = next((item for item, key in resolved if isinstance(key, ast.Rrf)), None)
    if fused is not None and limit is None:
        raise scope.violation("T21", "ordering by rrf needs a limit", fused.operand.span)


def _resolve(operand: Operand, projections: tuple[CheckedProjection, ...]) -> ast.Expression:
    if isinstance(operand.expression, ast.AliasRef):
        named = find_alias(operand.expression.name, projections)
        return operand.expression if named is None else named.operand.expression
    return operand.expression
