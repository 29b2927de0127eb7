"""Compaction tasks and index segments of a table, planned in one process and worked off by others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lance.optimize import CompactionTask

from omnigraph.errors import Effect
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.portable.rows import fragment_sizes
from omnigraph.store.portable.ticket import TableTicket
from omnigraph.store.staging.codec import index_from_json, index_to_json
from omnigraph.store.staging.indexes import (
    IndexBuild,
    SkippedIndex,
    build_index,
    finish_index,
    has_vectors,
    plan_index,
)
from omnigraph.store.table import Table
from omnigraph.store.translate import translating

# Each look-up asks every segment, and later ones extend the index by more of them.
_MAX_GROUPS = 4


@record
class IndexWork:
    """An index to build: one segment per group of fragments; ``rebuilds``: in place of what is there."""

    build: IndexBuild
    groups: tuple[tuple[int, ...], ...]
    rebuilds: bool


def run_compaction_task(ticket: TableTicket, task: str) -> str:
    """Write the compacted fragments of one planned task and return what became of them, as a JSON text."""
    table = ticket.open()
    with translating("compact a table", table.pin.location, effect=Effect.STAGED):
        # Lance's own type stubs know neither way between a task and its JSON.
        kind: Any = CompactionTask
        return str(kind.from_json(task).execute(table.handle).json())


def index_work(table: Table, build: IndexBuild, *, group_rows: int, counters: Counters) -> IndexWork | None:
    """Return the work of bringing an index up to date; None when it is, or has no vector to hold.

    Args:
        table: the version to index.
        build: the index.
        group_rows: rows of a group of fragments at least, except where there are no more.
        counters: where the calls go.
    """
    plan = plan_index(table, build, counters)
    if isinstance(plan, SkippedIndex):
        return None
    rows = dict(fragment_sizes(table))
    wanted = max(group_rows, -(-sum(rows[number] for number in plan.fragment_ids) // _MAX_GROUPS))
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    gathered = 0
    for number in plan.fragment_ids:
        group.append(number)
        gathered += rows[number]
        if gathered >= wanted and _can_build(table, build, group, counters):
            groups.append(tuple(group))
            group, gathered = [], 0
    if group and groups and not _can_build(table, build, group, counters):
        groups[-1] = (*groups[-1], *group)
    elif group or not groups:
        groups.append(tuple(group))
    return IndexWork(build=build, groups=tuple(groups), rebuilds=plan.rebuilds)


def build_segment(ticket: TableTicket, build: IndexBuild, fragment_ids: Sequence[int]) -> str:
    """Write the segment of one group of fragments and return it as a JSON text; see :func:`merge_segments`."""
    return json.dumps(index_to_json(build_index(ticket.open(), build, fragment_ids, Counters())))


def merge_segments(ticket: TableTicket, build: IndexBuild, segments: Sequence[str]) -> str:
    """Make one segment of several. A full-text index needs that, even of a single one, before it can be committed."""
    written = [index_from_json(json.loads(segment)) for segment in segments]
    return json.dumps(index_to_json(finish_index(ticket.open(), build, written, Counters())))


def _can_build(table: Table, build: IndexBuild, fragment_ids: Sequence[int], counters: Counters) -> bool:
    return build.kind != "vector" or has_vectors(table, build.column, fragment_ids, counters)
