"""Commits, changes and differences over HTTP."""

from __future__ import annotations

import json

import httpx2
import pytest

GRAPH = "/graphs/people"


def write(http: httpx2.Client, *slugs: str) -> str:
    statements = "".join(
        f'upsert Person {{ slug: "{slug}", name: "N", level: "lead", created_at: now() }} ' for slug in slugs
    )
    answer = http.post(f"{GRAPH}/mutate", json={"query": f"query w() {{ {statements} }}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["commit"]["graph_commit_id"])


def test_commits_are_listed_newest_first_and_in_pages(http):
    newest = write(http, "page-a")
    listed = http.get(f"{GRAPH}/commits?branch=main").json()
    assert listed["commits"][0]["graph_commit_id"] == newest
    assert "next_cursor" not in listed
    page = http.get(f"{GRAPH}/commits?limit=1").json()
    following = http.get(f"{GRAPH}/commits", params={"limit": 1, "cursor": page["next_cursor"]}).json()
    assert [*page["commits"], *following["commits"]] == listed["commits"][:2]
    assert http.get(f"{GRAPH}/commits?branch=nope").status_code == 404
    assert http.get(f"{GRAPH}/commits?limit=0").status_code == 400


@pytest.mark.parametrize("commit_id", ["nope", "01M7NHSEE07N37440MT0WSKXKC", "%F0%9F%8C%8D"])
def test_commit_that_is_not_there_is_not_found(http, commit_id: str):
    for path in (f"{GRAPH}/commits/{commit_id}", f"{GRAPH}/commits/{commit_id}/changes"):
        answer = http.get(path)
        assert answer.status_code == 404
        assert "not found" in answer.json()["error"]


def test_changes_of_a_commit_come_in_pages(http):
    commit = write(http, "change-a", "change-b", "change-c")
    path = f"{GRAPH}/commits/{commit}/changes"
    whole = http.get(path).json()
    assert [change["id"] for change in whole["changes"]] == ["change-a", "change-b", "change-c"]
    assert isinstance(whole["cause"]["authored_at"], int)
    assert whole["cause"]["authored_branch"] == "main"
    assert "next_page_token" not in whole
    first = http.get(path, params={"limit": 2}).json()
    rest = http.get(path, params={"page_token": first["next_page_token"]}).json()
    assert [*first["changes"], *rest["changes"]] == whole["changes"]
    assert http.get(path, params={"op": "delete"}).json()["changes"] == []
    for wrong in ({"limit": 0}, {"kind": "x"}, {"surplus": 1}, {"page_token": ["a", "b"]}):
        assert http.get(path, params=wrong).status_code == 400
    large = http.get(path, params={"limit": 8193})
    assert large.status_code == 413
    assert large.json()["resource_limit"]["resource"] == "commit_changes_page_changes"


def test_first_commit_cannot_be_compared(http):
    first = http.get(f"{GRAPH}/commits").json()["commits"][-1]["graph_commit_id"]
    answer = http.get(f"{GRAPH}/commits/{first}/changes")
    assert answer.status_code == 409
    assert answer.json()["change_diff_refusal"] == {"reason": "parentless_commit", "graph_commit_id": first}


def test_feed_starts_now_and_goes_on_from_its_cursor(http):
    start = http.get(f"{GRAPH}/changes").json()
    assert start["blocks"] == []
    assert start["caught_up"] is True
    first, second = write(http, "feed-a", "feed-b"), write(http, "feed-c")
    found = http.get(f"{GRAPH}/changes", params={"cursor": start["cursor"]}).json()
    assert [block["cause"]["graph_commit_id"] for block in found["blocks"]] == [first, second]
    part = http.get(f"{GRAPH}/changes", params={"cursor": start["cursor"], "limit": 1}).json()
    assert set(part) == {"blocks", "next_page_token"}
    rest = http.get(f"{GRAPH}/changes", params={"page_token": part["next_page_token"]}).json()
    assert [change["id"] for block in rest["blocks"] for change in block["changes"]] == ["feed-b", "feed-c"]
    wrong = http.get(f"{GRAPH}/changes", params={"cursor": start["cursor"], "kind": "edge"})
    assert wrong.status_code == 400
    assert wrong.json()["error"].startswith("change cursor rejected: ")
    for query in ({"cursor": "a", "start": "now"}, {"start": "later"}, {"start": "after:nope"}, {"surplus": 1}):
        assert http.get(f"{GRAPH}/changes", params=query).status_code == 400


def test_baseline_ends_with_the_cursor_behind_it(http):
    answer = http.post(f"{GRAPH}/changes/baseline", json={"kind": ["node"], "type": ["Person"]})
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert all(line["type"] == "Person" for line in lines[:-1])
    newest = write(http, "behind-baseline")
    cursor = lines[-1]["baseline"]["resume_cursor"]
    found = http.get(f"{GRAPH}/changes", params={"cursor": cursor, "kind": "node", "type": "Person"}).json()
    assert [block["cause"]["graph_commit_id"] for block in found["blocks"]] == [newest]


def test_two_states_are_compared_in_pages_or_summed_up(http):
    before = http.get(f"{GRAPH}/commits").json()["commits"][0]["graph_commit_id"]
    after = write(http, "diff-a", "diff-b", "diff-c")
    query = {"from": before, "to": after}
    whole = http.get(f"{GRAPH}/diff", params=query).json()
    assert [(change["id"], change["op"]) for change in whole["changes"]] == [
        ("diff-a", "insert"),
        ("diff-b", "insert"),
        ("diff-c", "insert"),
    ]
    first = http.get(f"{GRAPH}/diff", params=query | {"limit": 2}).json()
    rest = http.get(f"{GRAPH}/diff", params={"page_token": first["next_page_token"], "limit": 2}).json()
    assert [*first["changes"], *rest["changes"]] == whole["changes"]
    assert "next_page_token" not in rest
    counts = http.get(f"{GRAPH}/diff", params=query | {"summary": "true"}).json()["summary"]
    assert counts["inserts"] == 3
    assert http.get(f"{GRAPH}/diff").status_code == 400
    assert http.get(f"{GRAPH}/diff", params={"page_token": "x"}).status_code == 400
    assert http.get(f"{GRAPH}/diff", params={"from": "nope"}).status_code == 404


def test_commit_is_reverted_and_blamed(http):
    commit = write(http, "reverted")
    history = http.get(f"{GRAPH}/blame", params={"type": "Person", "id": "reverted"}).json()
    assert commit in json.dumps(history)
    done = http.post(f"{GRAPH}/commits/{commit}/revert", json={})
    assert done.status_code == 200, done.text
    assert done.json()["commit"]["parent_commit_id"] == commit
    assert http.get(f"{GRAPH}/blame", params={"type": "Person"}).status_code == 400
