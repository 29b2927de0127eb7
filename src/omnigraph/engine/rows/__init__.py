"""Input rows: the load format read exactly, one by one or in columns. Knows schemas, and nothing of storage."""

from omnigraph.engine.rows.batch import TypeRows, join, open_schema, rows_of
from omnigraph.engine.rows.chunk import ChunkDecoder, DecodedChunk
from omnigraph.engine.rows.decoder import DecodedRow, RowDecoder
from omnigraph.engine.rows.problem import RowProblem

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
