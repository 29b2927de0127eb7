"""A whole read: match, group, order or rank, stage by stage; a cut that the language leaves open is left to whoever
compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.lang.gq import ast
from omnigraph.lang.gq.format_expressions import format_expression
from omnigraph.lang.source import Ident
from tests.query_oracle.aggregates import check_aggregate, holds_aggregate
from tests.query_oracle.expressions import Bound, Scope, Special, Typed, check, condition, name_of, output_kind, watched
from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.matching import check_clauses
from tests.query_oracle.ranking import RANKINGS, Ranking, rank
from tests.query_oracle.schema import Kind, Schema
from tests.query_oracle.values import FLOAT, Graph, Request, Row, as_column, convert, frozen, sort_key, unify

_LITERALS = (
    ast.StringLiteral
    | ast.IntegerLiteral
    | ast.FloatLiteral
    | ast.BooleanLiteral
    | ast.NullLiteral
    | ast.DateLiteral
    | ast.DateTimeLiteral
    | ast.ListLiteral
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a read, in their exact order if the query asks for one.

    ``limit`` is given where the language leaves open which rows it keeps: ``rows`` are then all of them. ``may_fail``
    tells that an engine may also refuse the read at run time.
    """

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_ordered: bool
    limit: int | None
    may_fail: bool = False


def evaluate(
    decl: ast.QueryDecl,
    schema: Schema,
    graph: Graph,
    parameters: dict[str, Any],
    now_ms: int = 0,
    max_hops: int = 32,
) -> Answer:
    """Evaluate a read; parameters are plain values, dates as numbers.

    Raises:
        Illegal: if the text breaks a rule.
        Fault: if the read fails at run time.
    """
    assert isinstance(decl.body, ast.ReadBody)
    kinds = {
        item.name: Kind(
            scalar=item.type.scalar,
            is_list=item.type.is_list,
            dimension=item.type.dimension,
            digits=None if item.type.precision is None else (item.type.precision, item.type.scale or 0),
        )
        for item in decl.parameters
    }
    request = Request(
        schema=schema,
        graph=graph,
        now_ms=now_ms,
        parameters=parameters,
        parameter_kinds=kinds,
        max_hops=max_hops,
    )
    return _read(decl.body, request)


@dataclass(slots=True, kw_only=True)
class Line:
    """A row on its way out: its columns, what ``having`` and ``order`` see of it, and what settles its place."""

    values: tuple[Any, ...]
    seen: Row
    tie: Any


@dataclass(slots=True, kw_only=True)
class Output:
    """The lines of a stage, in their order, before they are cut."""

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    lines: list[Line]
    # What a bare expression behind the output means.
    scope: Scope


Part = ast.Stage | ast.ReadBody


def _read(body: ast.ReadBody, request: Request) -> Answer:
    try:
        output = _united(body, request) if body.unions else _returned(body, request)
    except Fault as fault:
        # Nothing has to be looked at of which nothing is shown.
        is_shown = body.limit is None or _amount(body.limit, request) > 0
        raise Fault(fault.reason, str(fault), is_certain=fault.is_certain and is_shown) from fault
    is_open = body.limit is not None and not body.orderings and body.offset is None and not body.per
    limit = _amount(body.limit, request) if is_open else None
    try:
        lines = _arranged(replace(body, limit=None) if is_open else body, output)
        _raise_fault(lines)
    except Fault as fault:
        raise Fault(fault.reason, str(fault), is_certain=fault.is_certain and not is_open) from fault
    kinds = tuple(output_kind(kind) for kind in output.kinds)
    if len(set(output.columns)) < len(output.columns):
        raise Illegal("two columns with one name")
    return Answer(
        columns=output.columns,
        kinds=kinds,
        rows=tuple(tuple(map(as_column, line.values, kinds)) for line in lines),
        is_ordered=bool(body.orderings),
        limit=limit,
        may_fail=request.may_fail,
    )


def _raise_fault(lines: list[Line]) -> None:
    for line in lines:
        for value in line.values:
            if isinstance(value, Fault):
                raise value


def _returned(body: ast.ReadBody, request: Request) -> Output:
    scope = Scope(request=request)
    rows: list[Row] = [{}]
    for stage in body.stages:
        scope, rows = _with(stage, scope, rows)
    return _output(body, scope, _matched(body.match, scope, rows))


