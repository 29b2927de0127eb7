"""The compiled schema: types, identities, migration planning.

What needs Arrow (``omnigraph.catalog.arrow`` and ``omnigraph.catalog.entity_ids``) is imported from its own module,
so that reading a schema loads no Arrow; what compiles its text is loaded when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.codec import catalog_from_json, catalog_hash, catalog_to_json
from omnigraph.catalog.identity import IdentityMatches, TypeKind, assign_identities, carry_identities
from omnigraph.catalog.model import (
    AnnotationValue,
    CardinalityRule,
    Catalog,
    CheckRule,
    EdgeType,
    Embed,
    IndexIntent,
    IndexKind,
    InterfaceType,
    NodeType,
    PropertyDef,
    PropertyType,
    RangeRule,
    Scalar,
    index_intents,
    indexed_texts,
)
from omnigraph.catalog.rules import RULES
from omnigraph.catalog.shape import describe_catalog, shape_hash

if TYPE_CHECKING:
    from omnigraph.catalog.compile import compile_schema

__all__ = [
    "RULES",
    "AnnotationValue",
    "CardinalityRule",
    "Catalog",
    "CheckRule",
    "EdgeType",
    "Embed",
    "IdentityMatches",
    "IndexIntent",
    "IndexKind",
    "InterfaceType",
    "NodeType",
    "PropertyDef",
    "PropertyType",
    "RangeRule",
    "Scalar",
    "TypeKind",
    "assign_identities",
    "carry_identities",
    "catalog_from_json",
    "catalog_hash",
    "catalog_to_json",
    "compile_schema",
    "describe_catalog",
    "index_intents",
    "indexed_texts",
    "shape_hash",
]


def __getattr__(name: str) -> Any:
    # It brings the schema language, and the schema of a graph that exists is stored compiled.
    if name == "compile_schema":
        return import_module(f"{__name__}.compile").compile_schema
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
