"""``@default``: the value of a property that a new entity does not mention.

The catalog keeps the annotation as text, like every other one; what it stands for follows from the property's type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.model import CheckRule, PropertyDef, PropertyType, RangeRule, Scalar
from omnigraph.catalog.rules import broken_rule
from omnigraph.errors import ValueFormatError
from omnigraph.lang.source import SourceText
from omnigraph.values.decimals import fit_decimal, parse_decimal
from omnigraph.values.names import enum_word
from omnigraph.values.temporal import parse_date, parse_datetime

if TYPE_CHECKING:
    from omnigraph.lang.pg.ast import Annotation

DEFAULT = "default"
_BOUNDS = {
    Scalar.I32: (-(1 << 31), (1 << 31) - 1),
    Scalar.I64: (-(1 << 63), (1 << 63) - 1),
    Scalar.U32: (0, (1 << 32) - 1),
    Scalar.U64: (0, (1 << 64) - 1),
}
_WORDS = {"true": True, "false": False}


def default_text(prop: PropertyDef) -> str | None:
    """Return the default of a property as it is written, without quotes, or None."""
    return next((one.value for one in prop.annotations if one.name == DEFAULT), None)


def default_value(prop: PropertyDef) -> Any:
    """Return what a property stores when it is not given, days and milliseconds for dates, or None.

    >>> from omnigraph.catalog.model import AnnotationValue
    >>> written = (AnnotationValue(name="default", value="7"),)
    >>> default_value(PropertyDef(name="n", type=PropertyType(scalar=Scalar.I32), annotations=written))
    7
    """
    text = default_text(prop)
    return None if text is None else _stored(prop.type, text)


def has_default(prop: PropertyDef) -> bool:
    """Whether a new entity may leave the property out and still has a value."""
    return default_value(prop) is not None


def check_default(annotation: Annotation, kind: PropertyType, text: str, source: SourceText) -> None:
    """Check that ``@default`` has one value, which its property can hold.

    Args:
        annotation: the annotation.
        kind: the type of the property.
        text: the value as the catalog keeps it.
        source: where the places of errors are looked up.

    Raises:
        SchemaCheckError: rule ``default_value`` or ``default_target``.
    """
    if kind.is_list or kind.is_vector or kind.scalar is Scalar.BLOB:
        msg = f"@default is not supported on a property of type {kind}"
        raise broken_rule("default_target", msg, source, annotation.span)
    if annotation.value is None or annotation.keywords:
        msg = "@default takes exactly one value"
        raise broken_rule("default_value", msg, source, annotation.span, suggestion=f"write {_example(kind)}")
    if not _is_written_as(annotation, kind) or _stored(kind, text) is None:
        msg = f"@default value {text} does not fit type {kind}"
        raise broken_rule("default_value", msg, source, annotation.value.span, suggestion=f"write {_example(kind)}")


def check_default_rules(prop: PropertyDef, ranges: Iterable[RangeRule], checks: Iterable[CheckRule]) -> str | None:
    """Say which rule of its type the default of a property breaks, or return None."""
    value = default_value(prop)
    if value is None:
        return None
    for bounds in ranges:
        low, high = bounds.low, bounds.high
        if bounds.property == prop.name and ((low is not None and value < low) or (high is not None and value > high)):
            return "@range"
    patterns = [rule.pattern for rule in checks if rule.property == prop.name]
    if patterns:
        # As for patterns themselves: only schemas that need it load the engine.
        import pyarrow as pa  # noqa: PLC0415 - see above
        import pyarrow.compute as pc  # noqa: PLC0415 - see above

        text = pa.array([value], pa.string())
        if not all(pc.match_substring_regex(text, pattern)[0].as_py() for pattern in patterns):
            return "@check"
    return None


def _stored(kind: PropertyType, text: str) -> Any:
    scalar = kind.scalar
    try:
        if scalar is Scalar.STRING:
            return text if kind.enum_values is None or text in kind.enum_values else None
        if scalar is Scalar.BOOL:
            return _WORDS.get(text)
        if scalar in _BOUNDS:
            low, high = _BOUNDS[scalar]
            number = int(text)
            return number if low <= number <= high else None
        if scalar is Scalar.DECIMAL:
            return fit_decimal(parse_decimal(text), *kind.digits)
        if scalar is Scalar.F64:
            return float(text)
        if scalar is Scalar.F32:
            narrow: float = struct.unpack("f", struct.pack("f", float(text)))[0]
            return narrow if math.isfinite(narrow) else None
        if scalar is Scalar.DATE:
            return parse_date(text)
        if scalar is Scalar.DATETIME:
            return parse_datetime(text)
    except (ValueError, OverflowError, ValueFormatError):
        return None
    return None


def _is_written_as(annotation: Annotation, kind: PropertyType) -> bool:
    """Whether the literal is of the kind that the type is written with: 5 is not a text, and "5" is not a number."""
    from omnigraph.lang.pg.ast import Literal  # noqa: PLC0415 - a graph that exists needs no schema language

    value = annotation.value
    if not isinstance(value, Literal):
        return kind.enum_values is not None
    if kind.scalar is Scalar.BOOL:
        return isinstance(value.value, bool)
    if kind.is_numeric:
        return isinstance(value.value, int | float | Decimal) and not isinstance(value.value, bool)
    return isinstance(value.value, str)


def _example(kind: PropertyType) -> str:
    if kind.enum_values is not None:
        return f"one of {', '.join(map(enum_word, kind.enum_values))}"
    shown = {
        Scalar.STRING: '"text"',
        Scalar.BOOL: "false",
        Scalar.F32: "0.5",
        Scalar.F64: "0.5",
        Scalar.DECIMAL: "0" if not kind.scale else "0.5",
        Scalar.DATE: '"2026-01-31"',
        Scalar.DATETIME: '"2026-01-31T12:00:00Z"',
    }
    return f"@default({shown.get(kind.scalar, '0')})"
