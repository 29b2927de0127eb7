"""The figures of a server: each of them moves when what it counts happens."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnigraph
from omnigraph.operations.wire import MEDIA_TYPE
from omnigraph.runtime import Runtime, start_thread
from omnigraph.runtime.failpoints import on_nth
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.control.control import Control
from omnigraph.server.control.settings import AdmissionLimits, ControlSettings
from omnigraph.server.main import open_service
from omnigraph.server.service import Service
from tests.e2e.process import omnigraph as run_omnigraph
from tests.server.inside import client_of
from tests.server.process import WAIT_S
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"
ADD = "query add($name: String) { insert Person { name: $name } }"
LINK = "query link($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
HOP = "query hop() { match { $p: Person  $p knows $q } return { $q.name } }"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, settings=RELAXED) as graph:
        graph.mutate(ADD, {"name": "ann"})
        graph.mutate(LINK, {"a": "ann", "b": "ann"})
    return tmp_path / "g.omni"


def open_server(place: Path, **control) -> Service:
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(place)),), unauthenticated=True)
    runtime = Runtime.system()
    controls = Control(ControlSettings(shows_metrics=True, **control), runtime.clock)
    return open_service(settings, runtime, controls)


async def figures(http) -> dict[str, float]:
    """Return every figure by its name and labels."""
    text = (await http.get("/metrics")).text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def mutation(name: str) -> dict[str, object]:
    return {"query": ADD, "params": {"name": name}}


@pytest.mark.anyio
async def test_requests_operations_commits_calls_and_memory(place: Path):
    async with client_of(open_server(place)) as http:
        before = await figures(http)

        async def moved(method: str, path: str, *names: str, status: int = 200, **options) -> None:
            earlier = await figures(http)
            answer = await http.request(method, f"/graphs/g/{path}", **options)
            assert answer.status_code == status, answer.text
            later = await figures(http)
            for name in names:
                assert later[name] > earlier.get(name, 0), name

        def of(operation: str) -> tuple[str, ...]:
            return (
                f'omnigraph_storage_calls_total{{operation="{operation}"}}',
                f'omnigraph_operations_total{{operation="{operation}",outcome="succeeded"}}',
                f'omnigraph_operation_seconds_count{{operation="{operation}"}}',
            )

        def request(method: str, path: str, status: int = 200) -> tuple[str, ...]:
            route = f"/graphs/{{graph_id}}/{path}"
            return (
                f'omnigraph_requests_total{{method="{method}",route="{route}",status="{status}"}}',
                f'omnigraph_request_seconds_count{{route="{route}"}}',
            )

        published = ('omnigraph_commits_total{graph="g"}', 'omnigraph_publishes_total{graph="g"}')
        await moved("POST", "mutate", *request("POST", "mutate"), *of("mutate"), *published, json=mutation("bo"))
        load = {"data": '{"type": "Person", "data": {"name": "cy"}}'}
        await moved("POST", "load", *request("POST", "load"), *of("load"), *published, json=load)
        cached = 'omnigraph_cache_bytes{graph="g"}'
        await moved("POST", "query", *request("POST", "query"), *of("query"), cached, json={"query": HOP})
        await moved("POST", "query", *request("POST", "query", 400), status=400, json={"query": "nonsense"})
        await moved("GET", "diff?from=main~1", *of("diff_page"))
        await moved("POST", "branches", *of("create_branch"), json={"name": "side"})
        lagged = "omnigraph_feed_lag_seconds_count"
        await moved("GET", "changes?start=beginning", *of("poll_changes"), lagged)
        wire = {"Omnigraph-Wire": "1", "Accept": MEDIA_TYPE}
        asked = {"operation": "feed", "start": "beginning"}
        await moved("POST", "operations/feed", *of("feed"), lagged, json=asked, headers=wire)
        # What happened to none stands still.
        after = await figures(http)
        for name in ("rebases_total", "recoveries_total", "claims_waited_total"):
            assert after[f'omnigraph_{name}{{graph="g"}}'] == before[f'omnigraph_{name}{{graph="g"}}'] == 0


@pytest.mark.anyio
async def test_a_write_that_is_not_admitted_is_counted(place: Path):
    async with client_of(open_server(place, admission=AdmissionLimits(actor_bytes=10))) as http:
        assert (await http.post("/graphs/g/mutate", json=mutation("bo"))).status_code == 429
        found = await figures(http)
        assert (found["omnigraph_writes_refused_total"], found["omnigraph_writes_under_way"]) == (1, 0)
        assert found['omnigraph_operations_total{operation="mutate",outcome="busy"}'] == 1


@pytest.mark.anyio
async def test_a_write_that_another_overtakes_is_counted_as_rebased(place: Path):
    service = open_server(place)
    backend = service.graphs.ready["g"].backend
    with omnigraph.open(place, settings=RELAXED) as other:
        overtake = on_nth(1, lambda: other.mutate(ADD, {"name": "first"}))
        backend.engine.runtime.failpoints.enable("txn.claim.before_put", overtake)
        async with client_of(service) as http:
            assert (await http.post("/graphs/g/mutate", json=mutation("second"))).status_code == 200
            assert (await figures(http))['omnigraph_rebases_total{graph="g"}'] == 1


@pytest.mark.anyio
async def test_a_write_that_waits_for_the_claim_of_another_is_counted(place: Path):
    claimed, leave = threading.Event(), threading.Event()
    service = open_server(place)
    backend = service.graphs.ready["g"].backend
    with omnigraph.open(place, settings=RELAXED) as other:
        hold = on_nth(1, lambda: (claimed.set(), leave.wait(WAIT_S)))
        other.backend.engine.runtime.failpoints.enable("txn.claim.after_put", hold)
        thread = start_thread("other", lambda: other.mutate(ADD, {"name": "first"}))
        assert claimed.wait(WAIT_S)
        # It waits for the other, which goes on as soon as that is counted.
        counted = backend.engine.runtime.tally.add
        backend.engine.runtime.tally.add = lambda event, count=1: (
            counted(event, count),
            leave.set() if event == "claims_waited" else None,
        )
        async with client_of(service) as http:
            assert (await http.post("/graphs/g/mutate", json=mutation("second"))).status_code == 200
            assert (await figures(http))['omnigraph_claims_waited_total{graph="g"}'] == 1
        thread.join(WAIT_S)


@pytest.mark.anyio
async def test_the_recovery_of_a_write_whose_process_died_is_counted(place: Path):
    service = open_server(place)
    (place.parent / "add.gq").write_text(ADD)
    done = run_omnigraph(
        "mutate",
        str(place),
        "--query",
        "add.gq",
        "--params",
        '{"name": "first"}',
        cwd=place.parent,
        OMNIGRAPH_FAILPOINTS="txn.commit.after_table=kill",
    )
    assert done.code != 0
    async with client_of(service) as http:
        assert (await http.post("/graphs/g/mutate", json=mutation("second"))).status_code == 200
        assert (await figures(http))['omnigraph_recoveries_total{graph="g"}'] == 1
