"""The limits of the operator hold on every way to run anything, and nothing is read for a client that has gone."""

from __future__ import annotations

import io
import json
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import omnigraph
from omnigraph.engine.export.options import ExportSettings
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.query.options import MAX_ENTITIES, QueryOptions
from omnigraph.errors import QueryCancelledError, QueryMemoryError, QueryTimeoutError
from omnigraph.errors.history import MAX_CONFLICTS
from omnigraph.ir.stored_queries import QuerySource, StoredQueries
from omnigraph.operations.algorithms import RunAlgorithmRequest, WriteAlgorithmRequest
from omnigraph.operations.history import (
    BaselineRequest,
    BlameRequest,
    DiffPageRequest,
    DiffRequest,
    FeedRequest,
    LogRequest,
    PollChangesRequest,
    PreviewMergeRequest,
)
from omnigraph.operations.proposals import CheckProposalRequest, MergeProposalRequest
from omnigraph.operations.reads import (
    ExplainRequest,
    ExportRequest,
    ExportStreamRequest,
    QueryRequest,
    ReadBlobRequest,
    ReadNetworkRequest,
)
from omnigraph.operations.registry import RegistryBackend
from omnigraph.operations.request import Attachments, Request
from omnigraph.operations.stored import InvokeMutationRequest, InvokeReadRequest
from omnigraph.operations.transactions import BeginTransactionRequest, CallInTransactionRequest
from omnigraph.operations.writes import LoadRequest, MutateBatchRequest, MutateRequest
from omnigraph.runtime import CallContext, Runtime, calling, current_call
from omnigraph.server.app import create_app
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.control import served as served_module
from omnigraph.server.control.control import Control
from omnigraph.server.control.served import ServedBackend, ServedRequest, within_budgets
from omnigraph.server.control.settings import ControlSettings, RequestLimits
from omnigraph.server.graphs import Graphs
from omnigraph.server.main import open_service
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.server.inside import Watched, client_of
from tests.server.process import WAIT_S
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key  rank: F64? }"
READ = "query names() { match { $p: Person } return { $p.name } }"
MATCH = "query up() { match { $p: Person } update $p set { rank: 2.0 } }"
QUERIES = StoredQueries.parse([QuerySource(name="q.gq", text=f"{READ}\n{MATCH}")])
# More than the caller is given, of everything that a request can ask for.
GREEDY = QueryOptions(timeout_ms=10**9, memory_bytes=10**15, max_rows=10**9)


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> Iterator[Any]:
    with omnigraph.init(tmp_path_factory.mktemp("budgets") / "g", SCHEMA, settings=RELAXED) as made:
        made.mutate('query q() { insert Person { name: "ann" } }')
        draft = made.create_branch("draft")
        draft.mutate('query q() { insert Person { name: "bo" } }')
        made.proposals.open("draft", title="t", checks=[READ], actor="mira")
        yield made


def head(graph: Any) -> str:
    return str(next(iter(graph.log())).id)


def in_transaction(call: Request[Any]) -> Callable[[Any], Request[Any]]:
    def make(graph: Any) -> Request[Any]:
        begun = graph.backend.execute(BeginTransactionRequest())
        return CallInTransactionRequest(transaction=begun.transaction, call=call)

    return make


