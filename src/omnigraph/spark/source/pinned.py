"""What a read of a type is pinned to: one version of one table, found once and then only carried.

Workers load this and little else, so it knows nothing of schemas and queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.spark.states import StateTable

# What one task reads at most, unless a single fragment has more.
_MAX_PARTITION_ROWS = 1_000_000


@record
class PinnedType:
    """All that reading a type needs: any process can do it, and all of them see the same rows.

    Args:
        table: its table, at one version.
        schema: the columns of the table.
        fragments: the number of each fragment, and how many rows it has.
    """

    table: StateTable
    schema: pa.Schema
    fragments: tuple[tuple[int, int], ...]

    def groups(self, wanted: int) -> list[tuple[int, ...]]:
        """Return the fragments in ``wanted`` groups of about as many rows, more when those would be too large."""
        return group_fragments(self.fragments, wanted, _MAX_PARTITION_ROWS)


def chosen_columns(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the columns that are asked for, in the order asked for.

    Raises:
        UsageError: there is no such column.
    """
    for name in columns or ():
        if name not in schema.names:
            details = BadValue(what="column", value=name, expected=", ".join(schema.names))
            raise UsageError(f"the type has no such column column={name}", details=details)
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def group_fragments(sizes: Sequence[tuple[int, int]], wanted: int, max_rows: int) -> list[tuple[int, ...]]:
    """Return fragments in groups of about as many rows each; neighbours stay together, empty ones are left out.

    >>> group_fragments([(0, 10), (1, 10), (2, 20), (3, 0)], 2, 1000)
    [(0, 1), (2,)]
    """
    total = sum(rows for _, rows in sizes)
    target = max(1, min(max_rows, -(-total // max(wanted, 1))))
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    held = 0
    for number, rows in sizes:
        if not rows:
            continue
        # Half of a fragment too many is nearer to the target than half of it too few.
        if group and held + rows // 2 > target:
            groups.append(tuple(group))
            group, held = [], 0
        group.append(number)
        held += rows
    return [*groups, tuple(group)] if group else groups
