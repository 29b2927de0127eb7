"""Requests of operations with a value that does not belong there: refused, and the answer says where it stands."""

from __future__ import annotations

import itertools
import json
import random

import pytest

import omnigraph
from omnigraph.operations.json_form import request_from_json
from tests.hostile_requests import SCHEMA, VALUES, base, is_of_another_type, places
from tests.server.process import run_server
from tests.session_graph import RELAXED

WIRE = {"omnigraph-wire": "1", "content-type": "application/json"}
CASES = [(place, value) for place in places() for value in VALUES]
SEED = 39
IN_EVERY_RUN = 1200


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    """A server of a graph with a little of everything, and where it is stored."""
    place = tmp_path_factory.mktemp("malformed") / "g.omni"
    with omnigraph.init(place, SCHEMA, settings=RELAXED) as graph:
        graph.mutate('query a() { insert Person { name: "ann" } }')
        graph.create_branch("side")
        graph.branch("side").mutate('query a() { insert Person { name: "bo" } }')
        graph.proposals.open("side", title="more")
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with run_server(command, place.with_suffix(".log")) as server, server.client() as http:
        yield http, place


def refused(http, root, place, value):
    """Return what is wrong with the answer to a request with a value at a place; None if nothing is."""
    document = place.with_value(value)
    content = json.dumps(document).encode()
    answer = http.post(f"/graphs/g/operations/{place.operation}", content=content, headers=WIRE)
    if str(root) in answer.text:
        return f"{place} = {ascii(value)[:60]}: the place of the storage is in the answer"
    if answer.status_code == 200:
        return f"{place} = {ascii(value)[:60]}: taken" if is_of_another_type(place, value) else None
    body = answer.json()
    told = f"{place} = {ascii(value)[:60]}: {answer.status_code} {body}"[:400]
    if answer.status_code >= 500 and answer.status_code != 501:
        return told
    if is_of_another_type(place, value):
        where = body["problem"]["details"].get("what", "")
        fits = answer.status_code in {400, 501} and str(place.way[0]) in where
        return None if fits else told
    return None


def failures(http, root, cases):
    return [found for place, value in cases if (found := refused(http, root, place, value)) is not None]


def test_what_is_changed_is_a_request_before():
    for name in {place.operation for place, _ in CASES}:
        assert request_from_json(base(name)).operation.name == name


def test_a_proposal_that_was_merged_is_answered_under_a_key(fuzzed):
    """Its record names a commit, and is not one."""
    http, _ = fuzzed
    branch = {"operation": "create_branch", "name": "merged"}
    opened = {"operation": "open_proposal", "source": "merged", "title": "nothing"}
    answers = [
        http.post(f"/graphs/g/operations/{one['operation']}", json=one, headers=WIRE)
        for one in (
            branch,
            {"operation": "mutate", "text": 'query a() { insert Person { name: "cy" } }', "branch": "merged"},
            opened,
            {"operation": "merge_proposal", "number": 2},
            {"operation": "comment_proposal", "number": 2, "text": "done"},
        )
    ]
    assert [answer.status_code for answer in answers] == [200] * 5, answers[-1].text


def test_a_malformed_request_is_refused_and_told_where_it_is_wrong(fuzzed):
    sample = random.Random(SEED).sample(CASES, IN_EVERY_RUN)  # noqa: S311 - the same every time
    assert failures(*fuzzed, sample) == []


@pytest.mark.more
@pytest.mark.parametrize("part", range(8))
def test_every_value_at_every_place_is_refused_or_taken(fuzzed, part):
    assert failures(*fuzzed, itertools.islice(CASES, part, None, 8)) == []