WAYS: dict[str, Callable[[Any], Request[Any]]] = {
    "query": lambda graph: QueryRequest(text=READ, options=GREEDY),
    "explain": lambda graph: ExplainRequest(text=READ, run=True, options=GREEDY),
    "invoke_read": lambda graph: InvokeReadRequest(name="names", options=GREEDY),
    "invoke_mutation": lambda graph: InvokeMutationRequest(name="up"),
    "mutate": lambda graph: MutateRequest(text=MATCH),
    "mutate_batch": lambda graph: MutateBatchRequest(text=MATCH, rows=[{}]),
    "run_algorithm": lambda graph: RunAlgorithmRequest(algorithm="pagerank", options=GREEDY),
    "write_algorithm": lambda graph: WriteAlgorithmRequest(algorithm="pagerank", write="rank", options=GREEDY),
    "query in a transaction": in_transaction(QueryRequest(text=READ, options=GREEDY)),
    "mutate in a transaction": in_transaction(MutateRequest(text=MATCH)),
    "check_proposal": lambda graph: CheckProposalRequest(number=1),
    "merge_proposal": lambda graph: MergeProposalRequest(number=1, actor="jon"),
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


def served(graph: Any, limits: RequestLimits, gone: threading.Event | None = None) -> ServedBackend:
    runtime = Runtime.system()
    control = Control(ControlSettings(limits=limits), runtime.clock)
    request = ServedRequest(graph_id="g", actor=None, request_id="r", limits=RequestLimits())
    inner = RegistryBackend(graph.backend, QUERIES)
    return ServedBackend(inner, control, request if gone is None else replace(request, gone=gone))


@EVERY_WAY
def test_the_longest_read_holds_on_every_way_to_read(graph, way):
    before = head(graph)
    with pytest.raises(QueryTimeoutError, match="longer than the limit of 0 ms"):
        served(graph, RequestLimits(query_ms=0)).execute(WAYS[way](graph))
    assert head(graph) == before


@EVERY_WAY
def test_nothing_is_read_for_a_client_that_has_gone(graph, way):
    gone = threading.Event()
    gone.set()
    before = head(graph)
    with pytest.raises(QueryCancelledError):
        served(graph, RequestLimits(), gone).execute(WAYS[way](graph))
    assert head(graph) == before


@EVERY_WAY
def test_nothing_is_read_any_more_when_the_time_to_drain_is_over(graph, way):
    backend = served(graph, RequestLimits())
    backend._control.stopping.set()
    with pytest.raises(QueryCancelledError):
        backend.execute(WAYS[way](graph))


READS: dict[str, Callable[[Any], object]] = {
    "diff": lambda backend: list(backend.execute(DiffRequest(before="main", after="draft"))),
    "stats": lambda backend: backend.execute(DiffRequest(before="main", after="draft")).stats(),
    "diff_page": lambda backend: backend.execute(DiffPageRequest(before="main", after="draft")),
    "blame": lambda backend: backend.execute(BlameRequest(type_name="Person", entity_id="ann")),
    "preview_merge": lambda backend: backend.execute(PreviewMergeRequest(source="draft")),
    "log": lambda backend: backend.execute(LogRequest()),
    "log in full": lambda backend: backend.execute(LogRequest(full=True)),
    "feed": lambda backend: backend.execute(FeedRequest(start="beginning")),
    "poll_changes": lambda backend: backend.execute(PollChangesRequest(start="beginning")),
    "read_network": lambda backend: backend.execute(ReadNetworkRequest(limit=10)),
}
EXPORTS: dict[str, Callable[[Any], object]] = {
    "baseline": lambda backend: list(backend.execute(BaselineRequest())),
    "export_stream": lambda backend: backend.execute(ExportStreamRequest(), Attachments(sink=io.BytesIO())),
}


@pytest.mark.parametrize("way", READS)
def test_the_longest_read_is_that_of_history_too(graph, way):
    with pytest.raises(QueryTimeoutError, match="longer than the limit of 0 ms"):
        READS[way](served(graph, RequestLimits(query_ms=0)))
    READS[way](served(graph, RequestLimits(query_ms=WAIT_S * 1000)))


@pytest.mark.parametrize("way", EXPORTS)
def test_an_export_takes_as_long_as_there_are_rows(graph, way):
    EXPORTS[way](served(graph, RequestLimits(query_ms=0)))


@pytest.mark.parametrize("way", {**READS, **EXPORTS})
def test_history_is_not_read_for_a_client_that_has_gone(graph, way):
    gone = threading.Event()
    gone.set()
    with pytest.raises(QueryCancelledError):
        {**READS, **EXPORTS}[way](served(graph, RequestLimits(), gone))


def test_a_difference_ends_when_its_client_goes_while_it_is_drawn(graph):
    gone = threading.Event()
    found = served(graph, RequestLimits(), gone).execute(DiffRequest(before="main", after="draft"))
    gone.set()
    with pytest.raises(QueryCancelledError):
        found.stats()
    with pytest.raises(QueryCancelledError):
        next(iter(found))


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["schema", "commits/{}", "commits/{}/changes"])
async def test_every_route_reads_within_the_limits_of_its_request(tmp_path: Path, path: str):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as made:
        made.mutate('query q() { insert Person { name: "ann" } }')
        commit = head(made)
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(tmp_path / "g")),), unauthenticated=True)
    service, calls = open_service(settings, Runtime.system()), []
    ready = service.graphs.ready["g"]
    watched = Watched(ready.backend, lambda request: calls.append(current_call()))
    service.graphs = Graphs({"g": replace(ready, backend=watched)}, {})
    async with client_of(service) as http:
        answer = await http.get(f"/graphs/g/{path.format(commit)}", headers={"X-Request-Id": "mine"})
        assert answer.status_code == 200, answer.text
    assert calls
    assert all(call.is_read and call.request_id == "mine" and call.deadline_s for call in calls)


