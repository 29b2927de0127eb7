"""The auditor finds each kind of damage, and nothing on a graph that has none."""

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.auditor import Auditor, audit
from tests.txn_graph import KNOWS, PERSON, TEAM, edge_rows, init_graph, insert, node_rows, open_graph

from omnigraph.store.location import Storage
from omnigraph.values import BranchName

pytestmark = pytest.mark.more


@pytest.fixture
def root(tmp_path):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a", "b"]))
        insert(graph, TEAM, node_rows(["t"]))
        insert(graph, KNOWS, edge_rows([("e", "a", "b")]))
    return storage.root


def _manifest(root):
    return lance.dataset(f"{root}/__manifest")


def _edit_manifest(root, edit):
    """Replace the newest manifest version by one with edited rows, in one fragment that still begins with the state."""
    dataset = _manifest(root)
    rows = [row for row in dataset.to_table().to_pylist() if edit(row) is not False]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=dataset.schema), dataset, mode="overwrite")


def _edit_metadata(root, object_type, change):
    def edit(row):
        if row["object_type"] == object_type:
            row["metadata"] = json.dumps({**json.loads(row["metadata"]), **change})

    _edit_manifest(root, edit)


def _table(root, table_key):
    (row,) = (row for row in _manifest(root).to_table().to_pylist() if row["table_key"] == table_key)
    return f"{root}/{row['location']}"


def _append(root, table_key, rows):
    """Append behind the manifest's back, then make the manifest believe it."""
    dataset = lance.write_dataset(rows, _table(root, table_key), mode="append")

    def edit(row):
        if row["table_key"] == table_key:
            row["table_version"] = dataset.version
            row["row_count"] = dataset.count_rows()

    _edit_manifest(root, edit)


def _only(findings, text):
    """The damage also makes the newest version one that no commit made; that finding comes along."""
    others = [finding for finding in findings if "a version and its commit disagree" not in finding]
    assert len(others) == 1, findings
    assert text in others[0]


def test_a_sound_graph_gets_no_finding(root):
    assert audit(root, present={PERSON: ["a", "b"], KNOWS: ["e"]}, absent={PERSON: ["c"]}) == []


def test_a_sound_graph_with_branches_gets_no_finding(root):
    with open_graph(Storage.open(root)) as graph:
        graph.create_branch(BranchName("team/x"))
        graph.create_branch(BranchName("untouched"))
        insert(graph, PERSON, node_rows(["x"]), branch="team/x")
        insert(graph, PERSON, node_rows(["c"]))
    assert audit(root) == []


def test_a_sound_graph_on_s3_gets_no_finding(clean_s3_endpoint):
    options = clean_s3_endpoint.storage_options
    storage = init_graph(clean_s3_endpoint.fresh_prefix(), options)
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
    assert audit(storage.root, options, present={PERSON: ["a"]}) == []
    assert audit(storage.root, options, present={PERSON: ["z"]}) != []


def test_a_missing_graph_is_reported(tmp_path):
    (tmp_path / "g").mkdir()
    _only(audit(tmp_path / "g"), "the manifest cannot be read branch=main")


def test_a_left_sidecar_is_reported(root):
    sidecar = Path(root, "__recovery", "main~main", "9.json")
    sidecar.parent.mkdir(parents=True, exist_ok=True)
    sidecar.write_text("{}")
    _only(audit(root), "a sidecar is left key=__recovery/main~main/9.json")


def test_an_unreadable_version_is_reported(root):
    manifests = sorted(Path(root, "__manifest", "_versions").glob("*.manifest"))
    manifests[1].unlink()
    _only(audit(root), "a manifest version cannot be read branch=main version=3")


def test_a_commit_that_is_missing_from_the_line_is_reported(root):
    removed = []

    def edit(row):
        if row["object_type"] == "graph_commit" and '"manifest_version":2' in row["metadata"]:
            removed.append(row["object_id"])
            return False
        return True

    _edit_manifest(root, edit)
    findings = audit(root)
    assert any(f"a commit of the line is missing branch=main commit={removed[0]}" in text for text in findings)
    assert any("a commit is not on the line" in text for text in findings)


def test_a_commit_that_stands_twice_is_reported(root):
    dataset = _manifest(root)
    rows = dataset.to_table().to_pylist()
    rows.append(next(row for row in rows if row["object_type"] == "graph_commit"))
    lance.write_dataset(pa.Table.from_pylist(rows, schema=dataset.schema), dataset, mode="overwrite")
    _only(audit(root), "a row stands 2 times branch=main graph_commit=")


def test_a_fork_in_the_line_is_reported(root):
    first = next(
        row for row in _manifest(root).to_table().to_pylist() if '"operation":"init"' in (row["metadata"] or "")
    )

    def edit(row):
        if row["object_type"] == "graph_commit":
            data = json.loads(row["metadata"])
            if data["manifest_version"] == 3:
                row["metadata"] = json.dumps({**data, "parent": first["object_id"]})

    _edit_manifest(root, edit)
    _only(audit(root), "a commit is not on the line branch=main")


