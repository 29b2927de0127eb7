"""The objects that people hold: a graph, its branches, its states, and what they answer with."""

from omnigraph.engine.results import Result
from omnigraph.graph.branch import Branch
from omnigraph.graph.diff import Diff
from omnigraph.graph.graph import Graph
from omnigraph.graph.log import Log
from omnigraph.graph.opening import init, open  # noqa: A004 - what every library of files calls it
from omnigraph.graph.schema import Schema
from omnigraph.graph.snapshot import Snapshot
from omnigraph.txn.manifest.rows import Commit

__all__ = ["Branch", "Commit", "Diff", "Graph", "Log", "Result", "Schema", "Snapshot", "init", "open"]
