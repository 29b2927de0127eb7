"""A whole read: match, group, order or rank; the cut is left to whoever compares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from omnigraph.lang.gq import ast
from omnigraph.lang.source import Ident
from tests.query_oracle.matching import Types, solve
from tests.query_oracle.ranking import RankedRow, rank
from tests.query_oracle.schema import Kind, Schema
from tests.query_oracle.values import TEXT, Graph, Request, Row, literal_kind

_RANKINGS = ast.Nearest | ast.Bm25 | ast.Rrf


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Every row there is before the limit; in their exact order if the query asks for one."""

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_ordered: bool
    limit: int | None


def evaluate(decl: ast.QueryDecl, schema: Schema, graph: Graph, parameters: dict[str, Any], now_ms: int = 0) -> Answer:
    """Evaluate a valid read; parameters are plain values, dates as numbers."""
    assert isinstance(decl.body, ast.ReadBody)
    kinds = {
        item.name: Kind(scalar=item.type.scalar, is_list=item.type.is_list, dimension=item.type.dimension)
        for item in decl.parameters
    }
    request = Request(schema=schema, graph=graph, now_ms=now_ms, parameters=parameters, parameter_kinds=kinds)
    return _Read(request, decl.body).answer()


class _Read:
    def __init__(self, request: Request, body: ast.ReadBody) -> None:
        self._request = request
        self._body = body
        self._types: Types = {}
        self._rows = list(solve(body.match, request, self._types, {}))
        self._projections = list(self._expand(body.projections))

    def answer(self) -> Answer:
        ranking = self._ranking()
        has_groups = any(isinstance(item.expression, ast.Aggregate) for item in self._projections)
        if ranking is not None:
            rows = self._ranked(ranking)
        elif has_groups:
            rows = self._grouped()
        else:
            rows = self._plain()
        return Answer(
            columns=tuple(_column(item) for item in self._projections),
            kinds=tuple(self._kind(item.expression) for item in self._projections),
            rows=tuple(rows),
            is_ordered=bool(self._body.orderings),
            limit=self._body.limit,
        )

    def _expand(self, projections: tuple[ast.Projection, ...]) -> Iterator[ast.Projection]:
        for item in projections:
            if not isinstance(item.expression, ast.AllProperties):
                yield item
                continue
            variable = item.expression.variable
            for name, kind in self._request.schema.properties(self._types[variable.name]).items():
                if kind.scalar != "Blob":
                    access = ast.PropertyAccess(variable=variable, property=Ident(text=name))
                    yield ast.Projection(expression=access)

    def _ranking(self) -> ast.Nearest | ast.Bm25 | ast.Rrf | None:
        first = self._body.orderings[0].expression if self._body.orderings else None
        if isinstance(first, ast.AliasRef):
            first = self._projections[self._alias(first.name)].expression
        return first if isinstance(first, _RANKINGS) else None

    def _ranked(self, ranking: ast.Nearest | ast.Bm25 | ast.Rrf) -> list[tuple[Any, ...]]:
        names = sorted(name for name in self._types if " " not in name)
        found = rank(self._rows, ranking, self._request, names, self._body.limit or 0)
        return [tuple(self._ranked_value(item.expression, one) for item in self._projections) for one in found]

    def _ranked_value(self, expression: ast.Expression, ranked: RankedRow) -> Any:
        if isinstance(expression, _RANKINGS):
            return ranked.value
        return self._request.operand(expression, ranked.row).value

    def _plain(self) -> list[tuple[Any, ...]]:
        found = [(row, self._project(row)) for row in self._rows]
        names = sorted(name for name in self._types if " " not in name)
        found.sort(key=lambda pair: [pair[0][name][1] for name in names])
        for ordering in reversed(self._body.orderings):
            found.sort(
                key=lambda pair, key=ordering.expression: self._plain_key(key, *pair), reverse=_is_down(ordering)
            )
        return [values for _, values in found]

    def _plain_key(self, key: ast.Expression, row: Row, values: tuple[Any, ...]) -> tuple[bool, Any]:
        if isinstance(key, ast.AliasRef):
            return _nulls_first(values[self._alias(key.name)])
        return _nulls_first(self._request.operand(key, row).value)

    def _project(self, row: Row) -> tuple[Any, ...]:
        return tuple(self._request.operand(item.expression, row).value for item in self._projections)

    def _grouped(self) -> list[tuple[Any, ...]]:
        keys = [i for i, item in enumerate(self._projections) if not isinstance(item.expression, ast.Aggregate)]
        groups: dict[Any, list[Row]] = {} if keys else {(): []}
        for row in self._rows:
            values = [self._request.operand(self._projections[index].expression, row).value for index in keys]
            groups.setdefault(_frozen(values), []).append(row)
        found = [self._group(rows, keys, values) for values, rows in groups.items()]
        if self._body.orderings:
            found.sort(key=lambda values: [_nulls_first(values[index]) for index in keys])
        for ordering in reversed(self._body.orderings):
            index = self._group_index(ordering.expression)
            found.sort(key=lambda values, at=index: _nulls_first(values[at]), reverse=_is_down(ordering))
        return found

    def _group(self, rows: list[Row], keys: list[int], values: tuple[Any, ...]) -> tuple[Any, ...]:
        at = dict(zip(keys, values, strict=True))
        return tuple(
            at[index] if index in at else self._aggregate(item.expression, rows)
            for index, item in enumerate(self._projections)
        )

    def _aggregate(self, call: ast.Expression, rows: list[Row]) -> Any:
        assert isinstance(call, ast.Aggregate)
        operands = [self._request.operand(call.argument, row).value for row in rows]
        given = [value for value in operands if value is not None]
        match call.function:
            case "count":
                return len(given)
            case "sum":
                return float(sum(map(Fraction, given))) if given else None
            case "avg":
                return float(sum(map(Fraction, given)) / len(given)) if given else None
            case "min":
                return min(given, default=None)
            case "max":
                return max(given, default=None)

    def _group_index(self, key: ast.Expression) -> int:
        if isinstance(key, ast.AliasRef):
            return self._alias(key.name)
        return next(index for index, item in enumerate(self._projections) if item.expression == key)

    def _alias(self, name: str) -> int:
        named = [i for i, item in enumerate(self._projections) if item.alias is not None and item.alias.text == name]
        return named[-1]

    def _kind(self, expression: ast.Expression) -> Kind:
        match expression:
            case ast.PropertyAccess():
                return self._request.schema.kind(self._types[expression.variable.name], expression.property.text)
            case ast.Variable():
                return self._request.parameter_kinds.get(expression.name, TEXT)
            case ast.Now():
                return Kind(scalar="DateTime")
            case ast.Nearest() | ast.Bm25() | ast.Rrf():
                return Kind(scalar="F64")
            case ast.Aggregate(function="count"):
                return Kind(scalar="I64")
            case ast.Aggregate(function="sum" | "avg"):
                return Kind(scalar="F64")
            case ast.Aggregate():
                return self._kind(expression.argument)
            case _:
                return literal_kind(expression)


def _column(projection: ast.Projection) -> str:
    return _name(projection.expression) if projection.alias is None else projection.alias.text


def _name(expression: ast.Expression) -> str:
    match expression:
        case ast.PropertyAccess():
            return f"{expression.variable.name}.{expression.property.text}"
        case ast.Variable():
            return expression.name
        case ast.Aggregate():
            return _name(expression.argument)
        case ast.Now():
            return "now"
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            return type(expression).__name__.lower()
        case _:
            return "literal"


def _is_down(ordering: ast.Ordering) -> bool:
    return ordering.direction == "desc"


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
