"""What an export may be asked for, what it tells while it runs, and what it answers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.errors import ExportTypeError, MissingThing
from omnigraph.records import record
from omnigraph.runtime import Cost
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import check_callable, check_choice, check_flag, check_instance, check_whole, checked_names
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_MAX_THREADS = 1024

ExportFormat = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[ExportFormat, ...] = ("jsonl", "csv", "parquet")


@record
class ExportSettings:
    """What an export may use of the machine.

    Args:
        rows_per_file: a file ends behind the fragment with which it has this many rows.
        threads: how many files are written side by side.
        is_durable: whether a local folder is synced to the disk before the export is called complete.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    rows_per_file: int = 1 << 20
    threads: int = 2
    is_durable: bool = True

    def __post_init__(self) -> None:
        check_whole("rows_per_file", self.rows_per_file, least=1)
        check_whole("threads", self.threads, least=1, most=_MAX_THREADS)
        check_flag("is_durable", self.is_durable)


def check_export(form: object, progress: object, settings: object) -> None:
    """Refuse what an export could not begin with.

    Raises:
        UsageError: there is no such format, or ``progress`` or ``settings`` are something else.
    """
    check_choice("format", form, FORMATS)
    check_callable("progress", progress)
    check_instance("settings", settings, ExportSettings)


@record
class ExportProgress:
    """How far an export is."""

    rows: int
    rows_total: int
    bytes_written: int


Progress = Callable[[ExportProgress], None]


@record
class ExportedType:
    """What was written of one type."""

    kind: Literal["node", "edge"]
    name: str
    rows: int
    files: int
    bytes_written: int

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "kind": self.kind,
            "type_name": self.name,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes_written,
        }


@record
class ExportResult(Printable):
    """What an export wrote. ``target`` is None for a stream; types are in the order of their rows."""

    target: str | None
    format: ExportFormat
    branch: str
    commit_id: str
    types: tuple[ExportedType, ...]
    elapsed_s: float
    cost: Cost

    def lines(self) -> Iterator[str]:
        """Yield how much was exported, and which state it was."""
        to = "" if self.target is None else f" to {self.target}"
        rows = counted(self.rows, "entity", "entities")
        yield f"exported {rows} across {counted(len(self.types), 'type')}{to} as {self.format}"
        yield f"commit {self.commit_id} of branch {self.branch}"

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(item.rows for item in self.types)

    @property
    def bytes_written(self) -> int:
        """All bytes."""
        return sum(item.bytes_written for item in self.types)


@record
class ExportCut:
    """A pinned state with its schema, and which of its types are wanted, nodes before edges, each by name."""

    snapshot: GraphSnapshot
    catalog: Catalog
    owners: tuple[NodeType | EdgeType, ...]

    @classmethod
    def of(cls, snapshot: GraphSnapshot, catalog: Catalog, types: Sequence[str] | None) -> ExportCut:
        """Return the cut; a name selects the node and the edge type of that name, ``node:Name`` only one of them.

        Raises:
            ExportTypeError: the schema has no such type.
            UsageError: these are not several names.
        """
        owners: list[NodeType | EdgeType] = [catalog.nodes[name] for name in sorted(catalog.nodes)]
        owners += [catalog.edges[name] for name in sorted(catalog.edges)]
        if types is not None:
            types = checked_names("types", types)
            for name in types:
                if not any(name in {owner.name, owner.table_key} for owner in owners):
                    raise _unknown(name, [owner.name for owner in owners])
            owners = [owner for owner in owners if not {owner.name, owner.table_key}.isdisjoint(types)]
        return cls(snapshot=snapshot, catalog=catalog, owners=tuple(owners))

    @property
    def row_count(self) -> int:
        """How many rows are wanted."""
        return sum(self.snapshot.entry(owner.table_key).row_count for owner in self.owners)


def _unknown(name: str, known: Sequence[str]) -> ExportTypeError:
    near = tuple(difflib.get_close_matches(name[:200], known, n=3))
    details = MissingThing(what="type", name=name, near=near)
    hint = f"did you mean {near[0]}?" if near else None
    return ExportTypeError(f"unknown export type '{name}'", details=details, hint=hint)
