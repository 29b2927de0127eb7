"""Every finding about the ledger, its lock, plans, applies and recovery, brought about from outside."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.cluster_directory import AGED, AGES, BOOKS, LIST, POLICY, ClusterDirectory, codes, whole

import omnigraph
from omnigraph.cluster.codes import CODES, PLAN_CODES, RECOVERY_CODES, STATE_CODES
from omnigraph.cluster.ledger.place import LOCK, STATE
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import fail
from omnigraph.testing.s3 import FOREVER, Fault

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
OTHER_BOOKS = BOOKS.replace("title: String", "title: String  year: I32?")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What provokes a code: it takes a cluster that was applied, and returns the report that shows it."""

    code: str
    provoke: Callable[[ClusterDirectory], object]


def _put(directory, key, document):
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    directory.place().objects.put(key, data)


def _with_state(document, directory):
    _put(directory, STATE, document)
    return directory.session().status()


def _edited(edit, directory):
    directory.edit_state(edit)
    return directory.session().apply()


def _with_lock(document, directory):
    _put(directory, LOCK, document)
    return directory.session().status()


def _with_sidecar(document, directory):
    _put(directory, f"__cluster/recoveries/{NOBODY}.json", document)
    return directory.session().plan()


def _with_approval(document, directory):
    _put(directory, f"__cluster/approvals/{NOBODY}.json", document)
    return directory.session().plan()


def _acting(point, act, directory):
    """Apply, and let something happen at a failpoint."""
    runtime = Runtime.system()
    runtime.failpoints.enable(point, act)
    return directory.session(runtime).apply(actor="act-mira")


def _failing(point, directory):
    return _acting(point, fail(point), directory)


def _without_ledger(directory):
    shutil.rmtree(directory.path / "__cluster")
    return directory.session().apply()


def _blocked_by_file(name, directory, command):
    """Put a file where a folder has to be."""
    folder = directory.path / "__cluster" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("")
    return command()


def _unwritable_ledger(directory):
    directory.has_lock = False
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    break_it = partial(_blocked_by_file, "", directory, lambda: None)
    return _acting("cluster.apply.before_state", break_it, directory)


def _moved_ledger(directory):
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    edit = partial(directory.edit_state, lambda state: state.update(state_revision=9))
    return _acting("cluster.apply.before_state", edit, directory)


def _without_locking(directory):
    directory.has_lock = False
    directory.write()
    return directory.session().plan()


def _held(directory):
    _put(directory, LOCK, _lock())
    return directory.session().apply()


def _lock(**parts):
    whole_lock = {"version": 1, "lock_id": NOBODY, "operation": "plan", "created_at": "2026-01-31T10:00:00Z", "pid": 1}
    return whole_lock | parts


def _unreadable_lock(directory):
    (directory.path / LOCK).symlink_to(directory.path / LOCK)
    return directory.session().status()


def _unreadable_state(directory):
    (directory.path / STATE).unlink()
    (directory.path / STATE).symlink_to(directory.path / STATE)
    return directory.session().status()


def _mismatched_unlock(directory):
    _put(directory, LOCK, _lock())
    return directory.session().force_unlock("01BX5ZZKBKACTAV9WEVGEMMVRZ")


def _without_graph(directory):
    shutil.rmtree(directory.path / "graphs/crm.omni")
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    return directory.session().plan()


def _drop(directory, *graphs):
    for name in graphs:
        directory.policies.pop(f"{name}-acl")
        directory.drop_graph(name)


def _stale(directory):
    _drop(directory, "books")
    assert directory.session().approve("graph.books", actor="act-mira").is_ok
    directory.name = "edited"
    directory.write()
    return directory.session().plan()


def _approved(directory, *graphs):
    _drop(directory, *graphs)
    for name in graphs:
        assert directory.session().approve(f"graph.{name}", actor="act-mira").is_ok


