"""The parts of a pipeline, made of what a file in Python or in YAML says of them.

Both say the same things by the same keys, so that both are read here. Nothing is raised: what is wrong is noted with
its place, and the part goes on without it, so that everything can be told at once.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast, get_args

from omnigraph.errors import ValueFormatError
from omnigraph.pipelines.given import ROWS, SHOWN, Given, GivenValues, frozen_value, is_number, shown_value
from omnigraph.pipelines.mistakes import mistake_at, near_name
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
    Origins,
    Outcome,
    Publish,
    ResolveStep,
    SourceStep,
    StepMode,
    TypeStep,
    ViewStep,
)
from omnigraph.pipelines.sql import tables_in
from omnigraph.values import MAIN, BranchName

FILES = "files"
_COMPARED = ("", "exact", 1.0)
_NAME = re.compile(r"[^\W\d]\w*")


class PartMaker(GivenValues):
    """Makes the parts of one pipeline, and notes what is wrong with them."""

    def __init__(self, *, has_functions: bool) -> None:
        super().__init__()
        self._needed = "a function, sql or an input" if has_functions else "sql or an input"

    def pipeline(self, given: Given) -> Declaration:
        """Return a pipeline without its steps."""
        if "/" in given.name:
            self.refuse(given, f"'{given.name}' cannot be the name of a pipeline: it has a '/'")
        elif given.name:
            # Runs that are looked at before they are merged have branches that are called by it.
            self._check_branch(given, "name", given.name, f"pipelines/{given.name}/run")
        branch = self.text(given, "branch") or MAIN
        self._check_branch(given, "branch", branch, branch)
        return Declaration(
            name=given.name,
            place=given.place,
            graph=self.text(given, "graph"),
            branch=branch,
            publish=cast("Publish", self.choice(given, "publish", get_args(Publish), "direct")),
            quarantine=self.text(given, "quarantine"),
            origins=cast("Origins", self.choice(given, "origins", get_args(Origins), "files")),
        )

    def source(self, given: Given) -> SourceStep:
        """Return a source; a function or a format says where its rows are."""
        self._check_name(given)
        form, paths = self.text(given, "format"), self.texts(given, "path")
        options = self.options(given, "options")
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
            sql=self.text(given, "sql"),
            inputs=self._inputs(given),
            is_cached=self.flag(given, "cache"),
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
            type_name=self.text(given, "type") or given.name,
            function=given.function,
            sql=self.text(given, "sql"),
            inputs=self._inputs(given),
            set=self.mapping(given, "set"),
            key=self.text(given, "key"),
            src=self.text(given, "src") if is_edge else None,
            dst=self.text(given, "dst") if is_edge else None,
            mode=cast("StepMode", self.choice(given, "mode", get_args(StepMode), "merge")),
            deletes=self.text(given, "deletes"),
            sequence=self.text(given, "sequence"),
            on_delete=cast("OnDelete", self.choice(given, "on_delete", get_args(OnDelete), "cascade")),
            dedupe=self.text(given, "dedupe"),
            missing_end=cast("MissingEnd", self.choice(given, "missing_end", get_args(MissingEnd), "fail")),
            expect=self._expectations(given),
            removes_missing=self.flag(given, "removes_missing"),
        )

    def resolve(self, given: Given) -> ResolveStep:
        """Return an entity resolution."""
        self._check_name(given)
        usual = ResolveStep(name=given.name, place=given.place)
        threshold = self.number(given, "threshold")
        return ResolveStep(
            name=given.name,
            place=given.place,
            places=given.places,
            function=given.function,
            sql=self.text(given, "sql"),
            inputs=self._inputs(given),
            id_column=self.text(given, "id") or usual.id_column,
            blocking=self.texts(given, "blocking"),
            comparisons=self._comparisons(given),
            threshold=usual.threshold if threshold is None else threshold,
            review=self.number(given, "review"),
            same_as=self.text(given, "same_as"),
            evidence=self.text(given, "evidence"),
        )

    def check(self, given: Given) -> CheckStep:
        """Return a check."""
        query = self.text(given, "query")
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
        algorithm, mutation = self.text(given, "algorithm"), self.text(given, "mutation")
        arguments = self._arguments(given)
        if (algorithm is None) == (mutation is None):
            self.refuse(given, "after takes either an algorithm or a mutation", key="mutation")
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
            write=self.text(given, "write"),
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
        condition = self.text(given, outcomes[0])
        if condition is None:
            return None
        return Expectation(
            name=given.name,
            condition=condition,
            outcome=cast("Outcome", outcomes[0]),
            max_ratio=self.number(given, "max_ratio"),
            place=given.place,
        )

    def unknown_key(self, given: Given, key: str, known: Sequence[str]) -> None:
        """Note a key that means nothing."""
        listed = f"known keys: {', '.join(known)}"
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
                given, f"'{given.name[:SHOWN]}' cannot be the name of a step", hint="use letters, digits and '_'"
            )

    def _check_source_function(self, given: Given) -> None:
        names = _parameters(given.function)
        if names is not None and len(names) != 1:
            told = f"({', '.join(names)})"
            self.refuse(given, f"the function of a source takes only the session, not {told}", hint="write (spark)")

    def _inputs(self, given: Given) -> tuple[str, ...]:
        """Return what the rows are made of; there is one way to say it."""
        ways = [key for key in ROWS if given.values.get(key) is not None]
        if given.function is not None:
            ways.append("function")
        if len(ways) != 1:
            found = f"has {' and '.join(ways)}; one of them is enough" if ways else f"needs {self._needed}"
            self.refuse(given, f"{given.kind} '{given.name}' {found}", key=ways[0] if ways else "")
        if given.function is not None:
            return self._function_inputs(given)
        one, sql = self.text(given, "input"), self.text(given, "sql")
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
        found = self.text(given, "incremental")
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
                self.refuse(
                    given, f"expect contains {shown_value(item)}, which is not an expectation", key="expect", hint=hint
                )
        return tuple(found)

    def _check_ratio(self, given: Given, item: Expectation) -> None:
        """Note what is wrong with an expectation that a function made."""
        place = item.place or given.place
        texts: dict[str, object] = {"the name": item.name, "the condition": item.condition}
        for what, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                self.mistakes.append(
                    mistake_at(
                        place, f"{what} of an expectation must be text, not {shown_value(text)}", step=given.name
                    )
                )
        ratio = item.max_ratio
        if ratio is not None and (not is_number(ratio) or not 0 <= ratio <= 1):
            message = f"max_ratio of '{item.name}' must be a number from 0 to 1, not {shown_value(ratio)}"
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
            if isinstance(column, str) and column and isinstance(method, str) and is_number(weight) and not rest:
                found.append((column, method, float(weight)))
            else:
                told = f"compare holds {shown_value(item)}, not a column, a method and a weight"
                self.refuse(given, told, key="compare", hint='such as ("name", "jaro_winkler", 2.0)')
        return tuple(found)

    def _arguments(self, given: Given) -> dict[str, Any]:
        value = given.values.get("arguments") or {}
        if not isinstance(value, Mapping):
            self.refuse(given, f"arguments must be a mapping, not {shown_value(value)}", key="arguments")
            value = {}
        edges = given.values.get("edges")
        return {
            **({} if edges is None else {"edges": frozen_value(edges)}),
            **{str(k): frozen_value(v) for k, v in value.items()},
        }


def _parameters(function: Callable[..., Any] | None) -> tuple[str, ...] | None:
    """Return the parameters that a function must be given; None if it takes any number of them."""
    if function is None:
        return ()
    kinds = inspect.signature(function).parameters.values()
    if any(one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD} for one in kinds):
        return None
    return tuple(one.name for one in kinds if one.default is one.empty)
