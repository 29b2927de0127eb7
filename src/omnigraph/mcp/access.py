"""What agents reach: a graph as one caller sees it, and the host that finds it for a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from omnigraph.errors import OmnigraphError
from omnigraph.operations.request import Backend
from omnigraph.policy import Action
from omnigraph.records import record
from omnigraph.values import MAIN

Answer = TypeVar("Answer")
DEFAULT_QUERY_TOOLS = 20


class Requires(Protocol):
    """Returns if the caller may do something, and raises if not."""

    def __call__(self, action: Action, *, branch: str | None, target: str | None = None) -> None:
        """Return, or raise."""


def allow_everything(action: Action, *, branch: str | None, target: str | None = None) -> None:
    """Leave the decision to whatever executes the request."""
    del action, branch, target


@record
class AgentGraph:
    """A graph as one caller sees it.

    Args:
        backend: what executes the requests of this caller.
        actor: who commits; None if there are no identities.
        branch: where tools read unless they name a branch, and where fresh branches begin.
        protected: the branches that are merged into with the consent of a person only.
        guarded: those of them that are written to with the consent of a person only; to the others a policy decides.
        is_read_only: whether nothing may be written.
        require: returns if the caller may do something, before anything is asked of a person.
    """

    backend: Backend
    actor: str | None = None
    branch: str = MAIN
    protected: frozenset[str] = frozenset({MAIN})
    guarded: frozenset[str] = frozenset()
    is_read_only: bool = False
    require: Requires = allow_everything


@record
class WriteKey:
    """The key under which a write may be sent again, and what tells two payloads under one key apart."""

    key: str
    digest: str


class AgentHost(Protocol):
    """What serves graphs to agents: a process for one of them, or a server.

    ``request`` is what the transport attached to a message: the HTTP request, or None on standard input.
    """

    @property
    def is_read_only(self) -> bool:
        """Whether the tools that write are hidden."""

    @property
    def query_tools(self) -> int:
        """How many stored queries become tools of their own at most."""

    def graphs(self, request: Any) -> tuple[str, ...] | None:
        """Return the ids that a tool may be asked for; None where the address names the graph."""

    def open(self, request: Any, graph_id: str | None, key: WriteKey | None = None) -> AgentGraph:
        """Return the graph that a message is about, as its sender sees it.

        Raises:
            OmnigraphError: there is no such graph, or several and none is named.
        """

    def run(self, work: Callable[[], Answer], *, is_write: bool = False) -> Awaitable[Answer]:
        """Do something that waits for storage."""

    def shown(self, error: OmnigraphError, request: Any) -> OmnigraphError:
        """Return an error as the caller may see it."""
