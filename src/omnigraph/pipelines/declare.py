"""Pipelines declared in Python, by decorators: the names of a function's parameters are its inputs.

A decorator returns the function as it is, so that it can be called and tested by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, TypedDict, TypeVar, Unpack, overload

from omnigraph.pipelines.given import KEYS, Declared, Given
from omnigraph.pipelines.model import (
    Declaration,
    Expectation,
    MissingEnd,
    OnDelete,
    Origins,
    Outcome,
    Place,
    Publish,
    StepMode,
)
from omnigraph.pipelines.parts import PartMaker
from omnigraph.values import MAIN, check_text

Function = TypeVar("Function", bound=Callable[..., Any])
Texts = str | Sequence[str]


def fail(name: str, condition: str, *, max_ratio: float | None = None) -> Expectation:
    """Return the rule that a condition holds for every row; a row it does not hold for ends the run."""
    return _expectation(name, condition, "fail", max_ratio)


def drop(name: str, condition: str, *, max_ratio: float | None = None) -> Expectation:
    """Return the rule that rows which a condition does not hold for are left out.

    The run fails if more than ``max_ratio`` of the rows are, a number from 0 to 1.
    """
    return _expectation(name, condition, "drop", max_ratio)


def quarantine(name: str, condition: str, *, max_ratio: float | None = None) -> Expectation:
    """Return the rule that rows which a condition does not hold for are put aside, to be repaired and replayed.

    The run fails if more than ``max_ratio`` of the rows are, a number from 0 to 1.
    """
    return _expectation(name, condition, "quarantine", max_ratio)


def warn(name: str, condition: str, *, max_ratio: float | None = None) -> Expectation:
    """Return the rule that rows which a condition does not hold for are counted and written.

    The run fails if more than ``max_ratio`` of the rows are, a number from 0 to 1.
    """
    return _expectation(name, condition, "warn", max_ratio)


def _expectation(name: str, condition: str, outcome: Outcome, max_ratio: float | None) -> Expectation:
    return Expectation(name=name, condition=condition, outcome=outcome, max_ratio=max_ratio, place=_caller(3))


class Rows(TypedDict, total=False):
    """How the rows of a type are made, beside what is said of node types or of edge types alone.

    Args:
        name: what other steps call it; the name of the function by default, or that of the type.
        sql: a statement whose rows they are, instead of a function.
        input: a step whose rows they are, instead of a function.
        set: expressions for properties, over the columns.
        key: an expression that is unique for an entity; not needed if the type has a key in the schema.
        mode: ``merge`` writes and replaces, ``append`` refuses rows that exist, ``overwrite`` removes all others,
            ``patch`` changes what columns are given for.
        deletes: a condition for rows that delete.
        sequence: an expression that orders the rows of a key; the greatest wins, also over earlier runs.
        dedupe: an order, such as ``updated_at DESC``; the first row of a key is kept.
        expect: rules about the rows.
        removes_missing: whether a full refresh deletes what is no longer there.
    """

    name: str | None
    sql: str | None
    input: str | None
    set: Mapping[str, str] | None
    key: str | None
    mode: StepMode
    deletes: str | None
    sequence: str | None
    dedupe: str | None
    expect: Sequence[Expectation] | Expectation
    removes_missing: bool


class Pipeline:
    """A pipeline: how tables of other systems become a graph.

    Its decorators declare the parts. What is wrong with them is told by :meth:`declaration`, all at once.

    Args:
        name: what runs, branches and reports call it.
        graph: the address of the graph; a run can name another.
        publish: ``direct`` commits to the branch, ``audit`` merges a branch of its own if all checks pass, ``propose``
            opens a proposal.
        branch: where runs write to.
        quarantine: where rows that are put aside are kept; beside the graph by default.
        origins: whether runs that read several files keep which of them each entity came from, ``files`` or ``none``.

    Raises:
        UsageError, ValueFormatError: the name is not a text.
    """

    def __init__(
        self,
        name: str,
        *,
        graph: str | None = None,
        publish: Publish = "direct",
        branch: str = MAIN,
        quarantine: str | None = None,
        origins: Origins = "files",
    ) -> None:
        check_text("name", name)
        self.name = name
        values = {
            "graph": graph,
            "publish": publish,
            "branch": branch,
            "quarantine": quarantine,
            "origins": origins,
        }
        self._given = Given(kind="pipeline", name=name, place=_caller(2), values=values)
        # In the order of their declaration; those that wait for a function have none yet.
        self._parts: list[_Part] = []

    def __repr__(self) -> str:
        return f"<Pipeline {self.name!r} with {len(self._parts)} parts>"

    @overload
    def source(self, name: Function, /) -> Function: ...
    @overload
    def source(
        self,
        name: str | None = None,
        *,
        format: str | None = None,
        path: Texts | None = None,
        options: Mapping[str, Any] | None = None,
        incremental: str | None = None,
    ) -> _Part: ...
    def source(
        self,
        name: Any = None,
        *,
        format: str | None = None,  # noqa: A002 - the word of Spark
        path: Texts | None = None,
        options: Mapping[str, Any] | None = None,
        incremental: str | None = None,
    ) -> Any:
        """Declare rows from elsewhere: a function of the session that returns a DataFrame, or files of a format.

        Args:
            name: what other steps call it; the name of the function by default.
            format: what Spark reads without a function: ``parquet``, ``csv``, ``json``, ``orc``, ``text``, ``jdbc``, …
            path: files, folders or patterns, one or several.
            options: settings of the reader.
            incremental: a column, of which only greater values than before are read, or ``files``: only new ones.
        """
        values = {"format": format, "path": path, "options": options, "incremental": incremental}
        return self._declare("source", name, values)

    @overload
    def view(self, name: Function, /) -> Function: ...
    @overload
    def view(
        self, name: str | None = None, *, sql: str | None = None, input: str | None = None, cache: bool = False
    ) -> _Part: ...
    def view(
        self,
        name: Any = None,
        *,
        sql: str | None = None,
        input: str | None = None,  # noqa: A002 - what it is
        cache: bool = False,
    ) -> Any:
        """Declare rows made of others: by a function whose parameters name them, or by a statement of SQL.

        Args:
            name: what other steps call it; the name of the function by default.
            sql: a statement over sources and other steps.
            input: the step whose rows these are, under another name.
            cache: whether it is computed once for all that use it.
        """
        return self._declare("view", name, {"sql": sql, "input": input, "cache": cache})

    def node(self, type: str, *, on_delete: OnDelete = "cascade", **rows: Unpack[Rows]) -> _Part:  # noqa: A002 - it is one
        """Declare the rows of a node type: columns become properties by name.

        Args:
            type: the node type.
            on_delete: whether the edges of a deleted node are deleted with it, or keep it from being deleted.
            rows: see :class:`Rows`.
        """
        return self._declare_type("node", {"type": type, "on_delete": on_delete, **rows})

    def edge(
        self,
        type: str,  # noqa: A002 - it is one
        *,
        src: str | None = None,
        dst: str | None = None,
        missing_end: MissingEnd = "fail",
        **rows: Unpack[Rows],
    ) -> _Part:
        """Declare the rows of an edge type: columns become properties by name.

        Args:
            type: the edge type.
            src: an expression for the id of the node it starts at, or ``Type(expression)`` over that type's key; the
                column ``from`` by default.
            dst: the same for the node it leads to; the column ``to`` by default.
            missing_end: whether an edge without an end fails, is put aside, or makes a node that has its key alone.
            rows: see :class:`Rows`.
        """
        return self._declare_type("edge", {"type": type, "src": src, "dst": dst, "missing_end": missing_end, **rows})

    def resolve(
        self,
        name: str | None = None,
        *,
        sql: str | None = None,
        input: str | None = None,  # noqa: A002 - what it is
        id: str | None = None,  # noqa: A002 - what it is
        blocking: Texts = (),
        compare: Sequence[tuple[str, str, float]] = (),
        threshold: float | None = None,
        review: float | None = None,
        same_as: str | None = None,
        evidence: str | None = None,
    ) -> _Part:
        """Declare that records which mean the same entity are joined: its rows have a column ``canonical_id``.

        Args:
            name: what other steps call it; the name of the function by default.
            sql: a statement whose rows are the records, instead of a function.
            input: a step whose rows are the records, instead of a function.
            id: the column that is unique for a record; ``id`` by default.
            blocking: expressions; only records that agree in one of them are compared.
            compare: column, method and weight of each comparison.
            threshold: the score from which on two records are the same; 0.85 by default.
            review: a lower score from which on pairs are kept for people to decide.
            same_as: the edge type from records to entities; it and the entities are written with the rows of the run,
                and entities keep their ids in later runs.
            evidence: the edge type from record to record that keeps the pairs, in its properties ``decision``,
                ``score`` and ``score_<column>``; what people decide there counts in the next run.
        """
        values = {
            "sql": sql,
            "input": input,
            "id": id,
            "blocking": blocking,
            "compare": compare,
            "threshold": threshold,
            "review": review,
            "same_as": same_as,
            "evidence": evidence,
        }
        part: _Part = self._declare("resolve", name, values)
        return part

    @overload
    def check(self, name: Function, /) -> Function: ...
    @overload
    def check(self, name: str | None = None, *, query: str | None = None) -> _Part: ...
    def check(self, name: Any = None, *, query: str | None = None) -> Any:
        """Declare a query that must return no row on the new state; a function returns its text.

        Args:
            name: what has to hold, for people; the name of the function by default.
            query: the text of the query, instead of a function.
        """
        return self._declare("check", name, {"query": query})

    def after(
        self,
        name: str | None = None,
        *,
        algorithm: str | None = None,
        edges: Texts | None = None,
        arguments: Mapping[str, Any] | None = None,
        write: str | None = None,
        mutation: str | None = None,
    ) -> None:
        """Declare what is written upon the new state, in the same run.

        Args:
            name: what reports call it; the name of the algorithm by default.
            algorithm: an algorithm, such as ``pagerank``.
            edges: the edge types that it walks, one or several; all by default.
            arguments: what it is told beside.
            write: the property that gets its result, ``score`` or ``Person.score``.
            mutation: the text of a mutation, instead of an algorithm.
        """
        values = {"algorithm": algorithm, "edges": edges, "arguments": arguments, "write": write, "mutation": mutation}
        usual = algorithm if isinstance(algorithm, str) else "mutation"
        self._declare("after", name, values, usual=usual)

    def declared(self) -> Declared:
        """Return what is declared as far as it can be understood, and what is wrong with the rest."""
        maker = PartMaker(has_functions=True)
        whole = maker.pipeline(self._given)
        found: dict[str, list[Any]] = {kind: [] for kind in ("source", "view", "resolve", "type", "check", "after")}
        for part in self._parts:
            made = part.given
            for key in set(made.values) - set(KEYS[made.kind]):
                maker.unknown_key(made, key, KEYS[made.kind])
            if made.name == "":
                maker.refuse(made, f"this {made.kind} has no name", hint="use it as a decorator, or pass a name")
                continue
            kind = "type" if made.kind in {"node", "edge"} else made.kind
            make = maker.type_step if kind == "type" else getattr(maker, kind)
            found[kind].append(make(made))
        declaration = replace(
            whole,
            sources=tuple(found["source"]),
            views=tuple(found["view"]),
            resolves=tuple(found["resolve"]),
            types=tuple(found["type"]),
            checks=tuple(found["check"]),
            afters=tuple(found["after"]),
        )
        return Declared(declaration=declaration, mistakes=tuple(maker.mistakes))

    def declaration(self) -> Declaration:
        """Return what is declared.

        Raises:
            PipelineInvalidError: a part of it makes no sense; it has all mistakes, each with its place.
        """
        return self.declared().unwrap()

    def _declare_type(self, kind: str, values: dict[str, Any]) -> _Part:
        name = values.pop("name", None)
        part: _Part = self._declare(kind, name, values, usual=values["type"], depth=4)
        return part

    def _declare(self, kind: str, name: Any, values: Mapping[str, Any], *, usual: object = None, depth: int = 3) -> Any:
        function = name if callable(name) else None
        named = name if isinstance(name, str) else usual if isinstance(usual, str) else ""
        part = _Part(Given(kind=kind, name=named, place=_caller(depth), values=values), has_name=isinstance(name, str))
        self._parts.append(part)
        return part if function is None else part(function)


class _Part:
    """A part that was declared; as a decorator it takes the function that makes its rows."""

    def __init__(self, given: Given, *, has_name: bool) -> None:
        self.given = given
        self._has_name = has_name

    def __call__(self, function: Function) -> Function:
        """Take the function."""
        name = self.given.name if self._has_name else getattr(function, "__name__", "")
        self.given = replace(self.given, name=name, place=_place_of(function, self.given.place), function=function)
        return function


def _place_of(function: Any, usual: Place) -> Place:
    """Return where a function is defined, its decorators included."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return usual if code is None else Place(file=code.co_filename, line=code.co_firstlineno)


def _caller(depth: int) -> Place:
    """Return the line that is being run so many calls above this function."""
    frame: FrameType | None = inspect.currentframe()
    for _ in range(depth):
        frame = None if frame is None else frame.f_back
    return (
        Place(file="<unknown>", line=1) if frame is None else Place(file=frame.f_code.co_filename, line=frame.f_lineno)
    )
