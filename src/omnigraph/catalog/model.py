"""The compiled schema: what the rest of the system knows about types, without their source text.

Properties stand in declaration order, which is also the column order of the table. A property that an interface
contributes follows the node's own ones. Names are labels; identity is in the numeric ids, which survive renames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.values.ids import IncarnationId, PropertyId, TypeId
from omnigraph.values.names import enum_word


class Scalar(StrEnum):
    """The scalar types; ``VECTOR`` carries its dimension beside it, ``DECIMAL`` its precision and scale."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DECIMAL = "Decimal"
    DATE = "Date"
    DATETIME = "DateTime"
    VECTOR = "Vector"


# What stands in a catalog that belongs to no graph; real ids start at 1.
NO_TYPE_ID = TypeId(0)
NO_PROPERTY_ID = PropertyId(0)
NO_INCARNATION_ID = IncarnationId(0)

INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMERIC = INTEGERS | FLOATS | {Scalar.DECIMAL}
# The columns of an edge that hold the ids of its ends.
ENDPOINTS = ("src", "dst")


@record
class PropertyType:
    """A type as the schema language and query parameters share it. Enum values are sorted: their order says nothing."""

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dimension: int | None = None
    precision: int | None = None
    scale: int | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether a single value of this type is a number."""
        return self.scalar in NUMERIC and not self.is_list

    @property
    def is_vector(self) -> bool:
        """Whether this is ``Vector(n)``."""
        return self.scalar is Scalar.VECTOR

    @property
    def is_decimal(self) -> bool:
        """Whether this is ``Decimal(p, s)``, or a list of them."""
        return self.scalar is Scalar.DECIMAL

    @property
    def digits(self) -> tuple[int, int]:
        """The precision and the scale of a decimal."""
        return self.precision or 0, self.scale or 0

    @property
    def single(self) -> PropertyType:
        """The type of one value, or of one item of a list, without its nullability and the values of an enum."""
        return PropertyType(scalar=self.scalar, dimension=self.dimension, precision=self.precision, scale=self.scale)

    @property
    def is_text(self) -> bool:
        """Whether a single value is a String, enums included."""
        return self.scalar is Scalar.STRING and not self.is_list

    def __str__(self) -> str:
        """The display form of messages and plans.

        >>> str(PropertyType(scalar=Scalar.STRING, enum_values=("a", "b"), nullable=True))
        'enum(a, b)?'
        """
        if self.enum_values is not None:
            body = f"enum({', '.join(map(enum_word, self.enum_values))})"
        elif self.is_vector:
            body = f"Vector({self.dimension})"
        elif self.is_decimal:
            body = f"Decimal({self.precision}, {self.scale})"
        else:
            body = self.scalar.value
        if self.is_list:
            body = f"[{body}]"
        return f"{body}?" if self.nullable else body

    def to_json(self) -> dict[str, Any]:
        """The form of plans: a scalar with sizes is an object, an enum is a String with its values."""
        scalar: Any = self.scalar.value
        if self.is_vector:
            scalar = {"Vector": self.dimension}
        elif self.is_decimal:
            scalar = {"Decimal": list(self.digits)}
        values = None if self.enum_values is None else list(self.enum_values)
        return {"scalar": scalar, "nullable": self.nullable, "list": self.is_list, "enum_values": values}


@record
class AnnotationValue:
    """An annotation as compiled: everything is text, since the language does not distinguish ``5`` from ``"5"``."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@record
class Embed:
    """Which text property a vector is computed from, and optionally by which model."""

    source: str
    model: str | None = None


# A Decimal only on a decimal property; other numbers are bounded by what they can be.
Bound = int | float | Decimal


@record
class RangeRule:
    """Inclusive numeric bounds; either end may be open."""

    property: str
    low: Bound | None
    high: Bound | None


@record
class CheckRule:
    """An unanchored regular expression that the text must contain a match of."""

    property: str
    pattern: str


@record
class CardinalityRule:
    """How many edges of a type one source node may have."""

    minimum: int = 0
    maximum: int | None = None

    def includes(self, other: CardinalityRule) -> bool:
        """Whether whatever ``other`` allows is allowed here.

        >>> CardinalityRule(maximum=2).includes(CardinalityRule(maximum=1)), CardinalityRule(maximum=1).includes(
        ...     CardinalityRule()
        ... )
        (True, False)
        """
        # A source without edges is asked for none, so that a minimum of one demands nothing.
        is_low_enough = self.minimum <= max(other.minimum, 1)
        return is_low_enough and (self.maximum is None or (other.maximum is not None and other.maximum <= self.maximum))

    def __str__(self) -> str:
        return f"{self.minimum}..{'*' if self.maximum is None else self.maximum}"


@record
class PropertyDef:
    """A property of a type. ``annotations`` holds the opaque ones and ``description``, not the compiled ones."""

    name: str
    type: PropertyType
    id: PropertyId = NO_PROPERTY_ID
    annotations: tuple[AnnotationValue, ...] = ()
    embed: Embed | None = None
    declared_directly: bool = True
    # "Interface.property" of every interface property this one satisfies, sorted.
    satisfies: tuple[str, ...] = ()
    # Ids that merged branches knew the same property by, sorted.
    aliases: tuple[PropertyId, ...] = ()

    def continues(self, other: PropertyDef) -> bool:
        """Whether both are one property, by whatever ids their branches know it."""
        return not {self.id, *self.aliases}.isdisjoint((other.id, *other.aliases))


