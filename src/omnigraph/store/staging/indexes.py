"""Index builds: segments are written uncommitted, and all of them land in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Index

from omnigraph.errors import Effect
from omnigraph.runtime import Counters, World
from omnigraph.store.metering import metered
from omnigraph.store.staging.commit import Origin, StagedCommit, staged_on
from omnigraph.store.table import KEY, Table, TableIndex
from omnigraph.store.translate import translating

# Each look-up asks every segment; beyond this many the index is built anew over the whole table.
_MAX_SEGMENTS = 8

IndexKind = Literal["btree", "fulltext", "vector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBuild:
    """An index to build, or to extend over fragments that it does not cover yet."""

    column: str
    kind: IndexKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedIndex:
    """An index that was not built, and why: ``current`` or ``no vectors``."""

    build: IndexBuild
    reason: Literal["current", "no vectors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedIndexes:
    """The commit of all segments that were built, none when there was nothing to do, and what was skipped."""

    commit: StagedCommit | None
    built: tuple[IndexBuild, ...]
    skipped: tuple[SkippedIndex, ...]


def stage_indexes(
    table: Table, builds: Sequence[IndexBuild], *, operation_id: str, world: World, counters: Counters
) -> StagedIndexes:
    """Build what is missing of the given indexes, for one commit.

    An index that exists gets one more segment over the fragments it lacks, or is built anew when it has many segments
    or when, for full text, a row that it knows was rewritten.
    A vector index needs at least one vector.
    """
    table.datasets.handles.check_process()
    existing = {index.name: index for index in table.indexes(counters)}
    present = [fragment.metadata.id for fragment in table.fragments]
    segments: list[Index] = []
    replaced: list[Index] = []
    built: list[IndexBuild] = []
    skipped: list[SkippedIndex] = []
    for build in builds:
        known = existing.get(build.name)
        covered = frozenset[int]() if known is None else known.fragment_ids
        over = [fragment_id for fragment_id in present if fragment_id not in covered]
        if known is not None and not over:
            skipped.append(SkippedIndex(build=build, reason="current"))
            continue
        if known is not None and not _can_extend(table, build, known, over, counters):
            over = present
            replaced += _lance_indexes(known)
        if build.kind == "vector" and not _has_vectors(table, build.column, over, counters):
            skipped.append(SkippedIndex(build=build, reason="no vectors"))
            continue
        segments.append(_build(table, build, over, counters, extends=known is not None))
        built.append(build)
    commit = None
    if segments:
        commit = staged_on(
            table,
            LanceOperation.CreateIndex(segments, replaced),
            kind="index",
            origin=Origin(operation_id=operation_id, world=world),
            row_count=table.row_count,
            files=tuple(f"_indices/{item.uuid}/{file.path}" for item in segments for file in item.files or ()),
        )
    return StagedIndexes(commit=commit, built=tuple(built), skipped=tuple(skipped))


def stage_drop_indexes(
    table: Table, names: Sequence[str], *, operation_id: str, world: World, counters: Counters
) -> StagedCommit | None:
    """Stage a version without these indexes; None when it has none of them."""
    dropped = [segment for index in table.indexes(counters) if index.name in names for segment in _lance_indexes(index)]
    if not dropped:
        return None
    return staged_on(
        table,
        LanceOperation.CreateIndex([], dropped),
        kind="index",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=table.row_count,
        files=(),
    )


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


def _can_extend(table: Table, build: IndexBuild, known: TableIndex, over: Sequence[int], counters: Counters) -> bool:
    """Whether one more segment over the fragments ``over`` leaves the index right and quick."""
    covers_something = any(fragment.metadata.id in known.fragment_ids for fragment in table.fragments)
    if len(known.segments) >= _MAX_SEGMENTS or not covers_something:
        return False
    if build.kind != "fulltext":
        return True
    # A segment still holds the old words of a row that was rewritten later. Lance hides them only as long as no other
    # segment covers the row's fragment. Rows born after the segments were built are in none of them.
    built_at = max(segment.dataset_version for segment in known.segments)
    rewritten = table.read(
        [KEY], f"_row_created_at_version <= {built_at}", counters=counters, limit=1, fragment_ids=list(over)
    )
    return not rewritten.num_rows


def _build(table: Table, build: IndexBuild, fragment_ids: list[int], counters: Counters, *, extends: bool) -> Index:
    handle = table.handle
    options: dict[str, Any] = {"name": build.name, "fragment_ids": fragment_ids, "replace": extends}
    with translating("build an index", table.pin.location, effect=Effect.STAGED), metered(handle, counters):
        match build.kind:
            case "btree":
                return handle.create_index_uncommitted(build.column, "BTREE", **options)
            case "fulltext":
                segment = handle.create_index_uncommitted(build.column, "INVERTED", **options)
                # Committed as it is, the segment would land and then fail every search.
                return handle.merge_existing_index_segments([segment])
            case "vector":
                # One partition searches every vector, so that the answer is exact.
                return handle.create_index_uncommitted(
                    build.column, "IVF_FLAT", metric="L2", num_partitions=1, **options
                )
            case _:
                assert_never(build.kind)


def _has_vectors(table: Table, column: str, fragment_ids: Sequence[int], counters: Counters) -> bool:
    if not fragment_ids:
        return False
    found = table.read([column], f"{column} IS NOT NULL", counters=counters, limit=1, fragment_ids=list(fragment_ids))
    return bool(found.num_rows)