def test_without_a_limit_of_the_operator_a_caller_gets_no_more_memory_than_without_options(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_QUERY_MEMORY", "1")
    for way in ("query", "query in a transaction"):
        with pytest.raises(QueryMemoryError):
            served(graph, RequestLimits()).execute(WAYS[way](graph))


@pytest.mark.parametrize("kind", [LoadSettings, ExportSettings])
def test_settings_of_a_request_take_no_more_of_the_machine_than_the_defaults(kind):
    least, threads = kind(), {"threads": 1024}
    greedy = kind(**{one.name: 1 << 50 for one in fields(kind) if one.type == "int"} | threads)
    make = partial(LoadRequest, sources=()) if kind is LoadSettings else partial(ExportRequest, to="x")
    assert within_budgets(make(settings=greedy)).settings == least
    assert within_budgets(make(settings=replace(greedy, threads=1))).settings == replace(least, threads=1)
    nested = CallInTransactionRequest(transaction="t", call=make(settings=greedy))
    assert within_budgets(nested).call.settings == least
    assert within_budgets(make()).settings is None


def test_sizes_that_a_caller_sets_are_no_larger_than_the_defaults(graph, monkeypatch):
    huge = 1 << 60
    assert within_budgets(PreviewMergeRequest(source="draft", max_conflicts=huge)).max_conflicts == MAX_CONFLICTS
    assert within_budgets(PreviewMergeRequest(source="draft", max_conflicts=3)).max_conflicts == 3
    assert within_budgets(ReadNetworkRequest(limit=huge)).limit == MAX_ENTITIES
    assert within_budgets(ReadNetworkRequest(limit=3)).limit == 3
    assert within_budgets(LogRequest(limit=huge)).limit == served_module._MOST_COMMITS
    assert within_budgets(LogRequest(limit=3)).limit == 3


def test_no_more_of_a_blob_is_read_at_once_than_the_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(served_module, "_BLOB_BYTES", 10)
    with omnigraph.init(tmp_path / "g", "node Doc { slug: String @key  body: Blob? }", settings=RELAXED) as made:
        row = {"type": "Doc", "data": {"slug": "a", "body": f"base64:{b64encode(bytes(25)).decode()}"}}
        (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
        made.load(tmp_path / "rows.jsonl", mode="append")
        backend = served(made, RequestLimits())
        part = partial(ReadBlobRequest, type_name="Doc", entity_id="a", property="body")
        for asked in (part(), part(start=14), part(length=11), part(length=1 << 60)):
            with pytest.raises(QueryMemoryError, match="more than the 10"):
                backend.execute(asked)
        for asked, count in ((part(length=10), 10), (part(start=15), 10), (part(start=20, length=100), 5)):
            assert len(backend.execute(asked).data) == count
        assert backend.execute(part(entity_id="b")) is None


def test_a_write_is_decided_within_the_limits_of_its_own_request_whichever_thread_publishes_it(graph):
    mine, other, seen = CallContext(request_id="mine"), CallContext(request_id="other"), []
    writer = graph.backend.engine.store.branch_writer(BranchName(MAIN))
    with calling(mine):
        txn = writer.begin(WriteKind.INSERT)
    txn.is_recorded = True
    txn.add_check(lambda view: seen.append(current_call()))
    with calling(other):
        writer.commit(txn)
    assert seen == [mine]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("query", {"query": READ}),
        ("mutate", {"query": MATCH}),
        ("explain", {"query": READ, "analyze": True}),
        ("operations/query", {"operation": "query", "text": READ}),
        ("operations/mutate", {"operation": "mutate", "text": MATCH}),
    ],
)
async def test_a_route_learns_that_its_client_has_gone(tmp_path: Path, path, body):
    """The request is held before the engine sees it, until the route has passed on that nobody waits for it."""
    omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED).close()
    settings = ServerSettings(graphs=(ServedGraph(graph_id="g", uri=str(tmp_path / "g")),), unauthenticated=True)
    service = open_service(settings, Runtime.system())
    came, ended = threading.Event(), []

    def hold(request: Any) -> None:
        came.set()
        stops = current_call().stops
        heard = any(stop.wait(WAIT_S / len(stops)) for stop in reversed(stops))
        ended.append((request.operation.name, heard))

    ready = service.graphs.ready["g"]
    service.graphs = Graphs({"g": replace(ready, backend=Watched(ready.backend, hold))}, {})
    messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await anyio.to_thread.run_sync(came.wait)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        del message

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": f"/graphs/g/{path}",
        "raw_path": f"/graphs/g/{path}".encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"omnigraph-wire", b"1"), (b"host", b"localhost")],
        "scheme": "http",
        "server": ("here", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    try:
        await create_app(service)(scope, receive, send)
        assert ended == [(path.rpartition("/")[2], True)]
    finally:
        service.close()
