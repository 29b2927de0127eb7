"""What a policy answers: the truth table of scopes, unknown actors, and nothing in between allow and deny."""

import logging
import sys
from itertools import product

import pytest

from omnigraph.errors import PolicyDeniedError, PolicyEvaluationError, UsageError, ValueFormatError
from omnigraph.policy import Action, Actor, Question
from omnigraph.policy.bundle import (
    BRANCH_ACTIONS,
    SERVER_ACTIONS,
    TARGET_ACTIONS,
    BundleKind,
    PolicyBundle,
    Rule,
    Scope,
)
from omnigraph.policy.own import is_own, own_branches
from omnigraph.policy.policy import BundlePolicy, NoBundle, check_allowed, log_decisions_once
from omnigraph.values import BranchName

MIRA, JON, EVE = Actor(name="act-mira"), Actor(name="act-jon"), Actor(name="act-eve")
OWN = "agents/act-mira/fix"
BRANCHES = {
    None: None,
    "main": True,
    "draft": False,
    OWN: False,
    "agents/act-mira": False,
    "agents/act-miranda/x": False,
}


def policy_of(*rules: Rule, groups: dict[str, tuple[str, ...]] | None = None) -> BundlePolicy:
    groups = groups or {"g": (MIRA.name,), "others": (JON.name,)}
    kind = BundleKind.SERVER if any(SERVER_ACTIONS.intersection(rule.actions) for rule in rules) else BundleKind.GRAPH
    bundle = PolicyBundle(kind=kind, groups=groups, protected_branches=frozenset({"main"}), rules=rules)
    return BundlePolicy(bundle, "crm")


def scope_allows(scope: Scope | None, branch: str | None) -> bool:
    is_protected = BRANCHES[branch]
    if scope in {None, Scope.ANY}:
        return True
    if scope is Scope.OWN:
        return branch == OWN
    return is_protected is not None and is_protected is (scope is Scope.PROTECTED)


@pytest.mark.parametrize("scope", [None, *Scope])
def test_scopes_follow_the_truth_table(scope: Scope | None):
    rules = [
        Rule(id=f"{key}-{action}", group="g", actions=(action,), **{key: scope})
        for key, actions in (("branch_scope", BRANCH_ACTIONS), ("target_branch_scope", TARGET_ACTIONS))
        for action in sorted(actions)
    ]
    policy = policy_of(*rules)
    for rule, branch, target in product(rules, BRANCHES, BRANCHES):
        question = Question(action=rule.actions[0], branch=branch, target_branch=target)
        scoped = branch if rule.actions[0] in BRANCH_ACTIONS else target
        decision = policy.decide(MIRA, question)
        assert decision.allowed is scope_allows(scope, scoped), question
        assert decision.matched_rule_id == (rule.id if decision.allowed else None)
        assert not policy.decide(JON, question).allowed


def test_no_actor_owns_the_branches_of_another():
    names = ("ada", "ada@example.com", "ada_40example_2ecom", "Ada", "a/b", "ä", "..", "a b", "a-b", "")
    prefixes = {own_branches(name) for name in names}
    assert len(prefixes) == len(names)
    for name in names[:-1]:
        # Every one of them is a branch that can be made.
        assert BranchName.parse(f"{own_branches(name)}x")
        assert not any(is_own(name, f"{other}x") for other in prefixes - {own_branches(name)})
    rule = Rule(id="r", group="g", actions=(Action.CHANGE,), branch_scope=Scope.OWN)
    assert "when { context.has_branch && context.branch_is_own };" in policy_of(rule).to_cedar()


@pytest.mark.parametrize("action", [action for action in Action if action not in SERVER_ACTIONS])
def test_an_action_is_allowed_by_its_own_rule_alone(action: Action):
    policy = policy_of(Rule(id="r", group="g", actions=(action,)))
    allowed = {
        other
        for other in Action
        if other not in SERVER_ACTIONS and policy.decide(MIRA, Question(action=other, branch="x")).allowed
    }
    assert allowed == {action}


def test_a_server_bundle_grants_the_list_of_graphs():
    policy = policy_of(Rule(id="r", group="g", actions=(Action.GRAPH_LIST,)))
    assert policy.decide(MIRA, Question(action=Action.GRAPH_LIST)).allowed
    assert not policy.decide(JON, Question(action=Action.GRAPH_LIST)).allowed


def test_denials_say_what_was_denied_to_whom():
    policy = policy_of(Rule(id="r", group="g", actions=(Action.ADMIN,)))
    merge = Question(action=Action.BRANCH_MERGE, branch="draft", target_branch="main")
    assert policy.decide(MIRA, merge).message == (
        "policy denied action 'branch_merge' on branch 'draft' targeting branch 'main' for actor 'act-mira'"
    )
    assert policy.decide(MIRA, Question(action=Action.READ)).message == (
        "policy denied action 'read' for actor 'act-mira'"
    )
    assert policy.decide(EVE, merge).message == "policy denied action 'branch_merge' for unknown actor 'act-eve'"
    assert policy.decide(None, Question(action=Action.READ)).message == "policy denied action 'read' without an actor"


def test_the_smallest_matching_rule_id_is_reported():
    rules = [Rule(id=name, group="g", actions=(Action.READ,)) for name in ("z:last", "b", "a:1", "a:0")]
    assert policy_of(*rules).decide(MIRA, Question(action=Action.READ)).matched_rule_id == "a:0"


