"""Builds the schema tree bottom up while the parser runs, refusing what the grammar alone cannot express."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import Any, NoReturn, cast, get_args

from omnigraph.errors import SchemaCheckError
from omnigraph.lang.lalr import Token
from omnigraph.lang.parsing import SyntaxFinding, token_span, unquote
from omnigraph.lang.pg.ast import (
    Annotation,
    Cardinality,
    Constraint,
    ConstraintName,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    Literal,
    NodeDecl,
    Property,
    RangeBound,
    TypeRef,
)
from omnigraph.lang.source import Ident, Span
from omnigraph.values.decimals import MAX_PRECISION

MAX_VECTOR_DIMENSION = (1 << 31) - 1
MAX_CARDINALITY = (1 << 32) - 1
# What the widest property types can hold; a literal outside is a slip, and a very long one is slow to convert.
MIN_INTEGER = -(1 << 63)
MAX_INTEGER = (1 << 64) - 1

RESERVED_EVERYWHERE = frozenset(
    {"id", "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
RESERVED_ON_EDGES = RESERVED_EVERYWHERE | {"src", "dst"}
CONSTRAINT_NAMES = frozenset(get_args(ConstraintName))

_COMMENT = re.compile(r"//[^\n]*\n|/\*[\s\S]*?\*/")


class SchemaBuilder:
    """One method per rule of the grammar; children arrive already built, punctuation that ends a span included."""

    def start(self, declarations: list[Declaration]) -> tuple[Declaration, ...]:
        """Return the declarations in written order."""
        return tuple(declarations)

    def interface_decl(self, children: list[Any]) -> InterfaceDecl:
        """Build an interface."""
        keyword, name, *properties, close = children
        _check_reserved(properties, RESERVED_EVERYWHERE)
        return InterfaceDecl(name=_ident(name), properties=tuple(properties), span=_between(keyword, close))

    def node_decl(self, children: list[Any]) -> NodeDecl:
        """Build a node type."""
        keyword, name, annotations, *implements, items, close = children
        _check_reserved(items, RESERVED_EVERYWHERE)
        return NodeDecl(
            name=_ident(name),
            annotations=annotations,
            implements=implements[0] if implements else (),
            items=items,
            span=_between(keyword, close),
        )

    def implements(self, children: list[Token]) -> tuple[Ident, ...]:
        """Return the interface names, without the keyword."""
        return tuple(_ident(name) for name in children[1:])

    def edge_decl(self, children: list[Any]) -> EdgeDecl:
        """Build an edge type; cardinality and body are optional."""
        keyword, name, source, target, *rest = children
        cardinality = rest.pop(0) if isinstance(rest[0], Cardinality) else None
        annotations, *body = rest
        items, end = body[0] if body else ((), _last_span(annotations, cardinality, target))
        _check_reserved(items, RESERVED_ON_EDGES)
        return EdgeDecl(
            name=_ident(name),
            source=_ident(source),
            target=_ident(target),
            cardinality=cardinality,
            annotations=annotations,
            items=items,
            span=token_span(keyword).to(end),
        )

    def edge_body(self, children: list[Any]) -> tuple[tuple[Property | Constraint, ...], Span]:
        """Return the items with the place of the closing brace."""
        items, close = children
        return items, token_span(close)

    def body(self, items: list[Property | Constraint]) -> tuple[Property | Constraint, ...]:
        """Return the items in written order; of a property that is called like a kind of index, it is the property."""
        names = {item.name.text for item in items if isinstance(item, Property)}
        return tuple(chain.from_iterable(_without_kind(item) if _INDEX_KIND in names else (item,) for item in items))

    def cardinality(self, children: list[Token]) -> Cardinality:
        """Build the bounds; a star and nothing at all both mean that there is no maximum."""
        opening, low, *high, close = children
        span = _between(opening, close)
        minimum = _cardinality_bound(low)
        maximum = _cardinality_bound(high[0]) if high else None
        if maximum is not None and minimum > maximum:
            _refuse(
                "cardinality_order",
                f"cardinality min {minimum} is greater than max {maximum}",
                span,
                suggestion=f"write @card({maximum}..{minimum})",
            )
        return Cardinality(minimum=minimum, maximum=maximum, span=span)

    def property(self, children: list[Any]) -> Property:
        """Build a property."""
        name, type_ref, annotations = children
        end = annotations[-1].span if annotations else type_ref.span
        return Property(name=name, type=type_ref, annotations=annotations, span=name.span.to(end))

    def prop_name(self, children: list[Token]) -> Ident:
        """Build a property name; keywords are ordinary names here."""
        return _ident(children[0])

    def type_ref(self, children: list[Any]) -> TypeRef:
        """Add nullability to a type."""
        inner, *mark = children
        if not mark:
            return cast("TypeRef", inner)
        nullable: TypeRef = replace(inner, nullable=True, span=inner.span.to(token_span(mark[0])))
        return nullable

    def base_type(self, children: list[Token]) -> TypeRef:
        """Build a scalar type."""
        return TypeRef(scalar=str(children[0]), span=token_span(children[0]))

    def list_type(self, children: list[Any]) -> TypeRef:
        """Build a list type."""
        opening, scalar, close = children
        span = _between(opening, close)
        if isinstance(scalar, TypeRef):
            return replace(scalar, is_list=True, span=span)
        if scalar == "Blob":
            _refuse("list_of_blob", "a list of Blob is not supported", span, suggestion="use one node per blob")
        return TypeRef(scalar=str(scalar), is_list=True, span=span)

    def vector_type(self, children: list[Token]) -> TypeRef:
        """Build a vector type, its dimension within what an Arrow fixed-size list can carry."""
        keyword, dimension, close = children
        written = token_span(dimension)
        _refuse_negative(dimension, "a Vector dimension")
        size = _bounded_integer(dimension, MAX_VECTOR_DIMENSION)
        if size is None:
            msg = f"Vector dimension exceeds maximum supported value {MAX_VECTOR_DIMENSION}"
            _refuse("vector_dimension", msg, written)
        if size == 0:
            _refuse("vector_dimension", "Vector dimension must be greater than zero", written)
        return TypeRef(scalar="Vector", dimension=size, span=_between(keyword, close))

    def decimal_type(self, children: list[Token]) -> TypeRef:
        """Build a decimal type: so many digits, so many of them behind the point."""
        keyword, precision, scale, close = children
        for token, what in ((precision, "precision"), (scale, "scale")):
            _refuse_negative(token, f"the {what} of a Decimal")
        digits = _bounded_integer(precision, MAX_PRECISION)
        if not digits:
            msg = f"the precision of a Decimal is 1 to {MAX_PRECISION} digits"
            _refuse("decimal_digits", msg, token_span(precision), suggestion=f"write Decimal({MAX_PRECISION}, {scale})")
        fraction = _bounded_integer(scale, digits)
        if fraction is None:
            msg = f"the scale of a Decimal is 0 to its precision, {digits}"
            _refuse("decimal_digits", msg, token_span(scale), suggestion=f"write Decimal({digits}, {min(2, digits)})")
        return TypeRef(scalar="Decimal", precision=digits, scale=fraction, span=_between(keyword, close))

    def enum_type(self, children: list[Token]) -> TypeRef:
        """Build an enum type."""
        keyword, *written, close = children
        values = tuple(_enum_value(token) for token in written)
        seen: set[str] = set()
        for value in values:
            if value.text in seen:
                what = f"enum has duplicate values: '{value.text}'"
                _refuse("enum_duplicate", what, value.span, suggestion="remove the repeated value")
            if not value.text:
                _refuse("enum_empty", "an enum value is empty", value.span, suggestion="make the property nullable")
            seen.add(value.text)
        return TypeRef(scalar="enum", enum_values=values, span=_between(keyword, close))

    def constraint(self, children: list[Any]) -> Constraint:
        """Build a body constraint."""
        opening, *arguments, close = children
        name = cast("ConstraintName", _annotated_name(opening).text)
        return Constraint(name=name, arguments=tuple(arguments), span=_between(opening, close))

    def range_from(self, children: list[Any]) -> RangeBound:
        """Build ``lo..`` or ``lo..hi``."""
        low, dots, *high = children
        end = high[0].span if high else token_span(dots)
        return RangeBound(low=low, high=high[0] if high else None, span=low.span.to(end))

    def range_to(self, children: list[Any]) -> RangeBound:
        """Build ``..hi``."""
        dots, high = children
        return RangeBound(low=None, high=high, span=token_span(dots).to(high.span))

    def annotations(self, annotations: list[Annotation]) -> tuple[Annotation, ...]:
        """Return the annotations in written order."""
        return tuple(annotations)

    def annotation(self, children: list[Any]) -> Annotation:
        """Build an annotation, unless it is a constraint or a cardinality standing where none may stand."""
        opening, *arguments = children
        if opening.type == "INDEX_KIND":
            return _index_kind(opening)
        name = _annotated_name(opening)
        if not arguments:
            return Annotation(name=name, span=token_span(opening))
        value, *keywords, close = arguments
        span = _between(opening, close)
        if name.text in CONSTRAINT_NAMES:
            what = f"constraint @{name.text}(…) is only allowed inside the body of a node or an edge"
            raise SyntaxFinding(what, span, suggestion=f"move @{name.text}(…) into the body")
        if name.text == "card":
            what = "@card(…) is only allowed right after the target type of an edge"
            raise SyntaxFinding(what, span, suggestion="put @card(min..max) before every other annotation")
        if isinstance(value, Literal) and isinstance(value.value, int | float | Decimal) and value.value < 0:
            _refuse_sign(name.text, value.span)
        return Annotation(name=name, value=value, keywords=tuple(keywords), span=span)

    def annotation_kwarg(self, children: list[Any]) -> tuple[Ident, Literal]:
        """Return the keyword with its value."""
        name, value = children
        return _ident(name), value

    def name(self, children: list[Token]) -> Ident:
        """Build a bare name."""
        return _ident(children[0])

    def string(self, children: list[Token]) -> Literal:
        """Build a string literal."""
        return Literal(value=unquote(children[0]), span=token_span(children[0]))

    def unsigned(self, children: list[Token]) -> Literal:
        """Build a number without the sign that only range bounds and defaults may carry."""
        if children[0].startswith("-"):
            _refuse_sign("", token_span(children[0]))
        return self.number(children)

    def signed(self, children: list[Token]) -> Literal:
        """Build a number that may be negative, if its annotation allows it; zero has no sign."""
        literal = self.number(children)
        return self.unsigned(children) if literal.value == 0 else literal

    def true(self, children: list[Token]) -> Literal:
        """Build ``true``."""
        return Literal(value=True, span=token_span(children[0]))

    def false(self, children: list[Token]) -> Literal:
        """Build ``false``."""
        return Literal(value=False, span=token_span(children[0]))

    def number(self, children: list[Token]) -> Literal:
        """Build a whole number that a 64-bit property could hold, or one with a fraction."""
        token = children[0]
        value: int | float | Decimal | None = None
        if token.type == "INT":
            value = _bounded_integer(token, MAX_INTEGER)
        elif math.isfinite(near := float(token)):
            value = near if Decimal(repr(near)) == Decimal(token) else Decimal(token)
        if value is None or (isinstance(value, int) and value < MIN_INTEGER):
            _refuse("number_range", "number is out of range: it does not fit a 64-bit type", token_span(token))
        return Literal(value=value, span=token_span(token))


def _refuse(rule: str, message: str, span: Span, *, suggestion: str | None = None) -> NoReturn:
    raise SyntaxFinding(message, span, suggestion=suggestion, rule=rule, error=SchemaCheckError)


def _check_reserved(items: list[Any] | tuple[Any, ...], reserved: frozenset[str]) -> None:
    for item in items:
        if isinstance(item, Property) and item.name.text in reserved:
            what = f"property name '{item.name.text}' is reserved for the system"
            _refuse("reserved_name", what, item.name.span, suggestion="choose another property name")


_INDEX_KIND = "ann"


def _index_kind(token: Token) -> Annotation:
    """Build ``@index(ann)``; in quotes it is the kind of index even where a property has that name."""
    span = token_span(token)
    plain = _COMMENT.sub(lambda comment: " " * len(comment[0]), str(token))
    name, kind = span.start + plain.index("index"), span.start + plain.rindex(_INDEX_KIND)
    place = Span(kind, kind + len(_INDEX_KIND))
    value: Ident | Literal = Ident(text=_INDEX_KIND, span=place)
    if '"' in plain:
        value = Literal(value=_INDEX_KIND, span=Span(place.start - 1, place.end + 1))
    return Annotation(name=Ident(text="index", span=Span(name, name + len("index"))), value=value, span=span)


def _without_kind(item: Property | Constraint) -> Iterator[Property | Constraint]:
    """Yield an item; an ``@index(ann)`` behind a property is a constraint of its own."""
    found = [one for one in item.annotations if isinstance(one.value, Ident)] if isinstance(item, Property) else []
    kinds = [one for one in found if one.name.text == "index"]
    if not isinstance(item, Property) or not kinds:
        yield item
        return
    left = tuple(one for one in item.annotations if one not in kinds)
    end = left[-1].span if left else item.type.span
    yield replace(item, annotations=left, span=item.name.span.to(end))
    for one in kinds:
        if isinstance(one.value, Ident):
            yield Constraint(name="index", arguments=(one.value,), span=one.span)


def _refuse_sign(annotation: str, span: Span) -> None:
    if annotation != "default":
        what = "a negative number is only allowed as a bound of @range and as a @default"
        raise SyntaxFinding(what, span, suggestion="remove the sign, or write the number as a string")


def _refuse_negative(token: Token, what: str) -> None:
    if token.startswith("-"):
        raise SyntaxFinding(f"{what} cannot be negative", token_span(token), suggestion="remove the sign")


def _bounded_integer(token: Token, maximum: int) -> int | None:
    """Return the value, or nothing beyond ``maximum``; never converts more digits than a 64-bit number has."""
    digits = token.lstrip("-").lstrip("0")
    if len(digits) > len(str(MAX_INTEGER)):
        return None
    value = int(digits or "0")
    if value > maximum:
        return None
    return -value if token.startswith("-") else value


def _cardinality_bound(token: Token) -> int:
    _refuse_negative(token, "a cardinality bound")
    bound = _bounded_integer(token, MAX_CARDINALITY)
    if bound is None:
        what = f"cardinality bound exceeds maximum supported value {MAX_CARDINALITY}"
        _refuse("cardinality_range", what, token_span(token))
    return bound


def _annotated_name(token: Token) -> Ident:
    """Find the name in a token such as ``@ key (``, which may hold white space and comments around it."""
    # Blanking comments out, instead of cutting them, keeps every offset.
    plain = _COMMENT.sub(lambda comment: " " * len(comment[0]), str(token))
    behind_mark = plain.lstrip("@ \t\r\n")
    name = behind_mark.rstrip("( \t\r\n")
    start = token_span(token).start + len(plain) - len(behind_mark)
    return Ident(text=name, span=Span(start, start + len(name)))


def _ident(token: Token) -> Ident:
    return Ident(text=str(token), span=token_span(token))


def _enum_value(token: Token) -> Ident:
    text = unquote(token) if token.type == "STRING" else str(token)
    return Ident(text=text, span=token_span(token))


def _between(first: Token, last: Token) -> Span:
    return token_span(first).to(token_span(last))


def _last_span(annotations: tuple[Annotation, ...], cardinality: Cardinality | None, target: Token) -> Span:
    if annotations:
        return annotations[-1].span
    return cardinality.span if cardinality is not None else token_span(target)
