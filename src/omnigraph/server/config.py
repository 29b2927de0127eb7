"""What a server serves and how: the settings of one process, and the graphs that it opens."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import quote

from omnigraph.engine.embedding.settings import EmbeddingSettings
from omnigraph.errors import BadValue, UsageError
from omnigraph.ir.stored_queries import QuerySource
from omnigraph.records import record

# What a path of the API may call a graph.
GRAPH_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
RESERVED_IDS = frozenset({"policies", "healthz", "openapi", "graphs"})
LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8080
_FALSE = frozenset({"", "0", "false"})


@record
class PolicyText:
    """A policy bundle, and what errors call it."""

    name: str
    data: bytes = field(repr=False)


@record
class ServedGraph:
    """A graph to serve.

    Args:
        graph_id: what paths call it.
        uri: where it lives.
        queries: the files of its stored queries.
        policy_file: the bundle that decides about it, if a file has it.
        policy: the bundle that decides about it, if it comes as a text.
        blob_bases: the bases of buckets whose objects Blobs may be given as.
        embedding: who embeds its texts; the environment says so when None.
    """

    graph_id: str
    uri: str
    queries: tuple[QuerySource, ...] = ()
    policy_file: Path | None = None
    policy: PolicyText | None = None
    blob_bases: tuple[str, ...] = ()
    embedding: EmbeddingSettings | None = None


@record
class BlockedGraph:
    """A graph that cannot be served, and why."""

    graph_id: str
    uri: str
    reason: str


def public_uri(graph_id: str) -> str:
    """Return what callers are told of where a graph is: its address on this server, not its place of storage."""
    return f"/graphs/{quote(graph_id, safe='')}"


@record
class ServerLimits:
    """What protects the process; sizes are bytes.

    Args:
        body: the longest body of a request.
        load_body: the longest body of a load.
        body_memory: all bodies together that are in memory.
        upload: the longest body of a request with files, which is laid down on disk.
        body_seconds: how long a body may take to arrive.
        threads: how many operations run at the same time.
        streams: how many results are streamed at the same time.
        export_streams: exports and baselines of one graph at the same time.
        export_hold_s: how long an export keeps branches of its graph from being made and deleted.
        transport_streams: exports and baselines of all graphs at the same time.
        transport_wait_s: how long an export waits for one of those.
        stalled_s: how long a stream waits for a reader that takes nothing.
    """

    body: int = 1 << 20
    load_body: int = 32 << 20
    body_memory: int = 256 << 20
    upload: int = 4 << 30
    body_seconds: float = 60.0
    threads: int = 64
    streams: int = 64
    export_streams: int = 1
    export_hold_s: float = 600.0
    transport_streams: int = 8
    transport_wait_s: float = 0.25
    stalled_s: float = 30.0


@record
class ServerSettings:
    """Everything that one process needs to know before it serves.

    Args:
        graphs: the graphs to serve.
        blocked: graphs that are known not to be served, and why.
        host: the address to listen on.
        port: the port to listen on; 0 lets the system choose.
        is_cluster: whether a cluster describes the graphs, so that schemas change through it alone.
        unauthenticated: whether the server may run without any token.
        requires_all_graphs: whether one graph that cannot be served keeps the server from starting.
        policy_file: the bundle that decides about the server itself, if a file has it.
        policy: the same, if it comes as a text.
        identity: variables of an identity provider that the command line gives; they win over the environment.
        owner_token: a token made for this run; who holds it may do everything. No other token is read then.
        limits: what protects the process.
        offers_agents: whether the graphs are offered to agents at ``/mcp``; the environment can say no, too.
    """

    graphs: tuple[ServedGraph, ...]
    blocked: tuple[BlockedGraph, ...] = ()
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    is_cluster: bool = False
    unauthenticated: bool = False
    requires_all_graphs: bool = False
    policy_file: Path | None = None
    policy: PolicyText | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    owner_token: str | None = field(default=None, repr=False)
    limits: ServerLimits = field(default_factory=ServerLimits)
    offers_agents: bool = True


def single_graph(address: str) -> ServedGraph:
    """Return the graph at one address, under an id that is made of the last part of the address.

    >>> single_graph("s3://bucket/my_graph.omni").graph_id
    'my-graph'
    """
    stem = address.rstrip("/").rpartition("/")[2].rpartition(os.sep)[2].removesuffix(".omni")
    graph_id = re.sub("[^a-zA-Z0-9-]+", "-", stem).strip("-")[:64]
    return ServedGraph(graph_id="graph" if not graph_id or graph_id in RESERVED_IDS else graph_id, uri=address)


def is_graph_id(text: str) -> bool:
    """Whether paths may call a graph so.

    >>> is_graph_id("crm"), is_graph_id("my_graph"), is_graph_id("healthz")
    (True, False, False)
    """
    return GRAPH_ID.fullmatch(text) is not None and text not in RESERVED_IDS


def parse_bind(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``.

    >>> parse_bind("127.0.0.1:0"), parse_bind("[::1]:8080")
    (('127.0.0.1', 0), ('::1', 8080))

    Raises:
        UsageError: it is something else.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        details = BadValue(what="bind", value=text, expected="HOST:PORT")
        raise UsageError(f"invalid address to listen on '{text}'", details=details)
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable of the environment says yes: every text but none, ``0`` and ``false``."""
    return environment.get(name, "").strip().lower() not in _FALSE
