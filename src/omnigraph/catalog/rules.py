"""The rules a schema is checked against: one stable word each, and the error that a broken one becomes.

The words stand in ``Diagnostic.rule`` of every ``SchemaCheckError``. Tools may rely on them; messages may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from omnigraph.errors import Diagnostic, SchemaCheckError
from omnigraph.lang.source import SourceText, Span

RULES: Mapping[str, str] = MappingProxyType(
    {
        # Literals, types and names, found while the text is read.
        "number_range": "a number fits a 64-bit type",
        "vector_dimension": "a vector has between 1 and 2147483647 dimensions",
        "decimal_digits": "a decimal has 1 to 38 digits, none or some of them after the point",
        "list_of_blob": "a list holds scalars, not blobs",
        "enum_duplicate": "an enum names each value once",
        "enum_empty": "an enum value is not empty",
        "reserved_name": "a property does not have the name of a system column",
        "cardinality_order": "the minimum of @card is not above its maximum",
        "cardinality_range": "the bounds of @card fit 32 bits",
        # Interfaces.
        "duplicate_property": "a type declares each property once",
        "unknown_interface": "a node implements interfaces of the same schema",
        "interface_mismatch": "a redeclared interface property keeps its type and embedding",
        "interface_conflict": "interfaces that contribute the same property agree on it",
        # Annotations.
        "repeated_annotation": "an annotation is not repeated in one place",
        "empty_value": "@description and @instruction are not empty",
        "instruction_on_property": "@instruction belongs on node and edge types",
        "rename_hint": "@rename_from takes exactly one old name",
        "head_annotation": "@key, @unique, @index and @embed belong on properties, not on the head of a type",
        "edge_property_annotation": "@key and @embed are not allowed on edge properties",
        "embed_target": "@embed belongs on a vector property",
        "embed_source_missing": "@embed names the property its text comes from",
        "embed_keyword": "@embed takes the keyword model at most once",
        "embed_source_unknown": "the source of @embed is a property of the same declaration",
        "embed_source_type": "the source of @embed is one String or enum value",
        "index_kind": "@index(ann) belongs on a vector property of a node",
        "default_target": "@default is for single values, and not for a key of one property",
        "default_value": "the value of @default is one of the property's type",
        "default_rule": "the value of @default keeps the rules of its type",
        # Constraints.
        "constraint_column": "the columns of a constraint are property names",
        "range_arguments": "@range takes a property and bounds",
        "check_arguments": "@check takes a property and a pattern",
        "unknown_property": "a constraint names declared properties",
        "multiple_key": "a type has at most one @key",
        "key_nullable": "a key value is never null",
        "key_list": "a key column is not a list",
        "key_vector": "a key column is not a vector",
        "key_blob": "a key column is not a blob",
        "edge_key_endpoints": "the @key of an edge names src and dst",
        "unique_list": "a unique column is not a list",
        "unique_vector": "a unique column is not a vector",
        "unique_blob": "a unique column is not a blob",
        "index_list": "an indexed column is not a list",
        "index_blob": "an indexed column is not a blob",
        "range_type": "@range is for numbers",
        "check_type": "@check is for text",
        "check_pattern": "the pattern of @check is a regular expression of the linear-time dialect",
        # The schema as a whole.
        "duplicate_interface": "interface names are unique",
        "duplicate_node": "node names are unique",
        "duplicate_edge": "edge names are unique",
        "edge_name_case": "edge names differ by more than letter case",
        "unknown_source": "an edge starts at a node type of the same schema",
        "unknown_target": "an edge ends at a node type of the same schema",
    }
)


def broken_rule(
    rule: str, message: str, source: SourceText, span: Span, *, suggestion: str | None = None
) -> SchemaCheckError:
    """Return the error that says which rule is broken, where, and what would be right."""
    return SchemaCheckError(message, details=Diagnostic(rule=rule, place=source.place(span), suggestion=suggestion))
