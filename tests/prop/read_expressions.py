"""Values of a random query: literals where the language has them, parameters for everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.prop.choices import Choices
from tests.prop.read_schemas import COMPONENTS, pool
from tests.query_oracle import Kind
from tests.query_oracle.values import round_to_f32, to_text

# Weighted, so that most filters keep something.
OPS = ("!=", "=", "<", "<=", ">", ">=", "!=", "<=", ">=", "!=", "!=")
_NUMBERS = {"I32", "I64", "U32", "U64", "F32", "F64"}
_RANGES = {
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63), 2**63 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**63 - 1),
}
# Between, beside and beyond what the properties store.
_FOREIGN = (2, 3, 2.0, 2.5, 0.1, 0.5, -1, 41.0, 2**31, 2**53 + 1, 2.0**53, 2.0**63, 1e300, 16777217)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A parameter of the query: its declared type and what it holds."""

    declared: str
    kind: Kind
    value: Any


@dataclass(slots=True)
class Givens:
    """Writes values into a query and remembers which of them travel as parameters."""

    choices: Choices
    found: dict[str, Given] = field(default_factory=dict)

    def any(self, name: str, kind: Kind) -> str:
        """Write a value to be compared with one of ``kind``, or with an item of it; maybe NULL."""
        if self.choices.chance(20):
            return self._declare(_plain(kind), None)
        value = self._value(name, kind)
        if self.choices.coin() and _has_literal(value):
            return literal(value, kind)
        return self._declare(self._declared_kind(value, kind), value)

    def parameter(self, name: str, kind: Kind) -> str:
        """Write a value as a parameter."""
        value = self._value(name, kind)
        return self._declare(self._declared_kind(value, kind), value)

    def list_of(self, name: str, kind: Kind) -> str:
        """Write a list that may hold values of ``kind``."""
        values = [self._value(name, kind) for _ in range(self.choices.number(1, 3))]
        if kind.scalar in _NUMBERS:
            # The numbers of one literal may mix, those of a parameter are of its type.
            if all(map(_has_literal, values)) and self.choices.coin():
                return f"[{', '.join(literal(value, kind) for value in values)}]"
            return self._declare(Kind(scalar="F64", is_list=True), [float(value) for value in values])
        if self.choices.coin():
            return f"[{', '.join(literal(value, kind) for value in values)}]"
        return self._declare(Kind(scalar=kind.scalar, is_list=True, digits=kind.digits), values)

    def vector(self, dimension: int) -> str:
        """Write a vector as a parameter or a literal."""
        values = [self.choices.pick(COMPONENTS) for _ in range(dimension)]
        if self.choices.coin() and all(map(_has_literal, values)):
            return f"[{', '.join(literal(value, Kind(scalar='F64')) for value in values)}]"
        return self._declare(Kind(scalar="Vector", dimension=dimension), values)

    def number(self, value: int | None, scalar: str) -> str:
        """Write a whole number, or NULL, as a parameter of the given type."""
        return self._declare(Kind(scalar=scalar), value)

    def _value(self, name: str, kind: Kind) -> Any:
        if kind.scalar in _NUMBERS and self.choices.chance(4):
            return self.choices.pick(_FOREIGN)
        values = [value for value in pool(name, kind) if value != 2**64 - 1]
        return self.choices.pick(values)

    def _declared_kind(self, value: Any, kind: Kind) -> Kind:
        if kind.scalar not in _NUMBERS:
            return _plain(kind)
        fitting = [scalar for scalar, (low, high) in _RANGES.items() if isinstance(value, int) and low <= value <= high]
        if isinstance(value, float) or int(float(value)) == value:
            fitting.append("F64")
            # What an F32 parameter holds beyond its own precision is nobody's promise.
            if round_to_f32(value) == value and abs(value) < 3.4e38:
                fitting.append("F32")
        return Kind(scalar=self.choices.pick(fitting))

    def _declare(self, kind: Kind, value: Any) -> str:
        name = f"p{len(self.found)}"
        is_optional = value is None or self.choices.coin()
        value = float(value) if kind.scalar in {"F32", "F64"} and isinstance(value, int) else value
        self.found[name] = Given(declared=f"{kind}{'?' if is_optional else ''}", kind=kind, value=value)
        return f"${name}"


def literal(value: Any, kind: Kind) -> str:
    """Write a value as a literal of the language."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case float():
            return f"{value:.1f}" if value.is_integer() else f"{value:.20f}".rstrip("0")
        case _ if kind.scalar == "Date":
            return f'date("{to_text(value, Kind(scalar="Date"))}")'
        case _ if kind.scalar == "DateTime":
            return f'datetime("{to_text(value, Kind(scalar="DateTime"))}")'
        case _:
            return str(value)


def quoted(value: str) -> str:
    """Write a text as a literal."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def comparable(left: Kind, right: Kind) -> bool:
    """Whether single values of the two kinds may be compared."""
    return left.scalar == right.scalar or {left.scalar, right.scalar} <= _NUMBERS


def orderable(kind: Kind) -> bool:
    """Whether rows may be ordered by such a value."""
    return not kind.is_list and kind.dimension is None


def is_number(kind: Kind) -> bool:
    """Whether a single value of the kind is a number."""
    return kind.scalar in _NUMBERS and not kind.is_list


def _plain(kind: Kind) -> Kind:
    return Kind(scalar=kind.scalar, digits=kind.digits)


def _has_literal(value: Any) -> bool:
    """The language writes no sign and no exponent."""
    if isinstance(value, bool | str):
        return True
    return value >= 0 and str(value) != "-0.0"
