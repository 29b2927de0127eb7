"""Reads ``.pg`` source text into the schema tree."""

from __future__ import annotations

from omnigraph.errors import SchemaSyntaxError
from omnigraph.lang.contextual import ContextualLexing
from omnigraph.lang.parsing import Grammar, scan_comments
from omnigraph.lang.pg.ast import SchemaFile
from omnigraph.lang.pg.builder import SchemaBuilder
from omnigraph.lang.pg.foreign import foreign_hint
from omnigraph.lang.source import read_source

_BASE_TYPES = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date")

_GRAMMAR = Grammar(
    package="omnigraph.lang.pg",
    builder=SchemaBuilder,
    lexing=ContextualLexing,
    error=SchemaSyntaxError,
    token_words={
        "INTERFACE": "'interface'",
        "NODE": "'node'",
        "IMPLEMENTS": "'implements'",
        "EDGE": "'edge'",
        "VECTOR": "'Vector'",
        "DECIMAL": "'Decimal'",
        "ENUM": "'enum'",
        "TYPE_NAME": "a type name (capital first letter)",
        "IDENT": "a name (small first letter)",
        "BASE_TYPE": "a type",
        "ENUM_VALUE": "an enum value",
        "FLOAT": "a number",
        "INT": "a number",
        "STRING": "a string",
        "CARD_OPEN": "'@card('",
        "CONSTRAINT_OPEN": "a constraint",
        "ANNOTATION_NAME": "an annotation",
        "INDEX_KIND": "'@index(ann)'",
    },
    token_choices={"BASE_TYPE": _BASE_TYPES},
    token_kinds=dict.fromkeys(("INTERFACE", "NODE", "IMPLEMENTS", "EDGE", "TRUE", "FALSE"), "IDENT"),
    hint=foreign_hint,
)


def parse_schema(data: bytes | str, name: str = "<schema>") -> SchemaFile:
    """Parse a schema source; ``name`` is what errors call it.

    Raises:
        SchemaSyntaxError: the text does not follow the grammar.
        SchemaCheckError: a literal, a type or a name that no schema may hold, whatever surrounds it.
        SourceEncodingError: the bytes are not text.
        SourceTooLargeError: past a limit on size or nesting.

    >>> [declaration.name.text for declaration in parse_schema("node City { name: String @key }").declarations]
    ['City']
    """
    source = read_source(data, name)
    declarations = _GRAMMAR.parse(source)
    return SchemaFile(declarations=declarations, comments=scan_comments(source.text), source=source)
