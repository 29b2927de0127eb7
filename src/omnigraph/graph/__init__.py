"""The objects that people hold: a graph, its branches and states, what they answer with, what calls may be told."""

from omnigraph.client import ClientSettings as ClientSettings
from omnigraph.engine.embedding import EmbeddingSettings as EmbeddingSettings
from omnigraph.engine.export import ExportSettings as ExportSettings
from omnigraph.engine.external_blobs import ExternalBlobs as ExternalBlobs
from omnigraph.engine.infer import SchemaProposal as SchemaProposal
from omnigraph.engine.load import Dialect as Dialect
from omnigraph.engine.load import LoadSettings as LoadSettings
from omnigraph.engine.load import Source as Source
from omnigraph.engine.maintenance.auto import MaintenanceSettings as MaintenanceSettings
from omnigraph.engine.query.options import QueryOptions as QueryOptions
from omnigraph.engine.results import Result as Result
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
