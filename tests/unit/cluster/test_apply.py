"""Applying a config: from nothing to converged, edits, approved deletions, and what a failure does to the others."""

import json

import pytest
from tests.cluster_directory import (
    AGED,
    AGES,
    BOOKS,
    FIND,
    LIST,
    PEOPLE,
    RENUMBERED,
    ClusterDirectory,
    codes,
    dispositions,
    small,
    whole,
)
from tests.marks import STORES

import omnigraph
from omnigraph.cluster.serving import read_serving
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import fail


@pytest.fixture(params=STORES)
def where(request, tmp_path):
    """The keywords of a directory whose storage is on one of the stores."""
    if request.param == "local":
        return {"path": tmp_path / "config"}
    endpoint = request.getfixturevalue("clean_s3_endpoint")
    return {"path": tmp_path / "config", "root": endpoint.fresh_prefix(), "options": endpoint.storage_options}


def policies_served(directory):
    """The graphs that a server would serve, with their policies."""
    graphs = read_serving(directory.place(), {}).graphs
    return {graph.graph_id: graph.policy and graph.policy.name for graph in graphs}


@pytest.fixture
def converged(tmp_path):
    directory = whole(tmp_path / "config")
    directory.session().import_graphs()
    assert directory.session().apply(actor="act-mira").is_converged
    return directory


def test_an_empty_root_converges_in_one_apply_and_the_second_writes_nothing(where):
    directory = whole(**where)
    assert codes(directory.session().apply()) == ["state_missing"]
    imported = directory.session().import_graphs()
    assert imported.is_ok, imported.findings.items
    assert imported.state.state_revision == 1
    plan = directory.session().plan()
    assert set(dispositions(plan.plan.changes).values()) == {"applied"}
    applied = directory.session().apply(actor="act-mira")
    assert applied.is_ok, applied.findings.items
    assert (applied.is_converged, applied.is_written) == (True, True)
    assert applied.state.state_revision == 2
    assert applied.state.applied_revision.config_digest == applied.declaration.config_digest
    assert applied.state.resource_digests == applied.declaration.resource_digests
    assert {status.status for status in applied.state.resource_statuses.values()} == {"applied"}
    stored = directory.place().objects.list_keys("__cluster")
    again = directory.session().apply(actor="act-mira")
    assert (again.is_converged, again.is_written, again.changes) == (True, False, ())
    assert again.state == applied.state
    assert directory.place().objects.list_keys("__cluster") == stored
    assert not [key for key in stored if "lock" in key or "recoveries" in key]


def test_the_graphs_that_an_apply_makes_are_ordinary_ones_and_keep_the_actor(converged):
    with omnigraph.open(f"{converged.path}/graphs/crm.omni") as graph:
        assert graph.schema.source == PEOPLE
        assert [(commit.actor, commit.message) for commit in graph.log()] == [("act-mira", "cluster apply")]


def test_formatting_of_the_config_changes_nothing_and_its_content_does(converged):
    text = (converged.path / "cluster.yaml").read_text()
    (converged.path / "cluster.yaml").write_text(f"# a comment\n{text}\n\n")
    assert not converged.session().apply().is_written
    converged.name = "other"
    converged.write()
    report = converged.session().apply()
    assert (report.changes, report.is_converged, report.is_written) == ((), True, True)


def test_a_schema_and_a_query_that_needs_it_converge_in_one_apply(converged):
    converged.graph("crm", AGED, AGES, "embedding_provider: vec")
    plan = converged.session().plan()
    assert dispositions(plan.plan.changes) == {
        "graph.crm": "derived",
        "query.crm.find": "applied",
        "schema.crm": "applied",
    }
    preview = next(change.migration for change in plan.plan.changes if change.resource == "schema.crm")
    assert preview.supported
    assert "age" in preview.lines[0]
    report = converged.session().apply(actor="act-jon")
    assert report.is_converged, report.findings.items
    with omnigraph.open(f"{converged.path}/graphs/crm.omni") as graph:
        assert graph.schema.source == AGED
        assert graph.log()[0].actor == "act-jon"
    assert not converged.session().apply().is_written


