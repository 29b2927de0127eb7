"""Reading by a query over HTTP."""

from __future__ import annotations

import json

import httpx2
import pyarrow as pa
import pytest

FIND = "query find($slug: String) { match { $p: Person { slug: $slug } } return { $p.name, $p.level } }"
ALL = "query all() { match { $p: Person } return { $p.slug as slug, $p.level as level } order { slug } limit 2 }"
GRAPH = "/graphs/people"


def test_rows_come_with_the_commit_that_they_were_read_at(http):
    body = {"query": FIND, "params": {"slug": "mira"}}
    answer = http.post(f"{GRAPH}/query", json=body)
    assert answer.status_code == 200
    found = answer.json()
    assert found["rows"] == [{"p.name": "Mira", "p.level": "lead"}]
    assert found["target"] == {"branch": "main", "snapshot": None}
    assert (found["query_name"], found["row_count"], found["columns"]) == ("find", 1, ["p.name", "p.level"])
    again = http.post(f"{GRAPH}/query", json=body | {"snapshot": found["graph_commit_id"]}).json()
    assert again["target"] == {"branch": None, "snapshot": found["graph_commit_id"]}
    assert again["rows"] == found["rows"]


def test_language_error_says_where_and_what_was_meant(http):
    text = "query q() {\n  match { $p: Persn }\n  return { $p.name }\n}"
    answer = http.post(f"{GRAPH}/query", json={"query": text})
    assert answer.status_code == 400
    body = answer.json()
    assert body["code"] == "bad_request"
    place = body["diagnostic"]
    assert (place["line"], place["column"], place["length"]) == (2, 15, 5)
    assert place["suggestion"] == "did you mean 'Person'?"
    assert place["source_excerpt"] == "  match { $p: Persn }"


def test_earlier_form_is_the_same_bytes_every_time_and_names_its_successor(http):
    answer = http.post(f"{GRAPH}/read", json={"query_source": FIND, "params": {"slug": "mira"}})
    assert answer.content == (
        b'{"query_name":"find","target":{"branch":"main","snapshot":null},"row_count":1,'
        b'"columns":["p.name","p.level"],"rows":[{"p.name":"Mira","p.level":"lead"}]}'
    )
    assert answer.headers["deprecation"] == "true"
    assert answer.headers["link"] == '<query>; rel="successor-version"'
    successor = http.post(f"{GRAPH}/query", json={"query": FIND, "params": {"slug": "mira"}})
    assert "deprecation" not in successor.headers


TWO = "query a() { match { $p: Person } return { $p.slug } } query b() { match { $p: Person } return { $p.name } }"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"query": TWO}, "query file contains multiple queries; pass --name"),
        ({"query": TWO, "name": "c"}, "query 'c' not found"),
        ({"query": FIND, "branch": "main", "snapshot": "x"}, "branch and snapshot cannot be combined"),
        ({"query": FIND, "branch": "  "}, "branch must not be blank"),
        ({"query": FIND, "params": []}, "params must be an object or null"),
        ({"query": FIND}, "param 'slug': "),
        ({"query": FIND, "params": {"slug": 7}}, "param 'slug': "),
        ({"query": 'query d() { delete Person where slug = "x" }'}, "POST /graphs/people/mutate"),
        ({"query": 7}, "invalid body: "),
        ({}, "invalid body: "),
    ],
)
def test_wrong_request_says_what_is_wrong(http: httpx2.Client, body: dict, message: str):
    answer = http.post(f"{GRAPH}/query", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == "bad_request"
    assert message in answer.json()["error"]


def test_branch_and_commit_that_are_not_there_are_not_found(http):
    gone = http.post(f"{GRAPH}/query", json={"query": FIND, "params": {"slug": "x"}, "branch": "nope"})
    assert (gone.status_code, gone.json()["error"], gone.json()["code"]) == (
        404,
        "branch 'nope' not found",
        "not_found",
    )


def test_unknown_members_are_ignored_and_null_is_nothing(http):
    body = {"query": FIND, "params": {"slug": "mira"}, "surplus": 1, "name": None, "branch": None, "snapshot": None}
    assert http.post(f"{GRAPH}/query", json=body).json()["row_count"] == 1


VALUES = """query values($a: I64, $b: F64, $c: Date, $d: DateTime, $e: [I32], $f: Bool, $g: U64, $h: String?) {
    match { $p: Person { slug: "mira" } }
    return { $a as a, $b as b, $c as c, $d as d, $e as e, $f as f, $g as g, $h as h }
}"""
GIVEN = {
    "a": "9007199254740993",
    "b": 0.5,
    "c": "2026-01-31",
    "d": "2026-01-31T01:02:03Z",
    "e": [1, 2],
    "f": True,
    "g": 9223372036854775807,
}


def test_values_are_encoded_exactly(http):
    answer = http.post(f"{GRAPH}/query", json={"query": VALUES, "params": GIVEN})
    assert answer.status_code == 200, answer.text
    assert json.loads(answer.content)["rows"] == [
        {
            "a": 9007199254740993,
            "b": 0.5,
            "c": "2026-01-31",
            "d": "2026-01-31T01:02:03.000Z",
            "e": [1, 2],
            "f": True,
            "g": 9223372036854775807,
            "h": None,
        }
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("a", 1.5), ("a", True), ("g", -1), ("g", 2**63), ("c", "31.1.2026"), ("e", 1), ("e", ["x"]), ("f", "yes")],
)
def test_parameter_of_another_type_is_refused_by_name(http, name: str, value: object):
    answer = http.post(f"{GRAPH}/query", json={"query": VALUES, "params": GIVEN | {name: value}})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"param '{name}': ")


