"""Policies that decide: a compiled bundle, or what holds where no bundle is installed."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, PolicyDenial, PolicyDeniedError
from omnigraph.policy.bundle import SERVER_ACTIONS, BundleKind, PolicyBundle, parse_bundle
from omnigraph.policy.cedar import SERVER_ID, CedarEngine, cedar_policies
from omnigraph.policy.decision import Action, Actor, Decision, Question
from omnigraph.runtime.lru import LRUCache

_log = logging.getLogger("omnigraph.policy")
_KEPT_DECISIONS = 4096


class Policy(Protocol):
    """What decides whether an actor may do something."""

    @property
    def resource_id(self) -> str:
        """What the log calls the graph or the server: its id, never its storage."""

    def decide(self, actor: Actor | None, question: Question) -> Decision:
        """Return the decision; None is a request without an actor.

        Raises:
            PolicyEvaluationError: there is no decision.
        """


class BundlePolicy:
    """A bundle, compiled for one graph or for the server. Threads may share it.

    Args:
        bundle: the rules.
        resource_id: the id of the graph; the server has a fixed one.
    """

    def __init__(self, bundle: PolicyBundle, resource_id: str = "graph") -> None:
        self.bundle = bundle
        self.resource_id = SERVER_ID if bundle.kind is BundleKind.SERVER else resource_id
        self._engine = CedarEngine(bundle, self.resource_id)
        self._groups: dict[str, frozenset[str]] = {
            actor: frozenset(name for name, members in bundle.groups.items() if actor in members)
            for actor in bundle.actors
        }
        # A bundle never changes, so that neither does the answer to a question.
        self._decided: LRUCache[tuple[Actor, Question], Decision] = LRUCache(_KEPT_DECISIONS)

    @classmethod
    def from_file(cls, path: str | Path, *, resource_id: str = "graph", kind: BundleKind | None = None) -> BundlePolicy:
        """Read and compile a bundle.

        Raises:
            FileMissingError, FileAccessError: the file is not there, or cannot be read.
            PolicyFormatError, SourceEncodingError, SourceTooLargeError: it is not a valid bundle.
            UsageError: the library that decides is not installed.
        """
        return cls(parse_bundle(read_policy_file(path), str(path), kind), resource_id)

    def __repr__(self) -> str:
        return f"<BundlePolicy of {self.bundle.kind} {self.resource_id!r}, {len(self.bundle.rules)} rules>"

    def to_cedar(self) -> str:
        """Return the policies as Cedar text."""
        return cedar_policies(self.bundle, self.resource_id)

    def decide(self, actor: Actor | None, question: Question) -> Decision:
        """Return the decision; without an actor, or for one that belongs to no group, it is a denial.

        Raises:
            PolicyEvaluationError: there is no decision.
        """
        if actor is None:
            return Decision(allowed=False, message=f"{_denied(question)} without an actor")
        known = self._decided.get((actor, question))
        if known is None:
            known = self._decide(actor, question)
            self._decided.put((actor, question), known)
        return known

    def _decide(self, actor: Actor, question: Question) -> Decision:
        if (question.action in SERVER_ACTIONS) is not (self.bundle.kind is BundleKind.SERVER):
            reason = f"a {self.bundle.kind} bundle has no rules for this action"
            return Decision(allowed=False, message=f"{_denied(question)} for actor '{actor.name}': {reason}")
        groups = self._groups.get(actor.name, frozenset()) | actor.groups.intersection(self.bundle.groups)
        if not groups:
            message = f"policy denied action '{question.action}' for unknown actor '{actor.name}'"
            return Decision(allowed=False, message=message)
        answer = self._engine.evaluate(actor, groups, question)
        if not answer.allowed:
            return Decision(allowed=False, message=f"{_denied(question)} for actor '{actor.name}'")
        rule = answer.rule_ids[0]
        allowed = f"policy allowed action '{question.action}'{_branches(question)} for actor '{actor.name}'"
        return Decision(allowed=True, matched_rule_id=rule, message=f"{allowed} by rule '{rule}'")


class NoBundle:
    """What holds for a graph of a server without a bundle: an actor may read, and nothing else.

    A request without an actor is allowed: a server lets such requests in only if it was told to be open.
    """

    def __init__(self, resource_id: str = "graph") -> None:
        self.resource_id = resource_id

    def decide(self, actor: Actor | None, question: Question) -> Decision:
        """Return the decision. Listing the graphs of a server always needs a bundle."""
        who = "without an actor" if actor is None else f"for actor '{actor.name}'"
        is_open = actor is None or question.action is Action.READ
        if is_open and question.action is not Action.GRAPH_LIST:
            message = f"action '{question.action}'{_branches(question)} is allowed {who}: no policy is installed"
            return Decision(allowed=True, message=message)
        return Decision(allowed=False, message=f"{_denied(question)} {who}")


_logged: ContextVar[set[Hashable] | None] = ContextVar("omnigraph_logged_decisions", default=None)


@contextmanager
def log_decisions_once(logged: set[Hashable] | None = None) -> Iterator[None]:
    """Log a decision of the block once, however often the same is decided: a stream asks for each of its pages.

    Blocks that belong together share ``logged``.
    """
    token = _logged.set(set() if logged is None else logged)
    try:
        yield
    finally:
        _logged.reset(token)


def check_allowed(policy: Policy, actor: Actor | None, question: Question) -> Decision:
    """Return the decision if it allows what an actor asks for. Every decision is logged.

    Raises:
        PolicyDeniedError: it denies it.
        PolicyEvaluationError: there is no decision.
    """
    decision = policy.decide(actor, question)
    name = None if actor is None else actor.name
    facts = {
        "resource": policy.resource_id,
        "actor": name,
        "action": question.action.value,
        "branch": question.branch,
        "target_branch": question.target_branch,
        "allowed": decision.allowed,
        "matched_rule_id": decision.matched_rule_id,
    }
    logged, key = _logged.get(), tuple(facts.values())
    if logged is None or key not in logged:
        fields = {"graph": facts["resource"], "rule": facts["matched_rule_id"]}
        _log.info("policy decision", extra={"policy_decision": facts, **facts, **fields})
    if logged is not None:
        logged.add(key)
    if decision.allowed:
        return decision
    denial = PolicyDenial(
        action=question.action, actor=name, branch=question.branch, target_branch=question.target_branch
    )
    raise PolicyDeniedError(decision.message, details=denial)


def read_policy_file(path: str | Path) -> bytes:
    """Return the bytes of a bundle or of a file of tests.

    Raises:
        FileMissingError, FileAccessError: the file is not there, or cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as problem:
        details = MissingThing(what="file", name=str(path))
        raise FileMissingError(f"file '{path}' was not found", details=details) from problem
    except OSError as problem:
        expected = BadValue(what="file", value=str(path), expected="a readable file")
        why = (problem.strerror or "unreadable").lower()
        raise FileAccessError(f"cannot read '{path}': {why}", details=expected) from problem


def _denied(question: Question) -> str:
    return f"policy denied action '{question.action}'{_branches(question)}"


def _branches(question: Question) -> str:
    on = "" if question.branch is None else f" on branch '{question.branch}'"
    return on if question.target_branch is None else f"{on} targeting branch '{question.target_branch}'"