def test_a_comment_in_a_schema_is_applied_too(converged):
    converged.graph("crm", f"// people\n{PEOPLE}", FIND, "embedding_provider: vec")
    assert converged.session().apply().is_converged
    with omnigraph.open(f"{converged.path}/graphs/crm.omni") as graph:
        assert graph.schema.source == f"// people\n{PEOPLE}"
    report = converged.session().refresh()
    assert report.is_ok
    assert not converged.session().plan().plan.changes


def test_a_change_that_a_graph_cannot_make_leaves_no_sidecar_and_blocks_only_what_depends_on_it(converged):
    converged.graph("crm", RENUMBERED, FIND.replace("$slug: String", "$slug: I32"), "embedding_provider: vec")
    converged.graph("books", BOOKS.replace("title: String", "title: String  year: I32?"), LIST)
    report = converged.session().apply()
    assert "schema_apply_failed" in codes(report)
    assert report.exit_code != 0
    assert dispositions(report.changes) == {
        "graph.books": "derived",
        "graph.crm": "deferred/dependency_not_applied",
        "query.crm.find": "blocked/dependency_not_applied",
        "schema.books": "applied",
        "schema.crm": "blocked/schema_apply_failed",
    }
    assert (report.is_converged, report.is_written) == (False, True)
    assert not [key for key in converged.place().objects.list_keys("__cluster") if "recoveries" in key]
    again = converged.session().apply()
    assert not again.is_written
    with omnigraph.open(f"{converged.path}/graphs/crm.omni") as graph:
        assert graph.schema.source == PEOPLE


def test_the_removal_of_a_graph_is_blocked_then_approved_then_made(converged):
    converged.drop_graph("books")
    del converged.policies["books-acl"]
    converged.write()
    blocked = converged.session().apply()
    assert blocked.is_ok
    assert dispositions(blocked.changes) == {
        "graph.books": "blocked/approval_required",
        "policy.books-acl": "blocked/dependency_not_applied",
        "query.books.list": "blocked/approval_required",
        "schema.books": "blocked/approval_required",
    }
    approved = converged.session().approve("graph.books", actor="act-mira")
    assert approved.is_ok, approved.findings.items
    plan = converged.session().plan()
    assert [one.to_json()["satisfied"] for one in plan.plan.approvals] == [True]
    report = converged.session().apply(actor="act-jon")
    assert report.is_converged, report.findings.items
    assert not (converged.path / "graphs/books.omni").exists()
    state = converged.state()
    assert not [address for address in state["applied_revision"]["resources"] if "books" in address]
    tombstone = state["observations"]["graph.books"]
    assert (tombstone["kind"], tombstone["actor"]) == ("tombstone", "act-jon")
    assert tombstone["approval_id"] == approved.approval.approval_id
    assert state["approval_records"][approved.approval.approval_id]["consumed_at"] == tombstone["deleted_at"]
    stored = json.loads(converged.place().objects.get(f"__cluster/approvals/{approved.approval.approval_id}.json"))
    assert stored == state["approval_records"][approved.approval.approval_id]
    assert not converged.session().apply().is_written
    assert codes(converged.session().approve("graph.books", actor="act-mira")) == ["approval_not_required"]


def test_an_approval_is_stale_once_the_config_was_edited(converged):
    converged.drop_graph("books")
    del converged.policies["books-acl"]
    converged.write()
    converged.session().approve("graph.books", actor="act-mira")
    converged.name = "edited"
    converged.write()
    for report in (converged.session().plan(), converged.session().apply()):
        assert "approval_stale" in codes(report)
        assert report.is_ok
    assert (converged.path / "graphs/books.omni").exists()


def test_a_graph_that_is_declared_again_after_its_removal_is_an_empty_one(converged):
    with omnigraph.open(f"{converged.path}/graphs/books.omni") as graph:
        graph.load({"Book": [{"slug": "a", "title": "A"}]})
    declared, policy = converged.graphs["books"], converged.policies.pop("books-acl")
    converged.drop_graph("books")
    converged.session().approve("graph.books", actor="act-mira")
    assert converged.session().apply().is_converged
    converged.graphs["books"], converged.policies["books-acl"] = declared, policy
    converged.write()
    assert converged.session().apply().is_converged
    with omnigraph.open(f"{converged.path}/graphs/books.omni") as graph:
        assert graph.query("query q() { match { $b: Book } return { $b.slug } }").to_arrow().num_rows == 0


