"""Changing a graph by a query over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

GRAPH = "/graphs/people"
ADD = """query add($slug: String) {
    insert Person { slug: $slug, name: "A", level: "lead", created_at: now() }
}"""
RENAME = 'query rename($slug: String) { update Person set { name: "B" } where slug = $slug }'
STRICT = """query add($slug: String) {
    insert Person { slug: $slug, name: "A", level: "lead", created_at: now() } strict
}"""
CONDITION = "Omnigraph-If-Graph-Commit"


def add(http: httpx2.Client, slug: str, path: str = "mutate", **headers: str) -> httpx2.Response:
    return http.post(f"{GRAPH}/{path}", json={"query": ADD, "params": {"slug": slug}}, headers=headers)


def test_mutation_answers_with_its_commit(http):
    answer = add(http, "answers")
    assert answer.status_code == 200
    body = answer.json()
    assert (body["branch"], body["query_name"], body["affected_nodes"], body["affected_edges"]) == ("main", "add", 1, 0)
    assert body["actor_id"] is None
    commit = body["commit"]
    assert commit["graph_branch"] is None
    assert isinstance(commit["created_at"], int)
    shown = http.get(f"{GRAPH}/commits/{commit['graph_commit_id']}").json()
    assert {name: shown[name] for name in commit} == commit


def test_mutation_that_matches_nothing_makes_no_commit(http):
    before = http.get(f"{GRAPH}/commits").json()["commits"][0]
    body = http.post(f"{GRAPH}/mutate", json={"query": RENAME, "params": {"slug": "nobody-there"}}).json()
    assert (body["commit"], body["affected_nodes"]) == (None, 0)
    assert http.get(f"{GRAPH}/commits").json()["commits"][0] == before


def test_earlier_spellings_are_understood(http):
    answer = http.post(
        f"{GRAPH}/change", json={"query_source": ADD, "query_name": "add", "params": {"slug": "spelling"}}
    )
    assert answer.status_code == 200
    assert answer.headers["deprecation"] == "true"
    assert answer.headers["link"] == '<mutate>; rel="successor-version"'
    assert "deprecation" not in add(http, "spelling-too").headers


def test_condition_holds_only_while_the_branch_is_at_the_commit(http):
    head = http.get(f"{GRAPH}/commits").json()["commits"][0]["graph_commit_id"]
    assert add(http, "conditional", "mutate/if-graph-commit", **{CONDITION: head}).status_code == 200
    lost = add(http, "conditional-2", "mutate/if-graph-commit", **{CONDITION: head})
    assert lost.status_code == 412
    body = lost.json()
    now = http.get(f"{GRAPH}/commits").json()["commits"][0]["graph_commit_id"]
    assert body["precondition_failure"] == {"expected": head, "actual": now}
    assert "code" not in body
    assert body["error"] == f"precondition failed on branch 'main': expected head '{head}' but current is '{now}'"


def test_fresh_branch_takes_the_head_that_it_inherited(http):
    http.post(f"{GRAPH}/branches", json={"name": "fresh"})
    text = "query q() { match { $p: Person } return { $p.slug } limit 1 }"
    head = http.post(f"{GRAPH}/query", json={"query": text, "branch": "fresh"}).json()["graph_commit_id"]
    answer = http.post(
        f"{GRAPH}/mutate/if-graph-commit",
        json={"query": ADD, "params": {"slug": "on-fresh"}, "branch": "fresh"},
        headers={CONDITION: head},
    )
    assert answer.status_code == 200
    assert answer.json()["commit"]["graph_branch"] == "fresh"
    http.delete(f"{GRAPH}/branches/fresh")


@pytest.mark.parametrize("value", ["", "*", '"01ABC"', "W/01ABC", "01ABC, 01ABD"])
def test_condition_that_is_no_commit_id_is_refused(http, value: str):
    assert add(http, "never", "mutate/if-graph-commit", **{CONDITION: value}).status_code == 400


def test_condition_is_refused_where_it_would_be_overlooked(http):
    assert add(http, "never", "mutate/if-graph-commit").status_code == 400
    assert add(http, "never", **{CONDITION: "01ABC"}).status_code == 400
    assert add(http, "never", "change", **{CONDITION: "01ABC"}).status_code == 400
    stored = http.post(f"{GRAPH}/queries/find_person", headers={CONDITION: "01ABC"})
    assert stored.status_code == 400


def test_key_that_exists_is_a_conflict_with_the_id(http):
    add(http, "taken")
    answer = http.post(f"{GRAPH}/mutate", json={"query": STRICT, "params": {"slug": "taken"}})
    assert answer.status_code == 409
    body = answer.json()
    assert body["code"] == "conflict"
    assert body["key_conflict"] == {"entity_kind": "node", "type_name": "Person", "entity_id": "taken"}
    assert body["error"] == "node type 'Person' already has id 'taken'"


def test_parallel_inserts_of_one_key_all_succeed(server):
    with server.client() as http, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: add(http, "same-key"), range(16)))
    assert {answer.status_code for answer in answers} == {200}


def test_stored_mutation_answers_like_any_other(http):
    body = {"params": {"slug": "hired", "name": "H", "level": "junior", "team": "core", "today": "2026-01-31"}}
    http.post(
        f"{GRAPH}/mutate",
        json={"query": 'query t() { insert Team { code: "core", name: "Core" } }'},
    )
    done = http.post(f"{GRAPH}/queries/hire", json=body)
    assert done.status_code == 200, done.text
    assert (done.json()["affected_nodes"], done.json()["affected_edges"]) == (1, 1)
