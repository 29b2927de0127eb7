"""A Blob that a later statement of the same mutation replaces is not judged; one that would be stored is."""

from __future__ import annotations

import pytest
from tests.session_graph import create_graph, open_session, read_graph

from omnigraph.errors import ExternalBlobError

SCHEMA = "node Thing { code: String  n: U32  body: Blob?  @key(code, n) }"
EXTERNAL = "file:///a"
TWO = (
    'query q($a: Blob?, $b: Blob?) { insert Thing { code: "x", n: 1, body: $a }'
    ' update Thing set { body: $b } where code = "x" }'
)


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    with open_session(tmp_path / "graph") as session:
        yield session


def bodies(session):
    return {row["body"] for row in read_graph(session)["node:Thing"].values()}


def test_value_that_is_replaced_is_not_judged(session):
    assert session.mutate(TWO, {"a": EXTERNAL, "b": b"in"}).affected_nodes == 2
    assert bodies(session) == {"base64:aW4="}


@pytest.mark.parametrize("rest", ['insert Thing { code: "x", n: 1 }', 'delete Thing where code = "x"'])
def test_value_of_a_row_that_is_replaced_or_removed_is_not_judged(session, rest):
    text = f'query q($a: Blob) {{ insert Thing {{ code: "x", n: 1, body: $a }} {rest} }}'
    session.mutate(text, {"a": EXTERNAL})
    assert bodies(session) <= {None}


def test_value_that_stays_is_refused(session):
    with pytest.raises(ExternalBlobError, match=r"file:///a.*property 'Thing.body'"):
        session.mutate(TWO, {"a": b"in", "b": EXTERNAL})
    assert bodies(session) == set()


def test_value_that_one_of_two_rows_keeps_is_refused(session):
    text = (
        'query q($a: Blob, $b: Blob?) { insert Thing { code: "x", n: 1, body: $a }'
        ' insert Thing { code: "x", n: 2, body: $a }'
        " update Thing set { body: $b } where n = 1 }"
    )
    with pytest.raises(ExternalBlobError):
        session.mutate(text, {"a": EXTERNAL, "b": None})


def test_value_that_no_row_gets_is_refused(session):
    with pytest.raises(ExternalBlobError):
        session.mutate('query q($a: Blob) { update Thing set { body: $a } where code = "nobody" }', {"a": EXTERNAL})


def test_batch_names_the_row_of_the_first_value_that_stays(session):
    text = 'query q($n: U32, $a: Blob) { insert Thing { code: "x", n: $n, body: $a } }'
    rows = [{"n": 1, "a": EXTERNAL}, {"n": 2, "a": EXTERNAL}, {"n": 1, "a": b"in"}]
    with pytest.raises(ExternalBlobError, match=r"^row 2: external blob"):
        session.mutate_batch(text, rows)
    assert session.mutate_batch(text, [rows[0], rows[2]]).affected_nodes == 2
    assert bodies(session) == {"base64:aW4="}
