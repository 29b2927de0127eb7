"""Changing a graph by a query over HTTP."""

from __future__ import annotations

ADD = """query add($slug: String) {
    insert Person { slug: $slug, name: "A", level: "lead", created_at: now() }
}"""


def test_mutation_answers_with_its_commit(http):
    answer = http.post("/graphs/people/mutate", json={"query": ADD, "params": {"slug": "answers"}})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["branch"], body["query_name"], body["affected_nodes"], body["affected_edges"]) == ("main", "add", 1, 0)
    assert body["commit"]["graph_branch"] is None
    assert isinstance(body["commit"]["created_at"], int)