def test_groups_of_an_identity_provider_count_if_the_bundle_declares_them():
    policy = policy_of(Rule(id="r", group="g", actions=(Action.READ,)))
    question = Question(action=Action.READ)
    assert policy.decide(Actor(name="act-eve", groups=frozenset({"g", "elsewhere"})), question).allowed
    assert "unknown actor" in policy.decide(Actor(name="act-eve", groups=frozenset({"elsewhere"})), question).message
    assert not policy.decide(EVE, question).allowed


@pytest.mark.parametrize("name", ['quote"', "back\\slash", "zoë", "日本", "a:b", "x\u2028", "'; permit(principal,"])
def test_names_of_any_characters_stay_names(name: str):
    actor = Actor(name=name) if name.isprintable() else Actor(name="act-any")
    policy = policy_of(
        Rule(id=name, group=name, actions=(Action.READ,)), groups={name: (actor.name,), "o": ("act-eve",)}
    )
    assert policy.decide(actor, Question(action=Action.READ, branch=name)).matched_rule_id == name
    assert not policy.decide(EVE, Question(action=Action.READ)).allowed


@pytest.mark.parametrize("name", ["", " ", "x\u2028y", "zoe\u0308", "a\nb", "\ud800"])
def test_a_name_that_has_no_one_spelling_is_no_actor(name: str):
    with pytest.raises(ValueFormatError, match="actor"):
        Actor(name=name)
    assert Actor(name=" act-eve\t") == EVE


def test_policies_can_be_shown_as_cedar():
    rule = Rule(id="r", group="g", actions=(Action.CHANGE,), branch_scope=Scope.UNPROTECTED)
    assert policy_of(rule).to_cedar() == (
        '@id("r:change")\n'
        "permit (\n"
        '  principal in Omnigraph::Group::"g",\n'
        '  action == Omnigraph::Action::"change",\n'
        '  resource == Omnigraph::Graph::"crm"\n'
        ")\n"
        "when { context.has_branch && !context.branch_is_protected };\n"
    )


def test_a_question_without_a_decision_is_an_error_and_not_a_denial():
    policy = policy_of(Rule(id="r", group="g", actions=(Action.READ,)))
    with pytest.raises(PolicyEvaluationError, match="could not be evaluated") as caught:
        policy._engine.evaluate(MIRA, frozenset({"g"}), Question(action=Action.GRAPH_LIST))
    assert caught.value.details.action == "graph_list"


def test_a_bundle_denies_what_it_does_not_decide_about():
    graph = policy_of(Rule(id="r", group="g", actions=(Action.READ,)))
    server = policy_of(Rule(id="r", group="g", actions=(Action.GRAPH_LIST,)))
    assert graph.decide(MIRA, Question(action=Action.GRAPH_LIST)).message.endswith(
        "for actor 'act-mira': a graph bundle has no rules for this action"
    )
    assert not server.decide(MIRA, Question(action=Action.READ)).allowed


def test_the_same_question_is_evaluated_once(monkeypatch: pytest.MonkeyPatch):
    policy = policy_of(Rule(id="r", group="g", actions=(Action.READ,)))
    question = Question(action=Action.READ, branch="main")
    first = policy.decide(MIRA, question)
    monkeypatch.setattr(policy, "_engine", None)
    assert policy.decide(Actor(name="act-mira"), Question(action=Action.READ, branch="main")) == first


def test_without_the_library_a_bundle_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cedarpy", None)
    with pytest.raises(UsageError, match="policies need cedarpy") as caught:
        policy_of(Rule(id="r", group="g", actions=(Action.READ,)))
    assert "omnigraphdb[server]" in (caught.value.hint or "")


def test_without_a_bundle_an_actor_may_read_and_nothing_else():
    for action in Action:
        question = Question(action=action, branch="main")
        assert NoBundle().decide(MIRA, question).allowed is (action is Action.READ)
        assert NoBundle().decide(None, question).allowed is (action is not Action.GRAPH_LIST)


def test_every_decision_is_logged(caplog: pytest.LogCaptureFixture):
    policy = policy_of(Rule(id="r", group="g", actions=(Action.READ,)))
    with caplog.at_level(logging.INFO, logger="omnigraph.policy"):
        for _ in range(2):
            check_allowed(policy, MIRA, Question(action=Action.READ, branch="main"))
        with pytest.raises(PolicyDeniedError, match="policy denied action 'change'") as caught:
            check_allowed(policy, MIRA, Question(action=Action.CHANGE, target_branch="x"))
    facts = [record.policy_decision for record in caplog.records]
    common = {"resource": "crm", "actor": "act-mira"}
    read = {"action": "read", "branch": "main", "target_branch": None, "allowed": True, "matched_rule_id": "r"}
    change = {"action": "change", "branch": None, "target_branch": "x", "allowed": False, "matched_rule_id": None}
    assert facts == [common | read, common | read, common | change]
    assert caught.value.details.target_branch == "x"


def test_a_decision_that_is_made_again_and_again_can_be_logged_once(caplog: pytest.LogCaptureFixture):
    policy = policy_of(Rule(id="r", group="g", actions=(Action.READ,)))
    with caplog.at_level(logging.INFO, logger="omnigraph.policy"), log_decisions_once():
        for branch in ("main", "main", "other", "main"):
            check_allowed(policy, MIRA, Question(action=Action.READ, branch=branch))
    assert [record.policy_decision["branch"] for record in caplog.records] == ["main", "other"]
