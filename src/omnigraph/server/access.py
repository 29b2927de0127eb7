"""Who asks, and what they may do: the one place where routes meet identities and policies."""

from __future__ import annotations

from omnigraph.operations.request import Action, Backend
from omnigraph.records import record


@record
class Actor:
    """Who a request comes from."""

    name: str
    groups: tuple[str, ...] = ()


class Access:
    """What a server demands of callers. This one demands nothing: every caller may do everything."""

    @property
    def is_open(self) -> bool:
        """Whether no caller has to say who it is."""
        return True

    def authenticate(self, authorization: str | None) -> Actor | None:
        """Return who sends a header; None where nobody has to say."""
        del authorization
        return None

    def backend(self, graph_id: str, inner: Backend, actor: Actor | None) -> Backend:
        """Return what executes the requests of an actor on a graph."""
        del graph_id, actor
        return inner

    def require(
        self, graph_id: str, actor: Actor | None, action: Action, *, branch: str | None, target: str | None = None
    ) -> None:
        """Return if an actor may do something on a graph.

        Raises:
            OmnigraphError: it may not.
        """