def _vanished_approval(directory):
    directory.policy("crm-acl", "crm", POLICY.replace("act-mira", "act-jon"))
    _approved(directory, "books")
    remove = partial(shutil.rmtree, directory.path / "__cluster/approvals")
    report = _acting("cluster.apply.after_payload", remove, directory)
    assert (directory.path / "graphs/books.omni").exists()
    return report


def _orphan(directory):
    state = lambda found: found["applied_revision"]["resources"].update({"schema.gone": {"digest": "ab"}})  # noqa: E731
    return _edited(state, directory)


def _dependent(directory):
    _drop(directory, "books")
    return directory.session().apply()


def _changed_file(directory):
    directory.graph("notes", "node Note { slug: String @key }\n")
    act = partial(directory.file, "notes.pg", "node Other { slug: String @key }\n")
    return _acting("cluster.apply.after_sidecar", act, directory)


def _unwritable_payload(directory):
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    return _blocked_by_file("resources", directory, directory.session().apply)


def _two_new_graphs(directory):
    directory.graph("notes", "node Note { slug: String @key }\n")
    directory.graph("other", "node Other { slug: String @key }\n")
    return _failing("cluster.apply.after_sidecar", directory)


def _two_schemas(directory):
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    directory.graph("books", OTHER_BOOKS, LIST)
    return _failing("cluster.apply.after_sidecar", directory)


def _two_deletions(directory):
    _drop(directory, "books", "crm")
    directory.graph("notes", "node Note { slug: String @key }\n")
    assert directory.session().apply(actor="act-mira").is_ok
    for name in ("books", "crm"):
        assert directory.session().approve(f"graph.{name}", actor="act-mira").is_ok
    return _failing("cluster.apply.after_sidecar", directory)


def _exported(directory):
    _approved(directory, "books")
    reports, runtime = [], Runtime.system()
    with omnigraph.open(directory.path / "graphs/books.omni") as graph:
        graph.load({"Book": [{"slug": "a", "title": "A"}]})
        engine = graph.backend.engine
        object.__setattr__(engine, "runtime", runtime)
        runtime.failpoints.enable(
            "engine.export.after_file", lambda: reports.append(directory.session().apply(actor="act-mira"))
        )
        graph.export(directory.path / "exported")
        assert (directory.path / "graphs/books.omni").exists()
    assert directory.session().apply(actor="act-mira").is_converged
    return reports[0]


def _sidecar(**parts):
    return {
        "schema_version": 1,
        "operation_id": NOBODY,
        "started_at": "2026-01-31T10:00:00Z",
        "actor": None,
        "kind": "schema_apply",
        "graph_id": "crm",
        "graph_uri": "u",
        "observed_manifest_version": 1,
        "expected_manifest_version": None,
        "desired_schema_digest": "ab",
        "state_cas_base": None,
        "approval_id": None,
    } | parts


def _pending(directory):
    return _with_sidecar(_sidecar(), directory)


def _rolled_forward(directory):
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    report = _failing("cluster.apply.after_note", directory)
    assert not report.is_ok
    return directory.session().apply()


def _incomplete(directory):
    report = _with_sidecar(_sidecar(kind="graph_create", graph_id="notes"), directory)
    assert report.is_ok
    directory.graph("notes", "node Note { slug: String @key }\n")
    directory.file("graphs/notes.omni/nodes/x/data.lance", "")
    return directory.session().apply()


def _incomplete_deletion(directory):
    _put(directory, f"__cluster/recoveries/{NOBODY}.json", _sidecar(kind="graph_delete"))
    return directory.session().refresh()


def _unwritable_sidecar(directory):
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    return _blocked_by_file("recoveries", directory, directory.session().apply)


def _sticky_sidecar(directory):
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")

    def stick():
        (path,) = (directory.path / "__cluster/recoveries").iterdir()
        path.unlink()
        (path / "inside").mkdir(parents=True)

    report = _acting("cluster.apply.after_state", stick, directory)
    assert report.is_converged
    return report


