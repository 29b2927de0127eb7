"""Data frames of other libraries, which are imported only when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa

from omnigraph.engine.results.encodings import is_nested, is_vector
from omnigraph.errors import LibraryMissingError, MissingThing


def library(name: str, *, hint: str, what: str = "conversion") -> Any:
    """Return a library that a conversion, or what else it is, cannot do without.

    Raises:
        LibraryMissingError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as problem:
        raise LibraryMissingError(
            f"this {what} needs {name.partition('.')[0]}, which is not installed",
            details=MissingThing(what="library", name=name.partition(".")[0]),
            hint=hint,
        ) from problem


_INSTANT = pa.timestamp("ms", tz="UTC")


def to_pandas(table: pa.Table) -> Any:
    """Return a pandas frame; a DateTime is a UTC timestamp there, a Date a Python date as far as that reaches.

    Raises:
        LibraryMissingError: pandas is not installed.
    """
    library("pandas", hint=_hint("pandas"))
    found = _with_instants(table)
    try:
        return found.to_pandas()
    except (ValueError, OverflowError):
        # Python's calendar ends with the year 9999; the library's own does not.
        return found.to_pandas(date_as_object=False)


def to_polars(table: pa.Table) -> Any:
    """Return a polars frame; a DateTime is a UTC timestamp there. Repeated column names get a number each.

    Raises:
        LibraryMissingError: polars is not installed.
    """
    polars = library("polars", hint=_hint("polars"))
    return polars.from_arrow(_with_instants(table).rename_columns(_distinct(table.column_names)))


def _hint(name: str) -> str:
    return f"install {name}, or use the Arrow table from to_arrow()"


def _with_instants(table: pa.Table) -> pa.Table:
    # Both libraries take Date64 for a date and drop its time.
    fields = [field.with_type(_with_instant(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _with_instant(of: pa.DataType) -> pa.DataType:
    if pa.types.is_date64(of):
        return _INSTANT
    if is_nested(of) and not is_vector(of):
        return pa.list_(of.value_field.with_type(_with_instant(of.value_type)))
    return of


def _distinct(names: list[str]) -> list[str]:
    """Give every name that was used already a number that makes it its own.

    >>> _distinct(["a", "a", "a_2", "a"])
    ['a', 'a_3', 'a_2', 'a_4']
    """
    taken, seen, chosen = set(names), set[str](), list[str]()
    for name in names:
        own, number = name, 1
        while own in seen or (number > 1 and own in taken):
            number += 1
            own = f"{name}_{number}"
        seen.add(own)
        chosen.append(own)
    return chosen
