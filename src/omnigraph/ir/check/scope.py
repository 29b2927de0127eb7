"""What is visible at a place of a query: parameters, bound entities, the schema, and how to report a violation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType
from omnigraph.errors import Diagnostic, QueryTypeError
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.source import Source, Span


@dataclass(slots=True, kw_only=True)
class Scope:
    """A scope grows as clauses are read; a negation works on a copy."""

    catalog: Catalog
    source: Source
    parameters: Mapping[str, PropertyType]
    entities: dict[str, NodeType | EdgeType] = field(default_factory=dict)

    def nested(self) -> Scope:
        """Return a scope for the inside of a negation."""
        return Scope(catalog=self.catalog, source=self.source, parameters=self.parameters, entities=dict(self.entities))

    def violation(self, rule: str | None, message: str, span: Span, *, suggestion: str | None = None) -> QueryTypeError:
        """Return the error to raise for a violated rule."""
        head = "type error" if rule is None else f"type error: {rule}"
        details = Diagnostic(rule=rule, place=self.source.place(span), suggestion=suggestion)
        return QueryTypeError(f"{head}: {message}", details=details)

    def unbound(self, name: str) -> tuple[str, str | None]:
        """Return a message about a variable that is bound nowhere, and the nearest one that is."""
        if name == "_":
            return "the anonymous variable has no value", "give the variable a name"
        return f"variable '${name}' is not bound here", did_you_mean(name, self.entities, mark="$")


def did_you_mean(name: str, known: Iterable[str], *, mark: str = "") -> str | None:
    """Return a suggestion in the form of a question, if a known name is near."""
    near = nearest_name(name, known)
    return None if near is None else f"did you mean '{mark}{near}'?"