def _united(body: ast.ReadBody, request: Request) -> Output:
    outputs = [_returned(body, request), *(_returned(union.read, request) for union in body.unions)]
    if len({len(output.kinds) for output in outputs}) > 1:
        raise Illegal("reads of different widths")
    kinds = tuple(unify(list(column)) for column in zip(*(output.kinds for output in outputs), strict=True))
    rows: list[tuple[Any, ...]] = []
    for index, output in enumerate(outputs):
        _raise_fault(output.lines)
        rows.extend(tuple(map(convert, line.values, kinds)) for line in output.lines)
        if index and not body.unions[index - 1].keeps_duplicates:
            rows = list({frozen(row): row for row in rows}.values())
    columns = _Columns(body.projections, kinds)
    lines = [Line(values=row, seen=columns.seen(row), tie=[sort_key(value) for value in row]) for row in rows]
    scope = Scope(request=request, names=columns.names, special=columns.special)
    return Output(columns=outputs[0].columns, kinds=kinds, lines=lines, scope=scope)


def _matched(clauses: tuple[ast.Clause, ...], scope: Scope, rows: list[Row]) -> list[Row]:
    """Return the rows of a match in their order: that of the stage before if it has one, then that of their ids."""
    solve = check_clauses(clauses, scope)
    found = [solution for row in rows for solution in solve(row)]
    for row in found:
        if "!" in row:
            raise row["!"]
    found.sort(key=lambda row: _tie(scope, row))
    return found


def _tie(scope: Scope, row: Row) -> list[Any]:
    """The place that a stage before gave the row; entities by id, taking variables by name; then values, by name."""
    entities, values = [], []
    for name, bound in sorted(scope.variables.items()):
        if bound.form in {"node", "edge"}:
            entities.append(sort_key(None if row[name] is None else list(reversed(row[name]))))
        else:
            values.append(sort_key(row[name]))
    values.extend(sort_key(row[f"#{name}"]) for name in sorted(scope.names))
    return [row.get("@rank", 0), row.get("@position", 0), entities, values]


def _with(stage: ast.Stage, scope: Scope, rows: list[Row]) -> tuple[Scope, list[Row]]:
    found = _matched(stage.match, scope, rows)
    output = _output(stage, scope, found)
    lines = _arranged(stage, output)
    _raise_fault(lines)
    following = Scope(request=scope.request)
    takes: list[Callable[[Line], tuple[str, Any]]] = []
    for index, item in enumerate(stage.projections):
        name = _stage_name(item, scope)
        bound = scope.bound(item.expression)
        if bound is None or (bound.form == "item" and item.alias is not None):
            following.names[name] = output_kind(output.kinds[index])
            takes.append(lambda line, name=name, index=index: (f"#{name}", line.values[index]))
        else:
            following.variables[name] = bound
            source = name_of(item.expression)
            takes.append(lambda line, name=name, source=source: (name, line.seen["@first"][source]))
    if len(following.names) + len(following.variables) < len(stage.projections):
        raise Illegal("a name twice in a with")
    position = (lambda place: {"@position": place}) if stage.orderings else (lambda _place: {})
    return following, [{**dict(take(line) for take in takes), **position(place)} for place, line in enumerate(lines)]


def _stage_name(item: ast.Projection, scope: Scope) -> str:
    if item.alias is not None:
        return item.alias.text
    match item.expression:
        case ast.Variable(name=name) | ast.AliasRef(name=name):
            return name
        case _:
            raise Illegal("a value without a name in a with")


class _Columns:
    """Columns that are there: an expression that was projected is one of them, and so is an alias."""

    def __init__(self, projections: tuple[ast.Projection, ...], kinds: tuple[Kind, ...]) -> None:
        self._projections = projections
        self._kinds = kinds
        self.names = {
            item.alias.text if item.alias is not None else name_of(item.expression): kind
            for item, kind in zip(projections, kinds, strict=True)
            if item.alias is not None or isinstance(item.expression, ast.AliasRef)
        }

    def seen(self, values: tuple[Any, ...]) -> Row:
        """Return what is seen of a line."""
        found: Row = {"@columns": values}
        for item, value in zip(self._projections, values, strict=True):
            if item.alias is not None:
                found[f"#{item.alias.text}"] = value
            elif isinstance(item.expression, ast.AliasRef):
                found[f"#{item.expression.name}"] = value
        return found

    def column(self, expression: ast.Expression) -> Typed | None:
        """Return the column that is this expression."""
        if isinstance(expression, ast.AliasRef):
            return None
        for index, item in enumerate(self._projections):
            if item.expression == expression:
                return Typed(kind=self._kinds[index], value=lambda seen, index=index: seen["@columns"][index])
        return None

    def special(self, expression: ast.Expression) -> Typed | None:
        """Refuse everything about a row but its columns."""
        found = self.column(expression)
        if found is None and isinstance(expression, ast.PropertyAccess | ast.Block):
            raise Illegal(f"{format_expression(expression)} is no column")
        return found


