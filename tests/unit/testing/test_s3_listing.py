"""Listings are ours, the objects are moto's: what we answer must be what moto would have answered."""

import http.client
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree as ET

import obstore
import pytest

from omnigraph.testing.s3 import measure

pytestmark = pytest.mark.more

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
KEYS = ("a/1", "a/2", "a/b/1", "a/b/2", "a.c", "a/b.c", "b", "é/1", "z/<&>", "a/b/c/d")


@pytest.fixture
def ask(endpoint, store, prefix):
    for key in KEYS:
        obstore.put(store, f"{prefix}/{key}", b"body", use_multipart=False)
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"))

    def ask(query):
        connection.request("GET", f"/{endpoint.bucket}?list-type=2&{query.format(prefix=prefix)}")
        return parse_listing(connection.getresponse().read().decode())

    yield ask
    connection.close()


@pytest.mark.parametrize(
    "query",
    [
        "prefix={prefix}",
        "prefix={prefix}/a",
        "prefix={prefix}/&delimiter=/",
        "prefix={prefix}/a/&delimiter=/",
        "prefix={prefix}/a/&delimiter=/&start-after={prefix}/a/b.c",
        "prefix={prefix}/a/&delimiter=/&start-after={prefix}/a/b/1",
        "prefix={prefix}&start-after={prefix}/a/2",
        "prefix={prefix}&max-keys=4",
        "prefix={prefix}/&delimiter=/&max-keys=2",
        "prefix={prefix}/nothing",
        "prefix={prefix}/z/",
    ],
)
def test_our_listing_is_what_moto_would_answer(ask, query):
    # A parameter that we do not know sends the request to moto.
    theirs, ours = ask(query + "&fetch-owner=false"), ask(query)
    assert ours[:2] == theirs[:2]
    # The form of a token is each server's own affair.
    assert bool(ours[2]) == bool(theirs[2])


def test_a_listing_leaves_out_what_a_batch_has_deleted(ask, store, prefix):
    gone = ("a/b/2", "é/1", "z/<&>")
    obstore.delete(store, [f"{prefix}/{key}" for key in gone])
    theirs, ours = ask("prefix={prefix}&fetch-owner=false"), ask("prefix={prefix}")
    assert ours == theirs
    assert [key.partition("/")[2] for key, *_ in ours[0]] == sorted(set(KEYS) - set(gone))


def test_a_listing_shows_an_object_as_it_is_after_it_was_replaced(ask, store, prefix):
    before = ask("prefix={prefix}/b")
    obstore.put(store, f"{prefix}/b", b"a longer body", use_multipart=False)
    theirs, ours = ask("prefix={prefix}/b&fetch-owner=false"), ask("prefix={prefix}/b")
    assert ours == theirs != before


def test_pages_follow_one_another_without_gap_or_repetition(ask):
    seen, token = [], ""
    while True:
        objects, _, token = ask("prefix={prefix}/&max-keys=3" + (f"&continuation-token={token}" if token else ""))
        seen += [key for key, *_ in objects]
        if not token:
            break
    assert [key.partition("/")[2] for key in seen] == sorted(KEYS)


def test_a_listing_of_many_objects_takes_pages_of_a_thousand(endpoint, store, prefix):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: obstore.put(store, f"{prefix}/{number}", b"", use_multipart=False), range(1008)))
    with measure(endpoint) as cost:
        assert len(obstore.list(store, prefix=prefix).collect()) == 1008
    assert cost.by_operation == {"LIST": 2}


def parse_listing(body):
    """Objects, folders and the token for the next page."""
    root = ET.fromstring(body)  # noqa: S314 - our own server's answer
    objects = [
        tuple(entry.findtext(NAMESPACE + name) for name in ("Key", "Size", "ETag", "LastModified"))
        for entry in root.iter(NAMESPACE + "Contents")
    ]
    folders = [entry.findtext(NAMESPACE + "Prefix") for entry in root.iter(NAMESPACE + "CommonPrefixes")]
    return objects, folders, root.findtext(NAMESPACE + "NextContinuationToken")
