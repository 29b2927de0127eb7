"""Asking servers for a command: a graph of theirs, or which graphs they have, with the token of the operator."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from omnigraph.cli.operator.config import operator_config
from omnigraph.cli.operator.credentials import token_for
from omnigraph.distribution import pip_install
from omnigraph.errors import ServerFault, ServerUnreachableError
from omnigraph.operations.request import NOTHING, Attachments, BackendWrapper, Request, Response

if TYPE_CHECKING:
    from omnigraph.txn.graph_store import OpenMode

_TIMEOUT_S = 30.0


class OperatorBackend(BackendWrapper):
    """A graph of a server. Writes carry no actor: the server records the one of the token."""

    @classmethod
    def connect(cls, address: str, mode: OpenMode) -> OperatorBackend:
        """Ask for a graph.

        Raises:
            ServerUnreachableError, ServerIncompatibleError: the server cannot be reached, or is another one.
            OmnigraphError: it does not serve the graph, or not to this operator.
        """
        from omnigraph.graph.opening import connect  # noqa: PLC0415 - for graphs of servers

        return cls(connect(address, token=token_for(operator_config(), address), mode=mode, settings=None))

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request."""
        if request.operation.writes and getattr(request, "actor", None) is not None:
            request = cast("Request[Response]", replace(cast("Any", request), actor=None))
        return self._inner.execute(request, attached)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def list_graphs(url: str) -> list[dict[str, Any]]:
    """Return the graphs that a server lists.

    Raises:
        ServerUnreachableError: it cannot be reached.
        LibraryMissingError: what asks servers is not installed.
        OmnigraphError: it does not list them to this operator.
    """
    from omnigraph.engine.results.frames import library  # noqa: PLC0415 - for graphs of servers

    httpx2 = library("httpx2", hint=f"install it with `{pip_install('client')}`")
    from omnigraph.client import GraphAddress  # noqa: PLC0415 - see above
    from omnigraph.client.exchange import common_headers, refusal  # noqa: PLC0415 - see above

    try:
        headers = common_headers(token_for(operator_config(), url))
        answer = httpx2.get(f"{url}/graphs", headers=headers, timeout=_TIMEOUT_S, follow_redirects=False)
    except httpx2.HTTPError as problem:
        fault = ServerFault(address=url, reason=type(problem).__name__)
        raise ServerUnreachableError(f"cannot reach '{url}': {fault.reason}", details=fault) from problem
    if answer.status_code != httpx2.codes.OK:
        raise refusal(GraphAddress(server=url, graph_id=""), answer.status_code, answer.headers, answer.content)
    graphs: list[dict[str, Any]] = answer.json()["graphs"]
    return graphs
