"""What an algorithm finds: rows about nodes, in the order of the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.algorithms.projection import Floats, Numbers
from omnigraph.records import record


@record
class Found:
    """Rows: the node of each, further columns, and what is odd about them.

    Args:
        nodes: the number of each row's node.
        columns: the other columns; those in front of the node stand in ``leading``.
        leading: columns that come before type and id.
        warnings: sentences about the run as a whole.
    """

    nodes: Numbers
    columns: Mapping[str, pa.Array]
    leading: Mapping[str, pa.Array] | None = None
    warnings: tuple[str, ...] = ()


def highest_first(name: str, values: npt.NDArray[Any], warnings: tuple[str, ...] = ()) -> Found:
    """Return a row for each node, the highest value first, equal ones by type and id."""
    order = np.argsort(-values, kind="stable")
    return Found(nodes=order, columns={name: pa.array(values[order])}, warnings=warnings)


def in_groups(name: str, labels: Numbers, warnings: tuple[str, ...] = ()) -> Found:
    """Return a row for each node, group by group, with the number of its group and how many nodes that has.

    Groups are numbered by their first member: the group of the first node is 0.
    """
    _, firsts, members, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    ranks = np.empty(len(firsts), dtype=np.int64)
    ranks[np.argsort(firsts)] = np.arange(len(firsts))
    groups = ranks[members]
    order = np.argsort(groups, kind="stable")
    columns = {name: pa.array(groups[order]), "size": pa.array(sizes[members][order].astype(np.int64))}
    return Found(nodes=order, columns=columns, warnings=warnings)


def runs(sorted_keys: Numbers) -> Numbers:
    """Return where equal values begin in a sorted array.

    >>> runs(np.array([3, 3, 5, 7, 7])).tolist()
    [0, 2, 3]
    """
    if not len(sorted_keys):
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([[0], np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1]) + 1]).astype(np.int64)


def summed(keys: Numbers, values: Floats) -> tuple[Numbers, Floats]:
    """Return each of the sorted keys once, with the sum of its values."""
    starts = runs(keys)
    return keys[starts], np.add.reduceat(values, starts) if len(starts) else values[:0]
