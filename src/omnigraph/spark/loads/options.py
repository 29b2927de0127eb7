"""What a load on Spark may be asked for beyond an embedded one, and what it answers beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from omnigraph.engine.load import LoadResult, LoadSettings
from omnigraph.records import record
from omnigraph.spark.rules import RuleSettings
from omnigraph.values import check_instance, check_whole

_MIB = 1 << 20


@record
class SparkLoadSettings:
    """What the tasks of a load may use, and how large their files become.

    Args:
        read: how a task reads its part of the input.
        part_bytes: how much of a plain file one task reads; from the input's size when None.
        part_rows: how many rows of a Parquet file one task reads, whole row groups.
        fragment_rows: rows per fragment at most.
        flush_bytes: how many decoded rows a task holds before it writes them away; bounds a fragment's size too.
        merge_rows: how many rows one task compares with the stored ones.
        rules: how the rules about sets of rows are asked.
        attempts: how often a merge starts again on rows that somebody else changed meanwhile.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    read: LoadSettings = field(default_factory=lambda: LoadSettings(threads=1))
    part_bytes: int | None = None
    part_rows: int = 1 << 20
    fragment_rows: int = 1 << 20
    flush_bytes: int = 256 * _MIB
    merge_rows: int = 1 << 19
    rules: RuleSettings = field(default_factory=RuleSettings)
    attempts: int = 8

    def __post_init__(self) -> None:
        check_instance("read", self.read, LoadSettings, optional=False)
        check_whole("part_bytes", self.part_bytes, least=1, optional=True)
        for name in ("part_rows", "fragment_rows", "flush_bytes", "merge_rows", "attempts"):
            check_whole(name, getattr(self, name), least=1)
        check_instance("rules", self.rules, RuleSettings, optional=False)


@record
class SparkLoadResult(LoadResult):
    """What a load did. ``unchanged`` counts rows per type that were there exactly so; they were not written again.

    ``seconds`` is the time of each step, ``bytes_read`` what the input takes as stored, ``fragments`` how many pieces
    of tables were written.
    """

    unchanged: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    bytes_read: int = 0
    fragments: int = 0
