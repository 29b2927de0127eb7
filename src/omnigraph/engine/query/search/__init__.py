"""Search: text analysis, full-text indexes in memory, vector distances, and the fusion of rankings."""

from omnigraph.engine.query.search.analysis import analyse
from omnigraph.engine.query.search.index import TextIndex
from omnigraph.engine.query.search.indexes import TextIndexes, TextIndexStats
from omnigraph.engine.query.search.ranks import fuse, rank_order
from omnigraph.engine.query.search.vectors import distances, nearest, squared_norms

__all__ = [
    "TextIndex",
    "TextIndexStats",
    "TextIndexes",
    "analyse",
    "distances",
    "fuse",
    "nearest",
    "rank_order",
    "squared_norms",
]
