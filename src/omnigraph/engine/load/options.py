"""What a load may be asked for, what it tells while it runs, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Self, get_args

from omnigraph.engine.maintenance.outcomes import ProjectionOutcome
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters
from omnigraph.txn.manifest.rows import BatchMark, Commit
from omnigraph.values import check_callable, check_choice, check_flag, check_path, check_text, check_whole, unfit
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

LoadMode = Literal["append", "merge", "overwrite", "apply"]
# What becomes of the edges of a node that an apply deletes.
OnDelete = Literal["cascade", "refuse"]
_LONGEST_STREAM = 200
_MOST_NUMBER = (1 << 63) - 1
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


def check_on_delete(on_delete: object, mode: LoadMode) -> None:
    """Refuse what does not say what becomes of the edges of a deleted node, and loads that delete none.

    Raises:
        UsageError: there is no such word, or the load is none of a change log.
    """
    check_choice("on_delete", on_delete, get_args(OnDelete))
    if on_delete != "cascade" and mode != "apply":
        details = BadValue(what="mode", value=mode, expected="apply")
        raise UsageError("on_delete needs mode apply", details=details)


def check_batch(batch: object) -> BatchMark | None:
    """Return what marks a load as one piece of a stream: the name of the stream and the piece's number.

    Raises:
        UsageError: it is not a name and a number.
    """
    if batch is None:
        return None
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise unfit("batch", batch, "a name and a number")
    name, number = batch
    check_text("name of a batch", name)
    if not 0 < len(name) <= _LONGEST_STREAM:
        details = BadValue(what="batch", value=name[:_LONGEST_STREAM], expected=f"1 to {_LONGEST_STREAM} characters")
        raise UsageError("the name of the batch is empty or too long", details=details)
    check_whole("number of a batch", number, most=_MOST_NUMBER)
    return BatchMark(app=name, number=number)


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
class ChangeCounts:
    """What became of the rows of a change log. Every row is one of five: the first five add up to ``rows``.

    Args:
        rows: all rows of the input.
        written: rows that changed what is stored.
        unchanged: rows that found everything as it should be, deletes of what is not there among them.
        superseded: rows that a row of a later sequence, or the delete of a node, made void; repeated rows, too.
        deleted: rows that removed an entity.
        quarantined: rows that were put aside.
        cascaded: edges that went with their nodes; they are no rows of the input.
    """

    rows: int = 0
    written: int = 0
    unchanged: int = 0
    superseded: int = 0
    deleted: int = 0
    quarantined: int = 0
    cascaded: int = 0

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        """Return the counts of both."""
        names = self.to_json()
        return ChangeCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def affected(self) -> int:
        """How many entities are not as they were."""
        return self.written + self.deleted + self.cascaded

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the counts of :meth:`to_json`."""
        return cls(**document)

    def to_json(self) -> dict[str, int]:
        """Return the counts by name."""
        return {
            "rows": self.rows,
            "written": self.written,
            "unchanged": self.unchanged,
            "superseded": self.superseded,
            "deleted": self.deleted,
            "quarantined": self.quarantined,
            "cascaded": self.cascaded,
        }

    def __str__(self) -> str:
        counts = self.to_json()
        told = [f"{counts[name]} {name}" for name in ("written", "unchanged", "superseded", "deleted")]
        return ", ".join([*told, *(f"{counts[name]} {name}" for name in ("quarantined", "cascaded") if counts[name])])


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
    """What a load did. Counts are input rows per type; ``commit`` is None when there was nothing to write.

    ``changes`` says what became of the rows of a change log, and is None for other loads. ``is_repeat``: the branch had
    this batch already, ``commit`` is the first one of it, and nothing was counted. ``projections`` are those that were
    built of what it filled.
    """

    mode: LoadMode
    branch: str
    actor: str | None
    nodes_loaded: Mapping[str, int]
    edges_loaded: Mapping[str, int]
    commit: Commit | None
    manifest_version: int
    cost: Cost
    changes: ChangeCounts | None = None
    is_repeat: bool = False
    projections: tuple[ProjectionOutcome, ...] = ()

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> Self:
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
            changes=None if "changes" not in receipt else ChangeCounts.from_json(receipt["changes"]),
        )

    @property
    def total(self) -> int:
        """All input rows."""
        return sum(self.nodes_loaded.values()) + sum(self.edges_loaded.values())

    def lines(self) -> Iterator[str]:
        """Yield how many rows were loaded, of which types."""
        if self.commit is None:
            yield f"nothing to load on branch {self.branch}: {self.reason}, no commit"
            return
        if self.is_repeat:
            yield f"loaded before on branch {self.branch}, as commit {self.commit.id}"
            return
        yield f"loaded {counted(self.total, 'entity', 'entities')} on branch {self.branch} with {self.mode}"
        for name, count in (*self.nodes_loaded.items(), *self.edges_loaded.items()):
            yield f"  {name}: {count}"
        if self.changes is not None:
            yield f"  {self.changes}"
        yield from (f"  {projection.table_key}: {projection}" for projection in self.projections)

    @property
    def reason(self) -> str:
        """Why there is no commit."""
        return "nothing has changed" if self.changes is not None and self.total else "no rows"

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
            **({} if self.changes is None else {"changes": self.changes.to_json()}),
            **({"repeated": True} if self.is_repeat else {}),
            **({"projections": [item.to_json() for item in self.projections]} if self.projections else {}),
        }


def _counts(loaded: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "entities_loaded": count} for name, count in loaded.items()]
