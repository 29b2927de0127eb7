"""Bundles as Cedar: the schema, the policies and the entities that a decision needs.

Every pair of a rule and an action becomes one permit with the id ``<rule id>:<action>``. Granularity stops at branches,
so that the answer to a question depends on nothing but the actor, the action and whether branches are protected or the
actor's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnigraph.distribution import pip_install
from omnigraph.errors import BadValue, PolicyDenial, PolicyEvaluationError, UsageError
from omnigraph.policy.bundle import SERVER_ACTIONS, BundleKind, PolicyBundle, Rule, Scope
from omnigraph.policy.decision import Action, Actor, Question
from omnigraph.policy.own import is_own
from omnigraph.records import record

SERVER_ID = "root"

_CONTEXT = """{
    has_branch: Bool,
    branch: String,
    has_target_branch: Bool,
    target_branch: String,
    branch_is_protected: Bool,
    target_branch_is_protected: Bool,
    branch_is_own: Bool,
    target_branch_is_own: Bool
  }"""


def cedar_schema() -> str:
    """Return the Cedar schema that every bundle is validated against."""
    graph = ", ".join(f'"{action}"' for action in Action if action not in SERVER_ACTIONS)
    server = ", ".join(f'"{action}"' for action in Action if action in SERVER_ACTIONS)
    return f"""namespace Omnigraph {{
  entity Group;
  entity Actor in [Group];
  entity Graph;
  entity Server;
  type Branches = {_CONTEXT};
  action {graph} appliesTo {{ principal: [Actor], resource: [Graph], context: Branches }};
  action {server} appliesTo {{ principal: [Actor], resource: [Server], context: Branches }};
}}
"""


def cedar_policies(bundle: PolicyBundle, resource_id: str) -> str:
    """Return a bundle as Cedar policies about one graph, or about the server."""
    kind = "Graph" if bundle.kind is BundleKind.GRAPH else "Server"
    resource = f"Omnigraph::{kind}::{_quoted(resource_id)}"
    permits = [_permit(rule, action, resource) for rule in bundle.rules for action in rule.actions]
    return "\n".join(permits)


def _permit(rule: Rule, action: Action, resource: str) -> str:
    return (
        f"@id({_quoted(f'{rule.id}:{action}')})\n"
        f"permit (\n"
        f"  principal in Omnigraph::Group::{_quoted(rule.group)},\n"
        f"  action == Omnigraph::Action::{_quoted(action)},\n"
        f"  resource == {resource}\n"
        f"){_condition(rule)};\n"
    )


def _condition(rule: Rule) -> str:
    for prefix, scope in (("", rule.branch_scope), ("target_", rule.target_branch_scope)):
        if scope in {Scope.PROTECTED, Scope.UNPROTECTED}:
            negation = "" if scope is Scope.PROTECTED else "!"
            return f"\nwhen {{ context.has_{prefix}branch && {negation}context.{prefix}branch_is_protected }}"
        if scope is Scope.OWN:
            return f"\nwhen {{ context.has_{prefix}branch && context.{prefix}branch_is_own }}"
    return ""


def _quoted(text: str) -> str:
    """Return a text as a Cedar string literal; what is not plain ASCII is written by its number."""
    plain = (char if " " <= char <= "~" and char not in {'"', "\\"} else f"\\u{{{ord(char):x}}}" for char in text)
    return f'"{"".join(plain)}"'


@record
class CedarAnswer:
    """What Cedar says: whether a question is allowed, and the rules that allow it, in order."""

    allowed: bool
    rule_ids: tuple[str, ...] = ()


class CedarEngine:
    """The policies of a bundle, parsed and validated once.

    Raises:
        UsageError: the library is not installed.
        PolicyEvaluationError: Cedar refuses what a bundle was compiled to, which is a bug of ours.
    """

    def __init__(self, bundle: PolicyBundle, resource_id: str) -> None:
        self._cedar = load_cedar()
        self._protected = bundle.protected_branches
        kind = "Graph" if bundle.kind is BundleKind.GRAPH else "Server"
        self._resource = {"type": f"Omnigraph::{kind}", "id": resource_id}
        text = cedar_policies(bundle, resource_id)
        self._schema = self._cedar.Schema.from_str(cedar_schema())
        # Validation is strict: that is the mode of the library.
        validated = self._cedar.validate_policies(text, self._schema)
        if not validated.validation_passed:
            reasons = "; ".join(map(str, validated.errors))
            raise PolicyEvaluationError(
                f"the compiled policy is not valid: {reasons}", details=PolicyDenial(action="load")
            )
        self._policies = self._cedar.PolicySet.from_str(text)

    def evaluate(self, actor: Actor, groups: frozenset[str], question: Question) -> CedarAnswer:
        """Ask whether an actor of some groups may do something.

        Raises:
            PolicyEvaluationError: there is no decision, or a policy failed while it was evaluated.
        """
        request = {
            "principal": {"type": "Omnigraph::Actor", "id": actor.name},
            "action": {"type": "Omnigraph::Action", "id": question.action.value},
            "resource": self._resource,
            "context": self._context(actor, question),
        }
        try:
            entities = self._cedar.Entities.from_json_str(json.dumps(_entities(actor, groups)), self._schema)
            answer = self._cedar.is_authorized(request, self._policies, entities, self._schema)
        except ValueError as problem:
            raise _failure(question, actor, str(problem)) from problem
        decision, found = answer.decision.value, answer.diagnostics
        if decision not in {"Allow", "Deny"} or found.errors:
            raise _failure(question, actor, "; ".join(found.errors) or "no decision")
        ids = (found.id_annotations_by_reason[reason].rpartition(":")[0] for reason in found.reasons)
        return CedarAnswer(allowed=decision == "Allow", rule_ids=tuple(sorted(ids)))

    def _context(self, actor: Actor, question: Question) -> dict[str, Any]:
        branch, target = question.branch, question.target_branch
        return {
            "has_branch": branch is not None,
            "branch": branch or "",
            "has_target_branch": target is not None,
            "target_branch": target or "",
            "branch_is_protected": branch in self._protected,
            "target_branch_is_protected": target in self._protected,
            "branch_is_own": is_own(actor.name, branch),
            "target_branch_is_own": is_own(actor.name, target),
        }


def _entities(actor: Actor, groups: frozenset[str]) -> list[Mapping[str, Any]]:
    members = [{"type": "Omnigraph::Group", "id": group} for group in sorted(groups)]
    own: Mapping[str, Any] = {"uid": {"type": "Omnigraph::Actor", "id": actor.name}, "attrs": {}, "parents": members}
    return [own, *({"uid": group, "attrs": {}, "parents": []} for group in members)]


def _failure(question: Question, actor: Actor, reason: str) -> PolicyEvaluationError:
    details = PolicyDenial(
        action=question.action, actor=actor.name, branch=question.branch, target_branch=question.target_branch
    )
    return PolicyEvaluationError(f"the policy could not be evaluated: {reason}", details=details)


def load_cedar() -> Any:
    """Return the library.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import cedarpy  # noqa: PLC0415 - an extra, and only graphs with a policy need it
    except ImportError as problem:
        raise UsageError(
            "policies need cedarpy, which is not installed",
            details=BadValue(what="library", value="cedarpy", expected="cedarpy 4.12 or newer"),
            hint=f"install it with `{pip_install('server')}`",
        ) from problem
    return cedarpy
