"""Who asks, and what they may do: the one place where routes meet identities and policies."""

from __future__ import annotations

from omnigraph.operations.request import Backend
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
        """Whether callers need not say who they are."""
        return True

    def authenticate(self, authorization: str | None) -> Actor | None:
        """Return who sends a header; None where callers need not say."""
        del authorization
        return None

    def backend(self, graph_id: str, inner: Backend, actor: Actor | None) -> Backend:
        """Return what executes the requests of an actor on a graph."""
        del graph_id, actor
        return inner

    def require(
        self, graph_id: str | None, actor: Actor | None, action: str, *, branch: str | None, target: str | None = None
    ) -> None:
        """Return if an actor may do something on a graph, or on the server itself.

        Raises:
            OmnigraphError: it may not.
        """
