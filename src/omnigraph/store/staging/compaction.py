"""Compaction: fewer, larger fragments without deleted rows; content, row ids and row versions stay.

Lance proposes to merge every small fragment with its neighbours. Followed to the letter, a table that gets a few rows
a day would have its largest fragment rewritten every day. A fragment is therefore rewritten only together with others
that hold a fair share of its rows, or when too many of its own rows are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import count
from typing import Any

from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, RewriteResult

from omnigraph.errors import Effect
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.handles import metered
from omnigraph.store.protobuf import read_fields
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, staged_on
from omnigraph.store.tables.pins import ROW_VERSIONS, fragment_to_json
from omnigraph.store.tables.row_versions import flattened
from omnigraph.store.tables.table import Table
from omnigraph.store.translate import translating
from omnigraph.values import check_number, check_whole


def stage_compaction(
    table: Table, *, operation_id: str, runtime: Runtime, target_rows: int = 1024 * 1024
) -> StagedCommit | None:
    """Write compacted fragments for one commit; None when there is nothing to compact.

    An index on scalar values does not cover the compacted fragments until it is extended; answers stay right.
    """
    table.datasets.handles.check_process()
    handle = table.handle
    with (
        translating("compact a table", table.pin.location, effect=Effect.STAGED, handle=handle),
        metered(handle),
    ):
        options: Any = {"target_rows_per_fragment": target_rows}
        results = [task.execute(handle) for task in Compaction.plan(handle, options).tasks]
    return _stage(table, results, Origin(operation_id=operation_id, runtime=runtime)) if results else None


@record
class CompactedFragments:
    """What tasks of :func:`plan_compaction` have written: their results as JSON texts, and the ids that it shall get.

    Ids are chosen before the commit, because indexes that are built on the compacted fragments mention them.
    """

    results: tuple[str, ...] = field(repr=False)
    fragment_ids: tuple[int, ...]


def number_compacted(table: Table, results: Sequence[str]) -> CompactedFragments:
    """Choose the ids of fragments that were compacted on ``table``."""
    with translating("read a compaction", table.pin.location):
        groups = _groups(_result(result) for result in results)
    _number(table, groups)
    written = tuple(fragment.id for group in groups for fragment in group.new_fragments)
    return CompactedFragments(results=tuple(results), fragment_ids=written)


def rewrite_of(location: str, compacted: CompactedFragments) -> LanceOperation.Rewrite:
    """Return the operation that puts compacted fragments in the place of those that they were made of."""
    with translating("read a compaction", location):
        groups = _groups(_result(result) for result in compacted.results)
    fragment_ids = iter(compacted.fragment_ids)
    for group in groups:
        for fragment in group.new_fragments:
            fragment.id = next(fragment_ids)
    return LanceOperation.Rewrite(groups, [])


def is_same_fragment(one: FragmentMetadata, other: FragmentMetadata) -> bool:
    """Whether two descriptions are of one fragment with the same rows, whatever is known of their versions."""
    return _content(one) == _content(other)


def _groups(results: Iterable[RewriteResult]) -> list[LanceOperation.RewriteGroup]:
    # Lance builds these lists anew on each access, so numbers given to a fragment would be lost on the second.
    return [
        LanceOperation.RewriteGroup(_originals(result), [flattened(item) or item for item in result.new_fragments])
        for result in results
    ]


def _stage(table: Table, results: Sequence[RewriteResult], origin: Origin) -> StagedCommit:
    groups = _groups(results)
    _number(table, groups)
    written = [fragment for group in groups for fragment in group.new_fragments]
    return staged_on(
        table,
        LanceOperation.Rewrite(groups, []),
        kind="compaction",
        origin=origin,
        row_count=table.row_count,
        files=data_files(written),
    )


def _content(fragment: FragmentMetadata) -> dict[str, Any]:
    """Return what tells a fragment from another; a write may have shortened its row versions meanwhile."""
    return {name: value for name, value in fragment_to_json(fragment).items() if name not in ROW_VERSIONS}


def _result(text: str) -> RewriteResult:
    # Lance's own type stubs do not know the way back from JSON.
    kind: Any = RewriteResult
    result: RewriteResult = kind.from_json(text)
    return result


# How many fragments others may add while a compaction is worked out, before it has to be worked out again.
_ROOM = 1024


def _number(table: Table, groups: Sequence[LanceOperation.RewriteGroup]) -> None:
    """Give fragments ids under which no index finds rows of others.

    Files of indexes hold addresses of rows, and go on holding those of fragments that are gone. Under an id that is
    used again they would find rows of another fragment, so that a table with indexes gets ids that none of its
    fragments has ever had, with room for what is added meanwhile. Left at zero, Lance would number them, but let
    full-text and vector indexes claim to cover fragment zero.

    A table without indexes may use ids again. It lists its fragments by id, and compactions keep that order. So a
    fragment gets an id between those around the ones that it replaces, if one is free: rows in the order of their row
    ids have them stored as few ranges, which keeps the table's manifest small.
    """
    present = {fragment.metadata.id for fragment in table.fragments}
    has_indexes = bool(table.indexes())
    following = count(max(present | {_last_fragment_id(table)}) + 1 + (_ROOM if has_indexes else 0))
    for group in groups:
        old = {fragment.id for fragment in group.old_fragments}
        new: list[FragmentMetadata] = list(group.new_fragments)
        chosen = None if has_indexes or len(new) > 1 else _id_between(old, present - old)
        for fragment in new:
            fragment.id = next(following) if chosen is None else chosen
            present.add(fragment.id)
        group.new_fragments = new


# The field of a version's message that holds the highest id that a fragment has had.
_MAX_FRAGMENT_ID = 11


def _last_fragment_id(table: Table) -> int:
    """Return the highest id that a fragment of the table has had so far, also one that is gone; -1 for none.

    Lance tells it nowhere else than in the version itself.
    """
    told = read_fields(table.handle._ds.serialized_manifest())  # noqa: SLF001 - see above
    return next((value for number, value in told if number == _MAX_FRAGMENT_ID and isinstance(value, int)), -1)


def _id_between(old: set[int], others: set[int]) -> int | None:
    """Return a free id between the fragments around those that go; None if there is none."""
    after = min((number for number in others if number > max(old)), default=max(old) + 1)
    before = max((number for number in others if number < max(old)), default=-1)
    return after - 1 if after - 1 > before else None


def _originals(result: Any) -> list[FragmentMetadata]:
    # Lance's own type stubs know this attribute under another name.
    return list(result.original_fragments)


@record
class CompactionPolicy:
    """When fragments are merged.

    Args:
        target_rows: a fragment of this many rows is large enough.
        fair_share: how many rows others must bring for each row of a fragment that is rewritten with them.
        deleted_share: which share of its rows may be deleted before a fragment is rewritten for that alone.
        max_rows: leave out work that would rewrite more rows at once; None means no limit.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    target_rows: int = 1 << 20
    fair_share: float = 0.5
    deleted_share: float = 0.1
    max_rows: int | None = None

    def __post_init__(self) -> None:
        check_whole("target_rows", self.target_rows, least=1)
        check_number("fair_share", self.fair_share)
        check_number("deleted_share", self.deleted_share, most=1)
        check_whole("max_rows", self.max_rows, optional=True)


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


def is_worth_compacting(table: Table, policy: CompactionPolicy) -> bool:
    """Whether some fragments of a table are worth being merged, if no index keeps them apart."""
    sizes = [_size(fragment.metadata.to_json()) for fragment in table.fragments]
    return bool(worthwhile_runs([size for size in sizes if size.rows < policy.target_rows or size.deleted], policy))


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
