"""Which indexes a type wants. Declarations are intent: queries answer the same with and without any of them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from omnigraph.catalog.model import ENDPOINTS, NO_PROPERTY_ID, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record


class IndexKind(Enum):
    """How an index is built: ordered, words of a text, or nearest vectors."""

    BTREE = "btree"
    FULLTEXT = "fulltext"
    VECTOR = "vector"


@record
class IndexIntent:
    """An index to be built on one column. The name holds the property's id, so that a rename keeps the index."""

    column: str
    kind: IndexKind
    name: str


def index_intents(owner: NodeType | EdgeType) -> tuple[IndexIntent, ...]:
    """Return the wanted indexes: system columns first, then properties in column order.

    Every column of a key or an ``@index`` is indexed by itself, in composite ones too. Free text gets an ordered
    index beside its full-text one, because exact and prefix filters cannot use the latter.

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
            msg = f"indexes of {owner.table_key} cannot be named before ids are assigned: property={prop.name}"
            raise UsageError(msg, details=details)
        intents.extend(
            IndexIntent(column=prop.name, kind=kind, name=f"og_p{prop.id}_{kind.value}") for kind in _kinds(prop.type)
        )
    return tuple(intents)


def _kinds(kind: PropertyType) -> Iterator[IndexKind]:
    if kind.is_list or kind.scalar is Scalar.BLOB:
        return
    if kind.is_vector:
        yield IndexKind.VECTOR
        return
    yield IndexKind.BTREE
    if kind.is_text and kind.enum_values is None:
        yield IndexKind.FULLTEXT
