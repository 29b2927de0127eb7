"""The match clause to a pipeline: where each variable is introduced, and where each predicate is tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import assert_never

from omnigraph.ir.check.tree import (
    CheckedBinding,
    CheckedClause,
    CheckedCondition,
    CheckedEach,
    CheckedFilter,
    CheckedMatch,
    CheckedNegation,
    CheckedOptional,
    CheckedText,
    CheckedTraversal,
    Direction,
    Operand,
)
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.model import (
    AntiJoin,
    Apply,
    BlockValue,
    Column,
    Compare,
    Condition,
    EntityRef,
    EntityType,
    EntityVersion,
    Expand,
    Filter,
    ListContains,
    Narrow,
    NodeScan,
    Operator,
    OptionalJoin,
    Predicate,
    SameEntity,
    Scalarlike,
    TextMatch,
    Truth,
    UnionScan,
    Unwind,
    ValueRef,
    Walk,
    Widen,
    operands_of,
)
from omnigraph.ir.types import BOOL, item_type
from omnigraph.lang.gq import ast
from omnigraph.lang.gq.ast import ANONYMOUS
from omnigraph.records import record


@record(frozen=False)
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
    if isinstance(left, ValueRef) or isinstance(right, ValueRef):
        return Condition(value=Apply(function=clause.op, arguments=(left, right), type=BOOL))
    return lowering.compared(clause.op, left, right)


def lower_text(clause: CheckedText, lowering: Lowering) -> TextMatch:
    """Lower ``search``, ``match_text`` or ``fuzzy``."""
    return lowering.text_match(clause.call)


def read_variables(predicate: Predicate) -> frozenset[str]:
    """Return the variables a predicate reads."""
    if isinstance(predicate, SameEntity):
        return frozenset({predicate.left, predicate.right})
    entities = Column | EntityRef | EntityType | EntityVersion
    return frozenset(value.variable for value in operands_of(predicate) if isinstance(value, entities))


def _reads_values(predicate: Predicate) -> bool:
    return any(isinstance(value, ValueRef) for value in operands_of(predicate))


def _side(operand: Operand, lowering: Lowering) -> Scalarlike:
    expression = operand.expression
    if isinstance(expression, ast.Nearest | ast.Bm25 | ast.Rrf):
        message = "a ranking orders rows and cannot be compared"
        raise lowering.refusal(message, operand.span, suggestion="put it first in order { }")
    if isinstance(expression, ast.Aggregate):
        raise lowering.refusal("an aggregate has no value in match", operand.span)
    return lowering.scalar(operand)


_REVERSED: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


def lower_match(
    clauses: tuple[CheckedClause, ...], lowering: Lowering, outer: frozenset[str] = frozenset()
) -> tuple[Operator, ...]:
    """Lower the clauses of a match; ``outer`` are the entities that its rows begin with."""
    return _Pipeline(lowering=lowering, outer=outer).build(clauses)


def lower_pending(lowering: Lowering, visible: frozenset[str]) -> tuple[Operator, ...]:
    """Lower the blocks that expressions ask, for rows with these entities."""
    found: list[Operator] = []
    while lowering.pending:
        # A block may hold an expression that asks another one: that one is lowered inside.
        pending = list(lowering.pending)
        lowering.pending.clear()
        for item in pending:
            inner = _Pipeline(lowering=lowering, outer=visible).build(item.block.clauses)
            found.append(BlockValue(name=item.name, kind=item.kind, outer=item.block.outer, inner=inner))
    return tuple(found)


@record(frozen=False)
class _Pipeline:
    lowering: Lowering
    outer: frozenset[str]
    operators: list[Operator] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    pushed: dict[str, list[Predicate]] = field(default_factory=dict)
    conditions: dict[Operand, Predicate] = field(default_factory=dict)

    def build(self, clauses: tuple[CheckedClause, ...]) -> tuple[Operator, ...]:
        self.bound = set(self.outer)
        for segment in _segments(clauses):
            if isinstance(segment, CheckedOptional):
                inner = _Pipeline(lowering=self.lowering, outer=frozenset(self.bound)).build(segment.clauses)
                self.operators.append(OptionalJoin(outer=segment.outer, inner=inner, introduced=segment.introduced))
                self.bound.update(segment.introduced)
            elif isinstance(segment, CheckedEach):
                items = self.lowering.scalar(segment.items)
                self.operators.extend(lower_pending(self.lowering, frozenset(self.bound)))
                self.operators.append(Unwind(name=f"${segment.variable}", items=items))
            else:
                self._build_segment(segment)
        return tuple(self.operators)

    def _build_segment(self, clauses: tuple[CheckedClause, ...]) -> None:
        outer = frozenset(self.bound)
        introduced = _introduced_nodes(clauses) - outer
        on_rows = self._place(clauses, introduced)
        self._lower_conditions(clauses)
        if any(isinstance(clause, CheckedTraversal) and _asks_rows(clause) for clause in clauses):
            # Such a traversal is alone in its segment: what its condition asks is asked of the rows before it.
            self.operators.extend(lower_pending(self.lowering, outer))
        for component in find_components(clauses, outer):
            self._lower_component(component)
        self.operators.extend(Filter(predicate=predicate) for predicate in on_rows if not _reads_values(predicate))
        self.operators.extend(lower_pending(self.lowering, frozenset(self.bound)))
        self.operators.extend(Filter(predicate=predicate) for predicate in on_rows if _reads_values(predicate))
        for position, clause in enumerate(clauses):
            if isinstance(clause, CheckedNegation):
                self.operators.append(self._lower_negation(clause, outer | _introduced(clauses[:position])))

    def _place(self, clauses: tuple[CheckedClause, ...], introduced: frozenset[str]) -> list[Predicate]:
        """Give each predicate over one introduced node to its operator; return the others, in text order."""
        on_rows: list[Predicate] = []
        for predicate in self._predicates(clauses):
            variables = read_variables(predicate)
            if len(variables) == 1 and variables <= introduced and not _reads_values(predicate):
                self.pushed.setdefault(next(iter(variables)), []).append(predicate)
            else:
                on_rows.append(predicate)
        return on_rows

    def _predicates(self, clauses: tuple[CheckedClause, ...]) -> Iterator[Predicate]:
        for clause in clauses:
            match clause:
                case CheckedBinding():
                    yield from (lower_inline(clause.variable, item, self.lowering) for item in clause.matches)
                    yield from map(self._condition, clause.conditions)
                case CheckedFilter():
                    yield lower_filter(clause, self.lowering)
                case CheckedText():
                    yield lower_text(clause, self.lowering)
                case CheckedCondition():
                    yield self._condition(clause.condition)
                case CheckedTraversal():
                    if clause.condition is not None and _walk_condition(clause) is None:
                        yield self._condition(clause.condition)
                case CheckedNegation() | CheckedOptional() | CheckedEach():
                    pass
                case _:
                    assert_never(clause)

    def _lower_conditions(self, clauses: tuple[CheckedClause, ...]) -> None:
        for clause in clauses:
            condition = _walk_condition(clause) if isinstance(clause, CheckedTraversal) else None
            if condition is not None:
                self.conditions[condition] = self._condition(condition)

    def _condition(self, operand: Operand) -> Predicate:
        value = self.lowering.scalar(operand)
        # What is a predicate by itself can be answered by an index.
        return value.predicate if isinstance(value, Truth) else Condition(value=value)

    def _lower_component(self, component: Component) -> None:
        waiting = component.traversals if component.is_anchored else self._start(component)
        while waiting:
            # Every traversal of a component hangs together with its start, so each pass takes at least one.
            waiting = [traversal for traversal in waiting if not self._try_expand(traversal)]

    def _start(self, component: Component) -> list[CheckedTraversal]:
        if component.first_binding is not None:
            self._scan_binding(component.first_binding)
            return component.traversals
        first, *rest = component.traversals
        if first.source == ANONYMOUS:
            first = replace(first, source=self.lowering.names.fresh())
        self._scan(first.source, first.source_type)
        return [first, *rest]

    def _scan_binding(self, binding: CheckedBinding) -> None:
        if binding.interface is None:
            self._scan(binding.variable, binding.node.name)
            return
        filters = tuple(self.pushed.pop(binding.variable, ()))
        scan = UnionScan(
            variable=binding.variable, interface=binding.interface, type_names=binding.types, filters=filters
        )
        self.operators.append(scan)
        self.bound.add(binding.variable)

    def _scan(self, variable: str, type_name: str) -> None:
        filters = tuple(self.pushed.pop(variable, ()))
        self.operators.append(NodeScan(variable=variable, type_name=type_name, filters=filters))
        self.bound.add(variable)

    def _try_expand(self, traversal: CheckedTraversal) -> bool:
        if traversal.source in self.bound:
            self._expand_forward(traversal)
        elif traversal.destination in self.bound:
            self._expand_backward(traversal)
        else:
            return False
        return True

    def _expand_backward(self, traversal: CheckedTraversal) -> None:
        if traversal.path is not None:
            # Ways are compared from their start on: find the starts first, then walk from there.
            start = self.lowering.names.fresh() if traversal.source == ANONYMOUS else traversal.source
            traversal = replace(traversal, source=start)
            self._expand_backward(replace(traversal, path=None))
            self._expand_forward(traversal)
            return
        source = traversal.source
        if traversal.destination_types:
            narrowed = self._narrow(traversal.destination, traversal.destination_type)
            traversal = replace(traversal, destination=narrowed)
        is_private = source == ANONYMOUS or bool(traversal.source_types)
        self._add_expand(traversal, self.lowering.names.fresh() if is_private else source, is_backward=True)
        if traversal.source_types:
            self._widen(source, traversal.source_types, traversal.source_type)

    def _narrow(self, variable: str, type_name: str) -> str:
        name = self.lowering.names.fresh()
        self.operators.append(Narrow(variable=variable, type_name=type_name, name=name))
        self.bound.add(name)
        return name

    def _widen(self, variable: str, types: tuple[str, ...], type_name: str) -> None:
        """Give what the last operator reached its name, and test there what is asked of the name."""
        reached = self.operators[-1]
        assert isinstance(reached, Expand | Walk)  # noqa: S101 - as added
        self.operators.append(Widen(variable=variable, type_names=types, name=reached.destination, type_name=type_name))
        self.operators.extend(Filter(predicate=predicate) for predicate in self.pushed.pop(variable, ()))
        self.bound.add(variable)

    def _expand_forward(self, traversal: CheckedTraversal) -> None:
        destination = traversal.destination
        is_test = destination in self.bound
        is_mixed = bool(traversal.destination_types) and not is_test
        if traversal.source_types:
            traversal = replace(traversal, source=self._narrow(traversal.source, traversal.source_type))
        if traversal.destination_types and is_test:
            destination = self._narrow(destination, traversal.destination_type)
        is_private = is_test or is_mixed or destination == ANONYMOUS
        reached = self.lowering.names.fresh() if is_private else destination
        goal = destination if is_test and traversal.path is not None else None
        self._add_expand(traversal, reached, is_backward=False, goal=goal)
        if is_test and goal is None:
            self.operators.append(Filter(predicate=SameEntity(left=reached, right=destination)))
        elif is_mixed:
            self._widen(destination, traversal.destination_types, traversal.destination_type)

    def _add_expand(
        self, traversal: CheckedTraversal, reached: str, *, is_backward: bool, goal: str | None = None
    ) -> None:
        if _is_walk(traversal):
            walk = self._walk(traversal, reached, is_backward=is_backward)
            self.operators.append(replace(walk, goal=goal))
            self.bound.update({reached} if traversal.edge_variable is None else {reached, traversal.edge_variable})
            return
        max_hops = _max_hops(traversal)
        assert max_hops is not None  # noqa: S101 - else it is a walk
        self.operators.append(
            Expand(
                source=traversal.destination if is_backward else traversal.source,
                destination=reached,
                edge=traversal.edge.name,
                direction=_REVERSED[traversal.direction] if is_backward else traversal.direction,
                destination_type=traversal.source_type if is_backward else traversal.destination_type,
                min_hops=traversal.min_hops,
                max_hops=max_hops,
                filters=tuple(self.pushed.pop(reached, ())),
                edge_variable=traversal.edge_variable,
            )
        )
        self.bound.add(reached)
        if traversal.edge_variable is not None:
            self.bound.add(traversal.edge_variable)

    def _walk(self, traversal: CheckedTraversal, reached: str, *, is_backward: bool) -> Walk:
        return Walk(
            source=traversal.destination if is_backward else traversal.source,
            destination=reached,
            edges=tuple(edge.name for edge in traversal.edges),
            direction=_REVERSED[traversal.direction] if is_backward else traversal.direction,
            destination_type=traversal.source_type if is_backward else traversal.destination_type,
            min_hops=traversal.min_hops,
            max_hops=_max_hops(traversal),
            filters=tuple(self.pushed.pop(reached, ())),
            edge_variable=traversal.walked_edge,
            condition=None if (walked := _walk_condition(traversal)) is None else self.conditions[walked],
            binds_edge=traversal.edge_variable is not None,
            path=None if traversal.path is None else f"${traversal.path}",
            keeps_all_paths=traversal.keeps_all_paths,
        )

    def _lower_negation(self, negation: CheckedNegation, visible: frozenset[str]) -> AntiJoin:
        """Lower a block; a name that is only introduced behind it means something of its own inside."""
        inner = _Pipeline(lowering=self.lowering, outer=visible)
        return AntiJoin(outer=negation.outer, inner=inner.build(negation.clauses))


def _segments(
    clauses: tuple[CheckedClause, ...],
) -> Iterator[tuple[CheckedClause, ...] | CheckedOptional | CheckedEach]:
    """Cut clauses where rows of their own are made: what stands behind starts from those rows."""
    start = 0
    for position, clause in enumerate(clauses):
        is_walk = isinstance(clause, CheckedTraversal) and _asks_rows(clause)
        if is_walk or isinstance(clause, CheckedOptional | CheckedEach):
            if position > start:
                yield clauses[start:position]
            yield clause if isinstance(clause, CheckedOptional | CheckedEach) else (clause,)
            start = position + 1
    if start < len(clauses) or not clauses:
        yield clauses[start:]


def _is_walk(traversal: CheckedTraversal) -> bool:
    """Whether a traversal is more than an expansion with a filter on its edge behind it."""
    is_plain = _walk_condition(traversal) is None and traversal.path is None and not traversal.alternatives
    return not is_plain or _max_hops(traversal) is None


def _walk_condition(traversal: CheckedTraversal) -> Operand | None:
    """Return the condition that belongs to the walk; that on a variable of one edge is a filter on rows."""
    return traversal.condition if traversal.edge_variable is None else None


def _asks_rows(traversal: CheckedTraversal) -> bool:
    """Whether the condition of a traversal looks at more than its edge."""
    return traversal.condition is not None and _looks_beyond(traversal.condition, traversal.walked_edge)


def _looks_beyond(operand: Operand, edge: str | None) -> bool:
    expression = operand.expression
    if operand.is_value or operand.block is not None:
        return True
    if isinstance(expression, ast.PropertyAccess):
        return expression.variable.name != edge
    if (operand.is_node or operand.is_edge) and isinstance(expression, ast.Variable):
        return expression.name != edge
    return any(_looks_beyond(part, edge) for part in operand.parts)


def _max_hops(traversal: CheckedTraversal) -> int | None:
    if traversal.edge.is_same_type:
        return traversal.max_hops
    # A cross-type edge cannot be chained: nothing lies beyond its first hop.
    return 1 if traversal.min_hops == 1 else traversal.max_hops or traversal.min_hops


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
