"""The table of the recovery sweep, row by row: a sidecar, what is at its graph, and what becomes of both."""

import json
import shutil

import pytest
from tests.cluster_directory import AGED, BOOKS, PEOPLE, ClusterDirectory, codes
from tests.marks import first

import omnigraph
from omnigraph.cluster.digests import file_digest
from omnigraph.testing.s3 import FOREVER, Fault

OPERATION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
SIDECAR = f"__cluster/recoveries/{OPERATION}.json"


def _digest(schema):
    return file_digest(schema.encode())


@pytest.fixture
def empty(tmp_path):
    """A cluster whose ledger knows no graph."""
    directory = ClusterDirectory(tmp_path / "config")
    directory.graph("crm", PEOPLE)
    assert directory.session().import_graphs().is_ok
    return directory


@pytest.fixture
def made(empty):
    """A cluster whose graph was made."""
    assert empty.session().apply().is_converged
    return empty


def _leave(directory, kind, desired=None, **parts):
    """Leave the sidecar of a change that broke off."""
    document = {
        "schema_version": 1,
        "operation_id": OPERATION,
        "started_at": "2026-01-31T10:00:00Z",
        "actor": "act-jon",
        "kind": kind,
        "graph_id": "crm",
        "graph_uri": f"{directory.path}/graphs/crm.omni",
        "observed_manifest_version": None,
        "expected_manifest_version": None,
        "desired_schema_digest": None if desired is None else _digest(desired),
        "state_cas_base": None,
        "approval_id": None,
    } | parts
    directory.place().objects.put(SIDECAR, json.dumps(document).encode())


def _is_kept(directory):
    return directory.place().objects.get(SIDECAR) is not None


def _init(directory, schema):
    omnigraph.init(f"{directory.path}/graphs/crm.omni", schema).close()


def _status(directory, address="graph.crm"):
    found = directory.state()["resource_statuses"][address]
    return found["status"], *found["conditions"]


COMMANDS = first(1, ["apply", "refresh"])


def _run(directory, command):
    return getattr(directory.session(), command)()


@pytest.mark.parametrize("command", COMMANDS)
def test_creation_that_has_left_nothing_is_retired(empty, command):
    _leave(empty, "graph_create", PEOPLE)
    report = _run(empty, command)
    assert report.is_ok
    assert not _is_kept(empty)
    assert not empty.state()["recovery_records"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["graph_create", "schema_apply"])
def test_change_whose_graph_is_as_the_ledger_says_is_retired(made, command, kind):
    _leave(made, kind, AGED)
    report = _run(made, command)
    assert report.is_ok
    assert codes(report) == []
    assert not _is_kept(made)
    assert not made.state()["recovery_records"]


def test_creation_that_succeeded_is_rolled_forward(empty):
    _init(empty, PEOPLE)
    _leave(empty, "graph_create", PEOPLE)
    report = empty.session().apply(actor="act-mira")
    assert "cluster_recovery_rolled_forward" in codes(report)
    assert report.is_converged
    assert not _is_kept(empty)
    record = empty.state()["recovery_records"][OPERATION]
    assert record.pop("recovered_at")
    assert record == {"kind": "graph_create", "graph_id": "crm", "outcome": "rolled_forward", "actor": "act-mira"}


@pytest.mark.parametrize("command", COMMANDS)
def test_migration_that_succeeded_is_rolled_forward(made, command):
    made.graph("crm", AGED)
    with omnigraph.open(f"{made.path}/graphs/crm.omni") as graph:
        graph.apply_schema(AGED)
    _leave(made, "schema_apply", AGED)
    report = _run(made, command)
    assert "cluster_recovery_rolled_forward" in codes(report)
    assert made.state()["applied_revision"]["resources"]["schema.crm"]["digest"] == _digest(AGED)
    assert made.state()["recovery_records"][OPERATION]["actor"] == "act-jon"
    assert not _is_kept(made)
    assert made.session().apply().is_converged


def test_an_import_sweeps_too(empty):
    empty.place().objects.delete("__cluster/state.json")
    _init(empty, PEOPLE)
    _leave(empty, "graph_create", PEOPLE)
    assert "cluster_recovery_rolled_forward" in codes(empty.session().import_graphs())
    assert not _is_kept(empty)


