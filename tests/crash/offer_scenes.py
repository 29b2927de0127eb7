"""Scenes in which a write is offered while another process holds the branch, and one of the processes dies.

In each scene the test's own process has a blocker, stopped in the middle of its window, and a companion, whose write
waits behind it. The process that dies is the third. Every write puts the same id into two tables.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import on_nth
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.offers.offer import OFFER
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.settings import TxnSettings
from tests.crash.child import AFTER_TABLE, BEFORE_TABLE
from tests.txn_graph import PERSON, TEAM, authority_of, init_graph, node_rows, open_graph

BLOCKER, COMPANION, DYING, LAST = "blocker", "companion", "dying", "last"
_LONGEST_S = 120

# Where an owner dies before anybody has seen its offer, and while it takes it back.
OWNER_POINTS = ("txn.offer.before_put", "txn.offer.after_put")
GIVING_UP_POINTS = ("txn.offer.before_withdraw", "txn.offer.after_withdraw")
# Where a holder dies that has found the offer of its companion, and where its own write is published by then.
HOLDER_POINTS = (
    "txn.offers.after_list",
    "txn.offers.before_verify",
    "txn.offers.after_verify",
    "txn.commit.before_tables",
    BEFORE_TABLE,
    AFTER_TABLE,
    "txn.commit.after_tables",
    "txn.publish.before_cas",
)
PUBLISHED_POINTS = (
    "txn.publish.after_cas",
    "txn.offers.before_delete",
    "txn.offers.after_delete",
    "txn.release.before_delete",
    "txn.release.after_delete",
)


@dataclass(frozen=True, kw_only=True)
class OfferCrash:
    """A process that dies at a point: one whose write waits, or one that takes the writes of others along."""

    point: str
    line_up: bool

    @property
    def name(self) -> str:
        return f"{self.point}-{'in line' if self.line_up else 'by claims'}"

    @property
    def is_holder(self) -> bool:
        return self.point in (*HOLDER_POINTS, *PUBLISHED_POINTS)

    @property
    def is_published(self) -> bool:
        """Whether the dying process has published its own write and that of its companion."""
        return self.point in PUBLISHED_POINTS

    @property
    def act(self) -> str:
        return "give_up" if self.point in GIVING_UP_POINTS else "write"


def offer_crashes() -> list[OfferCrash]:
    """Every point, for writers that line up on one machine and for those that meet at claims."""
    points = (*OWNER_POINTS, *GIVING_UP_POINTS, *HOLDER_POINTS, *PUBLISHED_POINTS)
    return [OfferCrash(point=point, line_up=line_up) for line_up in (False, True) for point in points]


def settings_of(*, line_up: bool, gives_up: bool = False, presumes: bool = False) -> TxnSettings:
    """Settings of a writer: it waits for a moment only if it shall give up, or presumes others dead after a moment."""
    wait = {"claim_wait_s": 0.3} if gives_up else {}
    grace = {"grace_s": 0.5} if presumes else {}
    return TxnSettings(durability="relaxed", line_up=line_up, **wait, **grace)


def write_twice(graph: GraphStore, mark: str) -> CommitResult:
    """Put one id into two tables, by one commit of its own."""
    branch_writer = authority_of(graph)
    txn = branch_writer.begin(WriteKind.INSERT, actor=mark)
    txn.insert(PERSON, node_rows([mark]))
    txn.insert(TEAM, node_rows([mark]))
    return branch_writer.commit(txn)


def offers_of(storage: Storage) -> tuple[str, ...]:
    """The offers that lie beside a graph, oldest first."""
    keys = ControlObjects(storage).list_keys("__recovery")
    return tuple(sorted(key for key in keys if key.endswith(".offer")))


class Scene:
    """One graph with a blocker, and a companion as soon as somebody asks for it."""

    def __init__(self, root: str, options: dict[str, str] | None, *, line_up: bool, presumes: bool = False) -> None:
        self._open = ExitStack()
        self._pool = self._open.enter_context(ThreadPoolExecutor(2))
        self._settings = settings_of(line_up=line_up, presumes=presumes)
        self._line_up = line_up
        self._go, self._resume = threading.Event(), threading.Event()
        self.storage = init_graph(root, options)
        self.blocker = self._start_blocker()
        self.companion: Future[CommitResult | OmnigraphError] | None = None

    def wait_for_offer(self, known: tuple[str, ...] = ()) -> None:
        """Return when an offer lies there that is not among those that are known."""
        until = threading.Event()
        for _ in range(_LONGEST_S * 100):
            if set(offers_of(self.storage)) - set(known):
                return
            until.wait(0.01)
        raise AssertionError("nobody has offered anything")

    def wait_until_overdue(self) -> None:
        """Return when the time of every offer is over; its owner may have given up a little earlier."""
        control = ControlObjects(self.storage)
        texts = [(control.get(key), key) for key in offers_of(self.storage)]
        last_ms = max((OFFER.decode(text, key).deadline_ms for text, key in texts if text), default=0)
        while time.time_ns() // 1_000_000 <= last_ms:
            time.sleep(0.01)

    def start_companion(self, *, is_paused: bool) -> None:
        """Let the companion offer its write; it tries for itself when it is resumed, if it is to pause."""
        runtime = Runtime.system({})
        if is_paused:
            # In line it would race for the turn; by claims it lost the first to the blocker.
            point, time = ("txn.offer.after_put", 1) if self._line_up else ("txn.claim.before_put", 2)
            runtime.failpoints.enable(point, on_nth(time, lambda: self._resume.wait(_LONGEST_S)))
        # Opening the graph removes those of processes that are gone.
        known = offers_of(self.storage)
        self.companion = self._pool.submit(self._write, COMPANION, runtime)
        self.wait_for_offer(known)

    def resume_companion(self) -> CommitResult | OmnigraphError:
        """Let the companion go on, and wait until it is answered."""
        self._resume.set()
        assert self.companion is not None
        return self.companion.result(_LONGEST_S)

    def release_blocker(self) -> None:
        """Let the blocker end its write, and wait until it is answered."""
        self._go.set()
        self.blocker.result(_LONGEST_S)

    def end(self) -> tuple[CommitResult | OmnigraphError, CommitResult | OmnigraphError]:
        """Let everybody go on to the end; return what the blocker and the companion were told."""
        self._go.set()
        self._resume.set()
        assert self.companion is not None
        told = self.blocker.result(_LONGEST_S), self.companion.result(_LONGEST_S)
        self._open.close()
        return told

    def _start_blocker(self) -> Future[CommitResult | OmnigraphError]:
        reached = threading.Event()

        def stop() -> None:
            reached.set()
            assert self._go.wait(_LONGEST_S)

        runtime = Runtime.system({})
        runtime.failpoints.enable("txn.publish.before_cas", on_nth(1, stop))
        blocker = self._pool.submit(self._write, BLOCKER, runtime)
        assert reached.wait(_LONGEST_S)
        return blocker

    def _write(self, mark: str, runtime: Runtime) -> CommitResult | OmnigraphError:
        with open_graph(self.storage, settings=self._settings, runtime=runtime) as graph:
            try:
                return write_twice(graph, mark)
            except OmnigraphError as error:
                return error


def play(scenes: Sequence[tuple[OfferCrash, Scene]], kill: Callable[[], None]) -> None:
    """Let ``kill`` start the processes that die, and bring each of them to its point."""
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        for crash, scene in scenes:
            if crash.is_holder:
                scene.wait_for_offer()
                scene.start_companion(is_paused=True)
                scene.release_blocker()
        killing.result(_LONGEST_S)
    for crash, scene in scenes:
        if not crash.is_holder:
            scene.start_companion(is_paused=False)
