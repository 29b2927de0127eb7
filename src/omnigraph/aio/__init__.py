"""Graphs on an event loop: the objects of ``omnigraph`` with methods to be awaited.

``await omnigraph.aio.open(...)`` opens a graph; everything else is a method of what it returns.
"""

from omnigraph.aio.facade import Branch as Branch
from omnigraph.aio.facade import Diff as Diff
from omnigraph.aio.facade import Feed as Feed
from omnigraph.aio.facade import Graph as Graph
from omnigraph.aio.facade import Log as Log
from omnigraph.aio.facade import Proposal as Proposal
from omnigraph.aio.facade import Snapshot as Snapshot
from omnigraph.aio.facade import Transaction as Transaction
from omnigraph.aio.facade import init as init
from omnigraph.aio.facade import open as open  # noqa: A004 - what every library of files calls it
