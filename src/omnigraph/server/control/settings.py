"""What an operator may set: how much requests may take, where figures are shown, how a server ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import field

from omnigraph.records import record
from omnigraph.runtime import smallest
from omnigraph.server.config import is_set, parse_bind
from omnigraph.values import size_of

_log = logging.getLogger("omnigraph.server")
_GIB = 1 << 30


@record
class AdmissionLimits:
    """How much may be under way.

    Args:
        actor_writes: writes of one actor; ``OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX``.
        actor_bytes: their estimated size; ``OMNIGRAPH_PER_ACTOR_BYTES_MAX``.
        all_writes: writes of all actors together; ``OMNIGRAPH_INFLIGHT_MAX``.
        all_bytes: their estimated size; ``OMNIGRAPH_INFLIGHT_BYTES_MAX``.
        actor_feeds: change streams of one actor; ``OMNIGRAPH_PER_ACTOR_CHANGE_STREAMS_MAX``.
        all_feeds: change streams of all actors together; ``OMNIGRAPH_CHANGE_STREAMS_MAX``.
    """

    actor_writes: int = 16
    actor_bytes: int = 4 * _GIB
    all_writes: int = 256
    all_bytes: int = 16 * _GIB
    actor_feeds: int = 32
    all_feeds: int = 128


@record
class TransactionLimits:
    """How many transactions may be open, how much they may hold, and for how long.

    Args:
        of_actor: open transactions of one actor; ``OMNIGRAPH_PER_ACTOR_TRANSACTIONS_MAX``.
        of_all: open transactions of all actors together; ``OMNIGRAPH_TRANSACTIONS_MAX``.
        actor_bytes: what those of one actor hold; ``OMNIGRAPH_PER_ACTOR_TRANSACTION_BYTES_MAX``.
        all_bytes: what all of them hold; ``OMNIGRAPH_TRANSACTION_BYTES_MAX``.
        idle_s: for how long one may not be used before it is rolled back; ``OMNIGRAPH_TRANSACTION_IDLE_SECONDS``.
        age_s: for how long one may be open; ``OMNIGRAPH_TRANSACTION_SECONDS``.
    """

    of_actor: int = 16
    of_all: int = 256
    actor_bytes: int = _GIB
    all_bytes: int = 4 * _GIB
    idle_s: int = 600
    age_s: int = 3600


@record
class RequestLimits:
    """What one request may take; None sets no limit. A request may ask for less.

    Args:
        query_ms: how long a read may take; ``OMNIGRAPH_MAX_QUERY_MS``.
        rows: how many rows a read may return; ``OMNIGRAPH_MAX_ROWS``.
        memory_bytes: how much a read may hold at one time; ``OMNIGRAPH_MAX_QUERY_MEMORY``, or else what the engine
            allows.
        affected: how many entities a write may change; ``OMNIGRAPH_MAX_AFFECTED``.
    """

    query_ms: int | None = None
    rows: int | None = None
    memory_bytes: int | None = None
    affected: int | None = None

    def within(self, most: RequestLimits) -> RequestLimits:
        """Return what is asked for, capped by what is allowed."""
        return RequestLimits(
            query_ms=smallest(self.query_ms, most.query_ms),
            rows=smallest(self.rows, most.rows),
            memory_bytes=smallest(self.memory_bytes, most.memory_bytes),
            affected=smallest(self.affected, most.affected),
        )


@record
class ConnectionLimits:
    """How many connections there may be, and how long one may keep the server waiting; whole seconds.

    Args:
        most: connections at the same time; requests of further ones are answered with 503;
            ``OMNIGRAPH_MAX_CONNECTIONS``.
        head_s: how long the head of a request may take to arrive; ``OMNIGRAPH_HEADER_SECONDS``.
        body_s: how long a body may take to arrive, and how long files may take for 64 KiB;
            ``OMNIGRAPH_BODY_SECONDS``.
        stalled_s: how long a stream waits for a reader that takes nothing before it ends;
            ``OMNIGRAPH_STALLED_SECONDS``.
        reader_s: how long a connection waits for such a reader before it is closed; ``OMNIGRAPH_READER_SECONDS``.
    """

    most: int = 4096
    head_s: int = 15
    body_s: int = 60
    stalled_s: int = 30
    reader_s: int = 90


@record
class AgentSettings:
    """How graphs are offered to agents at ``/mcp``.

    Args:
        is_on: whether they are; ``OMNIGRAPH_MCP``, ``0`` to say no.
        is_read_only: whether no tool is offered that writes; ``OMNIGRAPH_MCP_READ_ONLY``.
        query_tools: how many stored queries become tools of their own; ``OMNIGRAPH_MCP_QUERY_TOOLS``.
        hosts: the names that requests of agents, and all requests to an open server, may be sent to and come from;
            ``OMNIGRAPH_MCP_HOSTS``, separated by commas.
    """

    is_on: bool = True
    is_read_only: bool = False
    query_tools: int = 20
    hosts: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> AgentSettings:
        """Return what the environment sets."""
        hosts = environment.get("OMNIGRAPH_MCP_HOSTS", "").split(",")
        most = _positive(environment, "OMNIGRAPH_MCP_QUERY_TOOLS")
        return cls(
            is_on="OMNIGRAPH_MCP" not in environment or is_set(environment, "OMNIGRAPH_MCP"),
            is_read_only=is_set(environment, "OMNIGRAPH_MCP_READ_ONLY"),
            hosts=frozenset(name for one in hosts if (name := one.strip().lower())),
            **({} if most is None else {"query_tools": most}),
        )


@record
class ControlSettings:
    """Everything that the environment sets about running a server.

    Args:
        admission: how much may be under way.
        limits: what one request may take.
        connections: how many there may be, and how long each may take.
        shows_metrics: whether ``/metrics`` is served beside the graphs; ``OMNIGRAPH_METRICS``.
        metrics_bind: an address of its own for ``/metrics``, without tokens; ``OMNIGRAPH_METRICS_BIND``.
        drain_s: how long requests may take to end after a signal; ``OMNIGRAPH_DRAIN_SECONDS``.
        notice_s: for how long the server answers ``/readyz`` with 503 before it stops to take connections;
            ``OMNIGRAPH_DRAIN_NOTICE_SECONDS``.
        transactions: how many may be open, and for how long.
        agents: how graphs are offered to agents.
        cluster_poll_ms: how often a server of a cluster looks whether another revision was applied; 0 leaves that to
            ``SIGHUP``; ``OMNIGRAPH_CLUSTER_POLL_MS``.

    Raises:
        UsageError: an address makes no sense.
    """

    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    limits: RequestLimits = field(default_factory=lambda: RequestLimits(query_ms=300_000))
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    shows_metrics: bool = False
    metrics_bind: tuple[str, int] | None = None
    drain_s: int = 30
    notice_s: int = 0
    transactions: TransactionLimits = field(default_factory=TransactionLimits)
    agents: AgentSettings = field(default_factory=AgentSettings)
    cluster_poll_ms: int = 2000

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ControlSettings:
        """Return what the environment sets; a number that makes no sense is told of and left out."""

        def numbers(**names: str) -> dict[str, int]:
            return {one: found for one, name in names.items() if (found := _positive(environment, name)) is not None}

        bind = environment.get("OMNIGRAPH_METRICS_BIND", "").strip()
        limits = {"query_ms": 300_000} | numbers(
            query_ms="OMNIGRAPH_MAX_QUERY_MS",
            rows="OMNIGRAPH_MAX_ROWS",
            memory_bytes="OMNIGRAPH_MAX_QUERY_MEMORY",
            affected="OMNIGRAPH_MAX_AFFECTED",
        )
        return cls(
            admission=AdmissionLimits(
                **numbers(
                    actor_writes="OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX",
                    actor_bytes="OMNIGRAPH_PER_ACTOR_BYTES_MAX",
                    all_writes="OMNIGRAPH_INFLIGHT_MAX",
                    all_bytes="OMNIGRAPH_INFLIGHT_BYTES_MAX",
                    actor_feeds="OMNIGRAPH_PER_ACTOR_CHANGE_STREAMS_MAX",
                    all_feeds="OMNIGRAPH_CHANGE_STREAMS_MAX",
                )
            ),
            limits=RequestLimits(**limits),
            connections=ConnectionLimits(
                **numbers(
                    most="OMNIGRAPH_MAX_CONNECTIONS",
                    head_s="OMNIGRAPH_HEADER_SECONDS",
                    body_s="OMNIGRAPH_BODY_SECONDS",
                    stalled_s="OMNIGRAPH_STALLED_SECONDS",
                    reader_s="OMNIGRAPH_READER_SECONDS",
                )
            ),
            transactions=TransactionLimits(
                **numbers(
                    of_actor="OMNIGRAPH_PER_ACTOR_TRANSACTIONS_MAX",
                    of_all="OMNIGRAPH_TRANSACTIONS_MAX",
                    actor_bytes="OMNIGRAPH_PER_ACTOR_TRANSACTION_BYTES_MAX",
                    all_bytes="OMNIGRAPH_TRANSACTION_BYTES_MAX",
                    idle_s="OMNIGRAPH_TRANSACTION_IDLE_SECONDS",
                    age_s="OMNIGRAPH_TRANSACTION_SECONDS",
                )
            ),
            shows_metrics=is_set(environment, "OMNIGRAPH_METRICS"),
            metrics_bind=parse_bind(bind) if bind else None,
            agents=AgentSettings.from_environment(environment),
            cluster_poll_ms=_number(environment, "OMNIGRAPH_CLUSTER_POLL_MS", 2000),
            **numbers(
                drain_s="OMNIGRAPH_DRAIN_SECONDS",
                notice_s="OMNIGRAPH_DRAIN_NOTICE_SECONDS",
            ),
        )


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    """Return a number that may be 0."""
    if environment.get(name, "").strip() == "0":
        return 0
    found = _positive(environment, name)
    return default if found is None else found


def _positive(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    found = size_of(text)
    if found is None or found <= 0:
        _log.warning("ignoring %s: expected a positive number, such as 16 or 4G", name)
        return None
    return found
