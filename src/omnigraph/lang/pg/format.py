"""Writes a schema tree as canonical ``.pg`` text, comments included."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import assert_never

from omnigraph.lang.layout import INDENT, Item, Weaver, append_comments, join_lines, render_rows, separate_rows
from omnigraph.lang.parsing import quote_string
from omnigraph.lang.pg.ast import (
    Annotation,
    Cardinality,
    Constraint,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Literal,
    NodeDecl,
    Property,
    RangeBound,
    SchemaFile,
    TypeRef,
)
from omnigraph.lang.source import Ident, Span
from omnigraph.values.decimals import canonical_decimal
from omnigraph.values.names import enum_word

MAX_COLUMNS = 100


def format_schema(tree: SchemaFile) -> str:
    """Return the canonical text of ``tree``; parsing it gives an equal tree, formatting that the same text.

    >>> from omnigraph.lang.pg.parser import parse_schema
    >>> print(format_schema(parse_schema("node  City{name:String@key}")), end="")
    node City {
        name: String @key
    }
    """
    return _SchemaWriter(tree).write()


def format_type(type_ref: TypeRef) -> str:
    """Return a type on one line, as people write it.

    >>> format_type(TypeRef(scalar="String", is_list=True, nullable=True))
    '[String]?'
    """
    scalar = type_ref.scalar
    if type_ref.dimension is not None:
        scalar = f"{scalar}({type_ref.dimension})"
    elif type_ref.precision is not None:
        scalar = f"{scalar}({type_ref.precision}, {type_ref.scale})"
    elif type_ref.enum_values:
        scalar = f"{scalar}({', '.join(enum_word(value.text) for value in type_ref.enum_values)})"
    return f"{f'[{scalar}]' if type_ref.is_list else scalar}{'?' if type_ref.nullable else ''}"


def format_annotation(annotation: Annotation) -> str:
    """Return an annotation with its arguments."""
    name = f"@{annotation.name.text}"
    if annotation.value is None:
        return name
    keywords = (f"{keyword.text}={_literal(value)}" for keyword, value in annotation.keywords)
    return f"{name}({', '.join([_argument(annotation.value), *keywords])})"


def format_constraint(constraint: Constraint) -> str:
    """Return a body constraint."""
    return f"@{constraint.name}({', '.join(map(_argument, constraint.arguments))})"


class _SchemaWriter:
    def __init__(self, tree: SchemaFile) -> None:
        self._declarations = tree.declarations
        self._weaver = Weaver(tree.source.text, tree.comments)

    def write(self) -> str:
        items = [self._declared(declaration) for declaration in self._declarations]
        rows = separate_rows(self._weaver.weave_file(items), _may_touch)
        return join_lines(render_rows(rows, self._declaration))

    def _declared(self, declaration: Declaration) -> Item[Declaration]:
        # The closing brace is the last character of a declaration that has one; an edge may have none.
        end = max(declaration.span.end - 1, _head_end(declaration))
        inside = self._weaver.region_after(_head_end(declaration), "{", end)
        return Item(value=declaration, span=declaration.span, inside=inside if inside.start < inside.end else None)

    def _declaration(self, item: Item[Declaration]) -> list[str]:
        declaration = item.value
        members = declaration.properties if isinstance(declaration, InterfaceDecl) else declaration.items
        woven = self._weaver.weave([self._member_item(member) for member in members], item.inside or _NO_REGION)
        head = _head(declaration)
        if not woven.opening and not woven.rows:
            return [head if isinstance(declaration, EdgeDecl) else f"{head} {{}}"]
        opening = append_comments(f"{head} {{", woven.opening)
        return [opening, *render_rows(woven.rows, self._member, depth=1), "}"]

    def _member_item(self, member: Property | Constraint) -> Item[Property | Constraint]:
        inside: Span | None = None
        if isinstance(member, Property) and member.type.enum_values:
            between = self._weaver.region_after(member.type.span.start, "(", self._enum_end(member.type))
            # A list without comments is laid out by its width alone.
            inside = between if self._weaver.comments_in(between) else None
        return Item(value=member, span=member.span, inside=inside)

    def _enum_end(self, type_ref: TypeRef) -> int:
        last = type_ref.enum_values[-1].span.end
        return max(self._weaver.region_after(last, ")", type_ref.span.end).start - 1, last)

    def _member(self, item: Item[Property | Constraint]) -> list[str]:
        member = item.value
        if isinstance(member, Constraint):
            return [format_constraint(member)]
        annotations = "".join(f" {format_annotation(annotation)}" for annotation in member.annotations)
        line = f"{member.name.text}: {format_type(member.type)}{annotations}"
        if item.inside is None and (not member.type.enum_values or len(INDENT) + len(line) <= MAX_COLUMNS):
            return [line]
        closing = f"){'?' if member.type.nullable else ''}{annotations}"
        opening = f"{member.name.text}: enum("
        if item.inside is None:
            return [opening, *_filled([enum_word(value.text) for value in member.type.enum_values]), closing]
        return self._commented_enum(opening, member.type.enum_values, item.inside, closing)

    def _commented_enum(self, opening: str, values: Sequence[Ident], inside: Span, closing: str) -> list[str]:
        last = len(values) - 1
        items = [
            Item(value=f"{enum_word(value.text)}{',' if index < last else ''}", span=value.span)
            for index, value in enumerate(values)
        ]
        woven = self._weaver.weave(items, inside)
        lines = render_rows(woven.rows, lambda item: [item.value], depth=1)
        return [append_comments(opening, woven.opening), *lines, closing]


_NO_REGION = Span(0, 0)


def _may_touch(above: Declaration, below: Declaration) -> bool:
    """Say whether two declarations may stand on neighbouring lines: edges of one line each are often listed so."""
    return isinstance(above, EdgeDecl) and isinstance(below, EdgeDecl) and not above.items and not below.items


def _head_end(declaration: Declaration) -> int:
    """Return where the part before the body ends."""
    match declaration:
        case InterfaceDecl():
            ends = [declaration.name.span]
        case NodeDecl():
            ends = [declaration.name.span, *(annotation.span for annotation in declaration.annotations)]
            ends += [interface.span for interface in declaration.implements]
        case EdgeDecl():
            ends = [declaration.target.span, *(annotation.span for annotation in declaration.annotations)]
            ends += [declaration.cardinality.span] if declaration.cardinality is not None else []
        case _:
            assert_never(declaration)
    return max(span.end for span in ends)


def _head(declaration: Declaration) -> str:
    name = declaration.name.text
    match declaration:
        case InterfaceDecl():
            return f"interface {name}"
        case NodeDecl():
            words = [f"node {name}", *map(format_annotation, declaration.annotations)]
            if declaration.implements:
                words.append(f"implements {', '.join(interface.text for interface in declaration.implements)}")
            return " ".join(words)
        case EdgeDecl():
            words = [f"edge {name}: {declaration.source.text} -> {declaration.target.text}"]
            if declaration.cardinality is not None:
                words.append(_cardinality(declaration.cardinality))
            return " ".join([*words, *map(format_annotation, declaration.annotations)])
        case _:
            assert_never(declaration)


def _cardinality(bounds: Cardinality) -> str:
    return f"@card({bounds.minimum}..{'*' if bounds.maximum is None else bounds.maximum})"


def _argument(argument: Ident | RangeBound | Literal) -> str:
    match argument:
        case Ident():
            return argument.text
        case RangeBound():
            low = "" if argument.low is None else _literal(argument.low)
            high = "" if argument.high is None else _literal(argument.high)
            return f"{low}..{high}"
        case Literal():
            return _literal(argument)
        case _:
            assert_never(argument)


def _literal(literal: Literal) -> str:
    value = literal.value
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quote_string(value)
        case int():
            return str(value)
        case float():
            # The language has no exponents, and repr is the shortest text that reads back as the same number.
            return _with_point(format(Decimal(repr(value)), "f"))
        case Decimal():
            return _with_point(canonical_decimal(value))
        case _:
            assert_never(value)


def _with_point(digits: str) -> str:
    return digits if "." in digits else f"{digits}.0"


def _filled(values: Sequence[str]) -> list[str]:
    """Lay values out over as few lines as the width allows."""
    indent = INDENT * 2
    room = MAX_COLUMNS - len(indent)
    lines: list[str] = []
    line = ""
    for value in [*(f"{value}," for value in values[:-1]), values[-1]]:
        longer = f"{line} {value}" if line else value
        if line and len(longer) > room:
            lines.append(line)
            line = value
        else:
            line = longer
    return [f"{INDENT}{line}" for line in [*lines, line]]