def _output(part: Part, scope: Scope, rows: list[Row]) -> Output:
    projections = tuple(_expanded(part, scope))
    parts = [*(item.expression for item in projections), part.having]
    ranking = _ranking(part)
    parts += [item.expression for item in part.orderings] if not ranking and not getattr(part, "unions", ()) else []
    is_grouped = any(map(holds_aggregate, parts))
    if ranking is not None:
        rows = _ranked_rows(part, ranking, scope, rows, is_grouped=is_grouped)
        scope = _scored(ranking, scope)
    output = (_grouped if is_grouped else _plain)(part, projections, scope, rows)
    if part.having is not None:
        having = watched(scope.request, lambda: condition(part.having, output.scope))
        output.lines = [line for line in output.lines if having.value(line.seen) is True]
    return output


def _expanded(part: Part, scope: Scope) -> Iterator[ast.Projection]:
    for item in part.projections:
        if not isinstance(item.expression, ast.AllProperties):
            yield item
            continue
        variable = item.expression.variable
        if isinstance(part, ast.Stage) or variable.name not in scope.variables:
            raise Illegal(f"${variable.name}.*")
        for name, kind in scope.variables[variable.name].properties.items():
            if kind.scalar != "Blob":
                yield ast.Projection(expression=ast.PropertyAccess(variable=variable, property=Ident(text=name)))


def _plain(part: Part, projections: tuple[ast.Projection, ...], scope: Scope, rows: list[Row]) -> Output:
    found = [_projected(part, item, scope) for item in projections]
    kinds = tuple(output_kind(item.kind) for item in found)
    columns = _Columns(projections, kinds)
    lines = []
    for row in rows:
        values = tuple(_value_or_fault(item, row) for item in found)
        lines.append(Line(values=values, seen={**row, **columns.seen(values), "@first": row}, tie=_tie(scope, row)))
    shown = replace(scope, names={**scope.names, **columns.names})
    if part.is_distinct:
        _raise_fault(lines)
        kept = {_identity(projections, scope, line): line for line in reversed(lines)}
        lines = list(kept.values())
        for line in lines:
            rank_of_first = line.seen.get("@rank")
            line.tie = [sort_key(value) for value in line.values] if rank_of_first is None else [rank_of_first]
            line.seen = {**columns.seen(line.values), "@first": line.seen["@first"]}
        shown = Scope(
            request=scope.request, names=columns.names, variables=scope.variables, special=_behind(columns, (), scope)
        )
    return Output(columns=_names(projections), kinds=kinds, lines=lines, scope=shown)


def _projected(part: Part, item: ast.Projection, scope: Scope) -> Typed:
    """A stage may hand on an edge, which has no value of its own."""
    bound = scope.bound(item.expression)
    if isinstance(part, ast.Stage) and bound is not None and bound.form == "edge":
        name = name_of(item.expression)
        return Typed(kind=Kind(scalar="String"), value=lambda row: None if row[name] is None else row[name][1])
    return check(item.expression, scope)


def _value_or_fault(found: Typed, row: Row) -> Any:
    try:
        return found.value(row)
    except Fault as fault:
        return fault


def _identity(projections: tuple[ast.Projection, ...], scope: Scope, line: Line) -> Any:
    """What makes two lines equal: for a bare node or edge, which one it is and not only its id."""
    return tuple(
        frozen(value) if not _is_entity(item.expression, scope) else line.seen["@first"][item.expression.name]
        for item, value in zip(projections, line.values, strict=True)
    )


def _is_entity(expression: ast.Expression, scope: Scope) -> bool:
    bound: Bound | None = scope.bound(expression)
    return bound is not None and bound.form in {"node", "edge"}


