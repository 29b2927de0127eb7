"""A change of the graph as every write surface hands it over: whole rows and ids per type, nothing staged yet."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.records import record


@record
class TypeChange:
    """What happens to one type's table.

    Args:
        type: the node or edge type.
        rows: whole rows in the table's Arrow schema; None when nothing is written. Of rows with one id the last
            counts, and all of them are judged.
        strict: the rows must not exist yet; otherwise a row of the same id is replaced as a whole.
        deletes: ids to remove; an id in ``rows`` is never in here.
        replaces_all: every stored row that is not in ``rows`` goes too.
        sources: per row the place it came from, as columns ``source`` (position in the change's sources) and
            ``line`` (from 1); None when the rows come from a mutation.
    """

    type: NodeType | EdgeType
    rows: pa.Table | None = None
    strict: bool = False
    has_fresh_ids: bool = False
    deletes: tuple[str, ...] = ()
    replaces_all: bool = False
    sources: pa.Table | None = None

    @property
    def table_key(self) -> str:
        """The table this change is about."""
        return self.type.table_key


@record
class GraphChange:
    """The net effect of one write over all types, with the names of the sources its rows came from."""

    types: Mapping[str, TypeChange]
    sources: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.types
