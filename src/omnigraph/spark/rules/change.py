"""A change that is judged by its keys: the keys files of its rows, and the state that it is made on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.kernel import KernelSettings
from omnigraph.records import record
from omnigraph.spark.keys import KeysFile, Places, tuple_columns
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket
from omnigraph.values import check_instance, check_whole


@record
class TypeKeys:
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

    @property
    def replaces_some(self) -> bool:
        """Whether a stored row may give way to one of the same id while other stored rows stay."""
        # Ids that must not be there yet have been looked for already.
        return not (self.strict or self.replaces_all or self.has_fresh_ids)


@record
class ChangeKeys:
    """One write over all types. It can be pickled, and holds no row.

    Args:
        catalog: the schema.
        types: what happens to each table, in the order in which the input names them.
        places: what the row numbers of the keys files stand for.
        scratch: where the keys files are.
        tables: the tables of the state that the change is made on; one that is left out holds nothing.
    """

    catalog: Catalog
    types: Mapping[str, TypeKeys]
    places: Places
    scratch: ScratchPlace
    tables: Mapping[str, TableTicket]

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return sum(keys.rows for keys in self.types.values())


@record
class RuleSettings:
    """How the rules are asked.

    Args:
        kernel: what the relational kernel of one task may use.
        bucket_rows: about how many rows one task judges; a change of more is split into buckets.
        split_rows: how many rows a task puts into buckets at a time.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    kernel: KernelSettings = field(default_factory=KernelSettings)
    bucket_rows: int = 4_000_000
    split_rows: int = 1_000_000

    def __post_init__(self) -> None:
        check_instance("kernel", self.kernel, KernelSettings, optional=False)
        check_whole("bucket_rows", self.bucket_rows, least=1)
        check_whole("split_rows", self.split_rows, least=1)


@record
class StoredRelation:
    """Stored rows of a type: ``id`` and one column more, or ``id`` alone. Columns are named as in keys files.

    Args:
        type: whose rows.
        column: the other column: an end of an edge, or the text of a tuple, which the relation calls ``value``.
        near: the column that has to hold one of ``wanted``.
        wanted: a text that gives one column of values; without it all rows are wanted. An engine may give more rows.
    """

    type: NodeType | EdgeType
    column: str | None = None
    near: str = "id"
    wanted: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return ("id",) if self.column is None else ("id", self.alias(self.column))

    @property
    def tuple_of(self) -> tuple[str, ...]:
        """The columns of the tuple, when the other column is one."""
        return () if self.column is None else tuple_columns(self.type).get(self.column, ())

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the table."""
        return ("id", *(name for name in self.tuple_of or self.names if name != "id"))

    def alias(self, column: str) -> str:
        """Return what the relation calls a column."""
        return "value" if column in tuple_columns(self.type) else column


class RuleEngine(Protocol):
    """Runs texts over named relations of a change, or of one bucket of it. Names go into texts between back-ticks.

    ``by`` is the column that decides which bucket a row is in. Rows in one bucket by two columns are other rows.
    """

    def written(self, keys: TypeKeys, columns: Sequence[str], by: str) -> str:
        """Return the relation of a type's keys, with at least ``columns``; rows without a value in ``by`` may lack."""
        ...

    def stored(self, wanted: StoredRelation) -> str | None:
        """Return a relation of stored rows, or None when there are none."""
        ...

    def has_repeated_ids(self, keys: TypeKeys) -> bool:
        """Whether several rows have one id, among those in the bucket by ``id``."""
        ...

    def superseded(self, keys: TypeKeys, by: str) -> str | None:
        """Return the ``row`` of each row that a later one of the same id replaces; None when there are none."""
        ...

    def replaced(self, keys: TypeKeys, by: str) -> str | None:
        """Return the ``id`` of stored rows that rows of the change replace, perhaps of others; None for none."""
        ...

    def left(self, keys: TypeKeys) -> str | None:
        """Return ``src`` of the stored edges that rows of the change replace; None when there are none."""
        ...

    def define(self, text: str, *, is_reused: bool = False) -> str:
        """Return the relation that a text gives; one that is reused may be worth keeping."""
        ...

    def rows(self, text: str, *, asks: str, limit: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a text on behalf of the rule called ``asks`` and return its rows as they come."""
        ...

    def save(self, text: str, name: str) -> None:
        """Write the rows of a text to a scratch object."""
        ...
