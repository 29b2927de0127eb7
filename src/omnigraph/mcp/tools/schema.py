"""Tools about the schema: finding types by words, and describing one of them. Neither shows all of a large schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.model import PropertyDef
from omnigraph.engine.accepted import catalog_of
from omnigraph.errors import BadValue, UsageError
from omnigraph.mcp.tool import Answer, Arguments, Tool, ToolCall
from omnigraph.operations.reads import PinnedState, ReadStateRequest
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.txn.snapshot import unknown_type

MOST_TYPES = 100
_MOST_NAMES = 12

BranchToRead = Annotated[
    str | None, msgspec.Meta(description="The branch to read; the branch of the server by default, usually main.")
]
AsOf = Annotated[
    str | None,
    msgspec.Meta(
        description="An earlier state to read: a commit id, main~3, tag:NAME, or @TIME such as @2026-01-31T12:00:00Z."
    ),
]
TypeName = Annotated[
    str,
    msgspec.Meta(
        description="The type: Person, or node:Person and edge:Knows if a node type and an edge type share a name."
    ),
]


class SchemaSearch(Arguments, kw_only=True, frozen=True):
    """Arguments of ``schema_search``."""

    text: Annotated[
        str,
        msgspec.Meta(max_length=1000, description="Words to look for in names and descriptions; all types if empty."),
    ] = ""
    kind: Annotated[
        Literal["node", "edge"] | None, msgspec.Meta(description="Only node types, or only edge types.")
    ] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_TYPES, description="Maximum number of types.")] = 20
    branch: BranchToRead = None
    as_of: AsOf = None


class FoundType(Answer, kw_only=True, frozen=True):
    """A type in short."""

    kind: str
    name: str
    entities: int
    properties: list[str]
    description: str | None = None
    source: str | None = None
    target: str | None = None


class FoundTypes(Answer, kw_only=True, frozen=True):
    """The types that fit best, the best first."""

    commit: str
    node_types: int
    edge_types: int
    found: int
    types: list[FoundType]


class DescribeType(Arguments, kw_only=True, frozen=True):
    """Arguments of ``describe_type``."""

    name: TypeName
    branch: BranchToRead = None
    as_of: AsOf = None


class DescribedProperty(Answer, kw_only=True, frozen=True):
    """A property: its type as the schema language writes it, a ``?`` where it may be null."""

    name: str
    type: str
    description: str | None = None
    rules: tuple[str, ...] = ()


class IncidentEdge(Answer, kw_only=True, frozen=True):
    """An edge type that begins or ends at a node type."""

    name: str
    source: str
    target: str
    cardinality: str


class DescribedType(Answer, kw_only=True, frozen=True):
    """Everything that is declared of a type."""

    commit: str
    kind: str
    name: str
    entities: int
    properties: list[DescribedProperty]
    example: str
    description: str | None = None
    instruction: str | None = None
    key: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    implements: tuple[str, ...] = ()
    edges: tuple[IncidentEdge, ...] = ()
    source: str | None = None
    target: str | None = None
    cardinality: str | None = None


def read_catalog(call: ToolCall, branch: str | None, as_of: str | None) -> tuple[Catalog, ManifestState]:
    """Return the schema of a state, and the state."""
    pinned: PinnedState = call.execute(ReadStateRequest(branch=call.branch_of(branch), at=as_of))
    return catalog_of(pinned.state.schema), pinned.state


def search_schema(call: ToolCall, given: SchemaSearch) -> FoundTypes:
    """Find types."""
    catalog, state = read_catalog(call, given.branch, given.as_of)
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    words = given.text.casefold().split()
    ranked = [
        (rank, place, owner)
        for place, owner in enumerate(owners)
        if given.kind in {None, _kind(owner)} and (rank := _rank(owner, words)) is not None
    ]
    ranked.sort(key=lambda item: item[:2])
    return FoundTypes(
        commit=str(state.head.commit),
        node_types=len(catalog.nodes),
        edge_types=len(catalog.edges),
        found=len(ranked),
        types=[found_type(owner, state) for _, _, owner in ranked[: given.limit]],
    )


def found_type(owner: NodeType | EdgeType, state: ManifestState) -> FoundType:
    """Return a type in short."""
    names = [prop.name for prop in owner.properties]
    rest = len(names) - _MOST_NAMES
    return FoundType(
        kind=_kind(owner),
        name=owner.name,
        entities=_count(owner, state),
        properties=[*names[:_MOST_NAMES], *([f"and {rest} more"] if rest > 0 else [])],
        description=_annotation(owner, "description"),
        source=owner.from_type if isinstance(owner, EdgeType) else None,
        target=owner.to_type if isinstance(owner, EdgeType) else None,
    )


def describe_type(call: ToolCall, given: DescribeType) -> DescribedType:
    """Describe a type.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type have that name.
    """
    catalog, state = read_catalog(call, given.branch, given.as_of)
    return described_type(catalog, state, given.name)


def described_type(catalog: Catalog, state: ManifestState, name: str) -> DescribedType:
    """Return everything that is declared of a type; raises what :func:`describe_type` does."""
    owner = _owner(catalog, name.strip())
    edge = owner if isinstance(owner, EdgeType) else None
    node = owner if isinstance(owner, NodeType) else None
    return DescribedType(
        commit=str(state.head.commit),
        kind=_kind(owner),
        name=owner.name,
        entities=_count(owner, state),
        properties=[_described(owner, prop) for prop in owner.properties],
        example=example_query(owner),
        description=_annotation(owner, "description"),
        instruction=_annotation(owner, "instruction"),
        key=owner.key or (),
        rules=tuple(f"unique together: {', '.join(columns)}" for columns in owner.uniques if len(columns) > 1),
        implements=() if node is None else node.implements,
        edges=() if node is None else tuple(_incident(catalog, node)),
        source=None if edge is None else edge.from_type,
        target=None if edge is None else edge.to_type,
        cardinality=None if edge is None else str(edge.cardinality),
    )


def example_query(owner: NodeType | EdgeType) -> str:
    """Return a read of a few entities of a type, as a start for others."""
    if isinstance(owner, EdgeType):
        verb = owner.name[:1].lower() + owner.name[1:]
        match = f"$a: {owner.from_type}\n        $a {verb} $b"
        returned = "$a, $b"
    else:
        match, returned = f"$x: {owner.name}", ", ".join(["$x", *(f"$x.{name}" for name in _plain_names(owner))])
    return f"query example() {{\n    match {{\n        {match}\n    }}\n    return {{ {returned} }}\n    limit 5\n}}\n"


def _plain_names(owner: NodeType) -> Iterator[str]:
    for prop in owner.properties:
        if not (prop.type.is_vector or prop.type.scalar == "Blob"):
            yield prop.name


def _owner(catalog: Catalog, name: str) -> NodeType | EdgeType:
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    found = [owner for owner in owners if name in {owner.name, owner.table_key}]
    if not found:
        raise unknown_type(name, tuple(owner.table_key for owner in owners))
    if len(found) > 1:
        details = BadValue(what="type", value=name, expected=f"node:{name} or edge:{name}")
        raise UsageError(f"both a node type and an edge type are called '{name}'", details=details)
    return found[0]


def _incident(catalog: Catalog, node: NodeType) -> Iterator[IncidentEdge]:
    for edge in catalog.edges.values():
        if node.name in {edge.from_type, edge.to_type}:
            yield IncidentEdge(
                name=edge.name, source=edge.from_type, target=edge.to_type, cardinality=str(edge.cardinality)
            )


def _described(owner: NodeType | EdgeType, prop: PropertyDef) -> DescribedProperty:
    return DescribedProperty(
        name=prop.name,
        type=str(prop.type),
        description=_annotation(prop, "description"),
        rules=tuple(_rules(owner, prop)),
    )


def _rules(owner: NodeType | EdgeType, prop: PropertyDef) -> Iterator[str]:
    name = prop.name
    if owner.key is not None and name in owner.key:
        yield "key"
    if (name,) in owner.uniques:
        yield "unique"
    if any(name in columns for columns in owner.indexes):
        yield "indexed"
    for bounds in owner.ranges:
        if bounds.property == name:
            low, high = ("" if end is None else str(end) for end in (bounds.low, bounds.high))
            yield f"from {low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    for rule in owner.checks:
        if rule.property == name:
            yield f"matches {rule.pattern}"
    if prop.embed is not None:
        yield f"embedding of {prop.embed.source}"


def _annotation(owner: NodeType | EdgeType | PropertyDef, name: str) -> str | None:
    return next((item.value for item in owner.annotations if item.name == name), None)


def _kind(owner: NodeType | EdgeType) -> str:
    return "edge" if isinstance(owner, EdgeType) else "node"


def _count(owner: NodeType | EdgeType, state: ManifestState) -> int:
    entry = state.table(owner.table_key)
    return 0 if entry is None else entry.row_count


def _rank(owner: NodeType | EdgeType, words: Iterable[str]) -> int | None:
    """Return how well a type fits, 0 best; None if a word is found nowhere in it."""
    name = owner.name.casefold()
    texts = [_annotation(owner, "description") or "", *(prop.name for prop in owner.properties)]
    texts += [_annotation(prop, "description") or "" for prop in owner.properties]
    ends: list[str] = [owner.from_type, owner.to_type] if isinstance(owner, EdgeType) else list(owner.implements)
    other = " ".join([*texts, *ends]).casefold()
    total = 0
    for word in words:
        if word in name:
            total += 0 if word == name else 1
        elif word in other:
            total += 3
        else:
            return None
    return total


def types_document(catalog: Catalog, state: ManifestState) -> dict[str, Any]:
    """Return the names of all types with their counts, for those who want to look one up."""
    return {
        "commit": str(state.head.commit),
        "nodes": {node.name: _count(node, state) for node in catalog.nodes.values()},
        "edges": {
            edge.name: {"source": edge.from_type, "target": edge.to_type, "entities": _count(edge, state)}
            for edge in catalog.edges.values()
        },
    }


TOOLS = (
    Tool(
        name="schema_search",
        title="Search the schema",
        description=(
            "Find node and edge types by words in their names, properties and descriptions. "
            "Start here in an unknown graph, then use describe_type."
        ),
        arguments=SchemaSearch,
        answer=FoundTypes,
        run=search_schema,
    ),
    Tool(
        name="describe_type",
        title="Describe a type",
        description=(
            "Show the properties, keys, rules and edges of one type, its number of entities, and an example query."
        ),
        arguments=DescribeType,
        answer=DescribedType,
        run=describe_type,
    ),
)