@pytest.mark.parametrize("command", COMMANDS)
def test_creation_that_has_left_what_cannot_be_opened_waits_for_a_person(empty, command):
    empty.file("graphs/crm.omni/nodes/x/data/part.lance", "")
    _leave(empty, "graph_create", PEOPLE)
    report = _run(empty, command)
    assert "graph_create_incomplete" in codes(report)
    assert not report.is_ok
    assert _is_kept(empty)
    assert _status(empty) == ("error", "graph_create_incomplete")
    shutil.rmtree(empty.path / "graphs/crm.omni")
    assert empty.session().apply().is_converged
    assert not _is_kept(empty)


@pytest.mark.more
def test_creation_that_storage_does_not_show_is_not_taken_for_an_incomplete_one(tmp_path, clean_s3_endpoint):
    options = clean_s3_endpoint.storage_options_without_retries
    directory = ClusterDirectory(tmp_path / "config", clean_s3_endpoint.fresh_prefix(), options)
    directory.graph("crm", PEOPLE)
    assert directory.session().import_graphs().is_ok
    omnigraph.init(f"{directory.root}/graphs/crm.omni", PEOPLE, storage_options=options).close()
    _leave(directory, "graph_create", PEOPLE)
    clean_s3_endpoint.add_fault(Fault(action="error", key="graphs/", times=FOREVER))
    report = directory.session().apply()
    assert "cluster_recovery_pending" in codes(report)
    assert "graph_create_incomplete" not in codes(report)
    clean_s3_endpoint.clear_faults()
    assert "cluster_recovery_rolled_forward" in codes(directory.session().apply())


@pytest.mark.parametrize("command", COMMANDS)
def test_migration_of_a_graph_that_cannot_be_opened_waits(made, command):
    for file in (made.path / "graphs/crm.omni/__manifest").rglob("*.manifest"):
        file.write_bytes(b"")
    _leave(made, "schema_apply", AGED)
    report = _run(made, command)
    assert "cluster_recovery_pending" in codes(report)
    assert _is_kept(made)


@pytest.mark.parametrize("kind", ["graph_create", "schema_apply"])
def test_graph_with_another_schema_than_before_and_after_waits_for_a_refresh(made, kind):
    with omnigraph.open(f"{made.path}/graphs/crm.omni") as graph:
        graph.apply_schema(AGED)
    _leave(made, kind, BOOKS)
    report = made.session().apply()
    assert "cluster_recovery_pending" in codes(report)
    assert not report.is_converged
    assert _is_kept(made)
    assert _status(made) == _status(made, "schema.crm") == ("drifted", "actual_applied_state_pending")
    # A refresh notes what is there, so that the next command knows the graph again.
    made.session().refresh()
    assert _is_kept(made)
    report = made.session().apply()
    assert report.is_converged
    assert not _is_kept(made)
    with omnigraph.open(f"{made.path}/graphs/crm.omni") as graph:
        assert graph.schema.source == PEOPLE


@pytest.mark.parametrize("command", COMMANDS)
def test_deletion_that_has_not_happened_is_retired_and_proposed_again(made, command):
    made.drop_graph("crm")
    _leave(made, "graph_delete")
    report = _run(made, command)
    assert "graph_delete_incomplete" in codes(report)
    assert report.is_ok
    assert not _is_kept(made)
    assert made.session().plan().to_json()["approvals_required"][0]["resource"] == "graph.crm"


@pytest.mark.parametrize("command", COMMANDS)
def test_deletion_that_succeeded_is_noted_and_its_approval_used(made, command):
    made.drop_graph("crm")
    approval_id = made.session().approve("graph.crm", actor="act-mira").approval.approval_id
    shutil.rmtree(made.path / "graphs/crm.omni")
    _leave(made, "graph_delete", approval_id=approval_id)
    report = _run(made, command)
    assert report.is_ok
    state = made.state()
    assert state["applied_revision"]["resources"] == {}
    assert state["observations"]["graph.crm"]["kind"] == "tombstone"
    assert state["observations"]["graph.crm"]["actor"] == "act-jon"
    assert state["approval_records"][approval_id]["consumed_by_operation"] == OPERATION
    assert state["recovery_records"][OPERATION]["kind"] == "graph_delete"
    stored = json.loads(made.place().objects.get(f"__cluster/approvals/{approval_id}.json"))
    assert stored == state["approval_records"][approval_id]
    assert not _is_kept(made)


@pytest.mark.parametrize("command", COMMANDS)
def test_deletion_that_the_ledger_knows_is_retired(empty, command):
    empty.drop_graph("crm")
    _leave(empty, "graph_delete")
    report = _run(empty, command)
    assert codes(report) == []
    assert not _is_kept(empty)
    assert not empty.state()["recovery_records"]


