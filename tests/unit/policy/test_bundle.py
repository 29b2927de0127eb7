"""A bundle that says anything unclear is refused, with the place in the file: access is never widened by a typo."""

import pytest

from omnigraph.errors import PolicyFormatError
from omnigraph.policy import Action
from omnigraph.policy.bundle import BundleKind, Rule, Scope, parse_bundle

WHOLE = """\
version: 1
groups:
  editors:  [act-mira, act-jon]
  stewards: [act-mira]
protected_branches: [main, release]
rules:
  - id: editors-draft
    allow:
      actors: { group: editors }
      actions: [read, change]
      branch_scope: unprotected
  - id: stewards-publish
    allow: { actors: { group: stewards }, actions: [branch_merge], target_branch_scope: protected }
"""
RULE = "version: 1\ngroups: {g: [a]}\nrules:\n  - id: r\n    allow: {actors: {group: g}, actions: [read]}\n"
SERVER = RULE.replace("read", "graph_list")


def refused(text: str, kind: BundleKind | None = None) -> PolicyFormatError:
    with pytest.raises(PolicyFormatError, match=r"\w") as caught:
        parse_bundle(text.encode(), "policy.yaml", kind)
    assert caught.value.details.place is not None
    return caught.value


def test_a_bundle_is_read_whole():
    bundle = parse_bundle(WHOLE.encode(), "policy.yaml")
    assert bundle.kind is BundleKind.GRAPH
    assert bundle.groups == {"editors": ("act-mira", "act-jon"), "stewards": ("act-mira",)}
    assert bundle.protected_branches == {"main", "release"}
    assert bundle.actors == {"act-mira", "act-jon"}
    assert bundle.rules == (
        Rule(id="editors-draft", group="editors", actions=(Action.READ, Action.CHANGE), branch_scope=Scope.UNPROTECTED),
        Rule(
            id="stewards-publish",
            group="stewards",
            actions=(Action.BRANCH_MERGE,),
            target_branch_scope=Scope.PROTECTED,
        ),
    )


def test_an_error_shows_the_line():
    error = refused(WHOLE.replace("branch_scope: unprotected", "brnch_scope: unprotected"))
    assert str(error).splitlines()[0] == "policy.yaml:11:7: unknown key 'rules[0].allow.brnch_scope'"
    assert error.details.place.line == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "version is missing"),
        ("[1]", "the bundle is not a mapping"),
        ("version: 2", "version is not a whole number from 1 to 1"),
        ("version: '1'", "version is not a whole number from 1 to 1"),
        ("version: true", "version is not a whole number from 1 to 1"),
        ("version: 1", "groups is missing"),
        ("version: 1\ngroups: {}", "rules is missing"),
        (RULE + "deny: []", "unknown key 'deny'"),
        (RULE.replace("[a]", "[]"), "group 'g' has no actors"),
        (RULE.replace("[a]", "a"), "groups.g is not a list of texts"),
        (RULE.replace("[a]", "[a, a]"), "groups.g[1] is not text that occurs only once"),
        (RULE.replace("[a]", "[7]"), "groups.g[0] is not text that occurs only once"),
        (RULE.replace("[a]", "[' ']"), "a name is blank or has characters that cannot be printed"),
        (RULE.replace("[a]", '["\\a"]'), "a name is blank or has characters that cannot be printed"),
        (RULE.replace("id: r", "id: ' '"), "a name is blank or has characters that cannot be printed"),
        (RULE.replace("id: r", "name: r"), "a rule has no id"),
        (RULE + RULE.split("rules:\n")[1], "rule 'r' occurs twice"),
        (RULE.replace("group: g", "group: h"), "rule 'r' names the group 'h', which is not declared"),
        (RULE.replace("{group: g}", "{}"), "rule 'r' names no group"),
        (RULE.replace("{group: g}", "{group: g, actor: a}"), "unknown key 'rules[0].allow.actors.actor'"),
        (RULE.replace("[read]", "[]"), "rule 'r' has no actions"),
        (RULE.replace("[read]", "[write]"), "rule 'r' has the unknown action 'write'"),
        (RULE.replace("[read]", "[read, read]"), "rules[0].allow.actions[1] is not text that occurs only once"),
        (RULE.replace("[read]", "[read, graph_list]"), "rule 'r' mixes graph_list with actions of a graph"),
        (RULE.replace("allow: {", "deny: {"), "rule 'r' names no group"),
        (
            RULE.replace("[read]", "[read], branch_scope: any, target_branch_scope: any"),
            "target_branch_scope of rule 'r' does not apply to 'read'",
        ),
        (RULE.replace("[read]", "[read], branch_scope: some"), "rules[0].allow.branch_scope is not one of any"),
        (RULE.replace("[read]", "[read], branch_scope: "), "branch_scope of rule 'r' is empty"),
        (
            RULE.replace("[read]", "[read, branch_merge], branch_scope: any"),
            "branch_scope of rule 'r' does not apply to 'branch_merge'",
        ),
        (
            RULE.replace("[read]", "[invoke_query], branch_scope: any"),
            "branch_scope of rule 'r' does not apply to 'invoke_query'",
        ),
        (
            RULE.replace("[read]", "[maintain], target_branch_scope: any"),
            "target_branch_scope of rule 'r' does not apply to 'maintain'",
        ),
        (RULE + SERVER.split("rules:\n")[1].replace("id: r", "id: s"), "the bundle mixes graph_list with actions"),
        (RULE + "protected_branches: main", "protected_branches is not a list of texts"),
        (RULE + "kind: cluster", "kind is not one of graph, server"),
        (RULE + "kind: server", "a server bundle cannot grant 'read'"),
        (RULE + "rules: []", "key 'rules' occurs twice"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_is_unclear_is_refused(text: str, message: str):
    assert refused(text).message.startswith(message)


def test_a_bundle_must_fit_what_it_is_bound_to():
    assert parse_bundle(SERVER.encode(), "p", BundleKind.SERVER).kind is BundleKind.SERVER
    assert parse_bundle(SERVER.encode(), "p").kind is BundleKind.SERVER
    assert parse_bundle((SERVER + "kind: server").encode(), "p", BundleKind.SERVER).kind is BundleKind.SERVER
    assert refused(SERVER, BundleKind.GRAPH).message == "a graph bundle cannot grant 'graph_list'"
    assert refused(RULE, BundleKind.SERVER).message == "a server bundle cannot grant 'read'"
    assert refused(RULE + "kind: graph", BundleKind.SERVER).message == (
        "kind is 'graph', but the bundle is bound to a server"
    )


def test_names_are_trimmed_as_those_of_tokens_are():
    bundle = parse_bundle(RULE.replace("[a]", "[' a ']").encode() + b"protected_branches: [' main ']", "p")
    assert bundle.actors == {"a"}
    assert bundle.protected_branches == {"main"}
