"""Parameters: from JSON or host values to typed ones.

Decoded values are plain: text, bool, int, float, days for a Date, milliseconds for a DateTime, a tuple for a list or
a vector, None for NULL. A Blob stays the text that names its content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from omnigraph.catalog.model import PropertyType
from omnigraph.errors import ParameterProblem, QueryParameterError
from omnigraph.ir.decoding import Unfit, decode_host, decode_json, describe_value
from omnigraph.ir.kinds import Kind, kind_fields
from omnigraph.ir.types import resolve_type
from omnigraph.lang.gq import ast
from omnigraph.lang.parsing import nearest_name
from omnigraph.records import record

Mode = Literal["strict", "javascript"]
ParamsForm = Literal["host", "strict", "javascript"]
ParameterTypes: TypeAlias = Mapping[str, PropertyType]
Decode: TypeAlias = Callable[[Any, PropertyType], Any]


@record
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
    return decode_call({item.name: item.type for item in parameter_types(decls)}, json_value, mode)


def bind_parameters(decls: Sequence[ast.Parameter], values: Any) -> Mapping[str, Any]:
    """Check a mapping of host values against the declarations, as :func:`decode_parameters` does for JSON.

    Dates and datetimes may be given as such or as text, bytes stand for a Blob, and arrays for lists and vectors.

    Raises:
        QueryParameterError: a missing required parameter, or a value that does not fit.
    """
    return decode_call({item.name: item.type for item in parameter_types(decls)}, values, "host")


def decode_call(types: ParameterTypes, given: Any, form: ParamsForm) -> dict[str, Any]:
    """Decode the parameters of one call.

    Args:
        types: the declared parameters, as a checked query holds them.
        given: values by bare name, or None for no parameters.
        form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.

    Returns:
        A value for every declared name.

    Raises:
        QueryParameterError: a missing required parameter, or a value that does not fit.
    """
    is_host = form == "host"
    if given is not None and not isinstance(given, Mapping if is_host else dict):
        expected, what = ("a mapping", "a mapping") if is_host else ("a JSON object", "an object")
        raise _problem("", expected, describe_value(given), f"must be {what} keyed by parameter name")
    values: Mapping[str, Any] = given or {}
    if not types.keys() >= values.keys():
        _check_undeclared(types, values)
    decode = decoder_of(form)
    return {name: _decode_one(name, of, values, decode) for name, of in types.items()}


def decoder_of(form: ParamsForm) -> Decode:
    """Return what decodes one value that is not null; it raises :class:`Unfit`."""
    if form == "host":
        return decode_host
    return decode_json if form == "strict" else partial(decode_json, is_javascript=True)


def _check_undeclared(types: ParameterTypes, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not isinstance(name, str):
            raise _problem(str(name), "a name", describe_value(name), "is not named by text")
        # A scalar nobody asked for is harmless; an object has no type that could be ignored.
        if name not in types and isinstance(value, Mapping):
            raise _problem(name, "a value", "an object", "is not declared and is an object")


def _decode_one(name: str, of: PropertyType, given: Mapping[str, Any], decode: Decode) -> Any:
    value = given.get(name)
    if value is None:
        if of.nullable:
            return None
        if name not in given:
            raise _missing(name, of, given)
        raise _problem(name, str(of), "null", f"is null, but {of} is not optional")
    try:
        return decode(value, of)
    except Unfit as problem:
        found = describe_value(value)
        hint = problem.hint
        message = f"does not fit {of}: {problem.reason}"
        raise _problem(name, str(of), found, message, hint=hint) from problem


def _missing(name: str, of: PropertyType, given: Mapping[str, Any]) -> QueryParameterError:
    near = f"${name}" if f"${name}" in given else nearest_name(name, given)
    hint = f"it is given as '{near}'; write '{name}'" if near else f"give '{name}', or declare it optional with '?'"
    return _problem(name, str(of), "nothing", "is required and missing", hint=hint)


def _problem(name: str, expected: str, found: str, message: str, *, hint: str | None = None) -> QueryParameterError:
    subject = f"parameter '{name}'" if name else "parameters"
    details = ParameterProblem(name=name, expected=expected, found=found)
    return QueryParameterError(f"{subject} {message}", details=details, hint=hint)
