"""The graph that a call is given: what people hold, or the session behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.engine.session import GraphSession
from omnigraph.values import unfit

if TYPE_CHECKING:
    from omnigraph.graph import Graph


def session_of(graph: Graph | GraphSession) -> GraphSession:
    """Return the session of a graph.

    Raises:
        UsageError: it is no graph.
        ForkedProcessError: the graph was opened before this process was forked off.
    """
    session: object = graph if isinstance(graph, GraphSession) else getattr(graph, "session", None)
    if not isinstance(session, GraphSession):
        raise unfit("graph", graph, "an open graph")
    return session
