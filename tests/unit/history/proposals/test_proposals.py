"""Proposals on a graph: their checks read what would be published, and no order of events loses or doubles one."""

from __future__ import annotations

from functools import partial

import pytest
from tests.auditor import audit
from tests.merge_graph import DRAFT, Template, change, head_of, history_of, put
from tests.session_graph import open_session, read_graph

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import (
    ExpectedVersionMismatchError,
    FailpointError,
    ManifestCorruptError,
    MergeConflictsError,
    ProposalApprovalsError,
    ProposalChecksError,
    ProposalMissingError,
    ProposalStateError,
    QueryNotFoundError,
    QueryTypeError,
    ReadOnlyError,
    TypeMissingError,
    UsageError,
)
from omnigraph.history.merge import preview_merge
from omnigraph.history.proposals import CheckStatus, ProposalState
from omnigraph.operations import Attachments
from omnigraph.operations.local.reads import read_call
from omnigraph.operations.reads import QueryRequest
from omnigraph.runtime import Runtime, counting
from omnigraph.runtime.failpoints import fail, on_nth
from omnigraph.txn.proposals import Closed, MergeDone

SCHEMA = """
node Person { name: String @key  age: I32?  face: Blob? }
node Rule { name: String @key }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "Alice", "age": 30, "face": "base64:aGk="}}
{"type": "Person", "data": {"name": "Bob"}}
{"type": "Person", "data": {"name": "Carol"}}
{"edge": "Knows", "from": "Bob", "to": "Carol", "data": {"id": "bc"}}
"""
NO_RULE = "query no_rule() { match { $r: Rule } return { $r.name } }"
EDGES = {"edge:Knows": "node:Person"}
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    made = Template(tmp_path_factory.mktemp("proposals"), SCHEMA, SEED)
    with open_session(made.original) as session:
        statements = [
            'insert Person { name: "Dan", age: -1 }',
            'update Person set { age: 31 } where name = "Alice"',
            'insert Knows { from: "Dan", to: "Alice" }',
            'delete Person where name = "Bob"',
        ]
        change(session, " ".join(statements), DRAFT)
    return made


@pytest.fixture
def session(template):
    with template.open() as session:
        yield session
    # What a writer acknowledged is cleared beside it; a closed session has nothing left to clear.
    assert audit(session.backend.uri, edges=EDGES) == []


def propose(session, *checks, **options):
    """Open a proposal to merge the draft."""
    given = {"source": DRAFT, "title": "changes", "checks": checks, "actor": "ann", **options}
    return session.open_proposal(**given)


def names_of(session, query="query q() { match { $p: Person } return { $p.name } order { $p.name } }"):
    return [row["p.name"] for row in session.query(query).rows()]


def other_session(session, **options):
    return open_session(session.backend.uri, **options)


def test_checks_read_exactly_the_state_that_a_merge_publishes(session):
    put(session, "node:Person", {"Eve": {"name": "Eve", "age": 9, "face": None}})
    queries = {
        "people": "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }",
        "edges": "query q() { match { $p: Person $p knows $q } return { $p.name, $q.name } order { $p.name } }",
        "count": "query q() { match { $p: Person } return { count($p) as people } }",
        "loners": "query q() { match { $p: Person not { $p knows $q } } return { $p.name } order { $p.name } }",
    }
    seen = {}

    def look(candidate):
        with candidate.reading(session.engine) as merged:
            for name, text in queries.items():
                call = read_call(QueryRequest(text=text), Attachments())
                seen[name] = session.engine.reads.run(call, merged).rows()

    preview_merge(session.engine, DRAFT, gate=look)
    assert names_of(session) == ["Alice", "Bob", "Carol", "Eve"]
    session.merge(DRAFT)
    assert seen == {name: session.query(text).rows() for name, text in queries.items()}


