"""Index builds: segments are written uncommitted, and all of them land in one commit."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal, assert_never

from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Index

from omnigraph.errors import Effect
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.handles import apart, metered
from omnigraph.store.staging.codec import index_from_json, index_to_json
from omnigraph.store.staging.commit import Origin, StagedCommit, staged_on
from omnigraph.store.tables.pinned import KEY, TableIndex
from omnigraph.store.tables.table import Table
from omnigraph.store.translate import translating

# Each look-up asks every segment; beyond this many the index is built anew over the whole table.
_MAX_SEGMENTS = 8

IndexKind = Literal["btree", "fulltext", "vector"]


@record
class IndexBuild:
    """An index to build, or to extend over fragments that it does not cover yet."""

    column: str
    kind: IndexKind
    name: str


@record
class SkippedIndex:
    """An index that was not built, and why: ``current`` or ``no vectors``."""

    build: IndexBuild
    reason: Literal["current", "no vectors"]


@record
class StagedIndexes:
    """The commit of all segments that were built, none when there was nothing to do, and what was skipped."""

    commit: StagedCommit | None
    built: tuple[IndexBuild, ...]
    skipped: tuple[SkippedIndex, ...]


@record
class BuiltIndex:
    """Segments of an index that other processes have built, as JSON texts; ``rebuilds``: in place of what is there."""

    build: IndexBuild
    segments: tuple[str, ...]
    rebuilds: bool


@record
class IndexPlan:
    """Which fragments a build has to read; ``rebuilds``: the result takes the place of what is there."""

    fragment_ids: tuple[int, ...]
    rebuilds: bool


def stage_indexes(table: Table, builds: Sequence[IndexBuild], *, operation_id: str, runtime: Runtime) -> StagedIndexes:
    """Build what is missing of the given indexes, for one commit.

    An index that exists gets one more segment over the fragments it lacks, or is built anew when it has many segments
    or when, for full text, a row that it knows was rewritten.
    A vector index needs at least one vector.
    """
    table.datasets.handles.check_process()
    segments: list[Index] = []
    replaced: list[Index] = []
    built: list[IndexBuild] = []
    skipped: list[SkippedIndex] = []
    for build in builds:
        plan = plan_index(table, build)
        if isinstance(plan, SkippedIndex):
            skipped.append(plan)
            continue
        if plan.rebuilds:
            replaced += _stored_segments(table, build)
        segments.append(finish_index(table, build, [build_index(table, build, plan.fragment_ids)]))
        built.append(build)
    commit = _stage(table, segments, replaced, Origin(operation_id=operation_id, runtime=runtime)) if segments else None
    return StagedIndexes(commit=commit, built=tuple(built), skipped=tuple(skipped))


@record
class IndexSegments:
    """Segments that were built, and those whose place they take, as JSON texts."""

    added: tuple[str, ...]
    removed: tuple[str, ...] = ()

    def operation(self, location: str) -> LanceOperation.CreateIndex:
        """Return the operation that adds and removes them."""
        with translating("read an index segment", location):
            added = [index_from_json(json.loads(segment)) for segment in self.added]
            removed = [index_from_json(json.loads(segment)) for segment in self.removed]
        return LanceOperation.CreateIndex(added, removed)


def segments_of(table: Table, indexes: Sequence[BuiltIndex], *, built_on: int) -> IndexSegments:
    """Return what indexes that were built on ``table`` add to it and remove from it.

    Args:
        table: the version that they were built on, be it a detached one.
        indexes: what was built.
        built_on: the version of the line whose rows they know.
    """
    added, removed = [], []
    for index in indexes:
        with translating("read an index segment", table.pin.location):
            mine = [index_from_json(json.loads(segment)) for segment in index.segments]
        added += [json.dumps(index_to_json(replace(segment, dataset_version=built_on))) for segment in mine]
        if index.rebuilds:
            removed += [json.dumps(index_to_json(segment)) for segment in _stored_segments(table, index.build)]
    return IndexSegments(added=tuple(added), removed=tuple(removed))


def dropped_segments(table: Table, names: Collection[str]) -> IndexSegments:
    """Return what takes the indexes called ``names`` away from a table, and puts nothing in their place."""
    dropped = [item for index in table.indexes() if index.name in names for item in _lance_indexes(index)]
    return IndexSegments(added=(), removed=tuple(json.dumps(index_to_json(segment)) for segment in dropped))


def index_files(operation: LanceOperation.CreateIndex) -> tuple[str, ...]:
    """Return the files of the segments that an operation adds, relative to their dataset."""
    return tuple(f"_indices/{item.uuid}/{file.path}" for item in operation.new_indices for file in item.files or ())


def plan_index(table: Table, build: IndexBuild) -> IndexPlan | SkippedIndex:
    """Tell what a build has to read, or why there is nothing to build."""
    present = [fragment.metadata.id for fragment in table.fragments]
    known = next((index for index in table.indexes() if index.name == build.name), None)
    covered = frozenset[int]() if known is None else known.fragment_ids
    over = [fragment_id for fragment_id in present if fragment_id not in covered]
    if known is not None and not over:
        return SkippedIndex(build=build, reason="current")
    rebuilds = known is not None and not _can_extend(table, build, known, over)
    if rebuilds:
        over = present
    if build.kind == "vector" and not has_vectors(table, build.column, over):
        return SkippedIndex(build=build, reason="no vectors")
    return IndexPlan(fragment_ids=tuple(over), rebuilds=rebuilds)


def build_index(table: Table, build: IndexBuild, fragment_ids: Sequence[int]) -> Index:
    """Write one segment over some fragments; :func:`finish_index` makes it one that can be committed."""
    handle = apart(table.handle)
    is_known = any(index.name == build.name for index in table.indexes())
    options: dict[str, Any] = {"name": build.name, "fragment_ids": list(fragment_ids), "replace": is_known}
    with (
        translating("build an index", table.pin.location, effect=Effect.STAGED, handle=handle),
        metered(handle),
    ):
        match build.kind:
            case "btree":
                return handle.create_index_uncommitted(build.column, "BTREE", **options)
            case "fulltext":
                return handle.create_index_uncommitted(build.column, "INVERTED", **options)
            case "vector":
                # One partition searches every vector, so that the answer is exact.
                return handle.create_index_uncommitted(
                    build.column, "IVF_FLAT", metric="L2", num_partitions=1, **options
                )
            case _:
                assert_never(build.kind)


def finish_index(table: Table, build: IndexBuild, segments: Sequence[Index]) -> Index:
    """Return the one segment that freshly written ones make up."""
    if build.kind != "fulltext" and len(segments) == 1:
        return segments[0]
    # Committed as it is, a full-text segment would land and then fail every search.
    handle = apart(table.handle)
    with (
        translating("merge index segments", table.pin.location, effect=Effect.STAGED, handle=handle),
        metered(handle),
    ):
        return handle.merge_existing_index_segments(list(segments))


def has_vectors(table: Table, column: str, fragment_ids: Sequence[int]) -> bool:
    """Whether some row of these fragments has a vector, which an index needs."""
    if not fragment_ids:
        return False
    found = table.read([column], f"{column} IS NOT NULL", limit=1, fragment_ids=list(fragment_ids))
    return bool(found.num_rows)


def _stage(table: Table, segments: Sequence[Index], replaced: Sequence[Index], origin: Origin) -> StagedCommit:
    operation = LanceOperation.CreateIndex(list(segments), list(replaced))
    return staged_on(
        table, operation, kind="index", origin=origin, row_count=table.row_count, files=index_files(operation)
    )


def _stored_segments(table: Table, build: IndexBuild) -> list[Index]:
    return [item for index in table.indexes() if index.name == build.name for item in _lance_indexes(index)]


def _lance_indexes(index: TableIndex) -> list[Index]:
    return [
        Index(
            uuid=segment.uuid,
            name=index.name,
            fields=list(index.fields),
            dataset_version=segment.dataset_version,
            fragment_ids=Bitmap(segment.fragment_ids),
            index_version=segment.index_version,
        )
        for segment in index.segments
    ]


def _can_extend(table: Table, build: IndexBuild, known: TableIndex, over: Sequence[int]) -> bool:
    """Whether one more segment over the fragments ``over`` leaves the index right and quick."""
    covers_something = any(fragment.metadata.id in known.fragment_ids for fragment in table.fragments)
    if len(known.segments) >= _MAX_SEGMENTS or not covers_something:
        return False
    if build.kind != "fulltext":
        return True
    # A segment still holds the old words of a row that was rewritten later. Lance hides them only as long as no other
    # segment covers the row's fragment. Rows born after the segments were built are in none of them.
    built_at = max(segment.dataset_version for segment in known.segments)
    rewritten = table.read([KEY], f"_row_created_at_version <= {built_at}", limit=1, fragment_ids=list(over))
    return not rewritten.num_rows
