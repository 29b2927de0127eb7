"""What a pipeline declares: sources, views, the rows of types, what must hold, and what follows.

A file in Python and one in YAML make the same values of these, and everything else works with them alone.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from types import MappingProxyType
from typing import Any, Literal

from omnigraph.records import record

Publish = Literal["direct", "audit", "propose"]
"""``direct`` commits to the branch, ``audit`` merges a branch of its own if checks pass, ``propose`` proposes it."""

Origins = Literal["files", "none"]
"""Whether runs that read several files keep which of them each entity came from."""

Outcome = Literal["fail", "drop", "quarantine", "warn"]
"""What becomes of a row that an expectation does not hold for; ``fail`` ends the run."""

StepMode = Literal["merge", "append", "overwrite", "patch"]
"""What becomes of stored rows: replaced, refused, removed with all others, or changed where columns are given."""

MissingEnd = Literal["fail", "quarantine", "stub"]
"""What becomes of an edge whose end does not exist; ``stub`` makes a node that has its key alone."""

OnDelete = Literal["cascade", "refuse"]
"""What becomes of the edges of a node that is deleted."""

ComparisonMethod = Literal["exact", "normalised", "jaro_winkler", "token_overlap", "vector_distance"]
"""How values of two records are compared to resolve entities."""


@record
class Place:
    """Where something is declared: a file, and the line of a function or of a node of YAML."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@record
class Expectation:
    """A rule about rows, as a condition in SQL that holds for good ones.

    ``max_ratio``: the run fails when the rule does not hold for a larger share of the rows, whatever the outcome.
    """

    name: str
    condition: str
    outcome: Outcome
    max_ratio: float | None = None
    place: Place | None = None


@record
class ByColumn:
    """Only rows whose column is greater than it ever was are read."""

    column: str


@record
class ByFiles:
    """Only files that were not read before, or have changed since, are read."""


Incremental = ByColumn | ByFiles | None


@record
class Part:
    """What every step has: a name, where it is declared, and where its keys are, if they have lines of their own."""

    name: str
    place: Place
    places: Mapping[str, Place] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)

    def place_of(self, key: str) -> Place:
        """Return where a key stands; the step itself if that is all that is known."""
        return self.places.get(key, self.place)


@record
class SourceStep(Part):
    """Rows from elsewhere: what a function returns, or files or tables of a format.

    ``function`` is called with the session of Spark. ``paths`` are files, folders or patterns; formats such as ``jdbc``
    have none, and say in ``options`` where their rows are.
    """

    function: Callable[..., Any] | None = None
    format: str | None = None
    paths: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    incremental: Incremental = None


@record
class ViewStep(Part):
    """Rows made of others: by a function whose parameters name them, or by SQL that does.

    As with every step that makes rows of others, without function and SQL they are the rows of the one input.
    """

    function: Callable[..., Any] | None = None
    sql: str | None = None
    inputs: tuple[str, ...] = ()
    is_cached: bool = False


@record
class TypeStep(Part):
    """The rows of a node type or an edge type.

    Columns are properties by name, unless ``set`` gives an expression for a property. ``key`` is an expression that
    is unique for an entity; of a node type with a key in the schema it may be left out. ``src`` and ``dst`` are
    expressions for the ends of an edge, or ``Type(expression)`` over the key of the type at that end.

    ``deletes`` is a condition for rows that delete, ``sequence`` an expression that orders the rows of a key: the
    greatest wins, also over rows of earlier runs. ``dedupe`` is an order that keeps the first row of a key.
    ``removes_missing``: a full refresh deletes what the source no longer has.
    """

    kind: Literal["node", "edge"]
    type_name: str
    function: Callable[..., Any] | None = None
    sql: str | None = None
    inputs: tuple[str, ...] = ()
    set: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    key: str | None = None
    src: str | None = None
    dst: str | None = None
    mode: StepMode = "merge"
    deletes: str | None = None
    sequence: str | None = None
    on_delete: OnDelete = "cascade"
    dedupe: str | None = None
    missing_end: MissingEnd = "fail"
    expect: tuple[Expectation, ...] = ()
    removes_missing: bool = False


@record
class ResolveStep(Part):
    """Records that mean the same entity are joined: a view of its input with the column ``canonical_id``.

    ``comparisons`` are tuples of column, method and weight. ``same_as`` names the edge type from records to entities:
    runs keep it, and with it the ids of entities. ``evidence`` names the edge type between records that keeps the
    pairs, and what people decide about them.
    """

    function: Callable[..., Any] | None = None
    sql: str | None = None
    inputs: tuple[str, ...] = ()
    id_column: str = "id"
    blocking: tuple[str, ...] = ()
    comparisons: tuple[tuple[str, str, float], ...] = ()
    threshold: float = 0.85
    review: float | None = None
    same_as: str | None = None
    evidence: str | None = None


@record
class CheckStep(Part):
    """A query over the new state that must return no row; ``function`` returns its text."""

    function: Callable[[], str] | None = None
    query: str | None = None


@record
class AfterStep(Part):
    """What is written upon the new state in the same run: the result of an algorithm, or a mutation."""

    algorithm: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    write: str | None = None
    mutation: str | None = None


FrameStep = ViewStep | TypeStep | ResolveStep
"""Steps that make rows of other rows."""

Step = SourceStep | ViewStep | TypeStep | ResolveStep | CheckStep | AfterStep


@record
class Declaration:
    """A whole pipeline, in the order in which its parts were declared."""

    name: str
    place: Place
    graph: str | None = None
    branch: str = "main"
    publish: Publish = "direct"
    sources: tuple[SourceStep, ...] = ()
    views: tuple[ViewStep, ...] = ()
    resolves: tuple[ResolveStep, ...] = ()
    types: tuple[TypeStep, ...] = ()
    checks: tuple[CheckStep, ...] = ()
    afters: tuple[AfterStep, ...] = ()
    quarantine: str | None = None
    origins: Origins = "files"

    @property
    def frame_steps(self) -> tuple[FrameStep, ...]:
        """The steps that make rows of other rows."""
        return (*self.views, *self.resolves, *self.types)

    def __iter__(self) -> Iterator[Step]:
        return iter((*self.sources, *self.frame_steps, *self.checks, *self.afters))

    @property
    def digest(self) -> str:
        """What stands for the declaration; the text of a function is part of it, the place of it is not."""
        told = json.dumps([_content(step) for step in self], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]


_PLACES = frozenset({"place", "places"})


def _content(value: object) -> Any:
    """Return a value as JSON, without places; functions are their text, and what has none is its name."""
    if callable(value) and not isinstance(value, type):
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):
            return getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, Mapping):
        return {str(key): _content(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_content(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        kept = {part.name: _content(getattr(value, part.name)) for part in fields(value) if part.name not in _PLACES}
        return {"": type(value).__name__, **kept}
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
