"""omnigraph: a typed property-graph database on open Lance tables.

``omnigraph.init`` creates a graph, ``omnigraph.open`` opens one; everything else is a method of what they return.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.distribution import VERSION

if TYPE_CHECKING:
    from omnigraph.client.settings import ClientSettings as ClientSettings
    from omnigraph.engine.embedding.settings import EmbeddingSettings as EmbeddingSettings
    from omnigraph.engine.export.options import ExportSettings as ExportSettings
    from omnigraph.engine.external_blobs import ExternalBlobs as ExternalBlobs
    from omnigraph.engine.infer.propose import SchemaProposal as SchemaProposal
    from omnigraph.engine.load.options import LoadSettings as LoadSettings
    from omnigraph.engine.load.sources.dialect import Dialect as Dialect
    from omnigraph.engine.load.sources.source import Source as Source
    from omnigraph.engine.maintenance.auto import MaintenanceSettings as MaintenanceSettings
    from omnigraph.engine.query.options import QueryOptions as QueryOptions
    from omnigraph.engine.results.result import Result as Result
    from omnigraph.errors.base import OmnigraphError as OmnigraphError
    from omnigraph.graph.branch import Branch as Branch
    from omnigraph.graph.diff import Diff as Diff
    from omnigraph.graph.diff import Log as Log
    from omnigraph.graph.feed import Feed as Feed
    from omnigraph.graph.graph import Graph as Graph
    from omnigraph.graph.graph import init as init
    from omnigraph.graph.graph import open as open  # noqa: A004 - what every library of files calls it
    from omnigraph.graph.infer import infer_schema as infer_schema
    from omnigraph.graph.proposals import Proposal as Proposal
    from omnigraph.graph.schema import Schema as Schema
    from omnigraph.graph.state import Snapshot as Snapshot
    from omnigraph.graph.transaction import Transaction as Transaction
    from omnigraph.history.feed.tokens import PageLimits as PageLimits
    from omnigraph.txn.manifest.rows import Commit as Commit
    from omnigraph.txn.settings import TxnSettings as TxnSettings

__version__ = VERSION

__all__ = [
    "Branch",
    "ClientSettings",
    "Commit",
    "Dialect",
    "Diff",
    "EmbeddingSettings",
    "ExportSettings",
    "ExternalBlobs",
    "Feed",
    "Graph",
    "LoadSettings",
    "Log",
    "MaintenanceSettings",
    "OmnigraphError",
    "PageLimits",
    "Proposal",
    "QueryOptions",
    "Result",
    "Schema",
    "SchemaProposal",
    "Snapshot",
    "Source",
    "Transaction",
    "TxnSettings",
    "__version__",
    "infer_schema",
    "init",
    "open",
]

# Where each of them is defined: asking for one loads no other, and importing the package stays instant.
__homes__ = {
    "Branch": "graph.branch",
    "ClientSettings": "client.settings",
    "Commit": "txn.manifest.rows",
    "Dialect": "engine.load.sources.dialect",
    "Diff": "graph.diff",
    "EmbeddingSettings": "engine.embedding.settings",
    "ExportSettings": "engine.export.options",
    "ExternalBlobs": "engine.external_blobs",
    "Feed": "graph.feed",
    "Graph": "graph.graph",
    "LoadSettings": "engine.load.options",
    "Log": "graph.diff",
    "MaintenanceSettings": "engine.maintenance.auto",
    "OmnigraphError": "errors.base",
    "PageLimits": "history.feed.tokens",
    "Proposal": "graph.proposals",
    "QueryOptions": "engine.query.options",
    "Result": "engine.results.result",
    "Schema": "graph.schema",
    "SchemaProposal": "engine.infer.propose",
    "Snapshot": "graph.state",
    "Source": "engine.load.sources.source",
    "Transaction": "graph.transaction",
    "TxnSettings": "txn.settings",
    "infer_schema": "graph.infer",
    "init": "graph.graph",
    "open": "graph.graph",
}


def __getattr__(name: str) -> Any:
    if name in __homes__:
        with import_module(f"{__name__}.runtime.late").loading(much=True):
            return getattr(import_module(f"{__name__}.{__homes__[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return __all__
