"""Proposals as people hold them in Python, over every backend."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.errors import PreconditionFailedError, ProposalChecksError, ProposalMissingError
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key  age: I32? }"
CHECKS = """
query aged() { match { $p: Person $p.age is null } return { $p.name } }
query other() { match { $p: Person } return { $p.name } }
"""


def test_a_proposal_is_opened_discussed_and_merged_through_its_objects(tmp_path):
    (tmp_path / "checks.gq").write_text(CHECKS)
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        draft = graph.create_branch("draft")
        draft.mutate('query q() { insert Person { name: "ann" } }')
        opened = graph.proposals.open(
            draft, title="ann", checks=tmp_path / "checks.gq", check_names=["aged"], required_approvals=1, actor="zoe"
        )
        assert (opened.number, opened.source, opened.target, opened.state) == (1, "draft", "main", "open")
        assert (opened.author, opened.title, opened.description) == ("zoe", "ann", "")
        head = draft.log()[0]
        assert [one.is_stale for one in opened.approve(head=head, actor="mia").approvals] == [False]
        with pytest.raises(ProposalChecksError) as refused:
            opened.merge(actor="mia")
        assert refused.value.details.items[0].rows == ({"p.name": "ann"},)
        opened.comment("how old?", on=("Person", "ann"), actor="mia")
        draft.mutate('query q() { update Person set { age: 3 } where name = "ann" }')
        with pytest.raises(PreconditionFailedError):
            opened.approve(head=head, actor="mia")
        assert [one.is_stale for one in opened.refresh().approvals] == [True]
        assert opened.approve(actor="mia").check().is_passed
        done = opened.merge(actor="mia", message="welcome")
        assert (opened.state, opened.commit_id, graph.log()[0].message) == ("merged", done.merge.commit.id, "welcome")
        assert [str(one) for one in opened.comments] == ["comment 1 by mia on Person ann: how old?"]
        again = graph.proposals.open("draft", title="again").close("a mistake", actor="mia")
        assert (again.state, again.record.reason) == ("closed", "a mistake")
        waiting = [graph.proposals.open("draft", title=str(number)).number for number in range(3)]
        assert [one.number for one in graph.proposals] == waiting[::-1]
        page = graph.proposals.list("all", limit=2)
        assert [one.number for one in page] == [5, 4]
        assert [one.number for one in graph.proposals.list("all", after=page.following)] == [3, 2, 1]
        assert graph.proposals.get(1).to_json() == opened.to_json()
        assert "how old?" in opened._repr_html_()
        assert repr(opened) == "<Proposal 1: 'ann', merged>"
        with pytest.raises(ProposalMissingError):
            graph.proposals.get(6)


def test_conflicts_of_a_proposal_are_decided_one_by_one(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        graph.mutate('query q() { insert Person { name: "ann", age: 1 } insert Person { name: "bo", age: 1 } }')
        draft = graph.create_branch("draft")
        for branch, age in ((draft, 2), (graph, 3)):
            branch.mutate("query q($age: I32) { update Person set { age: $age } where age = 1 }", {"age": age})
        opened = graph.proposals.open(draft, title="older")
        assert [row.id for row in opened.check().conflicts.rows()] == ["ann", "bo"]
        decided = {("Person", "ann"): "theirs", ("Person", "bo", "age"): 9}
        assert opened.check(resolve=decided).is_passed
        opened.merge(resolve=lambda row: decided.get(("Person", row.id)), rest="ours")
        ages = graph.query("query q() { match { $p: Person } return { $p.age } order { $p.name } }")
        assert ages.to_arrow().column(0).to_pylist() == [2, 3]