def test_the_first_graph_that_fails_stops_the_others_and_blocks_what_depends_on_them(tmp_path):
    directory = whole(tmp_path / "config")
    directory.session().import_graphs()
    runtime = Runtime.system()
    runtime.failpoints.enable("cluster.apply.after_sidecar", fail("cluster.apply.after_sidecar"))
    report = directory.session(runtime).apply()
    assert {"graph_create_failed", "graph_create_skipped"} <= set(codes(report))
    told = dispositions(report.changes)
    assert told["graph.books"] == told["schema.books"] == "blocked/graph_create_failed"
    assert told["graph.crm"] == "blocked/graph_create_skipped"
    assert told["query.crm.find"] == told["policy.crm-acl"] == "blocked/dependency_not_applied"
    assert told["provider.embedding.vec"] == "applied"
    assert directory.session().apply().is_converged


def test_a_file_that_changes_meanwhile_is_not_applied(tmp_path):
    directory = small(tmp_path / "config")
    directory.session().import_graphs()
    runtime = Runtime.system()
    runtime.failpoints.enable("cluster.apply.after_sidecar", lambda: directory.file("crm.pg", AGED))
    report = directory.session(runtime).apply()
    assert "resource_content_changed" in codes(report)
    assert not (directory.path / "graphs/crm.omni").exists()
    assert directory.session().apply().is_converged


def test_a_text_that_cannot_be_stored_leaves_the_ledger_as_it_was(tmp_path):
    directory = small(tmp_path / "config")
    directory.session().import_graphs()
    before = directory.state()
    runtime = Runtime.system()
    runtime.failpoints.enable("cluster.apply.after_note", lambda: directory.file("crm/queries.gq", AGES))
    report = directory.session(runtime).apply()
    assert "resource_content_changed" in codes(report)
    assert not report.is_written
    assert directory.state() == before
    # The graph was made; the next apply finds that out.
    directory.file("crm/queries.gq", FIND)
    report = directory.session().apply()
    assert "cluster_recovery_rolled_forward" in codes(report)
    assert report.is_converged
    assert [one["outcome"] for one in directory.state()["recovery_records"].values()] == ["rolled_forward"]


def test_something_that_the_ledger_does_not_know_is_not_overwritten(tmp_path):
    directory = small(tmp_path / "config")
    directory.session().import_graphs()
    omnigraph.init(f"{directory.path}/graphs/crm.omni", BOOKS)
    report = directory.session().apply()
    assert "graph_create_failed" in codes(report)
    assert not [key for key in directory.place().objects.list_keys("__cluster") if "recoveries" in key]
    directory.session().refresh()
    assert dispositions(directory.session().plan().plan.changes)["schema.crm"] == "applied"


def test_a_provider_stays_while_a_graph_that_uses_it_is_not_gone(converged):
    converged.drop_graph("crm")
    converged.providers.clear()
    converged.policies.pop("crm-acl")
    converged.write()
    told = dispositions(converged.session().apply().changes)
    assert told["provider.embedding.vec"] == "blocked/dependency_not_applied"
    converged.session().approve("graph.crm", actor="act-mira")
    assert converged.session().apply().is_converged


def test_a_policy_that_comes_to_apply_to_other_graphs_is_a_change_of_its_bindings(converged):
    del converged.policies["books-acl"]
    converged.policy("crm-acl", "crm, books")
    plan = converged.session().plan()
    change = next(one for one in plan.plan.changes if one.resource == "policy.crm-acl").to_json()
    assert (change["binding_change"], change["metadata_change"]) == (True, "policy_bindings")
    assert "  Update policy.crm-acl [bindings]" in list(plan.to_lines())
    assert converged.session().apply().is_converged
    stored = converged.state()["applied_revision"]["resources"]["policy.crm-acl"]
    assert stored["applies_to"] == ["graph.books", "graph.crm"]


