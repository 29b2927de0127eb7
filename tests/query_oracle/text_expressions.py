"""Random expressions of a wanted type: every operator and function, NULLs, empty lists, extreme numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.prop.choices import Choices
from tests.prop.read_expressions import Givens, quoted
from tests.prop.read_schemas import STRINGS
from tests.query_oracle.schema import Kind, Schema

# What a text may want: a type, where ``int`` is any integer that two additions and one product leave in range.
SCALARS = ("int", "F64", "Decimal", "String", "Bool", "Date", "DateTime")
_FAMILY = {"I32": "int", "U32": "int", "I64": "I64", "U64": "U64", "F32": "F32"}
_PATTERNS = ("a", "^a", "b$", "[a-c]+", "a.b", "é", "^$", "(a|b)b", "A", "[^a]")
_NUMBER_TEXTS = ("1", "-7", "3.5", "1e2", "x", "", "true", "FALSE", "9223372036854775808", "2024-02-29", "2024-02-30")
_DATE_TEXTS = ("2024-01-31", "2024-02-29T10:20:30Z", "1969-12-31 23:59:59", "soon", "")
_DATES = ("date('2024-01-31')", "date('1600-02-29')", "date('1969-12-31')")
_INSTANTS = ("datetime('2024-02-29T23:59:59.999Z')", "datetime('1969-12-31T23:00:00Z')", "now()")
_DECIMAL_TEXTS = ('"1.005"', '"-2.5"', '"x"', "null", "7", "0.1", '"1e3"', '"99999999999"')
_DIGITS = ("12, 2", "6, 0", "9, 4", "38, 10")
_CASTS = ('"12"', '"-7"', "null", "3.9", "true")
_SEPARATORS = ('","', '"a"', '""')
_STEPS = ("1", "12", "-1", "0", "30", 'length("ab")')
_UNITS = ("year", "quarter", "month", "week", "day")
_MOMENT_UNITS = (*_UNITS, "hour", "minute", "second")


@dataclass(slots=True, kw_only=True)
class Sight:
    """What an expression may name: variables by their type, items of lists, values of earlier stages, paths."""

    schema: Schema
    entities: dict[str, str]
    items: dict[str, Kind] = field(default_factory=dict)
    names: dict[str, Kind] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    # Writes the clauses of a block over the variables in sight; None where no block may stand.
    block: Callable[[], str] | None = None

    def accesses(self, family: str, *, is_list: bool = False) -> list[str]:
        """Return the texts that have a value of the family."""
        found = [
            (f"lower(${variable}.{name})" if kind.enum_values else f"${variable}.{name}", kind)
            for variable, type_name in sorted(self.entities.items())
            for name, kind in self.schema.properties(type_name).items()
            if kind.dimension is None
        ]
        found += [(f"${name}", kind) for name, kind in sorted(self.items.items())]
        found += sorted(self.names.items())
        return [text for text, kind in found if kind.is_list == is_list and family_of(kind) == family]


def family_of(kind: Kind) -> str:
    """Return what a text wants when it wants a value of this type."""
    return _FAMILY.get(kind.scalar, kind.scalar)


class Expressions:
    """Writes expressions over what is in sight."""

    def __init__(self, choices: Choices, givens: Givens, sight: Sight) -> None:
        self._choices = choices
        self._givens = givens
        self._sight = sight

    def of(self, family: str, depth: int = 2) -> str:
        """Write a value of the family; at ``depth`` 0 a plain one."""
        if depth <= 0 or self._choices.chance(3):
            return self._leaf(family)
        if self._choices.chance(6):
            return self._any_type(family, depth)
        writer = {
            "int": self._int,
            "F64": self._float,
            "Decimal": self._decimal,
            "String": self._text,
            "Bool": self._condition,
            "Date": self._date,
            "DateTime": self._instant,
        }[family]
        return writer(depth)

    def list_of(self, family: str, depth: int = 1) -> str:
        """Write a list of texts or of whole numbers."""
        found = self._sight.accesses("I64" if family == "int" else family, is_list=True)
        match self._choices.number(0, 4):
            case 0 | 1 if found:
                return self._choices.pick(found)
            case 2 if family == "String":
                return f"split({self.of('String', depth - 1)}, {self._choices.pick(_SEPARATORS)})"
            case 3 if family == "String" and self._sight.paths:
                return f"{self._choices.pick(('nodes', 'edges'))}(${self._choices.pick(self._sight.paths)})"
            case _:
                items = [self._item(family, depth) for _ in range(self._choices.number(1, 3))]
                return f"[{', '.join(items)}]"

    def condition(self, depth: int = 2) -> str:
        """Write a condition that stands as a clause: it begins and goes on like nothing else."""
        text = self._condition(depth)
        return f"({text})" if text.startswith("-") else text

    def constant(self, family: str) -> str:
        """Write a literal or a parameter."""
        kind = Kind(scalar={"int": "I32"}.get(family, family))
        if family == "int":
            value = self._choices.pick((0, 1, 2, 3, -1, 41, 1000))
            return str(value) if self._choices.coin() else self._givens.number(value, "I64")
        if family == "F64":
            value = self._choices.pick((0.5, 2.0, -1.5, 0.1, 100.0))
            return repr(value)
        if family == "Decimal":
            # A literal with a fraction is a decimal beside one alone.
            return f"to_decimal({self._choices.pick(_DECIMAL_TEXTS)}, {self._choices.pick(_DIGITS)})"
        if family == "String" and self._choices.coin():
            return quoted(self._choices.pick(STRINGS))
        return self._givens.any("", kind)

    def _leaf(self, family: str) -> str:
        found = self._sight.accesses(family)
        if family == "F64":
            found += self._sight.accesses("F32")
        if family == "int" and self._choices.chance(12):
            found = self._sight.accesses("I64") + self._sight.accesses("U64")
        if found and self._choices.number(0, 3):
            return self._choices.pick(found)
        entities = sorted(self._sight.entities)
        if family == "String" and entities and self._choices.chance(4):
            return f"{self._choices.pick(('id', 'type', 'version'))}(${self._choices.pick(entities)})"
        if family == "int" and self._sight.paths and self._choices.coin():
            return f"length(${self._choices.pick(self._sight.paths)})"
        return self.constant(family)

    def _any_type(self, family: str, depth: int) -> str:
        inner = [self.of(family, depth - 1) for _ in range(2)]
        match self._choices.number(0, 4):
            case 0:
                return f"coalesce({inner[0]}, {inner[1]})"
            case 1:
                return f"case when {self._condition(depth - 1)} then {inner[0]} else {inner[1]} end"
            case 2:
                end = "end" if self._choices.coin() else "else null end"
                test = self._condition(depth - 1)
                return f"case when {self._condition(0)} then {inner[0]} when {test} then {inner[1]} {end}"
            case _:
                return f"{self._choices.pick(('greatest', 'least'))}({inner[0]}, {inner[1]})"

    def _item(self, family: str, depth: int) -> str:
        return "null" if self._choices.chance(8) else self.of(family, depth - 1)

    def _int(self, depth: int) -> str:  # noqa: C901, PLR0912 - one case per form
        choices, inner = self._choices, self.of("int", depth - 1)
        match choices.number(0, 13):
            case 0 | 1:
                return f"({inner} {choices.pick(('+', '-'))} {self._leaf('int')})"
            case 2:
                return f"{inner} * {choices.pick((2, 3, -1, 0))}"
            case 3:
                return f"{self._tight(inner)} % {choices.pick((2, 3, -7))}"
            case 4:
                return f"length({self.of('String', depth - 1)})"
            case 5:
                return f"size({self.list_of(choices.pick(('String', 'int')))})"
            case 6:
                return f"{choices.pick(('year', 'month', 'day', 'weekday'))}({self._moment(depth)})"
            case 7:
                return f"{choices.pick(('hour', 'minute'))}({self.of('DateTime', depth - 1)})"
            case 8:
                return f"{choices.pick(('abs', 'floor', 'ceil', 'sign', 'to_int'))}({inner})"
            case 9:
                return f"round({inner}, {choices.pick((0, -1, 2))})"
            case 10:
                return f"to_int({choices.pick((quoted(choices.pick(_NUMBER_TEXTS)), self.of('String', depth - 1)))})"
            case 11 if self._sight.block is not None:
                return f"count {{ {self._sight.block()} }}"
            case 12:
                return f"cast_int({choices.pick(_CASTS)})"
            case _:
                return f"-{self._tight(inner)}"

    def _float(self, depth: int) -> str:  # noqa: C901 - one case per form
        choices, inner = self._choices, self.of(self._choices.pick(("F64", "int")), depth - 1)
        match choices.number(0, 11):
            case 0 | 1:
                return f"({inner} {choices.pick(('+', '-'))} {self._leaf('F64')})"
            case 2:
                return f"{self._tight(inner)} * {choices.pick((0.5, 2.0))}"
            case 3:
                # Once in a while by something that may be zero.
                below = self._leaf("int") if choices.chance(12) else choices.pick(("2", "3.0", "-4"))
                return f"{self._tight(inner)} / {below}"
            case 4:
                return f"round(({inner}) * 1.0, {choices.pick((0, 1, 2, -1))})"
            case 5:
                return f"{choices.pick(('floor', 'ceil', 'abs', 'to_float'))}({inner} + 0.5)"
            case 6:
                return f"sqrt(abs({inner}))"
            case 7:
                return f"round({choices.pick(('ln', 'log10'))}(abs({self.of('int', depth - 1)}) + 1), 6)"
            case 8:
                return f"round(exp({self._leaf('int')} % 5), 6)"
            case 9:
                return f"power({self._leaf('int')} % 10, {choices.pick((2, 3, 1))})"
            case 10:
                return f"{choices.pick(('in_days', 'in_hours', 'in_seconds'))}({self._interval(depth)})"
            case _:
                return choices.pick((f"to_float({quoted(choices.pick(_NUMBER_TEXTS))})", "cast_float('1.5e2')"))

    def _decimal(self, depth: int) -> str:
        choices, inner = self._choices, self.of("Decimal", depth - 1)
        match choices.number(0, 9):
            case 0 | 1:
                other = choices.pick((self._leaf("Decimal"), self._leaf("int"), "0.10", "2.5"))
                return f"({inner} {choices.pick(('+', '-'))} {other})"
            case 2:
                return f"{self._tight(inner)} * {choices.pick(('1.19', '-2', '0.005', self._leaf('Decimal')))}"
            case 3:
                below = self._leaf("Decimal") if choices.chance(12) else choices.pick(("3", "0.7", "-4"))
                return f"{self._tight(inner)} / {below}"
            case 4:
                return f"round({inner}, {choices.pick((0, 1, 2, -1, 5))})"
            case 5:
                return f"{choices.pick(('floor', 'ceil', 'abs', 'round'))}({inner})"
            case 6:
                value = choices.pick((self.of("F64", depth - 1), self.of("int", depth - 1), inner))
                return f"to_decimal({value}, {choices.pick(_DIGITS)})"
            case 7:
                return f"cast_decimal({choices.pick(_CASTS[:4])}, 9, 3)"
            case 8:
                return f"coalesce({inner}, {choices.pick(('0.0', '1', '2.125'))})"
            case _:
                return f"-{self._tight(inner)}"

    def _text(self, depth: int) -> str:
        choices, inner = self._choices, self.of("String", depth - 1)
        match choices.number(0, 9):
            case 0:
                return f"{inner} + {self._leaf('String')}"
            case 1:
                return f"{choices.pick(('lower', 'upper', 'trim', 'reverse'))}({inner})"
            case 2:
                count = choices.pick(("", ", 1", ", 2", ", -1", ", 99"))
                return f"substring({inner}, {choices.pick((0, 1, -1, 3))}{count})"
            case 3:
                return f"replace({inner}, {choices.pick(_SEPARATORS)}, {self._leaf('String')})"
            case 4:
                return f"concat({inner}, {self._leaf('String')})"
            case 5:
                family = choices.pick(("int", "Bool", "Date", "DateTime", "String", "Decimal"))
                return f"to_string({self.of(family, depth - 1)})"
            case 6:
                return f"({self.list_of('String')})[{self.of('int', depth - 1)}]"
            case 7:
                return f"split({inner}, {choices.pick(_SEPARATORS)})[{choices.pick((0, 1, 5, -1))}]"
            case _:
                return f"coalesce({inner}, {self._leaf('String')})"

    def _date(self, depth: int) -> str:
        choices, inner = self._choices, self.of("Date", depth - 1)
        match choices.number(0, 6):
            case 0 | 1:
                return f"{inner} {choices.pick(('+', '-'))} {self._step()}"
            case 2:
                return f"date_trunc({quoted(choices.pick(_UNITS))}, {inner})"
            case 3:
                return choices.pick(("today()", *_DATES))
            case 4:
                return f"to_date({choices.pick((quoted(choices.pick(_DATE_TEXTS)), self.of('DateTime', depth - 1)))})"
            case 5:
                return "cast_date('2024-02-29')"
            case _:
                return f"{self._step()} + {inner}"

    def _instant(self, depth: int) -> str:
        choices, inner = self._choices, self.of("DateTime", depth - 1)
        match choices.number(0, 5):
            case 0 | 1:
                return f"{inner} {choices.pick(('+', '-'))} {self._step()}"
            case 2:
                return f"date_trunc({quoted(choices.pick(_MOMENT_UNITS))}, {inner})"
            case 3:
                return choices.pick(_INSTANTS)
            case 4:
                return f"to_datetime({choices.pick((quoted(choices.pick(_DATE_TEXTS)), self.of('Date', depth - 1)))})"
            case _:
                return "cast_datetime('2024-02-29T01:02:03Z')"

    def _step(self) -> str:
        unit = self._choices.pick(("years", "months", "days", "hours", "minutes", "seconds"))
        return f"{unit}({self._choices.pick(_STEPS)})"

    def _interval(self, depth: int) -> str:
        family = self._choices.pick(("Date", "DateTime"))
        if self._choices.chance(3):
            return f"{self._step()} {self._choices.pick(('+', '-'))} {self._step()}"
        return f"{self.of(family, depth - 1)} - {self._leaf(family)}"

    def _moment(self, depth: int) -> str:
        return self.of(self._choices.pick(("Date", "DateTime")), depth - 1)

    def _condition(self, depth: int) -> str:  # noqa: C901 - one case per form
        choices = self._choices
        match choices.number(0, 13) if depth > 0 else choices.number(0, 3):
            case 0 | 1 | 2:
                return self._comparison(depth)
            case 3:
                family = choices.pick(SCALARS)
                return f"{self._tight(self.of(family, depth - 1))} is {choices.pick(('', 'not '))}null"
            case 4 | 5:
                word = choices.pick((" and ", " or "))
                parts = [f"({self._condition(depth - 1)})" for _ in range(choices.number(2, 3))]
                return word.join(parts)
            case 6:
                return f"not ({self._condition(depth - 1)})"
            case 7:
                family = choices.pick(("int", "String"))
                op = choices.pick(("in", "in", "not in"))
                return f"{self._tight(self.of(family, depth - 1))} {op} {self.list_of(family)}"
            case 8:
                family = choices.pick(("int", "String"))
                return f"({self.list_of(family)}) contains {self._tight(self.of(family, depth - 1))}"
            case 9:
                op = choices.pick(("contains", "starts_with", "ends_with"))
                # Two bare variables with such a word between them are a traversal.
                return f"concat({self.of('String', depth - 1)}) {op} {self._tight(self._leaf('String'))}"
            case 10:
                pattern = quoted(choices.pick(_PATTERNS))
                return f"{self._tight(self.of('String', depth - 1))} matches {pattern}"
            case 11 if self._sight.block is not None:
                return f"{choices.pick(('exists', 'not'))} {{ {self._sight.block()} }}"
            case 12 if self._sight.entities:
                variable = choices.pick(sorted(self._sight.entities))
                return f"${variable} is {choices.pick(('', 'not '))}null"
            case _:
                found = self._sight.accesses("Bool")
                texts = ("to_bool('true')", "to_bool('x')", "cast_bool('false')", "true", "false", "(null = 1)")
                return f"{choices.pick(found or texts)} = {choices.pick(('true', 'false', *texts))}"

    def _comparison(self, depth: int) -> str:
        op = self._choices.pick(("!=", ">=", "<=", "=", "<", ">", "!="))
        if depth > 0 and self._choices.chance(8):
            return f"({self._interval(depth)}) {op} {self._step()}"
        family = self._choices.pick(("int", "int", "String", "String", "Date", "DateTime", "F64", "Bool", "Decimal"))
        right = "null" if self._choices.chance(20) else self.of(family, depth - 1)
        if family == "Decimal" and self._choices.coin():
            right = self._choices.pick(("0.10", "2.5", "-3.251", "1e2", self._leaf("int"), self._leaf("F64")))
        return f"{self._tight(self.of(family, depth - 1))} {op} {self._tight(right)}"

    def _tight(self, text: str) -> str:
        """The text as an operand of anything."""
        return text if all(letter.isalnum() or letter in "$._" for letter in text) else f"({text})"
