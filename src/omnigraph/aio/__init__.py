"""Graphs on an event loop: the objects of ``omnigraph`` with methods to be awaited.

``await omnigraph.aio.open(...)`` opens a graph; everything else is a method of what it returns.
"""

from omnigraph.aio.branch import Branch as Branch
from omnigraph.aio.diff import Diff as Diff
from omnigraph.aio.diff import Log as Log
from omnigraph.aio.feed import Feed as Feed
from omnigraph.aio.graph import Graph as Graph
from omnigraph.aio.graph import init as init
from omnigraph.aio.graph import open as open  # noqa: A004 - what every library of files calls it
from omnigraph.aio.proposals import Proposal as Proposal
from omnigraph.aio.state import Snapshot as Snapshot
from omnigraph.aio.transaction import Transaction as Transaction
