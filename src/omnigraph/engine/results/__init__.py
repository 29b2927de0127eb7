"""Results of reads: Arrow inside, and every encoding of them."""

from omnigraph.engine.results.encodings import CellLayout
from omnigraph.engine.results.info import ReadInfo, SupportsExplanation
from omnigraph.engine.results.result import Result

__all__ = ["CellLayout", "ReadInfo", "Result", "SupportsExplanation"]
