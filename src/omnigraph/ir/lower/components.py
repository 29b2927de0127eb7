"""Connected components: which bindings and traversals hang together through shared variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from omnigraph.ir.check.tree import CheckedBinding, CheckedClause, CheckedTraversal
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
