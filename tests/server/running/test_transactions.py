"""Transactions of clients that do not come back: how long a server keeps them, and what their clients are told."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import AdmissionError
from omnigraph.runtime import ManualClock, Runtime
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.control.control import Control
from omnigraph.server.control.settings import ControlSettings, RequestLimits, TransactionLimits
from omnigraph.server.control.transactions import OpenTransactions
from omnigraph.server.main import open_service
from omnigraph.server.service import Service
from tests.server.inside import client_of
from tests.server.process import WAIT_S, run_server
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
READ = "query names() { match { $p: Person } return { $p.name } }"
WIRE = {"Omnigraph-Wire": "1"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("transactions") / "g.omni"
    omnigraph.init(place, SCHEMA, settings=RELAXED).close()
    return place


class Asking:
    """A client that sends operations."""

    def __init__(self, http) -> None:
        self._http = http

    async def ask(self, operation: str, **fields):
        body = {"operation": operation, **fields}
        return await self._http.post(f"/graphs/g/operations/{operation}", json=body, headers=WIRE)


def open_server(place: Path, clock: ManualClock, limits: TransactionLimits | None = None) -> Service:
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True)
    chosen = ControlSettings(limits=RequestLimits(), transactions=limits or TransactionLimits())
    # The clock of the test is not that of the engine, so that no deadline can go from one to the other.
    return open_service(settings, Runtime.system(), Control(chosen, clock))


@pytest.mark.anyio
async def test_a_transaction_that_nobody_uses_is_rolled_back_and_let_go(place: Path):
    clock = ManualClock()
    service = open_server(place, clock)
    engine, kept = service.graphs.ready["g"].backend.engine, service.control.transactions
    async with client_of(service) as http:
        client = Asking(http)
        assert (await client.ask("begin_transaction")).status_code == 200
        [name] = engine.transactions
        add = {"$request": {"operation": "mutate", "text": ADD, "params": {"name": "ann"}}}
        read = {"$request": {"operation": "query", "text": READ}}
        for call in (add, read):
            clock.sleep(599)
            assert kept.expire() == 0
            assert (await client.ask("call_in_transaction", transaction=name, call=call)).status_code == 200
        gone = weakref.ref(engine.transactions[name])
        clock.sleep(600)
        assert kept.expire() == 1
        gc.collect()
        assert (gone(), dict(engine.transactions), len(kept)) == (None, {}, 0)
        told = f"transaction '{name}' was not used for 600 s, so that the server has rolled it back"
        for operation, fields in (
            ("call_in_transaction", {"call": add}),
            ("describe_transaction", {}),
            ("commit_transaction", {}),
            ("rollback_transaction", {}),
        ):
            answer = await client.ask(operation, transaction=name, **fields)
            assert (answer.status_code, answer.json()["error"]) == (400, told)
        assert len((await http.get("/graphs/g/commits")).json()["commits"]) == 1


@pytest.mark.anyio
async def test_a_transaction_that_ended_is_not_kept(place: Path):
    clock = ManualClock()
    service = open_server(place, clock)
    kept = service.control.transactions
    engine = service.graphs.ready["g"].backend.engine
    async with client_of(service) as http:
        client = Asking(http)
        for operation in ("commit_transaction", "rollback_transaction"):
            assert (await client.ask("begin_transaction")).status_code == 200
            [name] = engine.transactions
            assert len(kept) == 1
            assert (await client.ask(operation, transaction=name)).status_code == 200
            assert len(kept) == 0
        clock.sleep(601)
        assert kept.expire() == 0
        ended = await client.ask("commit_transaction", transaction=name)
        assert ended.json()["error"] == f"there is no open transaction '{name}'"


@pytest.mark.anyio
async def test_a_transaction_whose_commit_fails_is_not_kept(place: Path):
    service = open_server(place, ManualClock(), TransactionLimits(of_actor=1))
    engine = service.graphs.ready["g"].backend.engine
    read = {"$request": {"operation": "query", "text": READ}}
    async with client_of(service) as http:
        client = Asking(http)
        for number in range(3):
            assert (await client.ask("begin_transaction")).status_code == 200
            [name] = engine.transactions
            add = {"$request": {"operation": "mutate", "text": ADD, "params": {"name": f"own {number}"}}}
            for call in (read, add):
                assert (await client.ask("call_in_transaction", transaction=name, call=call)).status_code == 200
            # What the transaction has read changes before it is committed.
            assert (await client.ask("mutate", text=ADD, params={"name": f"other {number}"})).status_code == 200
            assert (await client.ask("commit_transaction", transaction=name)).status_code == 409
            assert len(service.control.transactions) == len(engine.transactions) == 0


def test_a_transaction_of_another_actor_stays_when_its_commit_is_refused():
    kept = OpenTransactions(ManualClock(), TransactionLimits())
    kept.begun("t", NotImplemented, "ann")
    kept.ended("t", "bo")
    assert len(kept) == 1
    kept.ended("t", "ann")
    assert len(kept) == 0


@pytest.mark.anyio
async def test_a_transaction_does_not_stay_open_for_longer_than_its_age_although_it_is_used(place: Path):
    clock = ManualClock()
    service = open_server(place, clock, TransactionLimits(idle_s=600, age_s=1000))
    async with client_of(service) as http:
        client = Asking(http)
        assert (await client.ask("begin_transaction")).status_code == 200
        [name] = service.graphs.ready["g"].backend.engine.transactions
        for expired in (0, 1):
            clock.sleep(500)
            assert (await client.ask("describe_transaction", transaction=name)).status_code == 200
            assert service.control.transactions.expire() == expired
        gone = await client.ask("describe_transaction", transaction=name)
        assert (
            gone.json()["error"] == f"transaction '{name}' was open for 1000 s, so that the server has rolled it back"
        )


@pytest.mark.anyio
async def test_only_so_many_transactions_are_open(place: Path):
    service = open_server(place, ManualClock(), TransactionLimits(of_actor=2))
    engine = service.graphs.ready["g"].backend.engine
    async with client_of(service) as http:
        client = Asking(http)
        asked = [await client.ask("begin_transaction") for _ in range(3)]
        assert [one.status_code for one in asked] == [200, 200, 429]
        limit = {"resource": "open transactions of one actor", "limit": 2, "actual": 3}
        assert asked[2].json()["resource_limit"] == limit
        assert len(engine.transactions) == 2
        assert (
            await client.ask("rollback_transaction", transaction=next(iter(engine.transactions)))
        ).status_code == 200
        assert (await client.ask("begin_transaction")).status_code == 200


def test_actors_share_what_all_may_have_open():
    kept = OpenTransactions(ManualClock(), TransactionLimits(of_actor=2, of_all=3, actor_bytes=10, all_bytes=15))
    for name, actor in (("a", "ann"), ("b", "ann"), ("c", "bo")):
        with kept.beginning(actor):
            kept.begun(name, Backend(), actor)
    for actor, resource in (("ann", "of one actor"), ("cy", "open transactions: at most 3")):
        with pytest.raises(AdmissionError, match=resource), kept.beginning(actor):
            raise AssertionError
    with kept.using("a", "ann", 6), kept.using("c", "bo", 5):
        kept.measured("b", 4)
    for name, actor, resource in (
        ("b", "ann", "of one actor: at most 10"),
        ("c", "bo", "open transactions: at most 15"),
    ):
        with pytest.raises(AdmissionError, match=resource), kept.using(name, actor, 5):
            raise AssertionError


@pytest.mark.anyio
async def test_a_transaction_that_holds_too_much_is_rolled_back(place: Path):
    """A match makes many rows of few bytes that were sent."""
    service = open_server(place, ManualClock(), TransactionLimits(actor_bytes=100_000))
    engine = service.graphs.ready["g"].backend.engine
    async with client_of(service) as http:
        client = Asking(http)
        assert (await client.ask("begin_transaction")).status_code == 200
        [name] = engine.transactions
        rows = [{"name": f"{number:0>200}"} for number in range(100)]
        batch = {"$request": {"operation": "mutate_batch", "text": ADD, "rows": rows}}
        assert (await client.ask("call_in_transaction", transaction=name, call=batch)).status_code == 200
        pairs = "match { $a: Person  $b: Person } insert Person { name: concat($a.name, $b.name) } for each $a, $b"
        made = {"$request": {"operation": "mutate", "text": f"query q() {{ {pairs} }}"}}
        refused = await client.ask("call_in_transaction", transaction=name, call=made)
        assert (refused.status_code, "bytes in open transactions" in refused.json()["error"]) == (429, True)
        assert (dict(engine.transactions), len(service.control.transactions)) == ({}, 0)


class Backend:
    """Notes what it is asked to roll back."""

    def __init__(self) -> None:
        self.rolled_back: list[str] = []

    def execute(self, request, *others):
        self.rolled_back.append(request.transaction)


def test_a_transaction_does_not_expire_during_a_call():
    clock, backend = ManualClock(), Backend()
    kept = OpenTransactions(clock, TransactionLimits(age_s=10**6))
    kept.begun("t", backend, "ann")
    inside, leave = threading.Event(), threading.Event()

    def call() -> None:
        with kept.using("t", "ann"):
            inside.set()
            leave.wait(300)

    thread = threading.Thread(target=call)
    thread.start()
    assert inside.wait(300)
    clock.sleep(6000)
    assert kept.expire() == 0
    leave.set()
    thread.join(300)
    clock.sleep(599)
    assert kept.expire() == 0
    clock.sleep(1)
    assert (kept.expire(), backend.rolled_back) == (1, ["t"])


def test_another_actor_learns_nothing_of_a_transaction_that_expired():
    clock = ManualClock()
    kept = OpenTransactions(clock, TransactionLimits())
    kept.begun("t", Backend(), "ann")
    clock.sleep(600)
    kept.expire()
    with kept.using("t", "bo"):
        pass
    with pytest.raises(omnigraph.OmnigraphError, match="was not used for 600 s"), kept.using("t", "ann"):
        pass


def test_a_server_expires_transactions_by_itself(place: Path, tmp_path: Path):
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with run_server(command, tmp_path / "log", {"OMNIGRAPH_TRANSACTION_IDLE_SECONDS": "1"}) as server:
        graph = omnigraph.open(f"{server.url}/graphs/g")
        transaction = graph.transaction()
        transaction.mutate(ADD, {"name": "zoe"})
        late_s = time.monotonic() + WAIT_S
        while "was rolled back" not in server.log.read_text(encoding="utf-8"):
            assert time.monotonic() < late_s
            time.sleep(0.05)
        with pytest.raises(omnigraph.OmnigraphError, match="was not used for 1 s"):
            transaction.commit()
        graph.close()
