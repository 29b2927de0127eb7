"""Loads: rows from files into one commit."""

from omnigraph.engine.load.load_files import load
from omnigraph.engine.load.options import LoadMode, LoadProgress, LoadResult, LoadSettings
from omnigraph.engine.load.sources import Source, SourceFormat

__all__ = ["LoadMode", "LoadProgress", "LoadResult", "LoadSettings", "Source", "SourceFormat", "load"]
