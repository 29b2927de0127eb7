"""The rules of the type checker, by code. A violation without a code of its own carries no rule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RULES: Mapping[str, str] = MappingProxyType(
    {
        "T1": "a binding names a node type that the schema has",
        "T2": "an inline predicate names a property that the type has",
        "T3": "a literal fits the property it is matched with or assigned to",
        "T4": "a traversal names an edge type that the schema has",
        "T5": "the ends of a traversal are of the types its edge joins, and at least one of them has a name",
        "T6": "a property access names a bound variable and a property of it; an inline value is a declared parameter",
        "T7": "the two sides of a comparison, or a parameter and the property it is for, have types that go together",
        "T8": "sum and avg take numbers; min and max take numbers or text",
        "T9": "a negation mentions a variable bound before it; beside aggregates stand only properties and variables",
        "T10": "a mutation names a type that the schema has, and assigns something",
        "T11": "a mutation assigns and tests properties that the type has, and tests no Blob",
        "T12": "an insert assigns every required property, and both ends of an edge",
        "T13": "a statement assigns a property once",
        "T14": "a mutation uses declared parameters only",
        "T15": "hop bounds are 1 <= min <= max; nearest compares a vector property with a vector of its size or a text",
        "T16": "an update changes nodes, not edges",
        "T17": "ordering by nearest needs a limit",
        "T18": "ordering by nearest goes with no alias key",
        "T19": "search and fuzzy look for a text in a text property, and stand alone or before '= true'",
        "T20": "match_text and bm25 look for a text in a text property; match_text stands alone or before '= true'",
        "T21": "rrf fuses two rankings of one variable by a positive integer k, under a limit",
        "T22": "an undirected traversal follows an edge whose two ends have one type",
        "T23": "an edge variable names one edge: one hop, a name of its own, used through its properties, not searched",
        "T24": "a Blob is written, never read by a query",
    }
)
