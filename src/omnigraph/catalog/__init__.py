"""The compiled schema: types, identities, migration planning.

What needs Arrow (``omnigraph.catalog.arrow`` and ``omnigraph.catalog.entity_ids``) is imported from its own module,
so that reading a schema loads no Arrow.
"""

from omnigraph.catalog.codec import catalog_from_json, catalog_hash, catalog_to_json
from omnigraph.catalog.compile import compile_schema
from omnigraph.catalog.describe import describe_catalog
from omnigraph.catalog.identity import IdentityMatches, TypeKind, assign_identities, carry_identities
from omnigraph.catalog.indexes import IndexIntent, IndexKind, index_intents
from omnigraph.catalog.model import (
    AnnotationValue,
    CardinalityRule,
    Catalog,
    CheckRule,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    PropertyDef,
    PropertyType,
    RangeRule,
    Scalar,
)
from omnigraph.catalog.rules import RULES
from omnigraph.catalog.shape import shape_hash

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
    "shape_hash",
]
