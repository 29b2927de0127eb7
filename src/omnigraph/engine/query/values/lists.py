"""Membership in list columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.query.frame import Mask


def rows_with_member(lists: pa.Array, is_wanted: Callable[[pa.Array, pa.Array], pa.Array]) -> Mask:
    """Return which lists have a member that is wanted.

    Args:
        lists: a list column; NULL and empty lists have no members.
        is_wanted: given the members of all lists and the row each belongs to, which of them are wanted.
    """
    found = np.zeros(len(lists), dtype=np.bool_)
    members, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
    if len(members):
        wanted = is_wanted(members, rows).to_numpy(zero_copy_only=False)
        found[rows.to_numpy(zero_copy_only=False)[wanted]] = True
    return found
