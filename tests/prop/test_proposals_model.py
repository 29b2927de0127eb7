"""Random orders of what can happen to proposals and their branches, by two processes, against a plain model.

The model keeps sets of names for branches and lists of words for proposals. Every step is made by one of two open
graphs, also in the middle of what the other one is writing, so that each has to notice what it did not do itself.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings

from omnigraph.errors import (
    BranchMissingError,
    OmnigraphError,
    ProposalApprovalsError,
    ProposalChecksError,
    ProposalMissingError,
    ProposalStateError,
)
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import on_nth
from tests.auditor import audit
from tests.prop.choices import Choices, choices
from tests.session_graph import create_graph, open_session

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SCHEMA = "node Word { name: String @key }"
NO_BAD = 'query no_bad() { match { $w: Word $w.name = "bad" } return { $w.name } }'
BRANCHES = ("a", "b")
ACTORS = ("ann", "bob", "cy")
VERBS = ("open", "comment", "approve", "merge", "close", "write", "write_bad", "delete", "create", "write_main")
STEPS = 60 if LONG else 24


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("proposals") / "graph"
    create_graph(root, SCHEMA)
    return root


@dataclass
class Branch:
    """A branch: which life of its name it is, its words, and how many commits it has of its own."""

    life: int
    words: set
    commits: int = 0


@dataclass
class Proposal:
    """What is known of a proposal: a state, comments in order, and what each actor approved."""

    source: str
    life: int
    author: str
    required: int
    state: str = "open"
    comments: list = field(default_factory=list)
    approved: dict = field(default_factory=dict)


class Model:
    """The naive truth."""

    def __init__(self):
        self.lives = 0
        self.names = set()
        self.main = set()
        self.branches = {}
        self.proposals = []
        # What of each branch main has, by its life.
        self.merged = {}

    def expected(self, verb, number, source, actor):
        """The class of the error that a step ends with, None if it goes through."""
        if verb in {"open", "write", "write_bad"} and source not in self.branches:
            return BranchMissingError
        if verb == "delete":
            # A deletion that is repeated goes through.
            return None if source in self.names else BranchMissingError
        if verb == "create" and source in self.branches:
            return OmnigraphError
        if verb not in {"comment", "approve", "merge", "close"}:
            return None
        if number > len(self.proposals):
            return ProposalMissingError
        proposal = self.proposals[number - 1]
        if verb == "comment":
            return None
        branch = self.branches.get(proposal.source)
        is_gone = branch is None or branch.life != proposal.life
        if proposal.state != "open" or (is_gone and verb != "close"):
            return ProposalStateError
        if verb == "approve":
            return OmnigraphError if actor == proposal.author else None
        return self._merge_error(proposal, branch) if verb == "merge" else None

    def _merge_error(self, proposal, branch):
        valid = [actor for actor, commits in proposal.approved.items() if commits == branch.commits]
        if len(valid) < proposal.required:
            return ProposalApprovalsError
        if self.merged.get(branch.life, 0) == branch.commits:
            return ProposalStateError
        return ProposalChecksError if "bad" in self.main | branch.words else None

    def apply(self, verb, number, source, actor, word, required):
        """Let a step that goes through happen."""
        branch = self.branches.get(source)
        if verb == "open":
            self.proposals.append(Proposal(source=source, life=branch.life, author=actor, required=required))
        elif verb == "create":
            self.lives += 1
            self.names.add(source)
            self.branches[source] = Branch(life=self.lives, words=set(self.main))
        elif verb == "delete":
            self.branches.pop(source, None)
        elif verb == "write_main":
            self.main.add(word)
        elif verb in {"write", "write_bad"}:
            written = "bad" if verb == "write_bad" else word
            branch.commits += written not in branch.words
            branch.words.add(written)
        else:
            self._apply_event(verb, self.proposals[number - 1], actor, word)

    def _apply_event(self, verb, proposal, actor, word):
        if verb == "comment":
            proposal.comments.append((word, actor))
        elif verb == "close":
            proposal.state = "closed"
        else:
            branch = self.branches[proposal.source]
            if verb == "approve":
                proposal.approved[actor] = branch.commits
            else:
                proposal.state = "merged"
                self.main |= branch.words
                self.merged[branch.life] = branch.commits


def perform(session, verb, number, source, actor, word, required):
    """Make a step on a graph."""
    text = 'query q() { insert Word { name: "0" } if absent }'
    match verb:
        case "open":
            session.open_proposal(source, word, checks=[NO_BAD], required_approvals=required, actor=actor)
        case "comment":
            session.comment_proposal(number, word, actor=actor)
        case "approve":
            session.approve_proposal(number, actor=actor)
        case "merge":
            session.merge_proposal(number, actor=actor, resolve="ours")
        case "close":
            session.close_proposal(number, actor=actor)
        case "create":
            session.create_branch(source)
        case "delete":
            session.delete_branch(source)
        case _:
            branch = "main" if verb == "write_main" else source
            session.mutate(text.replace("0", "bad" if verb == "write_bad" else word), branch=branch)


def step(session, model, choices, number):
    """Make one step on a graph and in the model, and compare how they end."""
    chosen = {
        "verb": choices.pick(VERBS),
        "number": choices.number(1, max(1, len(model.proposals) + choices.chance(8))),
        "source": choices.pick(BRANCHES),
        "actor": choices.pick(ACTORS),
        "word": f"w{number}",
        "required": choices.number(0, 1),
    }
    expected = model.expected(*(chosen[name] for name in ("verb", "number", "source", "actor")))
    if expected is None:
        perform(session, **chosen)
        model.apply(**chosen)
    else:
        with pytest.raises(expected):
            perform(session, **chosen)


def compare(session, model):
    """Demand that a graph shows what the model knows."""
    rows = session.query("query q() { match { $w: Word } return { $w.name as name } }").rows()
    assert {row["name"] for row in rows} == model.main
    for number, proposal in enumerate(model.proposals, start=1):
        found = session.get_proposal(number)
        assert found.state.value == proposal.state
        assert [(one.text, one.actor) for one in found.comments] == proposal.comments
        assert {one.actor for one in found.approvals} == proposal.approved.keys()
        branch = model.branches.get(proposal.source)
        if proposal.state == "open":
            is_there = branch is not None and branch.life == proposal.life
            assert bool(found.troubles) == (not is_there)
            if is_there:
                valid = {actor for actor, commits in proposal.approved.items() if commits == branch.commits}
                assert set(found.approved_by) == valid
    opened = [number for number, one in enumerate(model.proposals, start=1) if one.state == "open"]
    assert [one.number for one in session.list_proposals(limit=100)] == opened[::-1]


@given(choices(STEPS * 8))
@settings(max_examples=40 if LONG else 3, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_order_of_events_leaves_what_the_model_says(template, tmp_path_factory, chosen: Choices):
    root = tmp_path_factory.mktemp("run") / "graph"
    shutil.copytree(template, root)
    model, runtime = Model(), Runtime.system()
    with open_session(root, runtime=runtime) as one, open_session(root) as other:
        for source in BRANCHES:
            one.create_branch(source)
            model.apply("create", 0, source, "ann", "", 0)
        for number in range(STEPS):
            if chosen.chance(4) and model.proposals:
                # The other comments right before an event of this one is stored.
                def interrupt(word=f"i{number}"):
                    other.comment_proposal(1, word, actor="dan")
                    model.proposals[0].comments.append((word, "dan"))

                runtime.failpoints.enable("txn.proposal.before_event", on_nth(1, interrupt))
            step(other if chosen.coin() else one, model, chosen, number)
            runtime.failpoints.disable("txn.proposal.before_event")
        for session in (one, other):
            compare(session, model)
    assert audit(str(root), edges={}) == []
    shutil.rmtree(root)