def test_checks_read_the_schema_that_a_merge_leads_to(template):
    schema = """
    node Human @rename_from("Person") { name: String @key  years: I64? @rename_from("age")  face: Blob?  town: String? }
    node Rule { name: String @key }
    node Town { name: String @key }
    edge Knows: Human -> Human
    """
    with template.open() as session:
        session.apply_schema(schema, branch=DRAFT)
        change(session, 'insert Town { name: "Rome" } update Human set { town: "Rome" } where name = "Dan"', DRAFT)
        put(session, "node:Person", {"Eve": {"name": "Eve", "age": 9, "face": None}})
        checks = """
        query homeless() { match { $h: Human $h.town is null } return { $h.name, $h.years } order { $h.name } }
        query towns() { match { $t: Town } return { $t.name } }
        query edges() { match { $h: Human $h knows $k } return { $h.name, $k.years } }
        query no_rule() { match { $r: Rule } return { $r.name } }
        """
        propose(session, checks)
        found = {one.name: list(one.rows) for one in session.check_proposal(1).checks}
        session.merge(DRAFT)
        assert found == {name: session.query(checks, name=name).rows() for name in found}
        assert found["homeless"][-1] == {"h.name": "Eve", "h.years": 9}
    assert audit(session.backend.uri, edges={}) == []


def test_a_report_tells_of_every_check_and_changes_nothing(session):
    checks = """
    query no_minus() { match { $p: Person $p.age < 0 } return { $p.name, $p.age } }
    query nobody() { match { $p: Person } return { $p.name } }
    query overflow() { match { $p: Person } return { ($p.age + 2147483647) * 9223372036854775807 as much } }
    query no_rule() { match { $r: Rule } return { $r.name } }
    """
    before = head_of(session), head_of(session, DRAFT)
    proposal = propose(session, checks)
    report = session.check_proposal(1)
    assert [(one.name, one.status.value) for one in report.checks] == [
        ("no_minus", "failed"),
        ("nobody", "failed"),
        ("overflow", "error"),
        ("no_rule", "passed"),
    ]
    assert report.checks[0].rows == ({"p.name": "Dan", "p.age": -1},)
    assert not report.is_passed
    assert (head_of(session), head_of(session, DRAFT)) == before
    assert session.get_proposal(1) == proposal
    with pytest.raises(ProposalChecksError, match="does not pass 3 checks: 'no_minus', 'nobody', 'overflow'") as told:
        session.merge_proposal(1)
    assert [item.name for item in told.value.details.items] == ["no_minus", "nobody", "overflow"]
    assert head_of(session) == before[0]


def test_a_check_shows_its_first_rows_and_says_that_there_are_more(session):
    put(session, "node:Rule", {f"r{number}": {"name": f"r{number}"} for number in range(9)})
    propose(session, NO_RULE)
    (found,) = session.check_proposal(1).checks
    assert (len(found.rows), found.has_more) == (5, True)
    assert "failed: more than 5 rows" in "\n".join(found.lines())


def test_conflicts_and_broken_rules_are_reported_and_checks_wait(session):
    change(session, 'update Person set { age: 32 } where name = "Alice"')
    propose(session, NO_RULE)
    report = session.check_proposal(1)
    assert [conflict.kind for conflict in report.merge.conflicts] == ["divergent_update"]
    assert [one.status for one in report.checks] == [CheckStatus.NOT_RUN]
    with pytest.raises(MergeConflictsError):
        session.merge_proposal(1)
    change(session, 'insert Knows { from: "Carol", to: "Bob" }')
    report = session.check_proposal(1, resolve="theirs")
    assert [conflict.kind for conflict in report.merge.conflicts] == ["orphan_edge"]
    assert session.get_proposal(1).is_open


def test_a_merge_is_one_commit_that_carries_the_proposal(session):
    propose(session, NO_RULE, required_approvals=1)
    with pytest.raises(UsageError, match="'ann' opened proposal 1"):
        session.approve_proposal(1, actor="ann")
    with pytest.raises(UsageError, match="needs an actor"):
        session.approve_proposal(1)
    with pytest.raises(ProposalApprovalsError, match="0 of 1"):
        session.merge_proposal(1)
    session.approve_proposal(1, head=head_of(session, DRAFT), actor="bob")
    change(session, 'update Person set { age: 1 } where name = "Dan"', DRAFT)
    assert session.get_proposal(1).stale_approvals == ("bob",)
    session.approve_proposal(1, actor="cy")
    done = session.merge_proposal(1, actor="cy")
    newest = history_of(session)[0]
    assert (newest.id, newest.proposal, newest.message) == (done.proposal.commit, 1, "merge proposal 1: changes")
    assert newest.to_json()["proposal"] == 1
    found = session.get_proposal(1)
    assert (found.state, found.commit, found.ended_by) == (ProposalState.MERGED, newest.id, "cy")
    assert (found.approved_by, found.stale_approvals) == (("cy",), ("bob",))
    for call in (session.merge_proposal, session.close_proposal, session.check_proposal):
        with pytest.raises(ProposalStateError, match=f"proposal 1 was merged as commit '{newest.id}'"):
            call(1)
    assert session.comment_proposal(1, "well done").comments[0].text == "well done"


