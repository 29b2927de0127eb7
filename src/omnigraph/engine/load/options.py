"""What a load may be asked for, what it tells while it runs, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

from omnigraph.records import record
from omnigraph.runtime import Cost, Counters
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import check_callable, check_choice, check_flag, check_path, check_whole
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

LoadMode = Literal["append", "merge", "overwrite"]
_MAX_THREADS = 1024
LoadPhase = Literal["read", "check", "write"]


@record
class LoadSettings:
    """What a load may use of the machine.

    Args:
        chunk_bytes: how much of a file is decoded at once.
        max_line_bytes: the longest line that is read; a longer one ends the load.
        memory_bytes: how many decoded rows may stay in memory; what is beyond goes to temporary files.
        threads: how many chunks are decoded side by side.
        batch_rows: how many rows of a Parquet file are converted at once.
        check_sums: whether the files of an exported folder are compared with their checksums before they are read.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    chunk_bytes: int = 16 << 20
    max_line_bytes: int = 64 << 20
    memory_bytes: int = 512 << 20
    threads: int = 2
    batch_rows: int = 65_536
    check_sums: bool = False

    def __post_init__(self) -> None:
        for name in ("chunk_bytes", "max_line_bytes", "batch_rows"):
            check_whole(name, getattr(self, name), least=1)
        check_whole("memory_bytes", self.memory_bytes)
        check_whole("threads", self.threads, least=1, most=_MAX_THREADS)
        check_flag("check_sums", self.check_sums)


def check_load(mode: object, *, errors_to: object, progress: object, limit: object) -> None:
    """Refuse what a load, wherever it runs, could not begin with.

    Raises:
        UsageError: there is no such mode, or an argument is of another type or out of bounds.
        ValueFormatError: no file can have the name of ``errors_to``.
    """
    check_choice("mode", mode, get_args(LoadMode))
    if errors_to is not None:
        check_path("errors_to", errors_to)
    check_callable("progress", progress)
    check_whole("limit", limit)


@record
class LoadProgress:
    """How far a load is. ``bytes_total`` is None when some source does not know its size."""

    phase: LoadPhase
    bytes_read: int = 0
    bytes_total: int | None = None
    rows: int = 0


Progress = Callable[[LoadProgress], None]


@record
class LoadResult(Printable):
    """What a load did. Counts are input rows per type; ``commit`` is None when there was no row at all."""

    mode: LoadMode
    branch: str
    actor: str | None
    nodes_loaded: Mapping[str, int]
    edges_loaded: Mapping[str, int]
    commit: Commit | None
    manifest_version: int
    cost: Cost

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> LoadResult:
        """Return what a repeated request is told: commit and counts of the first."""
        return cls(
            mode=receipt.get("mode", "merge"),
            branch=commit.branch,
            actor=commit.actor,
            nodes_loaded=receipt.get("nodes", {}),
            edges_loaded=receipt.get("edges", {}),
            commit=commit,
            manifest_version=commit.manifest_version,
            cost=Counters().cost(),
        )

    @property
    def total(self) -> int:
        """All input rows."""
        return sum(self.nodes_loaded.values()) + sum(self.edges_loaded.values())

    def lines(self) -> Iterator[str]:
        """Yield how many rows were loaded, of which types."""
        if self.commit is None:
            yield f"nothing to load on branch {self.branch}: no rows, no commit"
            return
        yield f"loaded {counted(self.total, 'entity', 'entities')} on branch {self.branch} with {self.mode}"
        for name, count in (*self.nodes_loaded.items(), *self.edges_loaded.items()):
            yield f"  {name}: {count}"

    def to_json(self) -> dict[str, Any]:
        """Return the result with the field names of the public contract."""
        return {
            "branch": self.branch,
            "mode": self.mode,
            "nodes": _counts(self.nodes_loaded),
            "edges": _counts(self.edges_loaded),
            "total_entities": self.total,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_brief_json(),
        }


def _counts(loaded: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "entities_loaded": count} for name, count in loaded.items()]
