"""Schemas, snapshots, Blobs and maintenance over HTTP."""

from __future__ import annotations

import base64

import pytest

import omnigraph
from omnigraph.errors import QueryTypeError
from tests.server.conftest import PEOPLE

GRAPH = "/graphs/people"
PHOTO = bytes(range(256)) * 4


def test_schema_is_the_accepted_text(http):
    assert http.get(f"{GRAPH}/schema").json() == {"schema_source": (PEOPLE / "schema.pg").read_text(encoding="utf-8")}


def test_snapshot_lists_edges_before_nodes_by_name(http):
    found = http.get(f"{GRAPH}/snapshot").json()
    assert found["graph_branch"] == "main"
    keys = [(dataset["entity_kind"], dataset["type_name"]) for dataset in found["datasets"]]
    assert keys == sorted(keys)
    assert set(found["datasets"][0]) == {
        "entity_kind",
        "type_name",
        "dataset_path",
        "published_dataset_version",
        "native_dataset_branch",
        "entity_count",
    }
    assert http.get(f"{GRAPH}/snapshot?branch=nope").status_code == 404


def test_catalog_is_the_compiled_schema(http):
    found = http.get(f"{GRAPH}/catalog").json()
    person = next(node for node in found["nodes"] if node["name"] == "Person")
    assert person["key"] == ["slug"]
    assert person["implements"] == ["Named", "Tracked"]
    assert person["ranges"] == [{"property": "age", "low": 16, "high": 120}]
    assert person["entity_count"] > 0
    edge = next(edge for edge in found["edges"] if edge["name"] == "WorksIn")
    assert (edge["from"], edge["to"], edge["cardinality"]) == ("Person", "Team", {"minimum": 0, "maximum": 1})


def test_schema_is_applied_unless_it_breaks_a_stored_query(http):
    text = (PEOPLE / "schema.pg").read_text(encoding="utf-8")
    done = http.post(f"{GRAPH}/schema/apply", json={"schema_source": text}).json()
    assert (done["supported"], done["applied"], done["step_count"]) == (True, False, 0)
    broken = http.post(
        f"{GRAPH}/schema/apply",
        json={"schema_source": text.replace("    age: I32?\n", "").replace("    @range(age, 16..120)\n", "")},
    )
    assert broken.status_code == 400
    assert http.get(f"{GRAPH}/schema").json()["schema_source"] == text
    assert http.post(f"{GRAPH}/schema/apply", json={"schema_source": "node {"}).status_code == 400


def test_our_own_client_breaks_no_stored_query_either(server):
    text = (PEOPLE / "schema.pg").read_text(encoding="utf-8")
    with omnigraph.open(f"{server.url}/graphs/people") as graph:
        with pytest.raises(QueryTypeError, match="age"):
            graph.apply_schema(text.replace("    age: I32?\n", "").replace("    @range(age, 16..120)\n", ""))
        assert graph.schema.source == text


def test_status_and_maintenance(http):
    assert http.get(f"{GRAPH}/status").json()["branch"] == "main"
    assert "datasets" in http.post(f"{GRAPH}/maintenance/optimize", json={"types": ["Team"]}).json()
    preview = http.post(f"{GRAPH}/maintenance/cleanup", json={"keep": 1000}).json()
    assert preview["confirmed"] is False
    assert http.post(f"{GRAPH}/maintenance/cleanup", json={}).status_code == 400
    migrated = http.post(f"{GRAPH}/maintenance/migrate", json={}).json()
    assert {line["action"] for line in migrated["lines"]} == {"current"}


@pytest.fixture(scope="module")
def photo(http) -> str:
    """The address of a Blob."""
    text = """query p($photo: Blob?, $none: Blob?, $empty: Blob?) {
        upsert Person { slug: "photo", name: "P", level: "lead", created_at: now(), photo: $photo }
        upsert Person { slug: "photo-none", name: "P", level: "lead", created_at: now(), photo: $none }
        upsert Person { slug: "photo-empty", name: "P", level: "lead", created_at: now(), photo: $empty }
    }"""
    params = {"photo": f"base64:{base64.b64encode(PHOTO).decode()}", "empty": "base64:"}
    answer = http.post(f"{GRAPH}/mutate", json={"query": text, "params": params})
    assert answer.status_code == 200, answer.text
    return f"{GRAPH}/blob?entity=node&type=Person&id=photo&property=photo"


def test_blob_is_sent_whole_in_part_or_not_at_all(http, photo: str):
    whole = http.get(photo)
    assert (whole.status_code, whole.content) == (200, PHOTO)
    tag = whole.headers["etag"]
    assert tag.startswith('"')
    assert whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["omnigraph-snapshot-id"]
    head = http.head(photo)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(PHOTO)))
    same = http.get(photo, headers={"If-None-Match": f"W/{tag}"})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    other = http.get(photo, headers={"If-Match": '"other"'})
    assert (other.status_code, other.headers["etag"], other.json()["code"]) == (412, tag, "conflict")


@pytest.mark.parametrize(
    ("asked", "content", "told"),
    [
        ("bytes=0-9", PHOTO[:10], "bytes 0-9/1024"),
        ("bytes=1020-", PHOTO[1020:], "bytes 1020-1023/1024"),
        ("bytes=-4", PHOTO[-4:], "bytes 1020-1023/1024"),
        ("bytes=1000-9999", PHOTO[1000:], "bytes 1000-1023/1024"),
    ],
)
def test_range_of_a_blob(http, photo: str, asked: str, content: bytes, told: str):
    found = http.get(photo, headers={"Range": asked})
    assert (found.status_code, found.content, found.headers["content-range"]) == (206, content, told)
    assert http.head(photo, headers={"Range": asked}).status_code == 200


@pytest.mark.parametrize("asked", ["bytes=0-1,3-4", "items=0-1", "bytes=5-2", "bytes=-", "nonsense"])
def test_range_that_is_not_understood_is_ignored(http, photo: str, asked: str):
    assert http.get(photo, headers={"Range": asked}).status_code == 200


def test_range_behind_the_end_is_refused(http, photo: str):
    found = http.get(photo, headers={"Range": "bytes=1024-"})
    assert (found.status_code, found.headers["content-range"]) == (416, "bytes */1024")
    assert found.json()["blob_range"]["length"] == 1024
    old = http.get(photo, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
    assert old.status_code == 200


def test_blob_that_is_not_there(http, photo: str):
    assert http.get(photo.replace("id=photo", "id=photo-none")).status_code == 404
    assert http.get(photo.replace("id=photo", "id=nobody")).status_code == 404
    empty = http.get(photo.replace("id=photo", "id=photo-empty"))
    assert (empty.status_code, empty.content) == (200, b"")
    assert http.get(photo.replace("property=photo", "property=name")).status_code == 400
    assert http.get(photo.replace("entity=node", "entity=thing")).status_code == 400
    assert http.get(photo.replace("&id=photo", "")).status_code == 400
