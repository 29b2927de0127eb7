"""Which fragments of a table are worth being compacted, so that each row is rewritten a few times in its life.

Lance proposes to merge every small fragment with its neighbours. Followed to the letter, a table that gets a few rows
a day would have its largest fragment rewritten every day. A fragment is therefore rewritten only together with others
that hold a fair share of its rows, or when too many of its own rows are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lance.optimize import Compaction

from omnigraph.records import record
from omnigraph.store.table import Table
from omnigraph.store.translate import translating


@record
class CompactionPolicy:
    """When fragments are merged.

    Args:
        target_rows: a fragment of this many rows is large enough.
        fair_share: how many rows others must bring for each row of a fragment that is rewritten with them.
        deleted_share: which share of its rows may be deleted before a fragment is rewritten for that alone.
        max_rows: leave out work that would rewrite more rows at once; None is no bound.
    """

    target_rows: int = 1 << 20
    fair_share: float = 0.5
    deleted_share: float = 0.1
    max_rows: int | None = None


@record
class FragmentSize:
    """The rows of a fragment: those that it was written with, and those of them that are gone."""

    rows: int
    deleted: int = 0

    @property
    def live(self) -> int:
        """The rows that a rewrite would write."""
        return self.rows - self.deleted


def plan_compaction(table: Table, policy: CompactionPolicy | None = None) -> tuple[str, ...]:
    """Return what there is to compact, one JSON text per piece of work; none when the table is flat enough."""
    policy = policy or CompactionPolicy()
    options: Any = {
        "target_rows_per_fragment": policy.target_rows,
        "materialize_deletions_threshold": policy.deleted_share,
    }
    with translating("plan a compaction", table.pin.location):
        # Lance's own type stubs do not know that a task can be written down.
        tasks: list[Any] = list(Compaction.plan(table.handle, options).tasks)
    proposed = [json.loads(task.json()) for task in tasks]
    return tuple(
        json.dumps({**task, "task": {**task["task"], "fragments": task["task"]["fragments"][start:stop]}})
        for task in proposed
        for start, stop in worthwhile_runs([_size(item) for item in task["task"]["fragments"]], policy)
    )


def worthwhile_runs(sizes: Sequence[FragmentSize], policy: CompactionPolicy) -> list[tuple[int, int]]:
    """Return the runs ``[start, stop)`` of neighbouring fragments that are worth being rewritten as one.

    >>> few, many = FragmentSize(rows=10), FragmentSize(rows=1000)
    >>> worthwhile_runs([few, few, many, few, few], CompactionPolicy())
    [(0, 2), (3, 5)]
    >>> worthwhile_runs([many, many, few], CompactionPolicy())
    [(0, 3)]
    """
    found: list[tuple[int, int]] = []
    waiting = [(0, len(sizes))]
    while waiting:
        start, stop = waiting.pop()
        if start == stop:
            continue
        run = sizes[start:stop]
        if len(run) == 1:
            if _is_worn(run[0], policy) and _fits(run, policy):
                found.append((start, stop))
            continue
        largest = max(range(start, stop), key=lambda number: sizes[number].live)
        others = sum(size.live for size in run) - sizes[largest].live
        is_fair = others >= sizes[largest].live * policy.fair_share or _is_worn(sizes[largest], policy)
        if is_fair and _fits(run, policy):
            found.append((start, stop))
        else:
            waiting += [(start, largest), (largest, largest + 1), (largest + 1, stop)]
    return sorted(found)


def _is_worn(size: FragmentSize, policy: CompactionPolicy) -> bool:
    return size.deleted > size.rows * policy.deleted_share


def _fits(run: Sequence[FragmentSize], policy: CompactionPolicy) -> bool:
    return policy.max_rows is None or sum(size.live for size in run) <= policy.max_rows


def _size(fragment: dict[str, Any]) -> FragmentSize:
    deletions = fragment.get("deletion_file") or {}
    return FragmentSize(rows=fragment["physical_rows"], deleted=deletions.get("num_deleted_rows") or 0)
