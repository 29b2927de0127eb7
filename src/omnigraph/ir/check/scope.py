"""What is visible at a place of a query: parameters, bound entities, the schema, and how to report a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType
from omnigraph.errors import Diagnostic, QueryTypeError
from omnigraph.ir.check.tree import CheckedNegation, EnumUse
from omnigraph.lang.gq import ast
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.source import SourceText, Span
from omnigraph.records import record

BlockChecker = Callable[["Scope", tuple[ast.Clause, ...], Span], CheckedNegation]


@record(frozen=False)
class Scope:
    """A scope grows as clauses are read; a block works on a copy.

    ``values`` are what earlier stages named, and under ``$name`` the items that ``each`` takes one by one. ``nullable``
    are the entities that an optional block may leave missing. ``enum_uses`` are the parameters of the whole query that
    are compared with an enum, and all scopes share the list. ``block_checker`` checks what stands in a block; it is
    given, since a block may stand in any expression.
    """

    catalog: Catalog
    source: SourceText
    parameters: Mapping[str, PropertyType]
    entities: dict[str, NodeType | EdgeType] = field(default_factory=dict)
    values: dict[str, PropertyType] = field(default_factory=dict)
    nullable: set[str] = field(default_factory=set)
    enum_uses: list[EnumUse] = field(default_factory=list)
    block_checker: BlockChecker | None = None

    def check_block(self, clauses: tuple[ast.Clause, ...], span: Span) -> CheckedNegation:
        """Check what stands in a block of an expression."""
        if self.block_checker is None:
            raise self.violation(None, "a block cannot be used here", span)
        return self.block_checker(self, clauses, span)

    def types_of(self, variable: str) -> tuple[str, ...]:
        """Return the types of an entity that ranges over several, and none for any other."""
        bound = self.entities.get(variable)
        return () if bound is None else several_types(bound, self.catalog)

    def ranges_over_several(self, variable: str) -> bool:
        """Whether an entity is one of an interface, which no type may implement, or of one of several edge types."""
        bound = self.entities.get(variable)
        known = self.catalog.edges if isinstance(bound, EdgeType) else self.catalog.nodes
        return bound is not None and bound.name not in known

    def nested(self) -> Scope:
        """Return a scope for the inside of a negation."""
        return replace(self, entities=dict(self.entities), values=dict(self.values), nullable=set(self.nullable))

    def violation(self, rule: str | None, message: str, span: Span, *, suggestion: str | None = None) -> QueryTypeError:
        """Return the error to raise for a violated rule."""
        head = "type error" if rule is None else f"type error: {rule}"
        details = Diagnostic(rule=rule, place=self.source.place(span), suggestion=suggestion)
        return QueryTypeError(f"{head}: {message}", details=details)

    def unbound(self, name: str) -> tuple[str, str | None]:
        """Return a message about a variable that cannot be used, and what to do: the nearest one that is bound."""
        if name == "_":
            return "the anonymous variable has no value", "name the variable"
        return f"variable '${name}' is not bound here", did_you_mean(name, self.entities, mark="$")


def several_types(bound: NodeType | EdgeType, catalog: Catalog) -> tuple[str, ...]:
    """Return the types that an interface or several edges stand for, and none for a type of the schema."""
    if isinstance(bound, EdgeType):
        return () if bound.name in catalog.edges else tuple(bound.name.split("|"))
    if bound.name in catalog.nodes:
        return ()
    return tuple(name for name, node in catalog.nodes.items() if bound.name in node.implements)


def did_you_mean(name: str, known: Iterable[str], *, mark: str = "") -> str | None:
    """Return a suggestion in the form of a question, if a known name is near."""
    near = nearest_name(name, known)
    return None if near is None else f"did you mean '{mark}{near}'?"


RULES: Mapping[str, str] = MappingProxyType(
    {
        "T1": "a binding names a node type that the schema has",
        "T2": "an inline predicate names a property that the type has",
        "T3": "a literal fits the property it is matched or compared with or assigned to",
        "T4": "a traversal names an edge type that the schema has",
        "T5": "the ends of a traversal have the types that its edge connects, and at least one of them has a name",
        "T6": "a property access names a bound variable and a property of it; an inline value is a declared parameter",
        "T7": "the two sides of a comparison, or a parameter and the property it is for, have compatible types",
        "T8": "an aggregate takes the values it is defined for",
        "T9": "a negation uses a variable bound before it; only properties and variables are returned with aggregates",
        "T10": "a mutation names a type that the schema has, and assigns something",
        "T11": "a mutation assigns and tests properties that the type has, and tests no Blob",
        "T12": "an insert assigns every required property, and both ends of an edge; an upsert assigns the key",
        "T13": "a statement assigns a property once",
        "T14": "a mutation uses declared parameters only",
        "T15": "hop bounds are 1 <= min <= max; nearest compares a vector property with a vector of its size or a text",
        "T16": "an update changes the properties of an edge, never its ends",
        "T17": "ordering by nearest needs a limit",
        "T18": "ordering by nearest is not combined with an alias key",
        "T19": "search and fuzzy look for text in a text property, and are used by themselves or before '= true'",
        "T20": "match_text and bm25 look for text in a text property; match_text is used by itself or before '= true'",
        "T21": "rrf fuses two rankings of one variable by a positive integer k, under a limit",
        "T22": "an undirected traversal follows an edge whose ends have the same type",
        "T23": "an edge variable names one edge: one hop, a name of its own, used through its properties, not searched",
        "T24": "a Blob is written, never read by a query",
        "T25": "operators and functions take the types they are defined for",
        "T26": "a call names a function and gives it as many arguments as it takes",
        "T27": "a condition is a Bool",
        "T28": "an aggregate belongs in return, not in match",
        "T29": "the columns of a result have different names",
    }
)
