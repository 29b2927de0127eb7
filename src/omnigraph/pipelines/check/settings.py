"""What is wrong with a declaration by itself: texts that are no SQL, and settings that do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from omnigraph.errors import Mistake
from omnigraph.pipelines.mistakes import mistake_at, near_name, step_mistake
from omnigraph.pipelines.model import (
    ByFiles,
    ComparisonMethod,
    Declaration,
    FrameStep,
    ResolveStep,
    SourceStep,
    TypeStep,
)
from omnigraph.pipelines.sql import flaw_of

# Formats of Spark whose rows are in files.
FILE_FORMATS = ("parquet", "csv", "json", "jsonl", "orc", "text")
_FORMATS = (*FILE_FORMATS, "avro", "binaryFile", "delta", "iceberg", "jdbc", "kafka", "omnigraph", "xml")


def setting_mistakes(declaration: Declaration) -> Iterator[Mistake]:
    """Yield what is wrong without a schema."""
    for source in declaration.sources:
        yield from _source_mistakes(source)
    for step in declaration.frame_steps:
        yield from _sql_mistakes(step)
    for resolve in declaration.resolves:
        yield from _resolve_mistakes(resolve)
    for step in declaration.types:
        yield from _combination_mistakes(step)
        yield from _expectation_mistakes(step)
    yield from _shared_types(declaration)


def _source_mistakes(source: SourceStep) -> Iterator[Mistake]:
    form = source.format
    if form is not None and form not in _FORMATS:
        near = near_name(form, _FORMATS)
        # Spark can be given more formats, so that only what looks like a slip is one.
        if near is not None:
            yield step_mistake(source, f"unknown format '{form}'", near, key="format")
    if form in FILE_FORMATS and not source.paths:
        yield step_mistake(source, f"a source of format {form} needs a path")
    if isinstance(source.incremental, ByFiles) and not source.paths and (form is None or form in _FORMATS):
        why = "a function" if source.function is not None else f"format {form}"
        hint = "set format and path, or an incremental column"
        yield step_mistake(source, f"incremental by files needs a path, and {why} has none", hint, key="incremental")


def _sql_mistakes(step: FrameStep) -> Iterator[Mistake]:
    for key, text in texts_of(step).items():
        flaw = flaw_of(text)
        if flaw is not None:
            yield step_mistake(step, f"{key} does not parse: {flaw}: {text}", key=key)


def texts_of(step: FrameStep) -> dict[str, str]:
    """Return everything that a step says in SQL, but for its expectations, by the key that it stands under."""
    texts: dict[str, str | None] = {"sql": step.sql}
    if isinstance(step, TypeStep):
        texts |= {f"set.{name}": text for name, text in step.set.items()}
        texts |= {name: getattr(step, name) for name in ("key", "src", "dst", "deletes", "sequence", "dedupe")}
    if isinstance(step, ResolveStep):
        texts |= {f"blocking.{number}": text for number, text in enumerate(step.blocking)}
    return {key: text for key, text in texts.items() if text is not None}


def _expectation_mistakes(step: TypeStep) -> Iterator[Mistake]:
    seen: set[str] = set()
    for one in step.expect:
        place = one.place or step.place
        if one.name in seen:
            yield mistake_at(place, f"two expectations have the name '{one.name}'", step=step.name)
        seen.add(one.name)
        flaw = flaw_of(one.condition)
        if flaw is not None:
            message = f"the condition of '{one.name}' does not parse: {flaw}: {one.condition}"
            yield mistake_at(place, message, step=step.name)
        if one.outcome == "fail" and one.max_ratio is not None:
            message = f"'{one.name}' fails at the first row, so max_ratio has no effect"
            yield mistake_at(place, message, step=step.name, hint="leave it out, or use warn")


def _combination_mistakes(step: TypeStep) -> Iterator[Mistake]:
    is_log = step.mode in {"merge", "patch"}
    for what in ("deletes", "sequence"):
        if getattr(step, what) is not None and not is_log:
            yield step_mistake(step, f"{what} has no effect with mode {step.mode}", "use merge or patch", key=what)
    if step.dedupe is not None and step.sequence is not None:
        yield step_mistake(
            step,
            "dedupe cannot be combined with sequence, which keeps the greatest row of a key",
            "leave out one",
            key="dedupe",
        )
    if step.removes_missing and step.mode == "overwrite":
        yield step_mistake(
            step,
            "removes_missing has no effect with mode overwrite, which removes them in every run",
            key="removes_missing",
        )
    if step.removes_missing and step.mode in {"append", "patch"}:
        yield step_mistake(
            step, f"removes_missing cannot be combined with mode {step.mode}", "use merge", key="removes_missing"
        )
    deletes = step.deletes is not None or step.removes_missing or step.mode == "overwrite"
    if step.on_delete == "refuse" and not deletes:
        yield step_mistake(
            step,
            "on_delete has no effect in a step that deletes nothing",
            "set deletes, or leave it out",
            key="on_delete",
        )


def _shared_types(declaration: Declaration) -> Iterator[Mistake]:
    """Yield steps whose type another step writes already: of their rows nobody could say what became of whose."""
    first: dict[tuple[str, str], str] = {}
    for resolve in declaration.resolves:
        for key in ("same_as", "evidence"):
            name = getattr(resolve, key)
            before = None if name is None else first.setdefault(("edge", name), f"{resolve.name}.{key}")
            if before not in {None, f"{resolve.name}.{key}"}:
                yield step_mistake(resolve, f"'{before}' writes {name} already", "use another edge type", key=key)
    for step in declaration.types:
        before = first.setdefault((step.kind, step.type_name), step.name)
        if before != step.name:
            hint = "combine them into one step, with a view that unites their rows"
            if "." in before:
                hint = "leave the step out: a resolution writes all edges of the type"
            yield step_mistake(step, f"'{before}' writes {step.type_name} already", hint, key="type")


def _resolve_mistakes(step: ResolveStep) -> Iterator[Mistake]:
    if step.evidence is not None and step.same_as is None:
        hint = "name the edge type from records to entities in same_as"
        yield step_mistake(step, "evidence needs same_as: it is stored for stored entities", hint, key="evidence")
    if not step.blocking:
        yield step_mistake(
            step, f"resolve '{step.name}' needs blocking", "expressions; records that agree in one are compared"
        )
    if not step.comparisons:
        yield step_mistake(step, f"resolve '{step.name}' needs compare", 'such as [("name", "jaro_winkler", 1.0)]')
    yield from _comparison_mistakes(step)
    if not step.threshold:
        yield step_mistake(step, "threshold must be greater than 0", key="threshold")
    if step.review is not None and not 0 < step.review < step.threshold:
        yield step_mistake(
            step, f"review must be lower than the threshold {step.threshold:g}, not {step.review:g}", key="review"
        )


def _comparison_mistakes(step: ResolveStep) -> Iterator[Mistake]:
    known = get_args(ComparisonMethod)
    columns = [column for column, _, _ in step.comparisons]
    for column in dict.fromkeys(columns):
        if columns.count(column) > 1:
            yield step_mistake(step, f"compare has '{column}' twice", "a column is compared in one way", key="compare")
    for column, method, weight in step.comparisons:
        if method not in known:
            hint = near_name(method, known) or f"known methods: {', '.join(known)}"
            yield step_mistake(step, f"unknown method '{method}' to compare '{column}'", hint, key="compare")
        if weight <= 0:
            yield step_mistake(step, f"the weight of '{column}' must be greater than 0, not {weight:g}", key="compare")
