"""The three kinds of declared types, in the order in which plans list them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from omnigraph.catalog.identity import TypeKind
from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType

AnyType = InterfaceType | NodeType | EdgeType

KINDS: tuple[TypeKind, ...] = get_args(TypeKind)


def types_of(catalog: Catalog, kind: TypeKind) -> Mapping[str, AnyType]:
    """Return the types of one kind, by name."""
    by_kind: dict[TypeKind, Mapping[str, AnyType]] = {
        "interface": catalog.interfaces,
        "node": catalog.nodes,
        "edge": catalog.edges,
    }
    return by_kind[kind]
