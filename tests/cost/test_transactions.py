"""A transaction costs one publish, however many calls it has."""

from __future__ import annotations

import pytest

from omnigraph.engine.open_graph import init_graph
from omnigraph.operations.writes import MutateRequest
from omnigraph.store.location import Storage
from omnigraph.testing.s3 import measure
from tests.session import Session
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
ADD = "query a($n: String) { insert Person { name: $n } }"


@pytest.fixture
def session(clean_s3_endpoint):
    endpoint = clean_s3_endpoint
    storage = Storage.open(endpoint.fresh_prefix(), endpoint.storage_options)
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as opened:
        for number in range(3):
            opened.mutate(ADD, {"n": f"warm{number}"})
        yield opened


def calls_of(endpoint, run):
    """What is served before the acknowledgement; sidecars are deleted behind it."""
    with measure(endpoint) as measured:
        result = run()
    return sum(call.operation != "POST_DELETE" for call in measured.calls), result


def test_the_number_of_calls_inside_does_not_matter(session, clean_s3_endpoint):
    single, _ = calls_of(clean_s3_endpoint, lambda: session.mutate(ADD, {"n": "alone"}))
    found = {}
    for count in (1, 8, 64):

        def transact(count=count):
            begun = session.begin_transaction().transaction
            for number in range(count):
                request = MutateRequest(text=ADD, params={"n": f"p{count}-{number}"})
                session.call_in_transaction(begun, request)
            return session.commit_transaction(begun)

        found[count], result = calls_of(clean_s3_endpoint, transact)
        assert result.cost.total_calls <= found[count]
        assert result.commit is not None
    # One probe more than a mutation: the state may be old when it is published.
    assert set(found.values()) == {single + 1}
