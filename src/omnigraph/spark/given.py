"""The graph that a call is given: what people hold, or the session behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.engine.session import GraphSession

if TYPE_CHECKING:
    from omnigraph.graph import Graph


def session_of(graph: Graph | GraphSession) -> GraphSession:
    """Return the session of a graph.

    Raises:
        ForkedProcessError: the graph was opened before this process was forked off.
    """
    return graph if isinstance(graph, GraphSession) else graph.session