def _payload(directory) -> Path:
    (path,) = (directory.path / "__cluster/resources/query/crm/find").iterdir()
    return path


def _lost_payload(directory):
    _payload(directory).unlink()
    return directory.session().status()


def _changed_payload(directory):
    _payload(directory).write_text("tampered")
    return directory.session().status()


def _unreadable_payload(directory):
    path = _payload(directory)
    path.unlink()
    path.symlink_to(path)
    return directory.session().status()


def _broken_graph(directory):
    for file in (directory.path / "graphs/crm.omni/__manifest").rglob("*.manifest"):
        file.write_bytes(b"")
    return directory.session().refresh()


def _edited_digest(directory):
    return _edited(
        lambda state: state["applied_revision"]["resources"]["query.crm.find"].update(digest="ab"), directory
    )


def _conflicting(state):
    observation = state["observations"]["graph.crm"]
    observation["manifest_version"] = observation["graph_manifest_version"] + 1


_HELD_FOLDER = partial(_blocked_by_file, "")
CASES = [
    Case(code="state_missing", provoke=_without_ledger),
    Case(code="state_already_exists", provoke=lambda directory: directory.session().import_graphs()),
    Case(code="state_read_error", provoke=_unreadable_state),
    Case(code="state_write_error", provoke=_unwritable_ledger),
    Case(code="state_cas_mismatch", provoke=_moved_ledger),
    Case(code="invalid_state_json", provoke=partial(_with_state, b"{")),
    Case(code="unsupported_state_version", provoke=partial(_with_state, {"version": 2})),
    Case(code="conflicting_graph_manifest_observation", provoke=partial(_edited, _conflicting)),
    Case(code="state_lock_disabled", provoke=_without_locking),
    Case(code="state_lock_held", provoke=_held),
    Case(code="state_lock_error", provoke=lambda found: _HELD_FOLDER(found, found.session().plan)),
    Case(code="state_lock_missing", provoke=lambda directory: directory.session().force_unlock(NOBODY)),
    Case(code="state_lock_id_mismatch", provoke=_mismatched_unlock),
    Case(code="state_lock_read_error", provoke=_unreadable_lock),
    Case(code="invalid_state_lock", provoke=partial(_with_lock, b"{")),
    Case(code="unsupported_state_lock_version", provoke=partial(_with_lock, _lock(version=2))),
    Case(code="schema_preview_unavailable", provoke=_without_graph),
    Case(code="approval_stale", provoke=_stale),
    Case(code="approval_not_required", provoke=lambda found: found.session().approve("graph.crm", actor="act-mira")),
    Case(code="invalid_approval_artifact", provoke=partial(_with_approval, b"{")),
    Case(code="unsupported_approval_version", provoke=partial(_with_approval, {"schema_version": 2})),
    Case(code="apply_approval_invariant_violation", provoke=_vanished_approval),
    Case(code="apply_unsupported_change", provoke=_orphan),
    Case(code="apply_dependency_blocked", provoke=_dependent),
    Case(code="resource_content_changed", provoke=_changed_file),
    Case(code="resource_payload_write_error", provoke=_unwritable_payload),
    Case(code="graph_create_failed", provoke=_two_new_graphs),
    Case(code="graph_create_skipped", provoke=_two_new_graphs),
    Case(code="schema_apply_failed", provoke=_two_schemas),
    Case(code="schema_apply_skipped", provoke=_two_schemas),
    Case(code="graph_delete_failed", provoke=_two_deletions),
    Case(code="graph_delete_skipped", provoke=_two_deletions),
    Case(code="graph_delete_export_in_progress", provoke=_exported),
    Case(code="cluster_recovery_pending", provoke=_pending),
    Case(code="cluster_recovery_rolled_forward", provoke=_rolled_forward),
    Case(code="graph_create_incomplete", provoke=_incomplete),
    Case(code="graph_delete_incomplete", provoke=_incomplete_deletion),
    Case(code="invalid_recovery_sidecar", provoke=partial(_with_sidecar, b"{")),
    Case(code="unsupported_recovery_sidecar_version", provoke=partial(_with_sidecar, {"schema_version": 2})),
    Case(code="recovery_sidecar_write_error", provoke=_unwritable_sidecar),
    Case(code="recovery_sidecar_cleanup_failed", provoke=_sticky_sidecar),
    Case(code="catalog_payload_missing", provoke=_lost_payload),
    Case(code="catalog_payload_mismatch", provoke=_changed_payload),
    Case(code="catalog_payload_read_error", provoke=_unreadable_payload),
    Case(code="graph_observation_error", provoke=_broken_graph),
    Case(code="external_blob_policy_digest_mismatch", provoke=_edited_digest),
]
# What only a store brings about that refuses one kind of object: the keys, and the command that meets them.
REFUSED = {
    "approval_read_error": ("__cluster/approvals", lambda found: found.session().plan()),
    "approval_write_error": (
        "__cluster/approvals/.*json",
        lambda found: found.session().approve("graph.books", actor="act-mira"),
    ),
    "recovery_sidecar_read_error": ("__cluster/recoveries", lambda found: found.session().plan()),
}
# A server knows a graph that is declared and was not applied; test_serving.py has it.
ELSEWHERE = {"graph_not_applied"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    directory = whole(tmp_path_factory.mktemp("template") / "config")
    assert directory.session().import_graphs().is_ok
    assert directory.session().apply(actor="act-mira").is_converged
    return directory


@pytest.fixture
def directory(template, tmp_path):
    shutil.copytree(template.path, tmp_path / "config")
    parts = (dict(part) for part in (template.graphs, template.policies, template.providers))
    return ClusterDirectory(tmp_path / "config", None, None, True, *parts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_finding_is_reported_with_its_severity_and_decides_the_exit_code(directory, case):
    report = case.provoke(directory)
    found = [finding for finding in report.findings.items if finding.code == case.code]
    assert found, report.findings.items
    is_told_softly = case.code == "state_missing" and report.is_ok
    assert is_told_softly or found[0].severity is CODES[case.code].severity
    assert found[0].path
    assert found[0].message[-1] not in ".!"
    assert (report.exit_code == 0) == report.is_ok
    document = report.to_json()
    assert document["ok"] is report.is_ok
    assert found[0].to_json() in document["diagnostics"]
    assert found[0].to_text() in list(report.to_remarks())


@pytest.mark.more
def test_findings_about_single_objects_that_storage_refuses(tmp_path, clean_s3_endpoint):
    directory = whole(
        tmp_path / "config",
        root=clean_s3_endpoint.fresh_prefix(),
        options=clean_s3_endpoint.storage_options_without_retries,
    )
    assert directory.session().import_graphs().is_ok
    assert directory.session().apply(actor="act-mira").is_converged
    _drop(directory, "books")
    for code, (key, command) in REFUSED.items():
        clean_s3_endpoint.add_fault(Fault(action="error", key=key, times=FOREVER))
        report = command(directory)
        clean_s3_endpoint.clear_faults()
        (found,) = [finding for finding in report.findings.items if finding.code == code]
        assert found.severity is CODES[code].severity


def test_a_status_of_a_cluster_without_a_ledger_is_a_warning(tmp_path):
    directory = ClusterDirectory(tmp_path / "config")
    directory.graph("crm", AGED)
    report = directory.session().status()
    assert codes(report) == ["state_missing"]
    assert report.is_ok


def test_every_code_about_state_plans_and_recovery_has_a_case():
    provoked = {case.code for case in CASES} | set(REFUSED) | ELSEWHERE
    assert provoked == {*STATE_CODES, *PLAN_CODES, *RECOVERY_CODES}
