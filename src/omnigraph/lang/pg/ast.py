"""The syntax tree of a ``.pg`` schema, exactly as written.

Spans take no part in equality, so that a parsed text equals its reformatted self. Written order is kept
everywhere (enum values and constraint columns too): sorting is the catalog's business, not the tree's.
"""

from __future__ import annotations

from dataclasses import field
from decimal import Decimal
from typing import Literal as Choice

from omnigraph.lang.source import NOWHERE, Comment, Ident, SourceText, Span
from omnigraph.records import record

ConstraintName = Choice["key", "unique", "index", "range", "check"]


@record
class Literal:
    """A string, number or boolean; ``value`` is the Python value (escapes resolved, numbers exact).

    A number with a fraction is a float if the shortest text of that float is the same number, else a Decimal.
    """

    value: str | int | float | Decimal | bool
    span: Span = field(default=NOWHERE, compare=False)


@record
class TypeRef:
    """A property type. ``scalar`` is a base type word, or ``Vector``, ``Decimal`` or ``enum``."""

    scalar: str
    nullable: bool = False
    is_list: bool = False
    dimension: int | None = None
    precision: int | None = None
    scale: int | None = None
    enum_values: tuple[Ident, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Annotation:
    """``@name``, ``@name(value)`` or ``@name(value, keyword=literal)``; a bare identifier as value is an Ident."""

    name: Ident
    value: Ident | Literal | None = None
    keywords: tuple[tuple[Ident, Literal], ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class RangeBound:
    """``lo..hi`` with either end open."""

    low: Literal | None
    high: Literal | None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Constraint:
    """A body constraint such as ``@unique(a, b)`` or ``@range(age, 0..150)``."""

    name: ConstraintName
    arguments: tuple[Ident | RangeBound | Literal, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Property:
    """``name: Type @annotation…``."""

    name: Ident
    type: TypeRef
    annotations: tuple[Annotation, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class InterfaceDecl:
    """``interface Name { … }``."""

    name: Ident
    properties: tuple[Property, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class NodeDecl:
    """``node Name @annotation… implements A, B { … }``."""

    name: Ident
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Ident, ...] = ()
    items: tuple[Property | Constraint, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Cardinality:
    """``@card(min..max)``; no maximum means unbounded."""

    minimum: int
    maximum: int | None
    span: Span = field(default=NOWHERE, compare=False)


@record
class EdgeDecl:
    """``edge Name: From -> To @card(…) @annotation… { … }``."""

    name: Ident
    source: Ident
    target: Ident
    cardinality: Cardinality | None = None
    annotations: tuple[Annotation, ...] = ()
    items: tuple[Property | Constraint, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


Declaration = InterfaceDecl | NodeDecl | EdgeDecl


@record
class SchemaFile:
    """A whole schema source."""

    declarations: tuple[Declaration, ...]
    comments: tuple[Comment, ...] = ()
    source: SourceText = field(default=SourceText("<schema>", ""), compare=False, repr=False)
