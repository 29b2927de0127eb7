"""A change whose rows other processes have written: known by its keys files and the state that it is made on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.kernel import KernelSettings
from omnigraph.records import record
from omnigraph.spark.keys import KeysFile, Places
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket
from omnigraph.values import check_instance, check_whole


@record
class WrittenType:
    """What happens to one type's table.

    Args:
        type: the node or edge type.
        files: the keys of its rows; of rows with one id the last counts, and all of them are judged.
        strict: no id may be there already, or stand twice.
        replaces_all: every stored row goes, and no id may stand twice.
        has_fresh_ids: all ids were generated for these rows, so nobody can have them already.
    """

    type: NodeType | EdgeType
    files: tuple[KeysFile, ...]
    strict: bool = False
    replaces_all: bool = False
    has_fresh_ids: bool = False

    @property
    def rows(self) -> int:
        """How many rows there are, those that others replace among them."""
        return sum(file.rows for file in self.files)

    @property
    def demands_each_id_once(self) -> bool:
        """Whether two rows of one id are an error rather than two versions of a row."""
        return self.strict or self.replaces_all


@record
class WrittenChange:
    """One write over all types. It can be pickled, and holds no row.

    Args:
        catalog: the schema.
        types: what happens to each table, in the order in which the input names them.
        places: what the row numbers of the keys files stand for.
        scratch: where the keys files are.
        tables: the tables of the state that the change is made on; one that is left out holds nothing.
    """

    catalog: Catalog
    types: Mapping[str, WrittenType]
    places: Places
    scratch: ScratchPlace
    tables: Mapping[str, TableTicket]

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return sum(part.rows for part in self.types.values())


@record
class RuleSettings:
    """How the rules are asked.

    Args:
        kernel: what the relational kernel in one process may use.
        kernel_rows: changes of more rows are judged by Spark's joins, if there is a session.
        scan_rows: how many rows a task of Spark reads at a time.
        hash_rows: Spark's hash joins do not spill; more rows than these in one shuffle partition are sorted instead.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    kernel: KernelSettings = field(default_factory=KernelSettings)
    kernel_rows: int = 8_000_000
    scan_rows: int = 1_000_000
    hash_rows: int = 2_000_000

    def __post_init__(self) -> None:
        check_instance("kernel", self.kernel, KernelSettings, optional=False)
        check_whole("kernel_rows", self.kernel_rows)
        check_whole("scan_rows", self.scan_rows, least=1)
        check_whole("hash_rows", self.hash_rows)


@record
class StoredRelation:
    """Stored rows of a type: ``id`` and one column more, or ``id`` alone.

    Args:
        type: whose rows.
        column: the other column: an end of an edge, or ``value`` for the text of a tuple.
        tuple_of: the columns of that tuple.
        near: the column that has to hold one of ``wanted``.
        wanted: a text that gives one column of values; without it all rows are wanted. An engine may give more rows.
    """

    type: NodeType | EdgeType
    column: str | None = None
    tuple_of: tuple[str, ...] = ()
    near: str = "id"
    wanted: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return ("id",) if self.column is None else ("id", self.column)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the table."""
        return ("id", *(name for name in self.tuple_of or self.names if name != "id"))


class RuleEngine(Protocol):
    """Runs texts over named relations. Names go into texts between back-ticks."""

    def keys(self, part: WrittenType, columns: Sequence[str]) -> str:
        """Return the relation of a type's keys, with at least ``columns``."""
        ...

    def stored(self, wanted: StoredRelation) -> str | None:
        """Return a relation of stored rows, or None when there are none."""
        ...

    def define(self, text: str, *, is_reused: bool = False) -> str:
        """Return the relation that a text gives; one that is reused may be worth keeping."""
        ...

    def rows(self, text: str, *, asks: str, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a text on behalf of the rule called ``asks`` and return its rows as they come."""
        ...

    def save(self, text: str, name: str) -> tuple[str, ...]:
        """Write the rows of a text to scratch objects whose names start with ``name``; return their names."""
        ...