def test_a_circle_of_commits_is_reported(root):
    def edit(row):
        if row["object_type"] == "graph_commit":
            data = json.loads(row["metadata"])
            row["metadata"] = json.dumps({**data, "parent": row["object_id"]})

    _edit_manifest(root, edit)
    assert any("the line of commits is a circle" in text for text in audit(root))


def test_a_malformed_commit_is_reported(root):
    _edit_metadata(root, "graph_commit", {"id": "not-the-object-id"})
    assert any("a commit row is malformed" in text for text in audit(root))


def test_metadata_that_is_not_json_is_reported(root):
    def edit(row):
        if row["object_type"] == "schema":
            row["metadata"] = "{"

    _edit_manifest(root, edit)
    findings = audit(root)
    assert any("metadata is not JSON branch=main object=schema" in text for text in findings)
    assert any("not exactly one whole schema row" in text for text in findings)


def test_a_manifest_without_head_is_reported(root):
    _edit_manifest(root, lambda row: row["object_type"] != "graph_head")
    assert any("not exactly one whole head row branch=main count=0" in text for text in audit(root))


def test_a_row_of_unknown_type_is_reported(root):
    def edit(row):
        if row["table_key"] == TEAM:
            row["object_type"] = "gossip"

    _edit_manifest(root, edit)
    _only(audit(root), "a row of unknown type branch=main type=gossip")


def test_a_wrong_row_count_is_reported(root):
    def edit(row):
        if row["table_key"] == PERSON:
            row["row_count"] = 7

    _edit_manifest(root, edit)
    _only(audit(root), "the row count is wrong branch=main table=node:Person manifest=7 real=2")


def test_a_table_ahead_of_its_pin_is_reported(root):
    lance.write_dataset(node_rows(["stranger"]), _table(root, PERSON), mode="append")
    _only(audit(root), "the table has drifted branch=main table=node:Person pin=2 head=3")


def test_a_pin_that_moved_back_is_reported(root):
    def edit(row):
        if row["table_key"] == PERSON:
            row["table_version"], row["row_count"] = 1, 0

    _edit_manifest(root, edit)
    assert any("a pin moved back branch=main" in text and "table=node:Person" in text for text in audit(root))


def test_a_pinned_version_that_is_gone_is_reported(root):
    def edit(row):
        if row["table_key"] == TEAM:
            row["table_version"] = 40

    _edit_manifest(root, edit)
    _only(audit(root), "a pinned table cannot be read branch=main table=node:Team version=40")


def test_an_id_that_stands_twice_is_reported(root):
    _append(root, PERSON, node_rows(["a"]))
    _only(audit(root), "an id stands 2 times branch=main table=node:Person id=a")
    findings = audit(root, present={PERSON: ["a"]})
    assert "an acknowledged row stands 2 times table=node:Person id=a" in findings


def test_an_edge_without_an_end_is_reported(root):
    _append(root, KNOWS, edge_rows([("orphan", "a", "nobody")]))
    _only(audit(root), "an edge has no dst branch=main edge=orphan missing=nobody")


def test_a_lost_acknowledged_row_is_reported(root):
    _only(audit(root, present={PERSON: ["a", "lost"]}), "an acknowledged row stands 0 times table=node:Person id=lost")


def test_a_refused_row_that_is_there_is_reported(root):
    _only(audit(root, absent={PERSON: ["b", "c"]}), "a refused row is there table=node:Person id=b")


def test_an_audit_row_about_an_unknown_commit_is_reported(root):
    row = {
        "recovery_kind": "RolledSideways", "operation_id": "op", "plan_id": "p", "writer_kind": "insert",
        "branch": "main", "original_actor": None, "commit_id": "nothing", "tables": "[]", "recovered_at_ms": 0,
    }  # fmt: skip
    lance.write_dataset(pa.Table.from_pylist([row, row]), f"{root}/_graph_commit_recoveries.lance")
    findings = audit(root)
    assert any("a recovery is recorded 2 times operation=op" in text for text in findings)
    assert any("a recovery of unknown kind operation=op kind=RolledSideways" in text for text in findings)
    assert any("a recovery names a commit that no branch has operation=op" in text for text in findings)


def test_a_recovery_log_that_is_just_being_created_is_empty(root):
    data = Path(root, "_graph_commit_recoveries.lance", "data", "first.lance")
    data.parent.mkdir(parents=True)
    data.write_bytes(b"")
    assert Auditor(str(root)).audit_rows() == []


def test_a_branch_ref_that_cannot_be_read_is_reported(root):
    ref = Path(root, "__branches", "odd.json")
    ref.parent.mkdir(exist_ok=True)
    ref.write_text("[]")
    _only(audit(root), "a branch ref cannot be read key=__branches/odd.json")
