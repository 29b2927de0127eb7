"""The match clause to a pipeline: where each variable is introduced, and where each predicate is tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import assert_never

from omnigraph.ir.check.tree import (
    CheckedBinding,
    CheckedClause,
    CheckedFilter,
    CheckedMatch,
    CheckedNegation,
    CheckedText,
    CheckedTraversal,
    Direction,
    Operand,
)
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.model import (
    PRIVATE_MARK,
    AntiJoin,
    Column,
    Compare,
    Constant,
    EntityRef,
    Expand,
    Filter,
    ListContains,
    NodeScan,
    Operator,
    Predicate,
    SameEntity,
    Scalarlike,
    TextContains,
    TextMatch,
    TextStartsWith,
)
from omnigraph.ir.types import I64, item_type
from omnigraph.lang.gq import ast
from omnigraph.lang.gq.ast import ANONYMOUS


@dataclass(slots=True, kw_only=True)
class Component:
    """Bindings and traversals that share variables, each in text order."""

    bindings: list[CheckedBinding] = field(default_factory=list)
    traversals: list[CheckedTraversal] = field(default_factory=list)
    is_anchored: bool = False

    @property
    def first_binding(self) -> CheckedBinding | None:
        """The binding that the component starts from, if it has one."""
        return self.bindings[0] if self.bindings else None


def find_components(clauses: Iterable[CheckedClause], outer: frozenset[str]) -> list[Component]:
    """Return the components in the order of their first clause; one that touches an outer variable is anchored.

    Anchored components come first: they start from rows that exist, the others multiply those rows.
    """
    members = [clause for clause in clauses if isinstance(clause, CheckedBinding | CheckedTraversal)]
    leader: dict[str, str] = {}
    for clause in members:
        names = _names(clause)
        for name in names:
            leader.setdefault(name, name)
        for name in names[1:]:
            leader[_find(leader, name)] = _find(leader, names[0])
    anchored = {_find(leader, name) for name in leader if name in outer}
    found: dict[str, Component] = {}
    for clause in members:
        root = _find(leader, _names(clause)[0])
        component = found.setdefault(root, Component(is_anchored=root in anchored))
        if isinstance(clause, CheckedBinding):
            component.bindings.append(clause)
        else:
            component.traversals.append(clause)
    return sorted(found.values(), key=lambda component: not component.is_anchored)


def _names(clause: CheckedBinding | CheckedTraversal) -> list[str]:
    if isinstance(clause, CheckedBinding):
        return [clause.variable]
    return [name for name in (clause.source, clause.destination) if name != ANONYMOUS]


def _find(leader: dict[str, str], name: str) -> str:
    while leader[name] != name:
        name = leader[name]
    return name


_DEFAULT_EDITS = Constant(value=2, type=I64)


def lower_inline(variable: str, matched: CheckedMatch, lowering: Lowering) -> Predicate:
    """Lower ``prop: value`` of a binding."""
    prop = matched.property
    column = Column(variable=variable, property=prop.name, type=prop.type)
    value = lowering.fitted(lowering.scalar(matched.value), item_type(prop.type))
    if prop.type.is_list:
        return ListContains(items=column, item=value)
    return Compare(left=column, op="=", right=value)


def lower_filter(clause: CheckedFilter, lowering: Lowering) -> Predicate:
    """Lower a filter; ``contains`` is settled here by the type of its left side."""
    left, right = _side(clause.left, lowering), _side(clause.right, lowering)
    match clause.op:
        case "contains" if left.type.is_list:
            return ListContains(
                items=lowering.fitted(left, right.type) if _is_column(right) else left,
                item=lowering.fitted(right, item_type(left.type)) if _is_column(left) else right,
            )
        case "contains":
            return TextContains(text=left, needle=right)
        case "starts_with":
            return TextStartsWith(text=left, prefix=right)
        case _:
            return Compare(left=_fit(left, right, lowering), op=clause.op, right=_fit(right, left, lowering))


def lower_text(clause: CheckedText, lowering: Lowering) -> TextMatch:
    """Lower ``search``, ``match_text`` or ``fuzzy``."""
    call = clause.call.expression
    if not isinstance(call, ast.TextSearch):
        raise lowering.refusal("only a text predicate can be used by itself", clause.call.span)
    field, query, *rest = clause.call.parts
    edits = lowering.given(rest[0], "the edit distance of fuzzy") if rest else None
    if call.function == "fuzzy" and edits is None:
        edits = _DEFAULT_EDITS
    return TextMatch(
        function=call.function,
        field=lowering.column(field),
        query=lowering.given(query, f"the query of {call.function}"),
        max_edits=edits,
    )


def read_variables(predicate: Predicate) -> frozenset[str]:
    """Return the variables a predicate reads."""
    match predicate:
        case Compare():
            sides: tuple[object, ...] = (predicate.left, predicate.right)
        case ListContains():
            sides = (predicate.items, predicate.item)
        case TextContains():
            sides = (predicate.text, predicate.needle)
        case TextStartsWith():
            sides = (predicate.text, predicate.prefix)
        case TextMatch():
            sides = (predicate.field,)
        case _:
            return frozenset({predicate.left, predicate.right})
    return frozenset(side.variable for side in sides if isinstance(side, Column | EntityRef))


def _side(operand: Operand, lowering: Lowering) -> Scalarlike:
    expression = operand.expression
    if isinstance(expression, ast.Nearest | ast.Bm25 | ast.Rrf):
        message = "a ranking orders rows and cannot be compared"
        raise lowering.refusal(message, operand.span, suggestion="put it first in order { }")
    if isinstance(expression, ast.Aggregate):
        raise lowering.refusal("an aggregate has no value in match", operand.span)
    return lowering.scalar(operand)


def _fit(side: Scalarlike, other: Scalarlike, lowering: Lowering) -> Scalarlike:
    return lowering.fitted(side, other.type) if _is_column(other) else side


def _is_column(side: Scalarlike) -> bool:
    return isinstance(side, Column)


_REVERSED: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


def lower_match(clauses: tuple[CheckedClause, ...], lowering: Lowering) -> tuple[Operator, ...]:
    """Lower the clauses of a read."""
    return _Pipeline(lowering=lowering, names=_PrivateNames(), outer=frozenset()).build(clauses)


@dataclass(slots=True)
class _PrivateNames:
    """Names for ends that were written ``$_`` or that only serve a test; one supply per query, so none repeats."""

    numbers: count[int] = field(default_factory=lambda: count(1))

    def fresh(self) -> str:
        return f"{PRIVATE_MARK}{next(self.numbers)}"


@dataclass(slots=True, kw_only=True)
class _Pipeline:
    lowering: Lowering
    names: _PrivateNames
    outer: frozenset[str]
    operators: list[Operator] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    pushed: dict[str, list[Predicate]] = field(default_factory=dict)

    def build(self, clauses: tuple[CheckedClause, ...]) -> tuple[Operator, ...]:
        self.bound = set(self.outer)
        introduced = _introduced_nodes(clauses) - self.outer
        on_rows = self._place(clauses, introduced)
        for component in find_components(clauses, self.outer):
            self._lower_component(component)
        self.operators.extend(Filter(predicate=predicate) for predicate in on_rows)
        for position, clause in enumerate(clauses):
            if isinstance(clause, CheckedNegation):
                self.operators.append(self._lower_negation(clause, self.outer | _introduced(clauses[:position])))
        return tuple(self.operators)

    def _place(self, clauses: tuple[CheckedClause, ...], introduced: frozenset[str]) -> list[Predicate]:
        """Give each predicate over one introduced node to its operator; return the others, in text order."""
        on_rows: list[Predicate] = []
        for predicate in self._predicates(clauses):
            variables = read_variables(predicate)
            if len(variables) == 1 and variables <= introduced:
                self.pushed.setdefault(next(iter(variables)), []).append(predicate)
            else:
                on_rows.append(predicate)
        return on_rows

    def _predicates(self, clauses: tuple[CheckedClause, ...]) -> Iterator[Predicate]:
        for clause in clauses:
            match clause:
                case CheckedBinding():
                    yield from (lower_inline(clause.variable, item, self.lowering) for item in clause.matches)
                case CheckedFilter():
                    yield lower_filter(clause, self.lowering)
                case CheckedText():
                    yield lower_text(clause, self.lowering)
                case CheckedTraversal() | CheckedNegation():
                    pass
                case _:
                    assert_never(clause)

    def _lower_component(self, component: Component) -> None:
        waiting = component.traversals if component.is_anchored else self._start(component)
        while waiting:
            # Every traversal of a component hangs together with its start, so each pass takes at least one.
            waiting = [traversal for traversal in waiting if not self._try_expand(traversal)]

    def _start(self, component: Component) -> list[CheckedTraversal]:
        if component.first_binding is not None:
            self._scan(component.first_binding.variable, component.first_binding.node.name)
            return component.traversals
        first, *rest = component.traversals
        if first.source == ANONYMOUS:
            first = replace(first, source=self.names.fresh())
        self._scan(first.source, first.source_type)
        return [first, *rest]

    def _scan(self, variable: str, type_name: str) -> None:
        filters = tuple(self.pushed.pop(variable, ()))
        self.operators.append(NodeScan(variable=variable, type_name=type_name, filters=filters))
        self.bound.add(variable)

    def _try_expand(self, traversal: CheckedTraversal) -> bool:
        if traversal.source in self.bound:
            self._expand_forward(traversal)
        elif traversal.destination in self.bound:
            name = self.names.fresh() if traversal.source == ANONYMOUS else traversal.source
            self._add_expand(traversal, name, is_backward=True)
        else:
            return False
        return True

    def _expand_forward(self, traversal: CheckedTraversal) -> None:
        is_test = traversal.destination in self.bound
        is_private = is_test or traversal.destination == ANONYMOUS
        reached = self.names.fresh() if is_private else traversal.destination
        self._add_expand(traversal, reached, is_backward=False)
        if is_test:
            self.operators.append(Filter(predicate=SameEntity(left=reached, right=traversal.destination)))

    def _add_expand(self, traversal: CheckedTraversal, reached: str, *, is_backward: bool) -> None:
        self.operators.append(
            Expand(
                source=traversal.destination if is_backward else traversal.source,
                destination=reached,
                edge=traversal.edge.name,
                direction=_REVERSED[traversal.direction] if is_backward else traversal.direction,
                destination_type=traversal.source_type if is_backward else traversal.destination_type,
                min_hops=traversal.min_hops,
                max_hops=_max_hops(traversal),
                filters=tuple(self.pushed.pop(reached, ())),
                edge_variable=traversal.edge_variable,
                is_backward=is_backward,
            )
        )
        self.bound.add(reached)
        if traversal.edge_variable is not None:
            self.bound.add(traversal.edge_variable)

    def _lower_negation(self, negation: CheckedNegation, visible: frozenset[str]) -> AntiJoin:
        """Lower a block; a name that is only introduced behind it means something of its own inside."""
        inner = _Pipeline(lowering=self.lowering, names=self.names, outer=visible)
        return AntiJoin(outer=negation.outer, inner=inner.build(negation.clauses))


def _max_hops(traversal: CheckedTraversal) -> int:
    # A cross-type edge cannot be chained: nothing lies beyond its first hop.
    is_chained = traversal.edge.is_same_type or traversal.min_hops > 1
    return traversal.max_hops if is_chained else 1


def _introduced(clauses: Iterable[CheckedClause]) -> frozenset[str]:
    named = (clause.edge_variable for clause in clauses if isinstance(clause, CheckedTraversal))
    return _introduced_nodes(clauses) | {name for name in named if name is not None}


def _introduced_nodes(clauses: Iterable[CheckedClause]) -> frozenset[str]:
    names: set[str] = set()
    for clause in clauses:
        if isinstance(clause, CheckedBinding):
            names.add(clause.variable)
        elif isinstance(clause, CheckedTraversal):
            names.update((clause.source, clause.destination))
    return frozenset(names - {ANONYMOUS})