def test_a_plan_and_a_status_only_point_out_what_broke_off(made):
    _leave(made, "schema_apply", AGED)
    before = made.state()
    for report in (made.session().plan(), made.session().status()):
        assert codes(report) == ["cluster_recovery_pending"]
        assert report.is_ok
    assert _is_kept(made)
    assert made.state() == before


def test_a_graph_that_is_gone_is_seen_by_a_refresh_and_made_again_empty(made):
    shutil.rmtree(made.path / "graphs/crm.omni")
    report = made.session().refresh()
    assert report.is_ok
    assert made.state()["applied_revision"]["resources"] == {}
    assert _status(made) == _status(made, "schema.crm") == ("drifted", "graph_missing")
    assert any("drifted graph.crm" in line for line in report.to_lines())
    assert made.session().apply().is_converged


def test_a_schema_that_somebody_has_changed_is_seen_by_a_refresh_and_changed_back(made):
    with omnigraph.open(f"{made.path}/graphs/crm.omni") as graph:
        graph.apply_schema(AGED)
    made.session().refresh()
    assert _status(made) == _status(made, "schema.crm") == ("drifted", "schema_mismatch")
    assert made.state()["applied_revision"]["resources"]["schema.crm"]["digest"] == _digest(AGED)
    assert made.state()["observations"]["graph.crm"]["schema_matches_desired"] is False
    report = made.session().apply()
    assert report.is_converged
    with omnigraph.open(f"{made.path}/graphs/crm.omni") as graph:
        assert graph.schema.source == PEOPLE


def test_an_import_takes_over_a_graph_that_is_there(empty):
    empty.place().objects.delete("__cluster/state.json")
    _init(empty, PEOPLE)
    report = empty.session().import_graphs()
    assert report.is_ok
    assert report.state.state_revision == 1
    assert _status(empty) == ("applied",)
    assert empty.session().apply().is_converged


def test_an_import_writes_nothing_when_a_graph_cannot_be_read_and_a_refresh_does(empty, made):
    for file in (made.path / "graphs/crm.omni/__manifest").rglob("*.manifest"):
        file.write_bytes(b"")
    report = made.session().refresh()
    assert not report.is_ok
    assert _status(made) == ("error", "graph_observation_error")
    made.place().objects.delete("__cluster/state.json")
    report = made.session().import_graphs()
    assert codes(report) == ["graph_observation_error"]
    assert made.place().objects.get("__cluster/state.json") is None


@pytest.mark.parametrize(("change", "condition"), [("unlink", "payload_missing"), ("tamper", "payload_mismatch")])
def test_a_text_that_was_lost_or_changed_is_seen_by_status_and_refresh_and_stored_again(tmp_path, change, condition):
    directory = ClusterDirectory(tmp_path / "config")
    directory.graph("crm", PEOPLE, "query find() { match { $p: Person } return { $p.name } }\n")
    directory.session().import_graphs()
    assert directory.session().apply().is_converged
    (path,) = (directory.path / "__cluster/resources/query/crm/find").iterdir()
    text = path.read_text()
    if change == "unlink":
        path.unlink()
    else:
        path.write_text("tampered")
    code = {"payload_missing": "catalog_payload_missing", "payload_mismatch": "catalog_payload_mismatch"}[condition]
    assert code in codes(directory.session().status())
    assert directory.session().refresh().is_ok
    assert _status(directory, "query.crm.find") == ("drifted", condition)
    assert "query.crm.find" not in directory.state()["applied_revision"]["resources"]
    assert directory.session().apply().is_converged
    assert path.read_text() == text
    assert directory.session().status().findings.items == ()


def test_a_ledger_that_somebody_has_edited_stops_apply_and_refresh_and_is_seen_by_status(made):
    made.edit_state(lambda state: state["applied_revision"]["resources"]["schema.crm"].update(digest="ab" * 32))
    for command in ("status", "apply", "refresh", "plan"):
        assert codes(_run(made, command)) == ["external_blob_policy_digest_mismatch"]


def test_a_schema_that_the_ledger_has_lost_is_found_again_by_a_refresh(made):
    made.edit_state(lambda state: state["applied_revision"]["resources"].pop("schema.crm"))
    report = made.session().apply()
    assert not report.is_converged
    made.session().refresh()
    assert made.session().apply().is_converged
