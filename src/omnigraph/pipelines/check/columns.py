"""What is wrong with the columns of frames: Spark is asked about frames without rows, and their columns are compared.

Functions are called with frames that have columns and no rows, so that nothing is read whatever they do. A step whose
rows cannot be made leaves those after it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load.reading.parquet import can_parse
from omnigraph.engine.load.reading.tables import column_kind, takes_integers
from omnigraph.engine.load.sources.dialect import is_text
from omnigraph.engine.rows.changes import OP, SEQ, can_mark
from omnigraph.errors import Mistake, UsageError
from omnigraph.pipelines.check.resolutions import is_partial, unstored
from omnigraph.pipelines.check.settings import texts_of
from omnigraph.pipelines.check.types import ENDS, owner_of, required_of
from omnigraph.pipelines.mistakes import called, mistake_at, near_name, step_mistake
from omnigraph.pipelines.model import ByColumn, Declaration, Place, ResolveStep, SourceStep, TypeStep
from omnigraph.pipelines.order import OrderedStep, kind_of, ordered_steps
from omnigraph.pipelines.sql import end_of, flaw_of, names_in
from omnigraph.spark.steps.analysis import Flaw, FrameAnalyst, columns_of, flaw_of_exception, is_frame

CANONICAL = "canonical_id"
"""The column that a resolution adds."""

_TEXT_FORMATS = frozenset({"csv", "text"})
_TEXTS = ("normalised", "jaro_winkler", "token_overlap")


def column_mistakes(
    declaration: Declaration,
    catalog: Catalog | None,
    spark: Any,
    sources: Mapping[str, Any],
    *,
    is_stream: bool = False,
    storage: Mapping[str, str] | None = None,
) -> list[Mistake]:
    """Return what is wrong with columns; steps must have an order. ``sources`` are frames that are there already."""
    looking = _Looking(FrameAnalyst(spark, storage), catalog, sources, declaration, is_stream=is_stream)
    for step in ordered_steps(declaration):
        looking.take(step)
    return looking.mistakes


class _Looking:
    """Makes the frames of steps in their order, and notes what is wrong with their columns."""

    def __init__(
        self,
        analyst: FrameAnalyst,
        catalog: Catalog | None,
        sources: Mapping[str, Any],
        declaration: Declaration,
        *,
        is_stream: bool,
    ) -> None:
        self._analyst = analyst
        self._catalog = catalog
        self._sources = sources
        self._declaration = declaration
        self._is_stream = is_stream
        self._frames: dict[str, Any] = {}
        # Steps whose rows come from files that hold nothing but texts.
        self._written: set[str] = set()
        self.mistakes: list[Mistake] = []

    def take(self, step: OrderedStep) -> None:
        """Make the frame of a step, unless one that it needs could not be made."""
        if not isinstance(step, SourceStep) and any(name not in self._frames for name in step.inputs):
            return
        if isinstance(step, SourceStep):
            is_written = step.format in _TEXT_FORMATS
        else:
            is_written = not self._written.isdisjoint(step.inputs)
        if is_written:
            self._written.add(step.name)
        made = self._made(step)
        if isinstance(made, Mistake):
            self.mistakes.append(made)
            return
        columns = columns_of(made)
        found = [*self._mistakes(step, made, columns)]
        self.mistakes += found
        if isinstance(step, ResolveStep) and CANONICAL not in columns.names:
            made = self._analyst.with_text(made, CANONICAL)
        self._frames[step.name] = made

    def _made(self, step: OrderedStep) -> Any:
        """Return the frame of a step without rows, or why there is none."""
        if step.name in self._sources:
            return self._emptied(step, self._sources[step.name])
        inputs = () if isinstance(step, SourceStep) else tuple(self._frames[name] for name in step.inputs)
        if step.function is not None:
            given = (self._analyst.spark,) if isinstance(step, SourceStep) else inputs
            made = called(step, step.function, given, explain=_explained)
            if isinstance(made, Mistake):
                return made
            if not is_frame(made):
                return step_mistake(
                    step, f"{kind_of(step)} '{step.name}' must return a DataFrame, not {type(made).__name__}"
                )
            return self._emptied(step, made)
        if isinstance(step, SourceStep):
            read = self._analyst.read(step.format or "parquet", step.paths, step.options)
            return step_mistake(step, read.message, read.hint, key="path") if isinstance(read, Flaw) else read
        if step.sql is None:
            return inputs[0]
        if flaw_of(step.sql) is not None:
            return step_mistake(step, f"sql does not parse: {flaw_of(step.sql)}: {step.sql}", key="sql")
        ran = self._analyst.run_sql(step.sql, dict(zip(step.inputs, inputs, strict=True)))
        return step_mistake(step, ran.message, ran.hint, key="sql") if isinstance(ran, Flaw) else ran

    def _emptied(self, step: OrderedStep, frame: Any) -> Any:
        def look() -> Any:
            return self._analyst.empty(frame)

        return called(step, look, explain=_explained)

    def _mistakes(self, step: OrderedStep, frame: Any, columns: pa.Schema) -> Iterator[Mistake]:
        if isinstance(step, SourceStep):
            yield from _source_mistakes(step, columns)
        if isinstance(step, ResolveStep):
            yield from self._resolve_mistakes(step, frame, columns)
        if isinstance(step, TypeStep):
            yield from self._rule_mistakes(step, frame)
            owner = None if self._catalog is None else owner_of(step, self._catalog)
            if owner is not None:
                yield from self._property_mistakes(step, owner, frame, columns)

    def _typed(self, step: TypeStep | ResolveStep, frame: Any, key: str, text: str) -> Iterator[Mistake | pa.DataType]:
        """Yield the type of an expression, or what is wrong with it; nothing if that is told already."""
        if flaw_of(text) is not None:
            return
        found = self._analyst.type_of(frame, text)
        yield (
            step_mistake(step, f"{key}: {found.message}: {text}", found.hint, key=key)
            if isinstance(found, Flaw)
            else found
        )

    def _rule_mistakes(self, step: TypeStep, frame: Any) -> Iterator[Mistake]:
        """Yield expressions that do not fit the columns, whatever the schema says."""
        seen = self._analyst.with_set(frame, step.set)
        for one in step.expect:
            told = f"the condition of '{one.name}'"
            yield from self._condition_mistakes(step, seen, one.condition, told, one.place or step.place)
        if step.deletes is not None:
            yield from self._condition_mistakes(step, frame, step.deletes, "deletes", step.place_of("deletes"))
        for found in () if step.sequence is None else self._typed(step, frame, "sequence", step.sequence):
            if isinstance(found, Mistake):
                yield found
            elif not can_mark(SEQ, found):
                message = f"sequence must hold whole numbers, instants or text, not {found}: {step.sequence}"
                yield step_mistake(step, message, key="sequence")
        if step.dedupe is not None and flaw_of(step.dedupe) is None:
            flaw = self._analyst.order_flaw(frame, step.dedupe)
            if flaw is not None:
                yield step_mistake(step, f"dedupe: {flaw.message}: {step.dedupe}", flaw.hint, key="dedupe")

    def _condition_mistakes(
        self, step: TypeStep, frame: Any, condition: str, told: str, place: Place
    ) -> Iterator[Mistake]:
        if flaw_of(condition) is not None:
            return
        found = self._analyst.type_of(frame, condition)
        if isinstance(found, Flaw):
            yield mistake_at(place, f"{told}: {found.message}: {condition}", step=step.name, hint=found.hint)
        elif not (pa.types.is_boolean(found) or pa.types.is_null(found)):
            yield mistake_at(place, f"{told} is {found}, not true or false: {condition}", step=step.name)

    def _property_mistakes(
        self, step: TypeStep, owner: NodeType | EdgeType, frame: Any, columns: pa.Schema
    ) -> Iterator[Mistake]:
        """Yield what is wrong with the columns and expressions for properties, the key and the ends."""
        yield from _unused(step, owner, columns)
        for name in columns.names:
            if name not in step.set and owner.get(name) is not None and columns.names.count(name) == 1:
                yield from self._misfit(step, owner, name, columns.field(name).type, f"column '{name}'", key="")
        for name, text in step.set.items():
            if owner.get(name) is not None:
                yield from self._misfits(step, owner, name, text, frame, key=f"set.{name}")
        given = {*columns.names, *step.set}
        key = owner.key or ()
        if step.key is not None and len(key) < 2:
            target = key[0] if key else "id"
            given.add(target)
            yield from self._misfits(step, owner, target, step.key, frame, key="key")
        if isinstance(owner, EdgeType):
            for side, spellings in ENDS.items():
                yield from self._end_mistakes(step, owner, side, spellings, frame, columns)
        for name in required_of(owner) if step.mode != "patch" else key:
            if name not in given and name not in ENDS:
                what = f"the key of {owner.name}" if name in key else f"which {owner.name} requires"
                hint = near_name(name, _unknown_columns(step, owner, columns)) or f"add a column {name}, or set it"
                yield step_mistake(step, f"'{step.name}' has no column '{name}', {what}", hint)

    def _misfits(
        self, step: TypeStep, owner: NodeType | EdgeType, target: str, text: str, frame: Any, *, key: str
    ) -> Iterator[Mistake]:
        for found in self._typed(step, frame, key, text):
            if isinstance(found, Mistake):
                yield found
            # An expression for an id is made a text, whatever single value it is.
            elif target not in {"id", *ENDS} or pa.types.is_nested(found):
                yield from self._misfit(step, owner, target, found, f"{key} ({text})", key=key)

    def _misfit(
        self, step: TypeStep, owner: NodeType | EdgeType, target: str, given: pa.DataType, told: str, *, key: str
    ) -> Iterator[Mistake]:
        """Yield a mistake if values of a type cannot become values of a property."""
        kind = column_kind(owner, target)
        if can_parse(kind, given) or (takes_integers(owner, target) and pa.types.is_integer(given)):
            return
        if is_text(given) and step.name in self._written:
            # They are read as a load reads them; one that stands for no value is a matter of its row.
            return
        what = f"property '{target}' of {owner.name}"
        if target in {"id", *ENDS}:
            what = f"{'the id' if target == 'id' else 'an end'} of {owner.name}"
        yield step_mistake(step, f"{told} is {given}, and {what} is {kind}", key=key)

    def _end_mistakes(
        self,
        step: TypeStep,
        owner: EdgeType,
        side: str,
        spellings: tuple[str, ...],
        frame: Any,
        columns: pa.Schema,
    ) -> Iterator[Mistake]:
        text = step.src if side == "src" else step.dst
        if text is None:
            found = [name for name in spellings if name in columns.names]
            # Deletes by id do without ends; whether a row is one stands in the row.
            if not found and OP not in columns.names:
                hint = f"add a column {spellings[0]}, or set {side}"
                yield step_mistake(step, f"'{step.name}' has no column '{spellings[0]}', an end of {owner.name}", hint)
            for name in found[:1]:
                yield from self._misfit(step, owner, side, columns.field(name).type, f"column '{name}'", key="")
            return
        assert self._catalog is not None  # noqa: S101 - there is an owner
        try:
            end = end_of(text, self._catalog.nodes)
        except UsageError:
            return
        node = self._catalog.nodes[owner.from_type if side == "src" else owner.to_type]
        if end.type_name is None:
            yield from self._misfits(step, owner, side, text, frame, key=side)
        elif end.type_name == node.name and len(end.expressions) == len(node.key or ("id",)) and all(end.expressions):
            for target, part in zip(node.key or ("id",), end.expressions, strict=True):
                yield from self._misfits(step, node, target, part, frame, key=side)

    def _resolve_mistakes(self, step: ResolveStep, frame: Any, columns: pa.Schema) -> Iterator[Mistake]:
        if CANONICAL in columns.names:
            yield step_mistake(step, f"its records have a column '{CANONICAL}' already", "leave it out of them")
        for key, name in (("id", step.id_column), *(("compare", one[0]) for one in step.comparisons)):
            if name not in columns.names:
                hint = near_name(name, columns.names) or f"its columns are {', '.join(columns.names)}"
                yield step_mistake(step, f"column '{name}' does not exist", hint, key=key)
        for name, method, _ in step.comparisons:
            if name in columns.names:
                kind = columns.field(name).type
                if method in _TEXTS and not pa.types.is_string(kind):
                    yield step_mistake(step, f"{method} compares texts, and '{name}' is {kind}", key="compare")
                if method == "vector_distance" and not pa.types.is_list(kind):
                    yield step_mistake(
                        step, f"{method} compares lists of numbers, and '{name}' is {kind}", key="compare"
                    )
        for number, text in enumerate(step.blocking):
            found = self._typed(step, frame, f"blocking.{number}", text)
            yield from (one for one in found if isinstance(one, Mistake))
        yield from self._unstored_mistakes(step, columns)

    def _unstored_mistakes(self, step: ResolveStep, columns: pa.Schema) -> Iterator[Mistake]:
        """Yield columns that a run needs of records of earlier runs, and that are not stored."""
        edge = None if self._catalog is None or step.same_as is None else self._catalog.edges.get(step.same_as)
        if edge is None or not is_partial(self._declaration, step, is_stream=self._is_stream):
            return
        assert self._catalog is not None  # noqa: S101 - there is an edge
        records = self._catalog.nodes[edge.from_type]
        blocking = frozenset[str]().union(*map(names_in, step.blocking))
        yield from unstored(
            step, records, [name for name in columns.names if name.lower() in blocking], used_by="makes blocks"
        )
        users = [one.name for one in self._declaration.frame_steps if step.name in one.inputs]
        if users:
            compared = {column for column, _, _ in step.comparisons}
            others = [name for name in columns.names if name not in compared and name.lower() not in blocking]
            yield from unstored(step, records, others, used_by=f"is passed to '{users[0]}'")


def _explained(problem: BaseException) -> tuple[str, str | None] | None:
    flaw = flaw_of_exception(problem)
    return None if flaw is None else (flaw.message, flaw.hint)


def _source_mistakes(step: SourceStep, columns: pa.Schema) -> Iterator[Mistake]:
    if not isinstance(step.incremental, ByColumn):
        return
    name = step.incremental.column
    if name not in columns.names:
        hint = near_name(name, columns.names) or f"its columns are {', '.join(columns.names)}"
        yield step_mistake(
            step, f"source '{step.name}' has no column '{name}' for incremental reads", hint, key="incremental"
        )
        return
    kind = columns.field(name).type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        yield step_mistake(step, f"column '{name}' is {kind}, which has no increasing order", key="incremental")


def _known_columns(owner: NodeType | EdgeType) -> set[str]:
    ends = {name for spellings in ENDS.values() for name in spellings} if isinstance(owner, EdgeType) else set()
    return {"id", OP, SEQ, *ends, *(prop.name for prop in owner.properties)}


def _unknown_columns(step: TypeStep, owner: NodeType | EdgeType, columns: pa.Schema) -> list[str]:
    """Return columns that are no property and occur in no expression."""
    texts = [*texts_of(step).values(), *(one.condition for one in step.expect)]
    used = frozenset[str]().union(*map(names_in, texts))
    known = _known_columns(owner)
    return [name for name in columns.names if name not in known and name.lower() not in used]


def _unused(step: TypeStep, owner: NodeType | EdgeType, columns: pa.Schema) -> Iterator[Mistake]:
    # Whoever takes the rows of an input as they are has not chosen its columns.
    is_chosen = step.function is not None or step.sql is not None
    for name in _unknown_columns(step, owner, columns) if is_chosen else ():
        missing = [prop.name for prop in owner.properties if prop.name not in columns.names]
        hint = near_name(name, missing) or "leave it out, or use it in an expression"
        yield step_mistake(step, f"column '{name}' of '{step.name}' is not a property of {owner.name}", hint)
    for name in dict.fromkeys(columns.names):
        if columns.names.count(name) > 1:
            yield step_mistake(step, f"two columns of '{step.name}' are called '{name}'")
