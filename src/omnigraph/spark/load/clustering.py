"""Rows that were put aside, brought into ranges of one column, so that neighbours end up in one fragment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ENDPOINTS, Catalog, EdgeType, PropertyType, Scalar
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.runtime import World
from omnigraph.spark.load.options import SparkLoadSettings
from omnigraph.spark.load.written import RowsFile
from omnigraph.spark.runner import Runner
from omnigraph.store.scratch import ScratchPlace
from omnigraph.values import checked_names, meant, unfit

# A column by type, or the word for the usual ones.
ClusterBy = Literal["key"] | Mapping[str, str]

_SAMPLES = 256


def cluster_columns(catalog: Catalog, wanted: ClusterBy | None) -> dict[str, str]:
    """Return the column by which each table's rows are ordered, by table key.

    Raises:
        UsageError: a type or a column is not there, or its values have no order.
    """
    if wanted is None:
        return {}
    if wanted == "key":
        nodes = {node.table_key: node.key[0] if node.key else "id" for node in catalog.nodes.values()}
        return nodes | {edge.table_key: "src" for edge in catalog.edges.values()}
    if not isinstance(wanted, Mapping):
        raise unfit("cluster_by", wanted, "'key' or a column by type", meant(wanted, ("key",)))
    checked_names("cluster_by", (*wanted, *wanted.values()))
    chosen = {}
    for name, column in wanted.items():
        owner = catalog.node(name) or catalog.edge(name)
        spelt = {"from": "src", "to": "dst"}.get(column, column)
        prop = None if owner is None else owner.get(spelt)
        is_id = spelt == "id" or (isinstance(owner, EdgeType) and spelt in ENDPOINTS)
        if owner is None or not (is_id or (prop is not None and _has_order(prop.type))):
            expected = "a column of the type whose values have an order"
            details = BadValue(what="cluster_by", value=f"{name}={column}", expected=expected)
            raise UsageError(f"rows cannot be ordered by this column type={name} column={column}", details=details)
        chosen[owner.table_key] = spelt
    return chosen


@record
class ClusterTask:
    """Where a task finds the rows that it looks at, and the column that decides."""

    scratch: ScratchPlace
    column: str


def cluster_rows(
    runner: Runner, scratch: ScratchPlace, files: Sequence[RowsFile], column: str, settings: SparkLoadSettings
) -> list[tuple[RowsFile, ...]]:
    """Return the rows in groups, each a range of the column's values of about a fragment's size."""
    rows, size = sum(file.rows for file in files), sum(file.size_bytes for file in files)
    count = max(-(-rows // settings.fragment_rows), -(-size // settings.flush_bytes), 1)
    if count == 1:
        return [tuple(files)] if files else []
    task = ClusterTask(scratch=scratch, column=column)
    sampled = runner.run(partial(sample_rows, task), files, "sample the rows to cluster")
    weighted = [(value, file.rows / len(some)) for file, some in zip(files, sampled, strict=True) for value in some]
    splits = _quantiles(weighted, count)
    ranged = runner.run(partial(split_rows, task, splits), files, "cluster the rows")
    groups = [tuple(part[number] for part in ranged if number in part) for number in range(len(splits) + 1)]
    return [group for group in groups if group]


def sample_rows(task: ClusterTask, file: RowsFile) -> list[Any]:
    """Return values of the column that stand for all values of a file."""
    column = _read(task, file).column(task.column).drop_null()
    ordered = column.take(pc.sort_indices(column))
    places = np.unique(np.linspace(0, max(len(ordered) - 1, 0), _SAMPLES).astype(np.int64))
    values: list[Any] = ordered.take(pa.array(places)).to_pylist() if len(ordered) else []
    return values


def split_rows(task: ClusterTask, splits: Sequence[Any], file: RowsFile) -> dict[int, RowsFile]:
    """Write the rows of a file into one file per range that they meet, and return those by the range's number."""
    rows = _read(task, file)
    order = pc.array_sort_indices(rows.column(task.column).combine_chunks(), null_placement="at_start")
    rows = rows.take(order)
    column, nulls = rows.column(task.column), rows.column(task.column).null_count
    attempt = World.system().ids.ulid()
    found, start = {}, 0
    for number in range(len(splits) + 1):
        end = rows.num_rows
        if number < len(splits):
            end = bisect_right(range(rows.num_rows), splits[number], lo=nulls, key=lambda at: column[at].as_py())
        part = rows.slice(start, end - start)
        if part.num_rows:
            name = f"{file.name}-{attempt}-{number}"
            task.scratch.put(name, part)
            found[number] = RowsFile(table_key=file.table_key, name=name, rows=part.num_rows, size_bytes=part.nbytes)
        start = end
    return found


def _has_order(kind: PropertyType) -> bool:
    return not (kind.is_list or kind.is_vector or kind.scalar is Scalar.BLOB)


def _read(task: ClusterTask, file: RowsFile) -> pa.Table:
    return pa.Table.from_batches(task.scratch.read_arrow(file.name))


def _quantiles(weighted: list[tuple[Any, float]], count: int) -> list[Any]:
    """Return the values that cut all rows into ``count`` ranges of about the same size, each once."""
    ordered = sorted(weighted, key=lambda item: item[0])
    total = sum(weight for _, weight in ordered)
    splits: list[Any] = []
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        if len(splits) < count - 1 and passed >= total * (len(splits) + 1) / count and splits[-1:] != [value]:
            splits.append(value)
    return splits
