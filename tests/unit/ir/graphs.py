"""Schemas that the tests of this room share."""

from __future__ import annotations

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.lang.pg import parse_schema

PEOPLE = """
node Person { name: String @key  age: I32?  tags: [String]?  photo: Blob? }
node Team { code: String @key  budget: F64? }
edge Knows: Person -> Person { since: Date? }
edge MemberOf: Person -> Team { role: String? }
"""


def compile_text(text: str = PEOPLE) -> Catalog:
    """Compile a schema."""
    return compile_schema(parse_schema(text, "people.pg"))