@record
class InterfaceType:
    """A named list of properties without a table.

    ``constraints`` holds the pairs (property, ``key`` | ``unique`` | ``index``) that implementing nodes receive.
    """

    name: str
    properties: tuple[PropertyDef, ...]
    id: TypeId = NO_TYPE_ID
    constraints: tuple[tuple[str, str], ...] = ()
    # Ids that merged branches knew the same interface by, sorted.
    aliases: tuple[TypeId, ...] = ()


@record
class NodeType:
    """A node type: one table. ``key`` keeps the written order, since ids follow it; other column lists are sorted."""

    name: str
    properties: tuple[PropertyDef, ...]
    id: TypeId = NO_TYPE_ID
    incarnation: IncarnationId = NO_INCARNATION_ID
    implements: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[RangeRule, ...] = ()
    checks: tuple[CheckRule, ...] = ()
    annotations: tuple[AnnotationValue, ...] = ()
    # Ids that merged branches knew the same type by, sorted.
    aliases: tuple[TypeId, ...] = ()
    _by_name: Mapping[str, PropertyDef] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {prop.name: prop for prop in self.properties})

    @property
    def table_key(self) -> str:
        """The name of this type's table in messages and in the manifest."""
        return f"node:{self.name}"

    def get(self, name: str) -> PropertyDef | None:
        """Return the property called ``name``, or None."""
        return self._by_name.get(name)


@record
class EdgeType:
    """An edge type: one table. Column lists may name ``src`` and ``dst``; a key derives ids from its columns."""

    name: str
    from_type: str
    to_type: str
    properties: tuple[PropertyDef, ...]
    id: TypeId = NO_TYPE_ID
    incarnation: IncarnationId = NO_INCARNATION_ID
    cardinality: CardinalityRule = CardinalityRule()
    key: tuple[str, ...] | None = None
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[RangeRule, ...] = ()
    checks: tuple[CheckRule, ...] = ()
    annotations: tuple[AnnotationValue, ...] = ()
    # Ids that merged branches knew the same type by, sorted.
    aliases: tuple[TypeId, ...] = ()
    _by_name: Mapping[str, PropertyDef] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {prop.name: prop for prop in self.properties})

    @property
    def table_key(self) -> str:
        """The name of this type's table in messages and in the manifest."""
        return f"edge:{self.name}"

    @property
    def is_same_type(self) -> bool:
        """Whether both ends are of one node type, so that hops can be chained."""
        return self.from_type == self.to_type

    def get(self, name: str) -> PropertyDef | None:
        """Return the property called ``name``, or None."""
        return self._by_name.get(name)


@record
class Catalog:
    """A whole compiled schema. Mappings are sorted by name.

    ``identity_domain`` is the ULID of the graph the ids belong to; it is empty, and every id 0, until identities
    are assigned. ``shape_hash`` ignores order, comments, white space, rename hints and ids. ``absent`` names types
    that are left out because the state to read does not have them; a stored schema leaves out none.
    """

    interfaces: Mapping[str, InterfaceType]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    shape_hash: str
    identity_domain: str = ""
    next_identity: int = 1
    absent: frozenset[str] = frozenset()
    _edge_names: Mapping[str, str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_edge_names", {name.lower(): name for name in self.edges})

    def node(self, name: str) -> NodeType | None:
        """Return the node type called exactly ``name``, or None."""
        return self.nodes.get(name)

    def edge(self, name: str) -> EdgeType | None:
        """Return the edge type called ``name``, exactly or in any letter case, or None."""
        exact = self.edges.get(name)
        if exact is not None:
            return exact
        folded = self._edge_names.get(name.lower())
        return None if folded is None else self.edges[folded]


class IndexKind(StrEnum):
    """How an index is built: ordered, or by nearness of vectors."""

    BTREE = "btree"
    VECTOR = "vector"


@record
class IndexIntent:
    """An index to be built on one column. The name holds the property's id, so that a rename keeps the index."""

    column: str
    kind: IndexKind
    name: str


def index_intents(owner: NodeType | EdgeType) -> tuple[IndexIntent, ...]:
    """Return the wanted indexes: system columns first, then properties in column order.

    Every column of a key or an ``@index`` is indexed by itself, in composite ones too. Vectors are compared one by one
    and words are looked up in projections, so that neither asks for an index.

    Raises:
        UsageError: the type has no ids yet, so its indexes cannot be named.
    """
    system = ("id", *ENDPOINTS) if isinstance(owner, EdgeType) else ("id",)
    intents = [IndexIntent(column=name, kind=IndexKind.BTREE, name=f"og_{name}_btree") for name in system]
    wanted = set(owner.key or ()).union(*owner.indexes)
    for prop in owner.properties:
        if prop.name not in wanted:
            continue
        if prop.id == NO_PROPERTY_ID:
            details = BadValue(what="property id", value=str(prop.id), expected="an assigned id")
            msg = f"indexes of {owner.table_key} cannot be named before property '{prop.name}' has an id"
            raise UsageError(msg, details=details)
        intents.extend(
            IndexIntent(column=prop.name, kind=kind, name=f"og_p{prop.id}_{kind.value}") for kind in _kinds(prop.type)
        )
    return tuple(intents)


def _kinds(kind: PropertyType) -> Iterator[IndexKind]:
    if not (kind.is_list or kind.is_vector or kind.scalar is Scalar.BLOB):
        yield IndexKind.BTREE


def indexed_texts(owner: NodeType | EdgeType) -> tuple[PropertyDef, ...]:
    """Return the properties of free text that ``@index`` names, in column order: those whose words are looked for."""
    wanted = set[str]().union(*owner.indexes)
    return tuple(
        prop for prop in owner.properties if prop.name in wanted and prop.type.is_text and prop.type.enum_values is None
    )
