"""Frames of one column of texts, each a line of the load format: rows of several types.

Each names its type itself. What is written together is one commit, so that an edge and the nodes that it joins can
travel in one stream.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.rows import ChunkDecoder, DecodedChunk
from omnigraph.spark.loads.written import WriteOrders

# As Spark calls the column of a text file, and of the messages of Kafka.
COLUMN = "value"


def are_lines(columns: pa.Schema) -> bool:
    """Whether rows are lines of the load format.

    >>> are_lines(pa.schema([("value", pa.string())])), are_lines(pa.schema([("value", pa.int64())]))
    (True, False)
    """
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return columns.names == [COLUMN] and any(is_kind(columns.field(0).type) for is_kind in kinds)


def line_decoder(orders: WriteOrders) -> Callable[[pa.RecordBatch, int], DecodedChunk]:
    """Return what decodes a batch of lines; the number is that of its first line."""
    decoder = ChunkDecoder(
        orders.opened or orders.catalog, truncate=orders.truncate, takes_changes=orders.takes_changes
    )
    return lambda batch, first: decoder.decode(line_bytes(batch.column(COLUMN)), first)


def line_bytes(texts: pa.Array) -> bytes:
    r"""Return texts as the lines of a file. A null is a line too, one that cannot be read.

    Line breaks within a value become returns: JSON skips and refuses the two in the same places.

    >>> line_bytes(pa.array(['{"type":\n"A"}', None]))
    b'{"type":\r"A"}\nnull\n'
    """
    whole = pc.fill_null(texts.cast(pa.large_binary()), b"null")
    lines = pc.replace_substring(whole, "\n", "\r").to_pylist()
    return b"".join(line + b"\n" for line in lines)
