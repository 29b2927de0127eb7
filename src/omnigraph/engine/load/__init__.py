"""Loads: rows from files into one commit."""

from omnigraph.engine.load.load_files import load
from omnigraph.engine.load.options import ChangeCounts, LoadMode, LoadProgress, LoadResult, LoadSettings, OnDelete
from omnigraph.engine.load.sources.dialect import Dialect
from omnigraph.engine.load.sources.source import Source, SourceFormat

__all__ = [
    "ChangeCounts",
    "Dialect",
    "LoadMode",
    "LoadProgress",
    "LoadResult",
    "LoadSettings",
    "OnDelete",
    "Source",
    "SourceFormat",
    "load",
]
