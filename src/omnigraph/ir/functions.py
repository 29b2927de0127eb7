"""The functions of the language: one table that the checker, the engine, completion and the language page read.

Every function is strict, NULL in, NULL out, except where its line says otherwise. What computes a function stands in
``engine.query.functions.table`` under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from omnigraph.records import record

# What an argument may be. ``Time`` is a Date or a DateTime; ``Text`` is known before any row is read.
Wanted = Literal[
    "String",
    "Text",
    "Number",
    "Integer",
    "Bool",
    "Date",
    "DateTime",
    "Time",
    "Interval",
    "List",
    "Any",
    "Entity",
    "Path",
]
# What comes out. ``same`` is the common type of all arguments, ``first`` the first one's, ``wide`` the first number
# as I64, F64 or the decimal that it is; ``Decimal`` has the digits that the last two arguments say.
Returned = Literal[
    "String", "I64", "F64", "Decimal", "Bool", "Date", "DateTime", "Interval", "[String]", "same", "first", "wide"
]


@record
class Function:
    """A function: its name, what it takes and gives, one line about it, and an example with its value.

    ``optional`` says how many of the last parameters may be left out, ``repeats`` that the last may come again.
    """

    name: str
    takes: tuple[Wanted, ...]
    gives: Returned
    about: str
    example: str
    optional: int = 0
    repeats: bool = False

    @property
    def signature(self) -> str:
        """The function as people write it."""
        names = [word.lower() for word in self.takes]
        least = len(names) - self.optional
        given = names[:least] + [f"[{name}]" for name in names[least:]]
        return f"{self.name}({', '.join(given)}{', …' if self.repeats else ''})"


def _text(name: str, gives: Returned, about: str, example: str, *more: Wanted, optional: int = 0) -> Function:
    return Function(name=name, takes=("String", *more), gives=gives, about=about, example=example, optional=optional)


def _number(name: str, gives: Returned, about: str, example: str, *more: Wanted, optional: int = 0) -> Function:
    return Function(name=name, takes=("Number", *more), gives=gives, about=about, example=example, optional=optional)


def _part(name: str, about: str, example: str, wanted: Wanted = "Time") -> Function:
    return Function(name=name, takes=(wanted,), gives="I64", about=about, example=example)


def _interval(name: str, example: str) -> Function:
    about = f"an interval of a number of {name}"
    return Function(name=name, takes=("Integer",), gives="Interval", about=about, example=example)


def _count(name: str, unit: str, example: str) -> Function:
    about = f"the length of an interval in {unit}, with its fraction; a month counts as 30 days"
    return Function(name=name, takes=("Interval",), gives="F64", about=about, example=example)


def _conversion(name: str, gives: Returned, about: str, example: str) -> Function:
    return Function(name=name, takes=("Any",), gives=gives, about=about, example=example)


def _decimal(name: str, about: str, example: str) -> Function:
    takes: tuple[Wanted, ...] = ("Any", "Integer", "Integer")
    return Function(name=name, takes=takes, gives="Decimal", about=about, example=example)


_ALL = (
    _text("lower", "String", "the text in lower case", 'lower("ÄB") = "äb"'),
    _text("upper", "String", "the text in upper case", 'upper("äb") = "ÄB"'),
    _text("trim", "String", "the text without surrounding white space", 'trim("  a b ") = "a b"'),
    _text("length", "I64", "the number of characters of a text, or of edges of a path", 'length("naïve") = 5'),
    _text(
        "substring",
        "String",
        "the characters from a position, counted from 0, optionally at most a number of them",
        'substring("graph", 1, 3) = "rap"',
        "Integer",
        "Integer",
        optional=1,
    ),
    _text("replace", "String", "every occurrence replaced", 'replace("a-b", "-", "+") = "a+b"', "String", "String"),
    _text("split", "[String]", "the parts between separators", 'size(split("a,b", ",")) = 2', "Text"),
    _text("reverse", "String", "the characters in reverse order", 'reverse("abc") = "cba"'),
    Function(
        name="concat",
        takes=("String",),
        gives="String",
        about="the texts joined; use to_string for other values",
        example='concat("a", "b", to_string(1)) = "ab1"',
        repeats=True,
    ),
    _number("abs", "wide", "the number without its sign", "abs(-3) = 3"),
    _number(
        "round",
        "wide",
        "the nearest number with this many decimal places, halves away from zero",
        "round(2.5) = 3.0",
        "Integer",
        optional=1,
    ),
    _number("floor", "wide", "the greatest whole number that is not greater", "floor(-1.5) = -2.0"),
    _number("ceil", "wide", "the least whole number that is not less", "ceil(1.2) = 2.0"),
    _number("sqrt", "F64", "the square root", "sqrt(9) = 3.0"),
    _number("power", "F64", "the first number to the power of the second", "power(2, 10) = 1024.0", "Number"),
    _number("ln", "F64", "the natural logarithm", "ln(1) = 0.0"),
    _number("exp", "F64", "e to the power of the number", "exp(0) = 1.0"),
    _number("log10", "F64", "the logarithm of base 10", "log10(1000) = 3.0"),
    _number("sign", "I64", "-1, 0 or 1", "sign(-7) = -1"),
    Function(
        name="greatest",
        takes=("Any",),
        gives="same",
        about="the greatest of the values",
        example="greatest(1, 3, 2) = 3",
        repeats=True,
    ),
    Function(
        name="least",
        takes=("Any",),
        gives="same",
        about="the least of the values",
        example="least(1, 3, 2) = 1",
        repeats=True,
    ),
    Function(
        name="coalesce",
        takes=("Any",),
        gives="same",
        about="the first value that is not NULL; not strict",
        example="coalesce(null, 2) = 2",
        repeats=True,
    ),
    _part("year", "the year", 'year(date("2024-02-29")) = 2024'),
    _part("month", "the month, 1 to 12", 'month(date("2024-02-29")) = 2'),
    _part("day", "the day of the month", 'day(date("2024-02-29")) = 29'),
    _part("hour", "the hour, 0 to 23", 'hour(datetime("2024-02-29T13:05:00Z")) = 13', "DateTime"),
    _part("minute", "the minute, 0 to 59", 'minute(datetime("2024-02-29T13:05:00Z")) = 5', "DateTime"),
    _part("weekday", "the day of the week, Monday is 1", 'weekday(date("2024-02-29")) = 4'),
    Function(
        name="date_trunc",
        takes=("Text", "Time"),
        gives="first",
        about='the start of the "year", "quarter", "month", "week", "day", "hour", "minute" or "second"',
        example='date_trunc("month", date("2024-02-29")) = date("2024-02-01")',
    ),
    Function(name="today", takes=(), gives="Date", about="the day of the request in UTC", example="today() <= today()"),
    _interval("years", 'date("2024-02-29") + years(1) = date("2025-02-28")'),
    _interval("months", 'date("2024-01-31") + months(1) = date("2024-02-29")'),
    _interval("days", 'date("2024-02-28") + days(1) = date("2024-02-29")'),
    _interval("hours", 'datetime("2024-01-01T00:00:00Z") + hours(1) = datetime("2024-01-01T01:00:00Z")'),
    _interval("minutes", 'datetime("2024-01-01T00:00:00Z") + minutes(1) = datetime("2024-01-01T00:01:00Z")'),
    _interval("seconds", 'datetime("2024-01-01T00:00:00Z") + seconds(1) = datetime("2024-01-01T00:00:01Z")'),
    _count("in_days", "days", 'in_days(date("2024-03-01") - date("2024-02-01")) = 29.0'),
    _count("in_hours", "hours", "in_hours(days(1)) = 24.0"),
    _count("in_seconds", "seconds", "in_seconds(minutes(1)) = 60.0"),
    _conversion("to_string", "String", "the value as text", 'to_string(1) = "1"'),
    _conversion("to_int", "I64", "the value as a whole number, or NULL if it cannot be converted", 'to_int("42") = 42'),
    _conversion("to_float", "F64", "the value as a number, or NULL if it cannot be converted", 'to_float("1.5") = 1.5'),
    _decimal(
        "to_decimal",
        "the value as a decimal with these digits, rounded; NULL if it cannot be converted or is too large",
        'to_decimal("1.005", 12, 2) = 1.01',
    ),
    _conversion("to_bool", "Bool", "true or false, NULL if it is neither", 'to_bool("true") = true'),
    _conversion(
        "to_date", "Date", "the day, or NULL if the text is not a date", 'to_date("2024-02-29") = date("2024-02-29")'
    ),
    _conversion(
        "to_datetime",
        "DateTime",
        "the timestamp, or NULL if the text is not a timestamp",
        'to_datetime("2024-02-29T00:00:00Z") = datetime("2024-02-29T00:00:00Z")',
    ),
    _conversion("cast_int", "I64", "as to_int, but an error instead of NULL", 'cast_int("42") = 42'),
    _conversion("cast_float", "F64", "as to_float, but an error instead of NULL", 'cast_float("1.5") = 1.5'),
    _decimal("cast_decimal", "as to_decimal, but an error instead of NULL", 'cast_decimal("2.5", 12, 2) = 2.5'),
    _conversion("cast_bool", "Bool", "as to_bool, but an error instead of NULL", 'cast_bool("true") = true'),
    _conversion(
        "cast_date",
        "Date",
        "as to_date, but an error instead of NULL",
        'cast_date("2024-02-29") = date("2024-02-29")',
    ),
    _conversion(
        "cast_datetime",
        "DateTime",
        "as to_datetime, but an error instead of NULL",
        'cast_datetime("2024-02-29T00:00:00Z") = datetime("2024-02-29T00:00:00Z")',
    ),
    Function(
        name="size", takes=("List",), gives="I64", about="the number of items of the list", example="size([1, 2]) = 2"
    ),
    Function(name="id", takes=("Entity",), gives="String", about="the id of an entity", example="id($p) = id($p)"),
    Function(
        name="type", takes=("Entity",), gives="String", about="the type of an entity", example="type($p) = type($p)"
    ),
    Function(
        name="version",
        takes=("Entity",),
        gives="String",
        about="the id of the commit that last changed the entity",
        example="version($p) = version($p)",
    ),
    Function(
        name="nodes", takes=("Path",), gives="[String]", about="the ids of the nodes of a path", example="nodes($w)[0]"
    ),
    Function(
        name="edges", takes=("Path",), gives="[String]", about="the ids of the edges of a path", example="edges($w)[0]"
    ),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _ALL})

# Functions that the grammar knows by name: what they take, and one line about them.
GRAMMAR_FUNCTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "now": ("now()", "the time of the request"),
        "date": ('date("…")', "a Date"),
        "datetime": ('datetime("…")', "a DateTime"),
        "nearest": ("nearest($x.vector, query)", "the distance of a vector, for order"),
        "bm25": ("bm25($x.text, query)", "the relevance of a text for words, for order"),
        "rrf": ("rrf(ranking, ranking, [k])", "two rankings fused into one"),
        "search": ("search($x.text, query)", "true if a text has all the words"),
        "match_text": ("match_text($x.text, query)", "true if a text has any of the words"),
        "fuzzy": ("fuzzy($x.text, query, [edits])", "true if a text has similar words"),
        "count": ("count([distinct] any)", "the number of values that are not NULL, or of rows: count(*)"),
        "sum": ("sum([distinct] number)", "the sum as F64, of decimals exactly"),
        "sum_int": ("sum_int([distinct] integer)", "the exact sum as I64"),
        "avg": ("avg([distinct] number)", "the mean"),
        "min": ("min(any)", "the least value"),
        "max": ("max(any)", "the greatest value"),
        "collect": ("collect([distinct] any)", "the values as a list"),
        "median": ("median(number)", "the middle value"),
        "percentile": ("percentile(number, fraction)", "the value below which a fraction of the values lies"),
        "stddev": ("stddev(number)", "the standard deviation of a sample"),
        "variance": ("variance(number)", "the variance of a sample"),
        "any": ("any(condition)", "true if the condition holds for some row"),
        "every": ("every(condition)", "true if the condition holds for every row"),
    }
)

# What a moment can be cut to; a Date has no part finer than a day.
MOMENT_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
DATE_UNITS = MOMENT_UNITS[:5]

# What people who know other languages write, and what it is called here.
FOREIGN: Mapping[str, str] = MappingProxyType(
    {
        "len": "length",
        "char_length": "length",
        "tolower": "lower",
        "to_lower": "lower",
        "toupper": "upper",
        "to_upper": "upper",
        "substr": "substring",
        "ifnull": "coalesce",
        "nvl": "coalesce",
        "pow": "power",
        "log": "ln",
        "ceiling": "ceil",
        "tostring": "to_string",
        "tointeger": "to_int",
        "tofloat": "to_float",
        "todecimal": "to_decimal",
        "toboolean": "to_bool",
        "cardinality": "size",
        "array_length": "size",
        "label": "type",
        "labels": "type",
        "elementid": "id",
        "datetrunc": "date_trunc",
        "current_date": "today",
        "current_timestamp": "now",
        "timestamp": "datetime",
        "string_agg": "collect",
        "array_agg": "collect",
        "bool_and": "every",
        "bool_or": "any",
        "std": "stddev",
    }
)
