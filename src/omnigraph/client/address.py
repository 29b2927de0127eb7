"""``GraphAddress``: where a graph of a server is."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.records import record
from omnigraph.values.patterns import late_pattern

_SCHEMES = ("http://", "https://")
_EXPECTED = "https://host[:port]/graphs/<graph id>"
_GRAPH = late_pattern(r"(?P<prefix>.*)/graphs/(?P<graph>[^/]+)/?")


def is_server_address(uri: object) -> bool:
    """Whether a graph is asked for through a server.

    >>> is_server_address("https://host/graphs/crm"), is_server_address("s3://bucket/crm")
    (True, False)
    """
    return isinstance(uri, str) and uri.lower().startswith(_SCHEMES)


@record
class GraphAddress:
    """The address of a server, and the id of a graph there."""

    server: str
    graph_id: str

    @classmethod
    def parse(cls, uri: str) -> GraphAddress:
        """Return the address of ``https://host/graphs/crm``.

        Raises:
            ValueFormatError: it is none, or has a password in it.

        >>> str(GraphAddress.parse("https://host:8443/api/graphs/crm/"))
        'https://host:8443/api/graphs/crm'
        """
        try:
            parts = urlsplit(uri)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
            parts = urlsplit("")
        found = _GRAPH.fullmatch(parts.path)
        if parts.username is not None or parts.password is not None:
            raise _invalid("<address with a password>", f"{_EXPECTED}, and the token as an argument")
        if not host or found is None or parts.query or parts.fragment:
            raise _invalid(uri[:200], _EXPECTED)
        shown = f"[{host}]" if ":" in host else host
        place = shown if port is None else f"{shown}:{port}"
        return cls(server=f"{parts.scheme.lower()}://{place}{found['prefix']}", graph_id=found["graph"])

    def url(self, *segments: str) -> str:
        """Return the address of something of the graph."""
        return "/".join([str(self), *(quote(segment, safe="") for segment in segments)])

    def __str__(self) -> str:
        return f"{self.server}/graphs/{self.graph_id}"


def _invalid(shown: str, expected: str) -> ValueFormatError:
    details = BadValue(what="address", value=shown, expected=expected)
    return ValueFormatError(
        f"invalid address of a served graph, expected http://HOST:PORT/graphs/ID: {shown}", details=details
    )
