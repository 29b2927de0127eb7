"""Blocks inside a match: rows are numbered, and the inner steps run once over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.context import FrameRows, QueryContext
from omnigraph.engine.query.frame import MISSING, Frame, concatenate
from omnigraph.engine.query.functions.kernels import value_arrow_type
from omnigraph.engine.query.operators.neighbourhood import neighbourhood
from omnigraph.engine.query.steps import AntiJoinStep, Block, BlockStep, OptionalStep, Step, is_one_hop
from omnigraph.engine.query.topology import neighbour_counts
from omnigraph.engine.query.values import compute
from omnigraph.ir.model import Expand, Unwind

RunSteps = Callable[[QueryContext, tuple[Step, ...], Iterator[Frame]], Iterator[Frame]]
Counts = npt.NDArray[np.int64]

_TAG_BYTES = 8


def anti_join(context: QueryContext, step: AntiJoinStep, frames: Iterator[Frame], run: RunSteps) -> Iterator[Frame]:
    """Keep the rows for which the inner steps find nothing."""
    for frame in frames:
        context.limits.check()
        found = _neighbours(context, step, frame) if step.is_existence else _solutions(context, step, frame, run)
        kept = frame.keep(found == 0)
        if kept.length:
            yield kept


def block_value(context: QueryContext, step: BlockStep, frames: Iterator[Frame], run: RunSteps) -> Iterator[Frame]:
    """Give every row the number of its solutions, or whether it has any."""
    for frame in frames:
        context.limits.check(_TAG_BYTES * frame.length)
        counts = _neighbours(context, step, frame) if is_one_hop(step) else _solutions(context, step, frame, run)
        found = pa.array(counts > 0) if step.kind == "exists" else pa.array(counts)
        yield frame.carrying({step.name: found})


def optional_join(context: QueryContext, step: OptionalStep, frames: Iterator[Frame], run: RunSteps) -> Iterator[Frame]:
    """Join every row with its solutions, and keep it with everything new missing where it has none."""
    for frame in frames:
        tag, solved = _run_block(context, step, frame, run)
        parts = [_only(found, step, tag) for found in solved]
        found = concatenate(parts) if parts else _nothing(step, tag)
        rows = found.ids[tag]
        has_none = np.ones(frame.length, dtype=np.bool_)
        has_none[rows] = False
        lonely = np.flatnonzero(has_none)
        joined = concatenate([found, _missing(found, step, tag, lonely)])
        context.limits.check(2 * joined.size_bytes)
        in_order = joined.take(np.argsort(joined.ids[tag], kind="stable"))
        ids = {name: values for name, values in in_order.ids.items() if name != tag}
        yield frame.take(in_order.ids[tag]).binding(ids).carrying(in_order.values)


def unwind(context: QueryContext, step: Unwind, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Make one row per item of a list; a list that is NULL has none."""
    for frame in frames:
        lists = compute(step.items, FrameRows(context, frame))
        if pa.types.is_null(lists.type):
            continue
        items, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
        context.limits.check(items.nbytes + _TAG_BYTES * len(rows) * (len(frame.ids) + 1))
        if len(rows):
            yield frame.take(rows.to_numpy(zero_copy_only=False)).carrying({step.name: items})


def _neighbours(context: QueryContext, step: AntiJoinStep | BlockStep, frame: Frame) -> Counts:
    expand = step.steps[0]
    assert isinstance(expand, Expand)  # noqa: S101 - asked before
    sources = frame.ids[expand.source]
    there = sources != MISSING
    near = neighbourhood(context, expand.edge, expand.direction, sources[there], is_sorted=False)
    counts = np.zeros(frame.length, dtype=np.int64)
    by_edge = expand.edge_variable is not None
    counts[there] = neighbour_counts(near.links, near.source_codes(sources[there]), by_edge=by_edge)
    return counts


def _solutions(context: QueryContext, step: AntiJoinStep | BlockStep, frame: Frame, run: RunSteps) -> Counts:
    counts = np.zeros(frame.length, dtype=np.int64)
    tag, solved = _run_block(context, step, frame, run)
    for found in solved:
        weights = found.weights
        counts += np.bincount(found.ids[tag], weights=weights, minlength=frame.length).astype(np.int64)
    return counts


def _run_block(context: QueryContext, step: Block, frame: Frame, run: RunSteps) -> tuple[str, Iterator[Frame]]:
    """Number every row, and run the inner steps over all of them."""
    tag = f"#tag{len(frame.ids)}"
    tagged = frame.binding({tag: np.arange(frame.length, dtype=np.int64)})
    inner = context.within(step.variables)
    return tag, run(inner, step.steps, context.limits.holding(iter([tagged])))


def _only(found: Frame, step: OptionalStep, tag: str) -> Frame:
    wanted = {tag, *step.introduced}
    return Frame(
        length=found.length,
        ids={name: ids for name, ids in found.ids.items() if name in wanted},
        values={name: values for name, values in found.values.items() if name in step.values},
    )


def _nothing(step: OptionalStep, tag: str) -> Frame:
    none = np.zeros(0, dtype=np.int64)
    entities = [name for name in step.introduced if name not in step.values]
    return Frame(
        length=0,
        ids=dict.fromkeys([tag, *entities], none),
        values={name: pa.array([], value_arrow_type(of)) for name, of in step.values.items()},
    )


def _missing(found: Frame, step: OptionalStep, tag: str, rows: Counts) -> Frame:
    absent = np.full(len(rows), MISSING, dtype=np.int64)
    return Frame(
        length=len(rows),
        ids={name: rows if name == tag else absent for name in found.ids},
        values={name: pa.nulls(len(rows), found.values[name].type) for name in step.values},
    )
