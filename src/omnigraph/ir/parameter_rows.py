"""Parameters of many calls of one query, decoded column by column.

A column whose values all have the class that its type is stored by is checked as a whole. Everything else is decoded
value by value, and a batch with something wrong in it call by call, so that the first bad call is the one reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from types import NoneType
from typing import Any, Self

from omnigraph.catalog.model import INTEGERS, PropertyType, Scalar
from omnigraph.errors import ParameterProblem, QueryParameterError
from omnigraph.ir.convert import INTEGER_RANGES
from omnigraph.ir.decoding import Unfit, describe_value
from omnigraph.ir.parameters import Decode, ParameterTypes, ParamsForm, decode_call, decoder_of
from omnigraph.records import record

_F32_MAX = 3.4028234663852886e38
_MAX_EXACT = {"host": math.inf, "strict": math.inf, "javascript": (1 << 53) - 1}


@record
class ParameterRows:
    """Decoded values of several calls: a column per declared name with a place per call."""

    columns: Mapping[str, Sequence[Any]]
    count: int

    @classmethod
    def of_one(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the decoded parameters of a single call."""
        return cls(columns={name: (value,) for name, value in parameters.items()}, count=1)

    def row(self, number: int) -> dict[str, Any]:
        """Return the parameters of one call, counted from 0."""
        return {name: column[number] for name, column in self.columns.items()}


def decode_calls(types: ParameterTypes, rows: Any, form: ParamsForm) -> ParameterRows:
    """Decode the parameters of many calls, each as :func:`decode_call` does.

    Args:
        types: the declared parameters, as a checked query holds them.
        rows: a sequence with what each call is given.
        form: as for :func:`decode_call`.

    Raises:
        QueryParameterError: a missing required parameter, or a value that does not fit; names the first such call.
    """
    # A stream is refused too: whoever has to decode again would find it empty.
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
        found = describe_value(rows)
        details = ParameterProblem(name="", expected="a sequence of mappings", found=found)
        raise QueryParameterError("parameters of a batch must be a sequence of mappings", details=details)
    if all(type(row) is dict and types.keys() >= row.keys() for row in rows):
        try:
            columns = {name: _column(of, [row.get(name) for row in rows], form) for name, of in types.items()}
            return ParameterRows(columns=columns, count=len(rows))
        except Unfit:
            # The call by call reading says which one it is.
            pass
    decoded = [_decode_row(types, row, number, form) for number, row in enumerate(rows, 1)]
    return ParameterRows(columns={name: [row[name] for row in decoded] for name in types}, count=len(decoded))


def _decode_row(types: ParameterTypes, row: Any, number: int, form: ParamsForm) -> dict[str, Any]:
    try:
        return decode_call(types, row, form)
    except QueryParameterError as problem:
        details = replace(problem.details, row=number)
        raise QueryParameterError(f"row {number}: {problem.message}", details=details, hint=problem.hint) from problem


def _column(of: PropertyType, values: list[Any], form: ParamsForm) -> list[Any]:
    """Return the decoded column; raises :class:`Unfit` without saying where."""
    kinds = set(map(type, values))
    if NoneType in kinds:
        if not of.nullable:
            raise Unfit("a value is missing")
        kinds.discard(NoneType)
    if not kinds or _is_decoded(of, kinds, values, form):
        return values
    decode = decoder_of(form)
    if kinds == {str}:
        return _decode_texts(of, values, decode)
    return [None if value is None else decode(value, of) for value in values]


def _is_decoded(of: PropertyType, kinds: set[type], values: list[Any], form: ParamsForm) -> bool:
    """Whether every value is what decoding would make of it, as far as a look at the whole column can tell."""
    if of.is_list:
        return False
    present = values if None not in values else [value for value in values if value is not None]
    if of.scalar is Scalar.STRING and kinds == {str}:
        return _is_unicode(present)
    if of.scalar is Scalar.BOOL:
        return kinds == {bool}
    if of.scalar in INTEGERS and kinds == {int}:
        low, high = INTEGER_RANGES[of.scalar]
        exact = _MAX_EXACT[form]
        return bool(max(low, -exact) <= min(present) and max(present) <= min(high, exact))
    if of.scalar in {Scalar.F32, Scalar.F64} and kinds == {float}:
        bound = _F32_MAX if of.scalar is Scalar.F32 else math.inf
        return math.isfinite(sum(present)) and max(map(abs, present)) <= bound
    return False


def _is_unicode(texts: list[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode_texts(of: PropertyType, values: list[Any], decode: Decode) -> list[Any]:
    # Dates repeat: each is read once.
    known = dict(zip(distinct := set(values) - {None}, map(decode, distinct, repeat(of)), strict=True))
    return [known.get(value) for value in values]