def _grouped(part: Part, projections: tuple[ast.Projection, ...], scope: Scope, rows: list[Row]) -> Output:
    is_key = [not holds_aggregate(item.expression) for item in projections]
    known = tuple(item for item, one in zip(projections, is_key, strict=True) if one)
    keys = [_projected(part, item, scope) if one else None for item, one in zip(projections, is_key, strict=True)]
    groups: dict[Any, list[Row]] = {} if any(is_key) else {(): []}
    for row in rows:
        values = tuple(key.value(row) for key in keys if key is not None)
        line = Line(values=values, seen={"@first": row}, tie=None)
        groups.setdefault(_identity(known, scope, line), []).append(row)
    kinds = tuple(output_kind(key.kind) for key in keys if key is not None)
    inner = replace(scope, special=_behind(_Columns(known, kinds), known, scope))
    found = [key or check(item.expression, _no_names(inner)) for item, key in zip(projections, keys, strict=True)]
    every = _Columns(projections, tuple(output_kind(item.kind) for item in found))
    lines = []
    for members in groups.values():
        first = members[0] if members else {}
        group: Row = {"@first": first, "@rows": members}
        group["@columns"] = tuple(key.value(first) for key in keys if key is not None)
        values = tuple(item.value(first if one else group) for item, one in zip(found, is_key, strict=True))
        tie = [
            _key_place(item, first, value, scope)
            for item, value, one in zip(projections, values, is_key, strict=True)
            if one
        ]
        if "@rank" in first:
            tie = [min(row["@rank"] for row in members)]
        lines.append(Line(values=values, seen={**group, **every.seen(values)}, tie=tie))
    shown = replace(scope, names=every.names, special=_behind(every, known, scope))
    return Output(
        columns=_names(projections), kinds=tuple(output_kind(item.kind) for item in found), lines=lines, scope=shown
    )


def _no_names(scope: Scope) -> Scope:
    return replace(scope, names={})


def _key_place(item: ast.Projection, first: Row, value: Any, scope: Scope) -> Any:
    if _is_entity(item.expression, scope):
        entity = first[item.expression.name]
        return sort_key(None if entity is None else list(reversed(entity)))
    return sort_key(value)


def _behind(columns: _Columns, known: tuple[ast.Projection, ...], scope: Scope) -> Special:
    """Return what an expression means behind a grouping: a key, an aggregate, or what a key that is an entity has."""
    whole = {_about(item.expression, scope) for item in known if isinstance(item.expression, ast.Variable)}
    before = scope

    def special(expression: ast.Expression) -> Typed | None:
        found = columns.column(expression)
        if found is not None:
            return found
        if isinstance(expression, ast.Aggregate):
            kind, compute = check_aggregate(expression, before)
            return Typed(kind=kind, value=lambda seen: compute(seen["@rows"]))
        name = _about(expression, scope)
        if name is None:
            return None
        if name not in whole:
            raise Illegal(f"{format_expression(expression)} is not what rows are grouped by")
        inner = check(expression, before)
        return Typed(kind=inner.kind, value=lambda seen: inner.value(seen["@first"]))

    return special


def _about(expression: ast.Expression, scope: Scope) -> str | None:
    """The bound variable that an expression reads by itself and not through a part of it."""
    match expression:
        case ast.PropertyAccess(variable=variable):
            return variable.name
        case ast.Block():
            return ""
        case ast.Call(
            function=Ident(text="id" | "type" | "version" | "length" | "nodes" | "edges"), arguments=(inner,)
        ):
            found = inner
        case ast.NullTest(operand=inner):
            found = inner
        case _:
            found = expression
    is_bound = isinstance(found, ast.Variable) and found.name not in scope.request.parameter_kinds
    return found.name if is_bound else None


def _arranged(part: Part, output: Output) -> list[Line]:
    """Order the lines, and cut them."""
    lines = sorted(output.lines, key=lambda line: line.tie)
    for ordering in reversed(part.orderings if _ranking(part) is None else ()):
        key = check(ordering.expression, output.scope)
        if key.kind.is_list or key.kind.scalar in {"Vector", "Path", "Blob"}:
            raise Illegal(f"an order by {key.kind}")
        _sort(lines, ordering, key)
    request = output.scope.request
    offset = 0 if part.offset is None else _amount(part.offset, request)
    limit = None if part.limit is None else _amount(part.limit, request)
    if not part.per:
        kept = lines[offset:] if limit is None else lines[offset : offset + limit]
    else:
        kept = _per_group(lines, [check(item, output.scope) for item in part.per], offset, limit or 0)
    if len(kept) < len(lines) and any(isinstance(value, Fault) for line in lines for value in line.values):
        request.may_fail = True
    return kept


