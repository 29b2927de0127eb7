"""Parameters: from JSON or host values to typed ones.

Decoded values are plain: text, bool, int, float, days for a Date, milliseconds for a DateTime, a tuple for a list or
a vector, None for NULL. A Blob stays the text that names its content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from omnigraph.catalog.model import PropertyType
from omnigraph.errors import ParameterProblem, QueryParameterError
from omnigraph.ir.decoding import Unfit, decode_host, decode_json, describe_value
from omnigraph.ir.kinds import Kind, kind_fields
from omnigraph.ir.types import resolve_type
from omnigraph.lang.gq import ast
from omnigraph.lang.parsing import nearest_name

Mode = Literal["strict", "javascript"]
_Decode: TypeAlias = Callable[[Any, PropertyType], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterType:
    """A declared parameter with its resolved type."""

    name: str
    type: PropertyType

    def descriptor(self) -> dict[str, Any]:
        """Return what catalogues and tool listings say of this parameter."""
        fields: dict[str, Kind | int] = kind_fields(self.type)
        return {"name": self.name, **fields, "nullable": self.type.nullable}


def parameter_types(decls: Sequence[ast.Parameter]) -> tuple[ParameterType, ...]:
    """Resolve declared types, in declaration order.

    Raises:
        QueryParameterError: a type that does not exist; the checker refuses it with its place.
    """
    resolved: list[ParameterType] = []
    for decl in decls:
        of = resolve_type(decl.type)
        if of is None:
            raise _problem(decl.name, "a known type", decl.type.scalar, "has an unknown type")
        resolved.append(ParameterType(name=decl.name, type=of))
    return tuple(resolved)


def decode_parameter_text(text: str | bytes) -> Any:
    """Read JSON text that should hold parameters; the shape is checked by :func:`decode_parameters`.

    Raises:
        QueryParameterError: not JSON, or nested too deeply to be parameters.
    """
    try:
        return msgspec.json.decode(text.encode() if isinstance(text, str) else text)
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise _problem("", "a JSON object", "text", f"are not valid JSON: {problem}") from problem
    except RecursionError:
        raise _problem("", "a JSON object", "text", "are nested too deeply") from None


def decode_parameters(decls: Sequence[ast.Parameter], json_value: Any, mode: Mode = "strict") -> Mapping[str, Any]:
    """Decode a JSON value into the declared parameters.

    Args:
        decls: the declarations of the query.
        json_value: an object keyed by bare names, or None for no parameters.
        mode: ``javascript`` takes integral floats for integers and refuses integers that such a client cannot hold.

    Returns:
        A value for every declared name.

    Raises:
        QueryParameterError: not an object, a missing required parameter, or a value that does not fit.
    """
    if json_value is not None and not isinstance(json_value, dict):
        message = "must be an object keyed by parameter name"
        raise _problem("", "a JSON object", describe_value(json_value), message)
    is_javascript = mode == "javascript"
    return _decode_all(decls, json_value or {}, lambda value, of: decode_json(value, of, is_javascript=is_javascript))


def bind_parameters(decls: Sequence[ast.Parameter], values: Any) -> Mapping[str, Any]:
    """Check a mapping of host values against the declarations, as :func:`decode_parameters` does for JSON.

    Dates and datetimes may be given as such or as text, bytes stand for a Blob, and arrays for lists and vectors.

    Raises:
        QueryParameterError: a missing required parameter, or a value that does not fit.
    """
    if values is not None and not isinstance(values, Mapping):
        raise _problem("", "a mapping", describe_value(values), "must be a mapping keyed by parameter name")
    return _decode_all(decls, values or {}, decode_host)


def _decode_all(decls: Sequence[ast.Parameter], given: Mapping[str, Any], decode: _Decode) -> dict[str, Any]:
    declared = parameter_types(decls)
    names = {item.name for item in declared}
    for name, value in given.items():
        if not isinstance(name, str):
            raise _problem(str(name), "a name", describe_value(name), "is not named by text")
        # A scalar nobody asked for is harmless; an object has no type that could be ignored.
        if name not in names and isinstance(value, Mapping):
            raise _problem(name, "a value", "an object", "is not declared and is an object")
    return {item.name: _decode_one(item, given, decode) for item in declared}


def _decode_one(declared: ParameterType, given: Mapping[str, Any], decode: _Decode) -> Any:
    name, of = declared.name, declared.type
    value = given.get(name)
    if value is None:
        if of.nullable:
            return None
        if name not in given:
            raise _missing(declared, given)
        raise _problem(name, str(of), "null", f"is null, but {of} is not optional")
    try:
        return decode(value, of)
    except Unfit as problem:
        found = describe_value(value)
        hint = problem.hint
        message = f"does not fit {of}: {problem.reason}"
        raise _problem(name, str(of), found, message, hint=hint) from problem


def _missing(declared: ParameterType, given: Mapping[str, Any]) -> QueryParameterError:
    name = declared.name
    near = f"${name}" if f"${name}" in given else nearest_name(name, given)
    hint = f"it is given as '{near}'; write '{name}'" if near else f"give '{name}', or declare it optional with '?'"
    return _problem(name, str(declared.type), "nothing", "is required and missing", hint=hint)


def _problem(name: str, expected: str, found: str, message: str, *, hint: str | None = None) -> QueryParameterError:
    subject = f"parameter '{name}'" if name else "parameters"
    details = ParameterProblem(name=name, expected=expected, found=found)
    return QueryParameterError(f"{subject} {message}", details=details, hint=hint)
