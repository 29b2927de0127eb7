"""Branches, merges and tags over HTTP."""

from __future__ import annotations

import httpx2
import pytest

GRAPH = "/graphs/people"


def write(http: httpx2.Client, slug: str, name: str, branch: str) -> None:
    text = """query w($slug: String, $name: String) {
        upsert Person { slug: $slug, name: $name, level: "lead", created_at: now() }
    }"""
    answer = http.post(
        f"{GRAPH}/mutate", json={"query": text, "params": {"slug": slug, "name": name}, "branch": branch}
    )
    assert answer.status_code == 200, answer.text


@pytest.fixture
def draft(http: httpx2.Client):
    http.post(f"{GRAPH}/branches", json={"name": "draft"})
    yield "draft"
    http.delete(f"{GRAPH}/branches/draft")


def test_branch_with_a_slash_is_addressed_by_one_segment(http, served_people):
    made = http.post(f"{GRAPH}/branches", json={"name": " review/2026 ", "from": "main"})
    assert made.json() == {"uri": "/graphs/people", "from": "main", "name": "review/2026", "actor_id": None}
    listed = http.get(f"{GRAPH}/branches").json()["branches"]
    assert listed == sorted(listed)
    assert {"main", "review/2026"} <= set(listed)
    assert http.delete(f"{GRAPH}/branches/review/2026").status_code == 404
    gone = http.delete(f"{GRAPH}/branches/review%2F2026")
    assert gone.json() == {"uri": "/graphs/people", "name": "review/2026", "actor_id": None}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "main"}, 400),
        ({"name": " "}, 400),
        ({"name": "a..b/"}, 400),
        ({"name": "draft"}, 409),
        ({"name": "draft/inner"}, 409),
        ({"name": "other", "from": "nope"}, 404),
    ],
)
def test_branch_that_cannot_be_is_refused(http, draft: str, body: dict, status: int):
    assert http.post(f"{GRAPH}/branches", json=body).status_code == status


def test_unknown_branches_are_not_found(http):
    assert http.delete(f"{GRAPH}/branches/nope").status_code == 404
    assert http.post(f"{GRAPH}/branches/merge", json={"source": "nope"}).status_code == 404
    assert http.delete(f"{GRAPH}/branches/main").status_code == 400
    assert http.post(f"{GRAPH}/branches/merge", json={"source": "main"}).status_code == 400


def test_a_merge_that_expects_another_head_changes_nothing(http):
    http.post(f"{GRAPH}/branches", json={"name": "expected"})
    seen = http.get(f"{GRAPH}/branches", params={"verbose": "true"}).json()["details"]
    heads = {one["name"]: one["head"]["graph_commit_id"] for one in seen}
    write(http, "late", "L", "expected")
    asked = {"source": "expected", "expected_head": heads["main"], "expected_source_head": heads["expected"]}
    assert http.post(f"{GRAPH}/branches/merge", json=asked).status_code == 412
    later = http.get(f"{GRAPH}/branches", params={"verbose": "true"}).json()["details"]
    (now,) = (one["head"]["graph_commit_id"] for one in later if one["name"] == "expected")
    assert http.post(f"{GRAPH}/branches/merge", json={**asked, "expected_source_head": now}).status_code == 200


def test_merge_brings_the_commit_and_deletes_the_branch_if_asked(http):
    http.post(f"{GRAPH}/branches", json={"name": "topic"})
    write(http, "merged", "M", "topic")
    preview = http.post(f"{GRAPH}/branches/merge", json={"source": "topic", "dry_run": True}).json()
    assert (preview["outcome"], preview["conflict_count"]) == ("fast_forward", 0)
    done = http.post(f"{GRAPH}/branches/merge", json={"source": "topic", "delete_branch": True}).json()
    assert (done["source"], done["target"], done["outcome"], done["actor_id"]) == (
        "topic",
        "main",
        "fast_forward",
        None,
    )
    assert done["branch_deleted"] is True
    assert "branch_delete_error" not in done
    assert done["commit"]["graph_commit_id"] == http.get(f"{GRAPH}/commits").json()["commits"][0]["graph_commit_id"]


def test_conflicts_are_listed_and_can_be_resolved(http, draft: str):
    write(http, "contested", "base", "main")
    http.delete(f"{GRAPH}/branches/{draft}")
    http.post(f"{GRAPH}/branches", json={"name": draft})
    write(http, "contested", "theirs", draft)
    write(http, "contested", "ours", "main")
    refused = http.post(f"{GRAPH}/branches/merge", json={"source": draft})
    assert refused.status_code == 409
    body = refused.json()
    conflict = body["merge_conflicts"][0]
    assert {name: conflict[name] for name in ("entity_kind", "type_name", "entity_id", "kind")} == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "contested",
        "kind": "divergent_update",
    }
    assert body["error"].startswith("merge conflicts: node type 'Person', entity id 'contested' (divergent_update)")
    done = http.post(f"{GRAPH}/branches/merge", json={"source": draft, "resolve": "theirs"})
    assert done.json()["outcome"] == "merged"
    assert "branch_deleted" not in done.json()


def test_branches_tell_how_they_stand(http, draft: str):
    write(http, "ahead", "A", draft)
    listed = http.get(f"{GRAPH}/branches?verbose=true").json()
    status = next(item for item in listed["details"] if item["name"] == draft)
    assert (status["parent"], status["ahead"], status["behind"], status["merged"]) == ("main", 1, 0, False)
    assert "details" not in http.get(f"{GRAPH}/branches").json()
    assert http.get(f"{GRAPH}/branches?verbose=maybe").status_code == 400


def test_tags_name_states(http):
    made = http.post(f"{GRAPH}/tags", json={"name": "v1", "message": "first"}).json()
    assert (made["name"], made["graph_branch"], made["message"]) == ("v1", None, "first")
    assert made in http.get(f"{GRAPH}/tags").json()["tags"]
    assert http.post(f"{GRAPH}/tags", json={"name": "v1"}).status_code == 409
    assert http.delete(f"{GRAPH}/tags/v1").json() == made
    assert http.delete(f"{GRAPH}/tags/v1").status_code == 404