def test_rows_can_be_streamed_as_arrow_or_as_lines(http):
    plain = http.post(f"{GRAPH}/query", json={"query": ALL}).json()
    arrow = http.post(f"{GRAPH}/query", json={"query": ALL}, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert arrow.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert arrow.headers["omnigraph-query-name"] == "all"
    assert arrow.headers["omnigraph-graph-commit-id"] == plain["graph_commit_id"]
    with pa.ipc.open_stream(arrow.content) as reader:
        assert reader.read_all().to_pylist() == plain["rows"]
    lines = http.post(f"{GRAPH}/query", json={"query": ALL}, headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line) for line in lines.text.splitlines()] == plain["rows"]


def test_explain_shows_the_plan_and_with_analyze_what_it_took(http):
    plain = http.post(f"{GRAPH}/explain", json={"query": ALL}).json()
    taken = http.post(f"{GRAPH}/explain", json={"query": ALL, "analyze": True}).json()
    assert plain["text"]
    assert taken["text"] != plain["text"]


def test_stored_queries_are_listed_with_their_parameters(http):
    listed = http.get(f"{GRAPH}/queries").json()["queries"]
    assert [entry["name"] for entry in listed] == sorted(entry["name"] for entry in listed)
    entry = next(entry for entry in listed if entry["name"] == "update_person")
    assert entry["mutation"] is True
    assert entry["tool_name"] == "update_person"
    assert {"name": "age", "kind": "int", "nullable": True} in entry["params"]
    assert {"name": "skills", "kind": "list", "item_kind": "string", "nullable": True} in entry["params"]
    assert "description" not in entry


def test_stored_query_is_invoked_by_name(http):
    found = http.post(f"{GRAPH}/queries/find_person", json={"params": {"slug": "mira"}})
    assert found.json()["query_name"] == "find_person"
    assert found.json()["row_count"] == 1
    assert http.post(f"{GRAPH}/queries/team_sizes").status_code == 200
    assert http.post(f"{GRAPH}/queries/team_sizes", content=b"null").status_code == 200
    missing = http.post(f"{GRAPH}/queries/nope", json={})
    assert (missing.status_code, missing.json()["error"]) == (404, "stored query not found")
    wrong = http.post(f"{GRAPH}/queries/find_person", json={"expect_mutation": True})
    assert wrong.status_code == 400
    assert wrong.json()["error"] == "'find_person' is a read — use omnigraph query find_person"
    assert http.post(f"{GRAPH}/queries/find_person", content=b"{").status_code == 400
    conditional = http.post(f"{GRAPH}/queries/find_person/if-graph-commit", headers={"Omnigraph-If-Graph-Commit": "01"})
    assert conditional.status_code == 400
    old = http.post(f"{GRAPH}/queries/forget", json={"params": {"slug": "x"}, "snapshot": "01"})
    assert old.status_code == 400
