"""What a file in Python or in YAML says of a part of a pipeline: its keys, and values of the types they should have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from omnigraph.errors import Mistake
from omnigraph.pipelines.mistakes import mistake_at, near_name, refuse
from omnigraph.pipelines.model import Declaration, Place
from omnigraph.records import record

ROWS = ("sql", "input")
"""Ways to say what rows are made of, besides a function."""

_OF_TYPE = (
    "type",
    *ROWS,
    "set",
    "key",
    "mode",
    "deletes",
    "sequence",
    "dedupe",
    "expect",
    "removes_missing",
)
KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pipeline": ("pipeline", "graph", "branch", "publish", "quarantine", "origins"),
        "source": ("format", "path", "options", "incremental"),
        "view": (*ROWS, "cache"),
        "node": (*_OF_TYPE, "on_delete"),
        "edge": (*_OF_TYPE, "src", "dst", "missing_end"),
        "resolve": (*ROWS, "id", "blocking", "compare", "threshold", "review", "same_as", "evidence"),
        "check": ("query",),
        "after": ("algorithm", "edges", "arguments", "write", "mutation"),
    }
)
"""What can be said of each kind of part; a keyword in Python, a key in YAML."""
SHOWN = 80
"""How much of a value a message shows."""


@record
class Given:
    """What is said of a part: values by key, where each of them stands, and the function, if there is one."""

    kind: str
    name: str
    place: Place
    values: Mapping[str, Any]
    places: Mapping[str, Place] = field(default_factory=dict)
    function: Callable[..., Any] | None = None

    def place_of(self, key: str) -> Place:
        """Return where a key stands; the part itself if that is not known."""
        return self.places.get(key, self.place)


@record
class Declared:
    """A declaration as far as it can be understood, and what is wrong with the rest."""

    declaration: Declaration
    mistakes: tuple[Mistake, ...] = ()

    def unwrap(self) -> Declaration:
        """Return the declaration.

        Raises:
            PipelineInvalidError: something is wrong with it.
        """
        refuse(self.declaration.name, self.mistakes)
        return self.declaration


class GivenValues:
    """Reads what is said of parts. What is wrong is noted with its place, and reading goes on without it."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def refuse(self, given: Given, message: str, *, key: str = "", hint: str | None = None) -> None:
        """Note a mistake."""
        step = None if given.kind == "pipeline" else given.name
        self.mistakes.append(mistake_at(given.place_of(key), message, step=step, hint=hint))

    def text(self, given: Given, key: str) -> str | None:
        """Return a text, or None."""
        value = given.values.get(key)
        if value is None:
            return None
        if isinstance(value, str) and value.strip():
            return value
        self.refuse(given, f"{key} must be text, not {shown_value(value)}", key=key)
        return None

    def texts(self, given: Given, key: str) -> tuple[str, ...]:
        """Return one text or several."""
        value = given.values.get(key)
        if value is None:
            return ()
        items = value if isinstance(value, list | tuple) else (value,)
        if all(isinstance(item, str) and item.strip() for item in items):
            return tuple(items)
        self.refuse(given, f"{key} must be text or a list of texts, not {shown_value(value)}", key=key)
        return ()

    def choice(self, given: Given, key: str, known: Sequence[str], usual: str) -> str:
        """Return one of some words."""
        value = given.values.get(key)
        if value is None:
            return usual
        if value in known:
            return str(value)
        self.refuse(
            given, f"{key} must be {' | '.join(known)}, not {shown_value(value)}", key=key, hint=near_name(value, known)
        )
        return usual

    def flag(self, given: Given, key: str) -> bool:
        """Return true or false."""
        value = given.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.refuse(given, f"{key} must be true or false, not {shown_value(value)}", key=key)
        return False

    def number(self, given: Given, key: str) -> float | None:
        """Return a number from 0 to 1, or None."""
        value = given.values.get(key)
        if value is None:
            return None
        if is_number(value) and 0 <= value <= 1:
            return float(value)
        self.refuse(given, f"{key} must be a number from 0 to 1, not {shown_value(value)}", key=key)
        return None

    def mapping(self, given: Given, key: str) -> Mapping[str, str]:
        """Return texts by name."""
        value = given.values.get(key)
        if value is None:
            return MappingProxyType({})
        if not isinstance(value, Mapping):
            self.refuse(given, f"{key} must be a mapping, not {shown_value(value)}", key=key)
            return MappingProxyType({})
        found = {}
        for name, item in value.items():
            if isinstance(name, str) and name and isinstance(item, str) and item.strip():
                found[name] = item
            else:
                told = f"{key}.{name} must be text, not {shown_value(item)}"
                self.refuse(given, told, key=f"{key}.{name}", hint="write a constant of SQL in quotes")
        return MappingProxyType(found)

    def options(self, given: Given, key: str) -> Mapping[str, str]:
        """Return settings of a reader, which Spark takes as texts; an empty text is one."""
        value = given.values.get(key) or {}
        if not isinstance(value, Mapping):
            self.refuse(given, f"{key} must be a mapping, not {shown_value(value)}", key=key)
            return MappingProxyType({})
        found = {}
        for name, item in value.items():
            if isinstance(item, bool):
                found[str(name)] = str(item).lower()
            elif isinstance(item, str | int | float):
                found[str(name)] = str(item)
            else:
                told = f"option '{name}' must be text or a number, not {shown_value(item)}"
                self.refuse(given, told, key=f"{key}.{name}")
        return MappingProxyType(found)


def is_number(value: object) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def frozen_value(value: Any) -> Any:
    """Return a value with lists as tuples, as Python and YAML would both write it."""
    if isinstance(value, Mapping):
        return MappingProxyType({name: frozen_value(item) for name, item in value.items()})
    return tuple(map(frozen_value, value)) if isinstance(value, list | tuple) else value


def shown_value(value: object) -> str:
    """Return a value as messages show it."""
    told = repr(value) if not isinstance(value, Mapping) else "a mapping"
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}…"