def test_a_policy_waits_for_the_one_whose_place_it_takes(converged):
    # What an apply leaves behind is always a revision that servers can boot from.
    converged.policy("crm-acl", "crm, books")
    del converged.policies["books-acl"]
    converged.write()
    assert converged.session().apply().is_converged
    del converged.policies["crm-acl"]
    converged.policy("next-acl", "crm")
    converged.drop_graph("books")
    told = dispositions(converged.session().apply().changes)
    assert told["policy.crm-acl"] == told["policy.next-acl"] == "blocked/dependency_not_applied"
    assert policies_served(converged) == {"books": "crm-acl", "crm": "crm-acl"}
    converged.session().approve("graph.books", actor="act-mira")
    assert converged.session().apply().is_converged
    assert policies_served(converged) == {"crm": "next-acl"}


def test_a_graph_is_not_served_before_its_policy_is_applied(tmp_path):
    directory = small(tmp_path / "config")
    directory.session().import_graphs()
    assert directory.session().apply().is_converged
    directory.graph("books", BOOKS)
    directory.graph("zoo", BOOKS)
    directory.policy("acl", "books, zoo")
    # Something is in the way of zoo, so that the bundle of both cannot be applied.
    directory.file("graphs/zoo.omni/something", "")
    told = dispositions(directory.session().apply().changes)
    assert (told["graph.books"], told["policy.acl"]) == ("applied", "blocked/dependency_not_applied")
    assert policies_served(directory) == {"crm": None}
    assert directory.state()["resource_statuses"]["graph.books"]["conditions"] == ["policy_not_applied"]
    (directory.path / "graphs/zoo.omni/something").unlink()
    assert directory.session().apply().is_converged
    assert policies_served(directory) == {"books": "acl", "crm": None, "zoo": "acl"}


def test_a_graph_that_was_imported_waits_for_its_policy(tmp_path):
    directory = small(tmp_path / "config")
    omnigraph.init(directory.path / "graphs/crm.omni", directory.path / "crm.pg").close()
    omnigraph.init(directory.path / "graphs/books.omni", directory.file("books.pg", BOOKS)).close()
    directory.graph("books", BOOKS)
    directory.policy("acl", "crm")
    directory.session().import_graphs()
    assert policies_served(directory) == {"books": None}
    assert directory.session().apply().is_converged
    assert policies_served(directory) == {"books": None, "crm": "acl"}


def test_a_graph_whose_policy_text_is_gone_is_not_served_without_it(converged):
    for text in (converged.path / "__cluster/resources/policy/crm-acl").iterdir():
        text.unlink()
    converged.session().refresh()
    assert policies_served(converged) == {"books": "books-acl"}
    assert converged.session().apply().is_converged
    assert policies_served(converged) == {"books": "books-acl", "crm": "crm-acl"}


def test_a_plan_writes_nothing(tmp_path):
    directory = small(tmp_path / "config", root=str(tmp_path / "root"))
    report = directory.session().plan()
    assert report.is_ok
    assert not list((tmp_path / "root").iterdir())
    assert report.to_json()["state_observations"]["state_found"] is False


def test_a_config_that_is_not_valid_stops_every_command_that_needs_it(tmp_path):
    directory = small(tmp_path / "config")
    directory.file("crm.pg", "node {")
    session = directory.session()
    for report in (session.plan(), session.apply(), session.refresh(), session.import_graphs()):
        assert "schema_parse_error" in codes(report)
        assert report.observed is None
    assert not (directory.path / "__cluster").exists()


def test_every_effective_write_counts_the_revision_up_by_one(tmp_path):
    directory = ClusterDirectory(tmp_path / "config")
    directory.graph("crm", PEOPLE)
    revisions = [directory.session().import_graphs().state.state_revision]
    for schema in (PEOPLE, AGED, AGED):
        directory.graph("crm", schema)
        revisions.append(directory.session().apply().state.state_revision)
    assert revisions == [1, 2, 3, 3]
