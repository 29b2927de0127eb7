"""Calls of stored queries: the signature and the text of help that a declaration gives, and arguments as parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.errors import ParameterProblem, StoredQueryArgumentsError
from omnigraph.ir.parameters import ParameterType, describe_value
from omnigraph.ir.stored_queries import QueryEntry

# What a value of a type is in Python; a Blob is its bytes, or the text that names its content.
_HOST: Mapping[Scalar, Any] = {
    Scalar.STRING: str,
    Scalar.BLOB: bytes | str,
    Scalar.BOOL: bool,
    **dict.fromkeys((Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64), int),
    Scalar.F32: float,
    Scalar.F64: float,
    Scalar.DECIMAL: Decimal,
    Scalar.DATE: date,
    Scalar.DATETIME: datetime,
    Scalar.VECTOR: Sequence[float],
}


def python_names(entry: QueryEntry) -> Mapping[str, ParameterType]:
    """Return the parameters by the names that calls use: a word of Python gets a trailing underscore.

    >>> from omnigraph.ir.types import TEXT
    >>> list(python_names(QueryEntry(name="q", is_mutation=False, parameters=(ParameterType(name="from", type=TEXT),))))
    ['from_']
    """
    taken = {one.name for one in entry.parameters}
    found: dict[str, ParameterType] = {}
    for one in entry.parameters:
        name = one.name
        while iskeyword(name) or (name != one.name and name in taken):
            name += "_"
        found[name] = one
    return found


def signature_of(entry: QueryEntry) -> Signature:
    """Return what a call takes: the parameters in their order, None where one may be left out.

    Python knows no argument without a default behind one that has it, so that from there on names are needed.
    """
    parameters: list[Parameter] = []
    needs_name = False
    named = list(python_names(entry).items())
    for place, (name, one) in enumerate(named):
        needs_name = needs_name or (one.type.nullable and not all(later.type.nullable for _, later in named[place:]))
        kind = Parameter.KEYWORD_ONLY if needs_name else Parameter.POSITIONAL_OR_KEYWORD
        default = None if one.type.nullable else Parameter.empty
        parameters.append(Parameter(name, kind, default=default, annotation=host_type(one.type)))
    return Signature(parameters, return_annotation="MutationResult" if entry.is_mutation else "Result")


def host_type(of: PropertyType) -> Any:
    """Return the Python type of a parameter.

    >>> host_type(PropertyType(scalar=Scalar.I64, nullable=True))
    int | None
    """
    found: Any = _HOST[of.scalar]
    if of.is_list:
        found = Sequence[found]
    return found | None if of.nullable else found


def help_of(entry: QueryEntry) -> str:
    """Return what is said about a query: what for, how it is used, and its parameters with their types."""
    about = [text for text in (entry.description, entry.instruction) if text]
    lines = [f"    {name}: {one.type}" for name, one in python_names(entry).items()]
    head = about or [f"The stored {'mutation' if entry.is_mutation else 'read'} {entry.name}."]
    return "\n\n".join([*head, "\n".join(["Args:", *lines])] if lines else head)


def bind_arguments(entry: QueryEntry, signature: Signature, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the parameters that the arguments of a call stand for; those that are left out are not among them.

    Raises:
        StoredQueryArgumentsError: an argument is not declared, occurs twice, or is missing.
    """
    known = python_names(entry)
    positional = [name for name, one in signature.parameters.items() if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if len(args) > len(positional):
        surplus = describe_value(args[len(positional)])
        expected = f"{len(positional)} arguments by position"
        raise _misfit(
            entry,
            f"accepts at most {expected}, not {len(args)}",
            ParameterProblem(name="", expected=expected, found=surplus),
        )
    given = dict(zip(positional, args, strict=False))
    for name, value in named.items():
        if name in given:
            problem = ParameterProblem(name=name, expected="one value", found="two")
            raise _misfit(entry, f"gets the parameter '{name}' twice", problem)
        if name not in known:
            near = difflib.get_close_matches(name[:200], list(known), n=1)
            problem = ParameterProblem(
                name=name, expected=", ".join(known) or "no parameter", found=describe_value(value)
            )
            hint = f"did you mean '{near[0]}'?" if near else None
            raise _misfit(entry, f"has no parameter '{name}'", problem, hint)
        given[name] = value
    for name, one in known.items():
        if name not in given and not one.type.nullable:
            problem = ParameterProblem(name=name, expected=str(one.type), found="nothing")
            raise _misfit(entry, f"needs the parameter '{name}'", problem)
    return {known[name].name: value for name, value in given.items()}


def _misfit(
    entry: QueryEntry, message: str, problem: ParameterProblem, hint: str | None = None
) -> StoredQueryArgumentsError:
    return StoredQueryArgumentsError(
        f"stored query '{entry.name}' {message}", details=problem, hint=hint or f"it is {entry.signature()}"
    )