def _sort(lines: list[Line], ordering: ast.Ordering, key: Typed) -> None:
    is_down = ordering.direction == "desc"
    nulls_first = not is_down if ordering.nulls is None else ordering.nulls == "first"
    found = {id(line): key.value(line.seen) for line in lines}
    with_value = [line for line in lines if found[id(line)] is not None]
    without = [line for line in lines if found[id(line)] is None]
    # A reversed sort of Python keeps the order of equals.
    with_value.sort(key=lambda line: sort_key(found[id(line)]), reverse=is_down)
    lines[:] = [*without, *with_value] if nulls_first else [*with_value, *without]


def _per_group(lines: list[Line], keys: list[Typed], offset: int, limit: int) -> list[Line]:
    taken: dict[Any, int] = {}
    kept = []
    for line in lines:
        group = tuple(frozen(key.value(line.seen)) for key in keys)
        taken[group] = taken.get(group, 0) + 1
        if offset < taken[group] <= offset + limit:
            kept.append(line)
    return kept


def _amount(amount: ast.Amount, request: Request) -> int:
    if isinstance(amount, int):
        return amount
    if amount.name not in request.parameter_kinds:
        raise Illegal(f"${amount.name} is no parameter")
    found = request.parameters.get(amount.name)
    if found is None or found < 0:
        raise Fault("amount", f"${amount.name} = {found}")
    return found


def _ranking(part: Part) -> Ranking | None:
    """Return the ranking that the first order key is or names; what unites reads is ordered by columns alone."""
    if not part.orderings or getattr(part, "unions", ()):
        return None
    first: Any = part.orderings[0].expression
    if isinstance(first, ast.AliasRef):
        named = [item.expression for item in part.projections if item.alias and item.alias.text == first.name]
        first = named[-1] if named else None
    return first if isinstance(first, RANKINGS) else None


def _ranked_rows(part: Part, ranking: Ranking, scope: Scope, rows: list[Row], *, is_grouped: bool) -> list[Row]:
    """Return the rows with their places and scores; those without a rank stay where there are aggregates."""
    if part.orderings[0].nulls is not None:
        raise Illegal("nulls of a ranking")
    if part.limit is None and not isinstance(ranking, ast.Bm25):
        raise Illegal("a ranking without a limit")
    counts_rows = not (is_grouped or part.is_distinct or part.having is not None or part.per or part.offset is not None)
    limit = _amount(part.limit, scope.request) if part.limit is not None and counts_rows else None
    found = rank(rows, ranking, scope, lambda row: _tie(scope, row), limit)
    placed = [{**one.row, "@score": one.value, "@rank": place} for place, one in enumerate(found)]
    if not is_grouped:
        return placed
    kept = {id(one.row) for one in found}
    rest = sorted((row for row in rows if id(row) not in kept), key=lambda row: _tie(scope, row))
    return placed + [{**row, "@score": None, "@rank": len(placed) + at} for at, row in enumerate(rest)]


def _scored(ranking: Ranking, scope: Scope) -> Scope:
    """Return a scope in which the ranking has a value."""

    def special(expression: ast.Expression) -> Typed | None:
        if expression == ranking:
            return Typed(kind=FLOAT, value=lambda row: row["@score"])
        return None if scope.special is None else scope.special(expression)

    return replace(scope, special=special)


def _names(projections: tuple[ast.Projection, ...]) -> tuple[str, ...]:
    names = [_name(item.expression) if item.alias is None else item.alias.text for item in projections]
    counts = Counter(names)
    return tuple(
        format_expression(item.expression) if counts[name] > 1 and item.alias is None else name
        for name, item in zip(names, projections, strict=True)
    )


def _name(expression: ast.Expression) -> str:
    match expression:
        case ast.PropertyAccess(variable=variable, property=name):
            return f"{variable.name}.{name.text}"
        case ast.Variable(name=name):
            return name
        case ast.Aggregate(function="count" | "sum" | "avg" | "min" | "max", is_distinct=False, where=None) if (
            isinstance(expression.argument, ast.PropertyAccess | ast.Variable | ast.Now | _LITERALS)
        ):
            return _name(expression.argument)
        case ast.Now():
            return "now"
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            return type(expression).__name__.lower()
        case _ if isinstance(expression, _LITERALS):
            return "literal"
        case _:
            return format_expression(expression)
