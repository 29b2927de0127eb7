"""Input rows: the load format read exactly, one by one or in columns. Knows schemas, and nothing of storage."""

from omnigraph.engine.rows.cells import RowProblem
from omnigraph.engine.rows.columnar import ChunkDecoder, DecodedChunk
from omnigraph.engine.rows.columns import TypeRows, join, open_schema, rows_of
from omnigraph.engine.rows.decoder import DecodedRow, RowDecoder

__all__ = [
    "ChunkDecoder",
    "DecodedChunk",
    "DecodedRow",
    "RowDecoder",
    "RowProblem",
    "TypeRows",
    "join",
    "open_schema",
    "rows_of",
]
