"""The objects that people hold: a graph, its branches and states, what they answer with, what calls may be told."""

from omnigraph.engine.embedding import EmbeddingSettings
from omnigraph.engine.export import ExportSettings
from omnigraph.engine.load import LoadSettings
from omnigraph.engine.maintenance.settings import MaintenanceSettings
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.results import Result
from omnigraph.graph.branch import Branch
from omnigraph.graph.diff import Diff
from omnigraph.graph.graph import Graph
from omnigraph.graph.log import Log
from omnigraph.graph.opening import init, open  # noqa: A004 - what every library of files calls it
from omnigraph.graph.schema import Schema
from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.feed.pages import PageLimits
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.settings import TxnSettings

__all__ = [
    "Branch",
    "Commit",
    "Diff",
    "EmbeddingSettings",
    "ExportSettings",
    "Graph",
    "LoadSettings",
    "Log",
    "MaintenanceSettings",
    "PageLimits",
    "QueryOptions",
    "Result",
    "Schema",
    "Snapshot",
    "TxnSettings",
    "init",
    "open",
]
