"""Reading by a query over HTTP."""

from __future__ import annotations

FIND = "query find($slug: String) { match { $p: Person { slug: $slug } } return { $p.name, $p.level } }"


def test_rows_come_with_the_commit_that_they_were_read_at(http):
    body = {"query": FIND, "params": {"slug": "mira"}}
    answer = http.post("/graphs/people/query", json=body)
    assert answer.status_code == 200
    found = answer.json()
    assert found["rows"] == [{"p.name": "Mira", "p.level": "lead"}]
    assert found["target"] == {"branch": "main", "snapshot": None}
    assert (found["query_name"], found["row_count"], found["columns"]) == ("find", 1, ["p.name", "p.level"])
    again = http.post("/graphs/people/query", json=body | {"snapshot": found["graph_commit_id"]}).json()
    assert again["target"] == {"branch": None, "snapshot": found["graph_commit_id"]}
    assert again["rows"] == found["rows"]


def test_language_error_says_where_and_what_was_meant(http):
    text = "query q() {\n  match { $p: Persn }\n  return { $p.name }\n}"
    answer = http.post("/graphs/people/query", json={"query": text})
    assert answer.status_code == 400
    body = answer.json()
    assert body["code"] == "bad_request"
    place = body["diagnostic"]
    assert (place["line"], place["column"], place["length"]) == (2, 15, 5)
    assert place["suggestion"] == "did you mean 'Person'?"
    assert place["source_excerpt"] == "  match { $p: Persn }"
