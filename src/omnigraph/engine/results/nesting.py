"""Columns of lists and vectors: their items in one go, and back into one group per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")


def is_nested(of: pa.DataType) -> bool:
    """Whether values of this type hold items."""
    return is_vector(of) or pa.types.is_list(of) or pa.types.is_large_list(of)


def is_vector(of: pa.DataType) -> bool:
    """Whether values of this type are vectors."""
    return bool(pa.types.is_fixed_size_list(of))


def regroup(column: pa.Array, items: Sequence[T]) -> Iterator[list[T] | None]:
    """Yield the items of each row, None for NULL; ``items`` stand for those of ``column.flatten()``."""
    position = 0
    for length in pc.list_value_length(column).to_pylist():
        if length is None:
            yield None
        else:
            yield list(items[position : position + length])
            position += length
