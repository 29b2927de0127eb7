"""Search: text analysis, full-text indexes, vector distances, and the fusion of rankings."""

from omnigraph.engine.query.search.analysis import analyse
from omnigraph.engine.query.search.index import TextIndex
from omnigraph.engine.query.search.indexes import TextIndexes, TextIndexStats
from omnigraph.engine.query.search.ranks import fuse, rank_order
from omnigraph.engine.query.search.stored import build_text
from omnigraph.engine.query.search.vectors import distances, nearest, squared_norms

__all__ = [
    "TextIndex",
    "TextIndexStats",
    "TextIndexes",
    "analyse",
    "build_text",
    "distances",
    "fuse",
    "nearest",
    "rank_order",
    "squared_norms",
]