def test_checks_run_again_on_the_state_that_another_writer_made(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session, other_session(session) as other:
        propose(session, NO_RULE)
        hits = []

        def forbid():
            hits.append(head_of(other))
            change(other, 'insert Rule { name: "none" }')

        runtime.failpoints.enable("txn.claim.before_put", on_nth(1, forbid))
        # The merge touches no rule, so that nothing but the check can notice.
        with pytest.raises(ProposalChecksError):
            session.merge_proposal(1)
        assert len(hits) == 1
        assert names_of(other) == ["Alice", "Bob", "Carol"]
        change(other, 'delete Rule where name = "none"')
        begun = []
        runtime.failpoints.enable("txn.proposal.after_event", lambda: begun.append(head_of(other)))
        # One that does no harm makes the merge look, and say what it is about to do, once more.
        runtime.failpoints.enable("txn.claim.before_put", on_nth(1, lambda: put(other, "node:Rule", {"x": None})))
        session.merge_proposal(1)
        assert names_of(other) == ["Alice", "Carol", "Dan"]
        assert len(begun) == 3
        assert len(set(begun)) == 3
    assert audit(session.backend.uri, edges=EDGES) == []


def test_a_merge_whose_process_died_right_behind_it_is_known_and_recorded_by_the_next_writer(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session:
        uri = session.backend.uri
        propose(session, NO_RULE)
        runtime.failpoints.enable("history.proposal.after_publish", fail("history.proposal.after_publish"))
        with pytest.raises(FailpointError):
            session.merge_proposal(1, actor="cy")
    with open_session(uri, mode="read_only") as reader:
        merged = reader.get_proposal(1)
        assert (merged.state, merged.commit, merged.ended_by) == (ProposalState.MERGED, head_of(reader), "cy")
        assert reader.list_proposals().proposals == ()
        assert [one.number for one in reader.list_proposals(state="merged")] == [1]
        assert reader.store.proposals.marked() == (1,)
    with open_session(uri) as session:
        with pytest.raises(ProposalStateError, match="was merged"):
            session.merge_proposal(1, actor="dan")
        last = session.store.proposals.read(1)[-1]
        assert (last.what, last.actor) == (MergeDone(commit=merged.commit), "cy")
        assert session.store.proposals.marked() == ()
        assert len(history_of(session)) == 3
    assert audit(uri, edges=EDGES) == []


@pytest.mark.parametrize(
    ("point", "nth", "state"),
    [
        # The merge has not begun: the proposal is closed, and nothing is merged.
        ("txn.proposal.before_event", 1, ProposalState.CLOSED),
        # It has begun, and what is published counts.
        ("history.merge.after_record", 1, ProposalState.MERGED),
    ],
)
def test_closing_and_merging_at_once_have_one_outcome(template, point, nth, state):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session, other_session(session) as other:
        propose(session)
        runtime.failpoints.enable(point, on_nth(nth, lambda: other.close_proposal(1, actor="bob")))
        if state is ProposalState.CLOSED:
            with pytest.raises(ProposalStateError, match="proposal 1 was closed"):
                session.merge_proposal(1)
        else:
            session.merge_proposal(1)
        for one in (session, other):
            assert one.get_proposal(1).state is state
            assert ("Dan" in names_of(one)) == (state is ProposalState.MERGED)
    assert audit(session.backend.uri, edges=EDGES) == []


def test_of_two_merges_at_once_one_is_published(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session, other_session(session) as other:
        propose(session, NO_RULE)
        runtime.failpoints.enable("history.merge.after_record", on_nth(1, lambda: other.merge_proposal(1, actor="bob")))
        with pytest.raises(ExpectedVersionMismatchError):
            session.merge_proposal(1, actor="cy")
        assert session.get_proposal(1).ended_by == "bob"
        assert [commit.proposal for commit in history_of(session)].count(1) == 1
    assert audit(session.backend.uri, edges=EDGES) == []


def test_a_merge_without_rows_is_not_made_twice(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session, other_session(session) as other:
        session.create_branch("same")
        change(session, 'insert Rule { name: "x" }', "same")
        change(session, 'delete Rule where name = "x"', "same")
        propose(session, source="same")
        runtime.failpoints.enable("history.merge.after_record", on_nth(1, lambda: other.merge_proposal(1, actor="bob")))
        with pytest.raises((ProposalStateError, ExpectedVersionMismatchError)):
            session.merge_proposal(1, actor="cy")
        assert [commit.proposal for commit in history_of(session)].count(1) == 1
    assert audit(session.backend.uri) == []


def test_events_of_two_writers_at_once_are_all_kept(template):
    runtime = Runtime.system()
    with template.open(runtime=runtime) as session, other_session(session) as other:
        runtime.failpoints.enable("txn.proposal.before_event", on_nth(1, lambda: propose(other, title="second")))
        assert propose(session, title="first").number == 2
        runtime.failpoints.enable(
            "txn.proposal.before_event", on_nth(1, lambda: other.comment_proposal(1, "b", actor="bob"))
        )
        found = session.comment_proposal(1, "a", type_name="Person", entity_id="gone", actor="ann")
        assert [(one.number, one.text, one.actor) for one in found.comments] == [(1, "b", "bob"), (2, "a", "ann")]
        assert (found.comments[1].type_key, found.comments[1].entity_id) == ("node:Person", "gone")
        assert other.get_proposal(1) == found
        assert [one.title for one in other.list_proposals()] == ["first", "second"]
    assert audit(session.backend.uri) == []


def test_a_deleted_branch_is_said_to_be_gone_and_another_of_its_name_is_not_taken_for_it(session):
    propose(session)
    session.delete_branch(DRAFT)
    assert session.get_proposal(1).troubles == ("source branch 'draft' was deleted",)
    session.create_branch(DRAFT)
    change(session, 'insert Rule { name: "x" }', DRAFT)
    for call in (session.merge_proposal, session.check_proposal, partial(session.approve_proposal, actor="bob")):
        with pytest.raises(ProposalStateError, match="source branch 'draft' was deleted after proposal 1 was opened"):
            call(1)
    assert session.list_proposals().proposals[0].to_brief_json()["source_deleted"] is True
    assert session.close_proposal(1, reason="gone").reason == "gone"


def test_what_is_no_proposal_is_refused(session):
    refused = {
        "the same branch": (UsageError, {"source": "main"}),
        "no title": (UsageError, {"title": " "}),
        "two lines": (UsageError, {"title": "a\nb"}),
        "a mutation": (UsageError, {"checks": ['query q() { insert Rule { name: "x" } }']}),
        "parameters": (
            UsageError,
            {"checks": ["query q($n: String) { match { $r: Rule { name: $n } } return { $r } }"]},
        ),
        "a name twice": (UsageError, {"checks": [NO_RULE, NO_RULE]}),
        "another schema": (QueryTypeError, {"checks": ["query q() { match { $r: Rul } return { $r.name } }"]}),
        "no such check": (QueryNotFoundError, {"checks": [NO_RULE], "check_names": ["rule"]}),
        "too many approvals": (UsageError, {"required_approvals": 101}),
    }
    for error, options in refused.values():
        with pytest.raises(error):
            propose(session, **options)
    assert session.list_proposals(state="all").proposals == ()
    with pytest.raises(ProposalMissingError, match="proposal 1 was not found"):
        session.get_proposal(1)
    propose(session)
    with pytest.raises(TypeMissingError):
        session.comment_proposal(1, "x", type_name="Persn", entity_id="x")
    with pytest.raises(UsageError, match="a type and an id"):
        session.comment_proposal(1, "x", type_name="Person")
    session.merge(DRAFT)
    with pytest.raises(ProposalStateError, match="'main' already has all commits of 'draft'"):
        session.merge_proposal(1)


def test_a_graph_that_is_open_for_reading_shows_proposals_and_refuses_events(session):
    propose(session, NO_RULE)
    with other_session(session, mode="read_only") as reader:
        assert reader.check_proposal(1).is_passed
        for call in (
            lambda: propose(reader),
            lambda: reader.comment_proposal(1, "x"),
            lambda: reader.approve_proposal(1, actor="bob"),
            lambda: reader.merge_proposal(1),
            lambda: reader.close_proposal(1),
        ):
            with pytest.raises(ReadOnlyError):
                call()
    assert len(session.store.proposals.read(1)) == 1


def test_a_merge_into_another_branch_than_main_is_found_there(session):
    session.create_branch("release")
    propose(session, NO_RULE, target="release")
    done = session.merge_proposal(1)
    assert (done.proposal.commit, "Dan" in read_graph(session)["node:Person"]) == (head_of(session, "release"), False)
    session.delete_branch("release")
    assert session.get_proposal(1).state is ProposalState.MERGED


def test_listing_what_is_open_costs_the_same_however_many_have_ended(session):
    def cost_of(**options):
        with open_session(session.backend.uri) as fresh:
            fresh.snapshot(DRAFT)
            with counting() as counters:
                page = fresh.list_proposals(**options)
            return [one.number for one in page], page.following, counters.cost().calls

    propose(session)
    few = cost_of()
    events = session.store.proposals
    for _ in range(40):
        made = propose(session)
        events.append(made.number, lambda _: Closed(), "ann")
    propose(session)
    numbers, following, calls = cost_of()
    assert (few[0], numbers, following) == ([1], [42, 1], None)
    assert calls["control.list"] - few[2]["control.list"] == 1
    assert calls["control.get"] - few[2]["control.get"] == 1
    assert cost_of(state="closed", limit=3)[:2] == ([41, 40, 39], 39)
    assert cost_of(state="closed", limit=3, after=4)[:2] == ([3, 2], None)
    assert cost_of(state="all", limit=2)[2]["control.list"] <= 16
    # The newest number is found in a few steps also when what leads to it is lost.
    session.store.stores.control.delete("__proposals/recent")
    with counting() as counters:
        assert propose(session).number == 43
    assert counters.cost().calls["control.head"] <= 16


def test_a_cleanup_leaves_proposals_alone_and_takes_marks_of_those_that_ended(session):
    propose(session)
    propose(session)
    session.close_proposal(2)
    control = session.store.stores.control
    control.put("__proposals/open/2.json", b"{}")
    change(session, 'insert Rule { name: "x" }')
    Cleanup(session.store, Retention(keep=1), AT_ONCE, Runtime.system()).run()
    assert control.list_keys("__proposals") == (
        "__proposals/1/1.json",
        "__proposals/2/1.json",
        "__proposals/2/2.json",
        "__proposals/open/1.json",
        "__proposals/recent",
    )
    assert session.merge_proposal(1).proposal.state is ProposalState.MERGED


def test_a_damaged_event_is_named_and_stops_nothing_else(template):
    with template.open() as session:
        propose(session)
        propose(session, title="other")
        session.comment_proposal(1, "x")
        control = session.store.stores.control
        data = control.get("__proposals/1/2.json")
        control.put("__proposals/1/2.json", data.replace(b'"x"', b'"y"'))
    with open_session(session.backend.uri) as session:
        with pytest.raises(ManifestCorruptError, match=r"__proposals/1/2\.json"):
            session.get_proposal(1)
        assert session.get_proposal(2).title == "other"
        assert change(session, 'insert Rule { name: "x" }').commit is not None
        session.store.stores.control.delete("__proposals/1/1.json")
    found = audit(session.backend.uri)
    assert [finding.partition(":")[0] for finding in found] == [
        "an event is missing proposal=1 event=1",
        "an event cannot be read key=__proposals/1/2.json",
    ]
    with open_session(session.backend.uri) as session, pytest.raises(ManifestCorruptError) as told:
        session.get_proposal(1)
    assert told.value.details.what in {"__proposals/1/1.json", "__proposals/1/2.json"}
