"""Annotations: what may stand where, and what of it the catalog keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Literal as Choice

from omnigraph.catalog.defaults import DEFAULT, check_default
from omnigraph.catalog.model import INDEX, AnnotationValue, Embed, PropertyType, Scalar
from omnigraph.catalog.rules import broken_rule
from omnigraph.lang.parsing import nearest_name
from omnigraph.lang.pg.ast import Annotation, Literal, Property
from omnigraph.lang.source import Ident, SourceText
from omnigraph.values.decimals import canonical_decimal

# These become constraints, embeddings or migration hints; everything else is kept as it was written.
COMPILED = frozenset({"key", "unique", "index", "embed", "rename_from"})
CONSTRAINT_WORDS = ("key", "unique", "index")
_ONCE_ON_A_HEAD = frozenset({"description", "instruction", "rename_from"})

# The near names of "only 'model' is supported".
_EMBED_KEYWORDS = ("model",)


def annotation_value(annotation: Annotation) -> AnnotationValue:
    """Return an annotation as the catalog keeps it: all text, keywords in the order of their names."""
    value = None if annotation.value is None else _text(annotation.value)
    keywords = tuple(sorted((name.text, _text(literal)) for name, literal in annotation.keywords))
    return AnnotationValue(name=annotation.name.text, value=value, keywords=keywords)


def kept_annotations(annotations: Iterable[Annotation]) -> tuple[AnnotationValue, ...]:
    """Return the annotations that stay annotations when a declaration is compiled, sorted."""
    values = (annotation_value(one) for one in annotations if one.name.text not in COMPILED or _names_index_kind(one))
    return tuple(sorted(values, key=lambda one: (one.name, one.value is not None, one.value or "", one.keywords)))


def _names_index_kind(annotation: Annotation) -> bool:
    """Whether it is an ``@index`` that says how to index; that its column is indexed is a constraint."""
    return annotation.name.text == INDEX and annotation.value is not None


def embed_of(annotations: Iterable[Annotation]) -> Embed | None:
    """Return the embedding that a property declares, if it names a source."""
    for annotation in annotations:
        if annotation.name.text == "embed" and annotation.value is not None:
            models = [_text(literal) for name, literal in annotation.keywords if name.text == "model"]
            return Embed(source=_text(annotation.value), model=models[0] if models else None)
    return None


def check_head(annotations: tuple[Annotation, ...], kind: Choice["node", "edge"], source: SourceText) -> None:
    """Check the annotations of a node or edge head.

    Raises:
        SchemaCheckError: with the rule that is broken.
    """
    seen: set[str] = set()
    for annotation in annotations:
        name = annotation.name.text
        if name in _ONCE_ON_A_HEAD and name in seen:
            raise _repeated(annotation, source)
        seen.add(name)
        if name in {*CONSTRAINT_WORDS, "embed"}:
            where = "only supported on node properties" if kind == "node" else "not supported on edges"
            raise broken_rule("head_annotation", f"@{name} is {where}", source, annotation.span)
        _check_common(annotation, source)


def check_property(
    prop: Property, siblings: Mapping[str, PropertyType], source: SourceText, *, on_edge: bool = False
) -> None:
    """Check the annotations of one property declaration.

    Args:
        prop: the declaration, in a node, an edge, or an interface that a node implements.
        siblings: the properties of the same declaration, which ``@embed`` may name.
        source: where the places of errors are looked up.
        on_edge: whether the property belongs to an edge.

    Raises:
        SchemaCheckError: with the rule that is broken.
    """
    seen: set[str] = set()
    for annotation in prop.annotations:
        name = annotation.name.text
        if name in seen:
            raise _repeated(annotation, source)
        seen.add(name)
        if on_edge and name in {"key", "embed"}:
            msg = f"@{name} is not supported on edge properties"
            suggestion = "write @key(src, dst, …) in the edge's body" if name == "key" else None
            raise broken_rule("edge_property_annotation", msg, source, annotation.span, suggestion=suggestion)
        if name == "instruction":
            msg = "@instruction is only supported on node and edge types"
            suggestion = "use @description"
            raise broken_rule("instruction_on_property", msg, source, annotation.span, suggestion=suggestion)
        _check_common(annotation, source)
        if name == "embed":
            _check_embed(annotation, prop, siblings, source)
        if name == INDEX:
            _check_index(annotation, prop, siblings, source, on_edge=on_edge)
        if name == DEFAULT:
            text = "" if annotation.value is None else _text(annotation.value)
            check_default(annotation, siblings[prop.name.text], text, source)


def check_rename_hint(annotation: Annotation, source: SourceText) -> None:
    """Check the shape of ``@rename_from``, which is the same everywhere.

    Raises:
        SchemaCheckError: rule ``rename_hint``.
    """
    if annotation.value is None or not _text(annotation.value).strip() or annotation.keywords:
        msg = "@rename_from takes exactly one old name"
        raise broken_rule("rename_hint", msg, source, annotation.span, suggestion='write @rename_from("OldName")')


def _check_common(annotation: Annotation, source: SourceText) -> None:
    for literal in (annotation.value, *(value for _, value in annotation.keywords)):
        if isinstance(literal, Literal) and isinstance(literal.value, float) and not math.isfinite(literal.value):
            raise broken_rule(
                "number_range", "number is out of range: it does not fit a 64-bit type", source, literal.span
            )
    name = annotation.name.text
    if name == "rename_from":
        check_rename_hint(annotation, source)
    elif name in {"description", "instruction"} and (annotation.value is None or not _text(annotation.value).strip()):
        suggestion = f'write @{name}("some text")'
        msg = f"@{name} requires a non-empty value"
        raise broken_rule("empty_value", msg, source, annotation.span, suggestion=suggestion)


def _check_embed(
    annotation: Annotation, prop: Property, siblings: Mapping[str, PropertyType], source: SourceText
) -> None:
    if prop.type.scalar != "Vector":
        msg = f"@embed is only supported on vector properties, '{prop.name.text}' is {siblings[prop.name.text]}"
        raise broken_rule("embed_target", msg, source, annotation.span)
    if annotation.value is None:
        msg = "@embed requires a source property name"
        raise broken_rule("embed_source_missing", msg, source, annotation.span)
    name = _text(annotation.value)
    if not name.strip():
        msg = "@embed requires a non-empty source property name"
        raise broken_rule("embed_source_missing", msg, source, annotation.value.span)
    _check_embed_keywords(annotation, source)
    kind = siblings.get(name)
    if kind is None:
        near = nearest_name(name, (other for other, type_ in siblings.items() if type_.is_text))
        msg = f"@embed references unknown source property '{name}'"
        suggestion = f"did you mean '{near}'?" if near else None
        raise broken_rule("embed_source_unknown", msg, source, annotation.value.span, suggestion=suggestion)
    if kind.scalar is not Scalar.STRING or kind.is_list:
        msg = f"@embed source property '{name}' must be String, it is {kind}"
        raise broken_rule("embed_source_type", msg, source, annotation.value.span)


def _check_index(
    annotation: Annotation,
    prop: Property,
    siblings: Mapping[str, PropertyType],
    source: SourceText,
    *,
    on_edge: bool,
) -> None:
    """Check the kind of index that ``@index`` asks for, if it asks for one."""
    if annotation.value is not None and (prop.type.scalar != "Vector" or on_edge):
        kind = "a property of an edge" if on_edge else str(siblings[prop.name.text])
        msg = f"@index(ann) is only supported on vector properties of nodes, '{prop.name.text}' is {kind}"
        raise broken_rule("index_kind", msg, source, annotation.span, suggestion="write @index")


def _check_embed_keywords(annotation: Annotation, source: SourceText) -> None:
    seen: set[str] = set()
    for keyword, _ in annotation.keywords:
        if keyword.text not in _EMBED_KEYWORDS:
            near = nearest_name(keyword.text, _EMBED_KEYWORDS)
            msg = f"unknown @embed keyword '{keyword.text}', only 'model' is supported"
            suggestion = f"did you mean '{near}'?" if near else None
            raise broken_rule("embed_keyword", msg, source, keyword.span, suggestion=suggestion)
        if keyword.text in seen:
            msg = f"@embed has '{keyword.text}' multiple times"
            raise broken_rule("embed_keyword", msg, source, keyword.span)
        seen.add(keyword.text)


def _repeated(annotation: Annotation, source: SourceText) -> Exception:
    msg = f"@{annotation.name.text} occurs multiple times"
    return broken_rule("repeated_annotation", msg, source, annotation.span, suggestion="keep one of them")


def _text(value: Ident | Literal) -> str:
    if isinstance(value, Ident):
        return value.text
    match value.value:
        case bool():
            return "true" if value.value else "false"
        case float() as number if math.isfinite(number):
            # Exponents are not in the language, so the text must be one that could have been written.
            return format(Decimal(repr(number)), "f")
        case Decimal() as number:
            return canonical_decimal(number)
        case other:
            return str(other)
