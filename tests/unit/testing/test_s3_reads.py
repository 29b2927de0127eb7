"""Reads that the endpoint answers itself are the answers of the store behind it."""

from __future__ import annotations

import pytest

from omnigraph.testing.s3.backend import MotoStore
from omnigraph.testing.s3.calls import HttpRequest, Response

pytestmark = pytest.mark.more

# The number of a request, the length that is told apart, and a word to browsers that depends on what else was loaded.
UNTOLD = {"x-amzn-requestid", "content-length", "access-control-allow-origin"}
SIGNED = {
    "host": "localhost",
    "authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/here/s3/aws4_request, SignedHeaders=host, Signature=0",
}
RANGES = (
    *(None, "bytes=0-0", "bytes=10-20", "bytes=90-", "bytes=90-500", "bytes=-5", "bytes=-500"),
    *("bytes=100-", "bytes=500-600", "bytes=-0", "bytes=-", "bytes=0-1,5-6", "lines=1-2"),
)


def request(method: str, key: str, headers: dict[str, str], body: bytes = b"") -> HttpRequest:
    return HttpRequest(method=method, target=f"/reads/{key}", headers={**SIGNED, **headers}, body=body)


@pytest.fixture(scope="module")
def store() -> MotoStore:
    made = MotoStore("reads")
    made.apply(request("PUT", "plain", {}, bytes(range(100))))
    made.apply(request("PUT", "empty", {}))
    made.apply(request("PUT", "a%20b/%C3%A9", {"content-type": "text/plain", "x-amz-meta-who": "ann"}, b"told"))
    return made


def told(answer: Response) -> tuple[int, dict[str, str], bytes, int | None]:
    """Everything but the number that the store gives to each request, which its errors hold, too."""
    headers = {name.lower(): value for name, value in answer.headers}
    headers = {name: value for name, value in headers.items() if name not in UNTOLD}
    body = answer.body.partition(b"<RequestId>")[0] if answer.status >= 400 else answer.body
    return answer.status, headers, body, answer.content_length


@pytest.mark.parametrize("key", ["plain", "empty", "a%20b/%C3%A9", "missing"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_is_what_the_store_would_answer(store: MotoStore, method: str, key: str):
    for part in RANGES:
        asked = request(method, key, {} if part is None else {"range": part})
        assert told(store.apply(asked)) == told(store._apply_in_moto(asked)), part


def test_conditions_and_readers_without_a_name_are_left_to_the_store(store: MotoStore):
    etag = dict(store.apply(request("HEAD", "plain", {})).headers)["ETag"]
    assert store.apply(request("GET", "plain", {"if-none-match": etag})).status == 304
    assert store.apply(request("GET", "plain", {"if-match": '"another"'})).status == 412
    unsigned = HttpRequest(method="GET", target="/reads/plain", headers={"host": "localhost"}, body=b"")
    assert store.apply(unsigned).status == 403
