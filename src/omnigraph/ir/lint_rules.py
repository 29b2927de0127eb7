"""What is legal in a query and probably not meant: each finding has a place, a sentence, and what to do."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.ir.check.tree import (
    CheckedBinding,
    CheckedClause,
    CheckedMatchStatement,
    CheckedMutation,
    CheckedOptional,
    CheckedQuery,
    CheckedStage,
    CheckedTraversal,
)
from omnigraph.lang.gq import ast
from omnigraph.lang.source import Span
from omnigraph.records import record


@record
class Doubt:
    """Something that is probably not meant, and what to write instead."""

    span: Span
    message: str
    advice: str


def doubts_of(checked: CheckedQuery) -> list[Doubt]:
    """Return what is doubtful in a query that fits its schema, in the order of the text."""
    body = checked.decl.body
    found = [*_unused_parameters(checked)]
    if isinstance(body, ast.MutationBody):
        found += _doubts_of_part(body, _matches_of(body))
    else:
        arms = (body, *(union.read for union in body.unions))
        for arm in arms:
            # What unites the arms is written in the first, and says nothing about its own rows.
            own = dataclasses.replace(arm, unions=()) if arm is body else arm
            found += _doubts_of_part(own, [*(stage.match for stage in arm.stages), arm.match])
            stages: tuple[ast.Stage | ast.ReadBody, ...] = (*arm.stages, own)
            found += [doubt for stage in stages for doubt in _doubts_of_rows(stage)]
    found += _doubts_of_rules(checked)
    found += _useless_bounds(checked)
    unique = {(doubt.span.start, doubt.message): doubt for doubt in found}
    return [unique[key] for key in sorted(unique)]


def _useless_bounds(node: Any) -> Iterator[Doubt]:
    """Yield hop bounds over edges that lead to nodes where no edge of the same type begins."""
    if isinstance(node, CheckedTraversal) and node.max_hops != 1 and not node.edge.is_same_type:
        names = "|".join(edge.name for edge in node.edges)
        message = f"the ends of {names} have different types, so no traversal has more than one hop"
        yield Doubt(span=node.hops_span, message=message, advice="leave the bounds out")
    if isinstance(node, tuple):
        for item in node:
            yield from _useless_bounds(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Catalog | NodeType | EdgeType | Span):
        for part in dataclasses.fields(node):
            yield from _useless_bounds(getattr(node, part.name))


def _matches_of(body: ast.MutationBody) -> list[tuple[ast.Clause, ...]]:
    return [item.clauses for item in body.statements if isinstance(item, ast.MatchStatement)]


def _unused_parameters(checked: CheckedQuery) -> Iterator[Doubt]:
    used = {variable.name for variable in _variables(checked.decl.body)}
    for parameter in checked.decl.parameters:
        if parameter.name not in used:
            yield Doubt(
                span=parameter.span,
                message=f"parameter '${parameter.name}' is never used",
                advice="remove it, or use it",
            )


def _doubts_of_part(part: ast.ReadBody | ast.MutationBody, matches: Sequence[tuple[ast.Clause, ...]]) -> list[Doubt]:
    """Return variables and optional blocks that nothing uses."""
    mentions = Counter(variable.name for variable in _variables(part))
    found: list[Doubt] = []
    reported: set[str] = set()
    before: set[str] = set()
    for clause in (clause for clauses in matches for clause in clauses):
        if isinstance(clause, ast.OptionalBlock):
            inside = Counter(variable.name for variable in _variables(clause))
            bound = [name for name in _bound_in(clause.clauses) if name not in before]
            introduced = [name for name in bound if not _is_exempt(name)]
            if introduced and all(inside[name] == mentions[name] for name in introduced):
                message = "nothing of this optional block is used: it only repeats rows"
                found.append(Doubt(span=clause.span, message=message, advice="remove it, or use its variables"))
                reported.update(introduced)
        before.update(_bound_in([clause]))
    for clauses in matches:
        for variable, what in _binders(clauses):
            name = variable.name
            if mentions[name] == 1 and name not in reported and not _is_exempt(name):
                advice = {
                    "end": "write '$_'",
                    "edge": "leave the edge variable out",
                    "binding": "remove it, or use it",
                }[what]
                found.append(Doubt(span=variable.span, message=f"'${name}' is never used", advice=advice))
    return found


def _is_exempt(name: str) -> bool:
    return name.startswith("_")


def _bound_in(clauses: Iterable[ast.Clause]) -> list[str]:
    return [variable.name for variable, _ in _binders(clauses)]


def _binders(clauses: Iterable[ast.Clause]) -> Iterator[tuple[ast.Variable, str]]:
    """Yield the variables that clauses may introduce, and as what."""
    for clause in clauses:
        match clause:
            case ast.Binding(variable=variable):
                yield variable, "binding"
            case ast.Traversal() | ast.PathClause():
                walk = clause.traversal if isinstance(clause, ast.PathClause) else clause
                yield walk.source, "end"
                yield walk.destination, "end"
                if walk.edge_variable is not None:
                    yield walk.edge_variable, "edge"
                if isinstance(clause, ast.PathClause):
                    yield clause.variable, "binding"
            case ast.Each(variable=variable):
                yield variable, "binding"
            case ast.OptionalBlock(clauses=inner):
                yield from _binders(inner)
            case _:
                pass


def _variables(node: Any) -> Iterator[ast.Variable]:
    """Yield every mention of a variable below a node."""
    if isinstance(node, ast.Variable):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _variables(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Span):
        for part in dataclasses.fields(node):
            yield from _variables(getattr(node, part.name))


def _doubts_of_rows(stage: ast.Stage | ast.ReadBody) -> Iterator[Doubt]:
    """Yield distinct rows that are distinct anyway, and pages of rows without an order."""
    if stage.is_distinct and any(_has_aggregate(item.expression) for item in stage.projections):
        message = "distinct has no effect: with an aggregate, rows are grouped by everything else"
        yield Doubt(span=stage.projections[0].span, message=message, advice="remove 'distinct'")
    if stage.offset is not None and not stage.orderings:
        message = "offset without order: pages are not stable"
        yield Doubt(span=stage.projections[0].span, message=message, advice="add 'order { … }'")


def _has_aggregate(node: Any) -> bool:
    if isinstance(node, ast.Aggregate):
        return True
    if isinstance(node, tuple):
        return any(map(_has_aggregate, node))
    return dataclasses.is_dataclass(node) and any(
        _has_aggregate(getattr(node, part.name)) for part in dataclasses.fields(node)
    )


def _doubts_of_rules(checked: CheckedQuery) -> Iterator[Doubt]:
    """Yield what only the types tell: pairs of everything, an ``or`` beside an index, keys that are distinct."""
    if isinstance(checked, CheckedMutation):
        written = _matches_of(checked.decl.body) if isinstance(checked.decl.body, ast.MutationBody) else []
        matches = [item for item in checked.statements if isinstance(item, CheckedMatchStatement)]
        for clauses, match in zip(written, matches, strict=True):
            yield from _products(clauses, match.clauses, set())
            yield from _lost_indexes(clauses, dict(match.entities))
        return
    body = checked.decl.body
    if not isinstance(body, ast.ReadBody):
        return
    others = zip(body.unions, checked.unions, strict=True)
    arms = [(body, checked.stages), *((union.read, one.stages) for union, one in others)]
    for arm, stages in arms:
        carried: set[str] = set()
        texts: tuple[ast.Stage | ast.ReadBody, ...] = (*arm.stages, arm)
        for text, stage in zip(texts, stages, strict=True):
            yield from _products(text.match, stage.clauses, carried)
            yield from _lost_indexes(text.match, _owners(stage.clauses))
            if text.is_distinct and _is_distinct_anyway(text, stage):
                message = "distinct has no effect: the key of every entity is returned"
                yield Doubt(span=text.projections[0].span, message=message, advice="remove 'distinct'")
            carried = {
                item.alias or item.operand.expression.name
                for item in stage.projections
                if isinstance(item.operand.expression, ast.Variable)
            }


def _owners(clauses: Iterable[CheckedClause]) -> dict[str, NodeType | EdgeType]:
    """Return the types that clauses bind variables to by name."""
    found: dict[str, NodeType | EdgeType] = {}
    for clause in clauses:
        if isinstance(clause, CheckedBinding):
            found[clause.variable] = clause.node
        elif isinstance(clause, CheckedOptional):
            found |= _owners(clause.clauses)
    return found


def _products(clauses: Sequence[ast.Clause], checked: Sequence[CheckedClause], carried: set[str]) -> Iterator[Doubt]:
    """Yield bindings that nothing connects with what stands before them."""
    groups: list[set[str]] = [set(carried)] if carried else []
    introduced = set(_bound_in(clauses)) | carried
    for clause in clauses:
        names = {variable.name for variable in _variables(clause)} & introduced - {ast.ANONYMOUS}
        if names:
            touching = [group for group in groups if group & names]
            groups = [group for group in groups if not group & names] + [names.union(*touching)]
    single = {item.variable for item in checked if isinstance(item, CheckedBinding) and _is_one(item)}
    nodes = {item.variable for item in checked if isinstance(item, CheckedBinding)} | {
        name for item in checked if isinstance(item, CheckedTraversal) for name in (item.source, item.destination)
    }
    many = [group for group in groups if group & (nodes | carried) and not group & single]
    if len(many) < 2:
        return
    first_of: dict[str, int] = {}
    for at, (binder, _) in enumerate(_binders(clauses)):
        first_of.setdefault(binder.name, at)
    ordered = sorted(many, key=lambda group: min(first_of.get(name, -1) for name in group))
    binders = [variable for variable, _ in _binders(clauses)]
    for group in ordered[1:]:
        variable = binders[min(first_of[name] for name in group if name in first_of)]
        message = f"nothing connects '${variable.name}' with the clauses before it: the result is a cross product"
        yield Doubt(span=variable.span, message=message, advice="add a traversal or a condition that joins them")


def _is_one(binding: CheckedBinding) -> bool:
    """Whether a binding names the key of one entity."""
    given = {match.property.name for match in binding.matches}
    return binding.node.key is not None and set(binding.node.key) <= given


def _lost_indexes(clauses: Iterable[ast.Clause], owners: dict[str, NodeType | EdgeType]) -> Iterator[Doubt]:
    for clause in clauses:
        if isinstance(clause, ast.OptionalBlock):
            yield from _lost_indexes(clause.clauses, owners)
        if not isinstance(clause, ast.Condition) or not isinstance(clause.expression, ast.Logical):
            continue
        condition = clause.expression
        if condition.op != "or":
            continue
        # A side about parameters alone is decided before anything is read: '$level is null or $p.level = $level'.
        arms = [accesses for operand in condition.operands if (accesses := _accesses(operand))]
        indexed = [any(_is_indexed(access, owners) for access in arm) for arm in arms]
        variables = {access.variable.name for arm in arms for access in arm}
        if any(indexed) and len(variables) > 1:
            names = " and ".join(f"'${name}'" for name in sorted(variables))
            message = f"this 'or' uses {names}, so no index can be used"
            yield Doubt(span=condition.span, message=message, advice="write two reads with 'union'")
        elif any(indexed) and not all(indexed):
            slow = next(arm[0] for arm, known in zip(arms, indexed, strict=True) if not known)
            what = f"'${slow.variable.name}.{slow.property.text}'"
            message = f"{what} has no index, so that the other sides of this 'or' cannot use theirs"
            yield Doubt(span=condition.span, message=message, advice="add @index to it, or use 'union'")


def _accesses(node: Any) -> list[ast.PropertyAccess]:
    if isinstance(node, ast.PropertyAccess):
        return [node]
    if isinstance(node, tuple):
        return [access for item in node for access in _accesses(item)]
    if not dataclasses.is_dataclass(node):
        return []
    return [access for part in dataclasses.fields(node) for access in _accesses(getattr(node, part.name))]


def _is_indexed(access: ast.PropertyAccess, owners: dict[str, NodeType | EdgeType]) -> bool:
    owner = owners.get(access.variable.name)
    return owner is not None and access.property.text in set(owner.key or ()).union(*owner.indexes)


def _is_distinct_anyway(text: ast.Stage | ast.ReadBody, stage: CheckedStage) -> bool:
    """Whether rows that bind one node each return its key."""
    bindings = [item for item in stage.clauses if isinstance(item, CheckedBinding)]
    others = [
        item for item in text.match if isinstance(item, ast.Traversal | ast.PathClause | ast.Each | ast.OptionalBlock)
    ]
    if others or len(bindings) != len(stage.variables) or any(item.interface for item in bindings):
        return False
    shown = [item.expression for item in text.projections]
    return bool(bindings) and all(_is_shown(binding, shown) for binding in bindings)


def _is_shown(binding: CheckedBinding, shown: Sequence[ast.Expression]) -> bool:
    variable = ast.Variable(name=binding.variable)
    names = {item.property.text for item in shown if isinstance(item, ast.PropertyAccess) and item.variable == variable}
    is_whole = any(
        item == variable
        or (isinstance(item, ast.AllProperties) and item.variable == variable)
        or (isinstance(item, ast.Call) and item.function.text == "id" and item.arguments == (variable,))
        for item in shown
    )
    return is_whole or (binding.node.key is not None and set(binding.node.key) <= names)
