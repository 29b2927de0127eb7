"""The parts of a pipeline, made of what a file in Python or in YAML says of them.

Both say the same things by the same keys, so that both are read here. Nothing is raised: what is wrong is noted with
its place, and the part goes on without it, so that everything can be told at once.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, cast, get_args

from omnigraph.errors import Mistake, Mistakes, PipelineInvalidError, ValueFormatError
from omnigraph.pipelines.model import (
    AfterStep,
    ByColumn,
    ByFiles,
    CheckStep,
    Declaration,
    Expectation,
    Incremental,
    MissingEnd,
    OnDelete,
    Outcome,
    Part,
    Place,
    Publish,
    ResolveStep,
    SourceStep,
    StepMode,
    TypeStep,
    ViewStep,
)
from omnigraph.pipelines.sql import tables_in
from omnigraph.records import record
from omnigraph.values import MAIN, BranchName
from omnigraph.values.counts import counted

_ROWS = ("sql", "input")
_OF_TYPE = (
    "type",
    *_ROWS,
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
        "pipeline": ("pipeline", "graph", "branch", "publish", "quarantine"),
        "source": ("format", "path", "options", "incremental"),
        "view": (*_ROWS, "cache"),
        "node": (*_OF_TYPE, "on_delete"),
        "edge": (*_OF_TYPE, "src", "dst", "missing_end"),
        "resolve": (*_ROWS, "id", "blocking", "compare", "threshold", "review", "same_as", "evidence"),
        "check": ("query",),
        "after": ("algorithm", "edges", "arguments", "write", "mutation"),
    }
)
"""What can be said of each kind of part; a keyword in Python, a key in YAML."""

FILES = "files"
_COMPARED = ("", "exact", 1.0)
_NAME = re.compile(r"[^\W\d]\w*")
_SHOWN = 80


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


def refuse(pipeline: str, mistakes: Iterable[Mistake]) -> None:
    """Return if there is no mistake.

    Raises:
        PipelineInvalidError: there is one; it has all of them.
    """
    items = tuple(dict.fromkeys(sorted(mistakes, key=lambda one: (one.file, one.line))))
    if items:
        first = items[0]
        is_one = len(items) == 1
        raise PipelineInvalidError(
            f"{first.file}:{first.line}: {first.message}"
            if is_one
            else f"pipeline '{pipeline}' has {counted(len(items), 'mistake')}",
            details=Mistakes(pipeline=pipeline, items=items),
            hint=first.hint if is_one else None,
        )


def mistake_at(place: Place, message: str, *, step: str | None = None, hint: str | None = None) -> Mistake:
    """Return what is wrong at a place."""
    return Mistake(message=message, file=place.file, line=place.line, step=step, hint=hint)


def step_mistake(part: Part, message: str, hint: str | None = None, *, key: str = "") -> Mistake:
    """Return what is wrong with a step, at the line of one of its keys."""
    return mistake_at(part.place_of(key), message, step=part.name, hint=hint)


def near_name(name: object, known: Iterable[str]) -> str | None:
    """Return the hint that names the nearest of some names, in whatever letter case it is written.

    >>> near_name("persn", ["Team", "Person"])
    "did you mean 'Person'?"
    """
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1) if isinstance(name, str) else []
    return f"did you mean '{by_lower[near[0]]}'?" if near else None


class PartMaker:
    """Makes the parts of one pipeline, and notes what is wrong with them."""

    def __init__(self, *, has_functions: bool) -> None:
        self._needed = "a function, sql or an input" if has_functions else "sql or an input"
        self.mistakes: list[Mistake] = []

    def refuse(self, given: Given, message: str, *, key: str = "", hint: str | None = None) -> None:
        """Note a mistake."""
        step = None if given.kind == "pipeline" else given.name
        self.mistakes.append(mistake_at(given.place_of(key), message, step=step, hint=hint))

    def pipeline(self, given: Given) -> Declaration:
        """Return a pipeline without its steps."""
        if "/" in given.name:
            self.refuse(given, f"'{given.name}' cannot be the name of a pipeline: it has a '/'")
        elif given.name:
            # Runs that are looked at before they are merged have branches that are called by it.
            self._check_branch(given, "name", given.name, f"pipelines/{given.name}/run")
        branch = self._text(given, "branch") or MAIN
        self._check_branch(given, "branch", branch, branch)
        return Declaration(
            name=given.name,
            place=given.place,
            graph=self._text(given, "graph"),
            branch=branch,
            publish=cast("Publish", self._choice(given, "publish", get_args(Publish), "direct")),
            quarantine=self._text(given, "quarantine"),
        )

    def source(self, given: Given) -> SourceStep:
        """Return a source; a function or a format says where its rows are."""
        self._check_name(given)
        form, paths = self._text(given, "format"), self._texts(given, "path")
        options = self._options(given, "options")
        if given.function is not None:
            for key in ("format", "path", "options"):
                if given.values.get(key):
                    self.refuse(given, f"a source with a function takes no {key}", key=key)
            self._check_source_function(given)
        elif form is None and given.values.get("format") is None:
            self.refuse(given, "a source needs a format", hint="such as parquet, csv, json or jdbc")
        return SourceStep(
            name=given.name,
            place=given.place,
            places=given.places,
            function=given.function,
            format=form,
            paths=paths,
            options=options,
            incremental=self._incremental(given),
        )

    def view(self, given: Given) -> ViewStep:
        """Return a view."""
        self._check_name(given)
        return ViewStep(
            name=given.name,
            place=given.place,
            places=given.places,
            function=given.function,
            sql=self._text(given, "sql"),
            inputs=self._inputs(given),
            is_cached=self._flag(given, "cache"),
        )

    def type_step(self, given: Given) -> TypeStep:
        """Return the rows of a node type or an edge type."""
        self._check_name(given)
        is_edge = given.kind == "edge"
        return TypeStep(
            name=given.name,
            place=given.place,
            places=given.places,
            kind="edge" if is_edge else "node",
            type_name=self._text(given, "type") or given.name,
            function=given.function,
            sql=self._text(given, "sql"),
            inputs=self._inputs(given),
            set=self._mapping(given, "set"),
            key=self._text(given, "key"),
            src=self._text(given, "src") if is_edge else None,
            dst=self._text(given, "dst") if is_edge else None,
            mode=cast("StepMode", self._choice(given, "mode", get_args(StepMode), "merge")),
            deletes=self._text(given, "deletes"),
            sequence=self._text(given, "sequence"),
            on_delete=cast("OnDelete", self._choice(given, "on_delete", get_args(OnDelete), "cascade")),
            dedupe=self._text(given, "dedupe"),
            missing_end=cast("MissingEnd", self._choice(given, "missing_end", get_args(MissingEnd), "fail")),
            expect=self._expectations(given),
            removes_missing=self._flag(given, "removes_missing"),
        )

    def resolve(self, given: Given) -> ResolveStep:
        """Return an entity resolution."""
        self._check_name(given)
        usual = ResolveStep(name=given.name, place=given.place)
        threshold = self._number(given, "threshold")
        return ResolveStep(
            name=given.name,
            place=given.place,
            places=given.places,
            function=given.function,
            sql=self._text(given, "sql"),
            inputs=self._inputs(given),
            id_column=self._text(given, "id") or usual.id_column,
            blocking=self._texts(given, "blocking"),
            comparisons=self._comparisons(given),
            threshold=usual.threshold if threshold is None else threshold,
            review=self._number(given, "review"),
            same_as=self._text(given, "same_as"),
            evidence=self._text(given, "evidence"),
        )

    def check(self, given: Given) -> CheckStep:
        """Return a check."""
        query = self._text(given, "query")
        if given.function is not None:
            if query is not None:
                self.refuse(given, "a check with a function takes no query", key="query")
            if _parameters(given.function):
                self.refuse(given, "the function of a check takes no parameters; it returns the text of a query")
        elif query is None and given.values.get("query") is None:
            self.refuse(given, "a check needs a query")
        return CheckStep(name=given.name, place=given.place, places=given.places, function=given.function, query=query)

    def after(self, given: Given) -> AfterStep:
        """Return what is written upon the new state; ``edges`` is one of the arguments of an algorithm."""
        algorithm, mutation = self._text(given, "algorithm"), self._text(given, "mutation")
        arguments = self._arguments(given)
        if (algorithm is None) == (mutation is None):
            self.refuse(given, "what follows is either an algorithm or a mutation", key="mutation")
        elif mutation is not None:
            for key in ("edges", "arguments", "write"):
                if given.values.get(key):
                    self.refuse(given, f"a mutation takes no {key}", key=key)
        return AfterStep(
            name=given.name,
            place=given.place,
            places=given.places,
            algorithm=algorithm,
            arguments=MappingProxyType(arguments),
            write=self._text(given, "write"),
            mutation=mutation,
        )

    def expectation(self, given: Given) -> Expectation | None:
        """Return an expectation of which one key is the outcome, with the condition as its value."""
        outcomes = [key for key in get_args(Outcome) if given.values.get(key) is not None]
        if len(outcomes) != 1:
            found = "several" if outcomes else "none"
            known = ", ".join(get_args(Outcome))
            self.refuse(given, f"expectation '{given.name}' must have one outcome of {known}, not {found}")
            return None
        condition = self._text(given, outcomes[0])
        if condition is None:
            return None
        return Expectation(
            name=given.name,
            condition=condition,
            outcome=cast("Outcome", outcomes[0]),
            max_ratio=self._number(given, "max_ratio"),
            place=given.place,
        )

    def unknown_key(self, given: Given, key: str, known: Sequence[str]) -> None:
        """Note a key that means nothing."""
        listed = f"known are {', '.join(known)}"
        self.refuse(given, f"unknown key '{key}'", key=key, hint=near_name(key, known) or listed)

    def _check_branch(self, given: Given, what: str, shown: str, name: str) -> None:
        try:
            BranchName.parse(name)
        except ValueFormatError as problem:
            reason = problem.message.rpartition(": ")[2]
            self.refuse(given, f"'{shown}' cannot be the {what} of a pipeline: {reason}", key=what)

    def _check_name(self, given: Given) -> None:
        if not _NAME.fullmatch(given.name):
            self.refuse(
                given, f"'{given.name[:_SHOWN]}' cannot be the name of a step", hint="use letters, digits and '_'"
            )

    def _check_source_function(self, given: Given) -> None:
        names = _parameters(given.function)
        if names is not None and len(names) != 1:
            told = f"({', '.join(names)})"
            self.refuse(given, f"the function of a source takes the session alone, not {told}", hint="write (spark)")

    def _inputs(self, given: Given) -> tuple[str, ...]:
        """Return what the rows are made of; there is one way to say it."""
        ways = [key for key in _ROWS if given.values.get(key) is not None]
        if given.function is not None:
            ways.append("function")
        if len(ways) != 1:
            found = f"has {' and '.join(ways)}; one of them is enough" if ways else f"needs {self._needed}"
            self.refuse(given, f"{given.kind} '{given.name}' {found}", key=ways[0] if ways else "")
        if given.function is not None:
            return self._function_inputs(given)
        one, sql = self._text(given, "input"), self._text(given, "sql")
        if sql is not None:
            return tables_in(sql)
        return () if one is None else (one,)

    def _function_inputs(self, given: Given) -> tuple[str, ...]:
        names = _parameters(given.function)
        if names is None:
            self.refuse(given, "the parameters of a function name its inputs, so that it cannot have *args or **kwargs")
            return ()
        return names

    def _incremental(self, given: Given) -> Incremental:
        found = self._text(given, "incremental")
        if found is None:
            return None
        return ByFiles() if found == FILES else ByColumn(column=found)

    def _expectations(self, given: Given) -> tuple[Expectation, ...]:
        value = given.values.get("expect")
        items = value if isinstance(value, list | tuple) else () if value is None else (value,)
        found = []
        for item in items:
            if isinstance(item, Expectation):
                self._check_ratio(given, item)
                found.append(item)
            else:
                hint = "use fail, drop, quarantine or warn"
                self.refuse(given, f"expect holds {_shown(item)}, which is no expectation", key="expect", hint=hint)
        return tuple(found)

    def _check_ratio(self, given: Given, item: Expectation) -> None:
        """Note what is wrong with an expectation that a function made."""
        place = item.place or given.place
        texts: dict[str, object] = {"the name": item.name, "the condition": item.condition}
        for what, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                self.mistakes.append(
                    mistake_at(place, f"{what} of an expectation must be text, not {_shown(text)}", step=given.name)
                )
        ratio = item.max_ratio
        if ratio is not None and (not _is_number(ratio) or not 0 <= ratio <= 1):
            message = f"max_ratio of '{item.name}' must be a number from 0 to 1, not {_shown(ratio)}"
            self.mistakes.append(mistake_at(place, message, step=given.name))

    def _comparisons(self, given: Given) -> tuple[tuple[str, str, float], ...]:
        value = given.values.get("compare")
        items = value if isinstance(value, list | tuple) else () if value is None else (value,)
        found = []
        for item in items:
            parts: tuple[Any, ...] = (
                (item,) if isinstance(item, str) else tuple(item) if isinstance(item, list | tuple) else ()
            )
            # What is left out at the end has a default.
            filled = [*parts, *_COMPARED[len(parts) :]]
            column, method, weight, rest = filled[0], filled[1], filled[2], filled[3:]
            if isinstance(column, str) and column and isinstance(method, str) and _is_number(weight) and not rest:
                found.append((column, method, float(weight)))
            else:
                told = f"compare holds {_shown(item)}, not a column, a method and a weight"
                self.refuse(given, told, key="compare", hint='such as ("name", "jaro_winkler", 2.0)')
        return tuple(found)

    def _arguments(self, given: Given) -> dict[str, Any]:
        value = given.values.get("arguments") or {}
        if not isinstance(value, Mapping):
            self.refuse(given, f"arguments must be a mapping, not {_shown(value)}", key="arguments")
            value = {}
        edges = given.values.get("edges")
        return {
            **({} if edges is None else {"edges": _frozen(edges)}),
            **{str(k): _frozen(v) for k, v in value.items()},
        }

    def _text(self, given: Given, key: str) -> str | None:
        value = given.values.get(key)
        if value is None:
            return None
        if isinstance(value, str) and value.strip():
            return value
        self.refuse(given, f"{key} must be text, not {_shown(value)}", key=key)
        return None

    def _texts(self, given: Given, key: str) -> tuple[str, ...]:
        value = given.values.get(key)
        if value is None:
            return ()
        items = value if isinstance(value, list | tuple) else (value,)
        if all(isinstance(item, str) and item.strip() for item in items):
            return tuple(items)
        self.refuse(given, f"{key} must be text or a list of texts, not {_shown(value)}", key=key)
        return ()

    def _choice(self, given: Given, key: str, known: Sequence[str], usual: str) -> str:
        value = given.values.get(key)
        if value is None:
            return usual
        if value in known:
            return str(value)
        self.refuse(
            given, f"{key} must be {' | '.join(known)}, not {_shown(value)}", key=key, hint=near_name(value, known)
        )
        return usual

    def _flag(self, given: Given, key: str) -> bool:
        value = given.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.refuse(given, f"{key} must be true or false, not {_shown(value)}", key=key)
        return False

    def _number(self, given: Given, key: str) -> float | None:
        value = given.values.get(key)
        if value is None:
            return None
        if _is_number(value) and 0 <= value <= 1:
            return float(value)
        self.refuse(given, f"{key} must be a number from 0 to 1, not {_shown(value)}", key=key)
        return None

    def _mapping(self, given: Given, key: str) -> Mapping[str, str]:
        value = given.values.get(key)
        if value is None:
            return MappingProxyType({})
        if not isinstance(value, Mapping):
            self.refuse(given, f"{key} must be a mapping, not {_shown(value)}", key=key)
            return MappingProxyType({})
        found = {}
        for name, item in value.items():
            if isinstance(name, str) and name and isinstance(item, str) and item.strip():
                found[name] = item
            else:
                told = f"{key}.{name} must be text, not {_shown(item)}"
                self.refuse(given, told, key=f"{key}.{name}", hint="write a constant of SQL in quotes")
        return MappingProxyType(found)

    def _options(self, given: Given, key: str) -> Mapping[str, str]:
        """Return settings of a reader, which Spark takes as texts; an empty text is one."""
        value = given.values.get(key) or {}
        if not isinstance(value, Mapping):
            self.refuse(given, f"{key} must be a mapping, not {_shown(value)}", key=key)
            return MappingProxyType({})
        found = {}
        for name, item in value.items():
            if isinstance(item, bool):
                found[str(name)] = str(item).lower()
            elif isinstance(item, str | int | float):
                found[str(name)] = str(item)
            else:
                told = f"option '{name}' must be text or a number, not {_shown(item)}"
                self.refuse(given, told, key=f"{key}.{name}")
        return MappingProxyType(found)


def _parameters(function: Callable[..., Any] | None) -> tuple[str, ...] | None:
    """Return the parameters that a function must be given; None if it takes any number of them."""
    if function is None:
        return ()
    kinds = inspect.signature(function).parameters.values()
    if any(one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD} for one in kinds):
        return None
    return tuple(one.name for one in kinds if one.default is one.empty)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _frozen(value: Any) -> Any:
    """Return a value with lists as tuples, as Python and YAML would both write it."""
    if isinstance(value, Mapping):
        return MappingProxyType({name: _frozen(item) for name, item in value.items()})
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _shown(value: object) -> str:
    """Return a value as messages show it."""
    told = repr(value) if not isinstance(value, Mapping) else "a mapping"
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"
