"""``AuthorizedBackend``: every request is decided by a policy before another backend sees it.

This is the one place where a policy is asked about operations, whether a graph is served or embedded. What a request
asks stands in :data:`QUESTIONS`, by the name of its operation; the action is the one that the operation declares. An
operation that is missing there is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from omnigraph.errors import (
    BadValue,
    CommitMissingError,
    InternalError,
    Kind,
    OmnigraphError,
    PolicyDeniedError,
    StoredQueryMissingError,
    TransactionEndedError,
    UsageError,
)
from omnigraph.operations.history import GetCommitRequest
from omnigraph.operations.proposals import GetProposalRequest
from omnigraph.operations.reads import FoundState, ResolveRefRequest
from omnigraph.operations.request import NOTHING, Attachments, Backend, BackendWrapper, Request, Response
from omnigraph.operations.transactions import DescribeTransactionRequest
from omnigraph.policy import Action, Actor, Question
from omnigraph.policy.policy import Policy, check_allowed
from omnigraph.values import MAIN, BranchName, BranchRef, TagName

if TYPE_CHECKING:
    from omnigraph.operations.transactions import BegunTransaction

_R = TypeVar("_R")

Questions = Callable[["_Asking"], Iterator[Question]]


class AuthorizedBackend(BackendWrapper):
    """Executes requests on another backend if a policy allows them.

    Branch names are trimmed first, so that the policy decides about the name that the engine will use. References to
    states are resolved and pinned, so that what was decided is what is read.

    Args:
        inner: what executes requests that are allowed.
        policy: what decides; None allows everything.
        actor: who asks. It is recorded on every write; None if there are no identities.
    """

    def __init__(self, inner: Backend, policy: Policy | None, actor: Actor | None) -> None:
        super().__init__(inner)
        self._policy = policy
        self.actor = actor

    @property
    def unchecked(self) -> Backend:
        """The backend behind this one.

        For routes that ask :meth:`check` another question than the operation itself does, and then execute it.
        """
        return self._inner

    def check(self, action: Action, branch: str | None = None, target_branch: str | None = None) -> None:
        """Return if the actor may do something.

        Raises:
            PolicyDeniedError: they may not.
            PolicyEvaluationError: there is no decision.
            ValueFormatError: a branch name is blank or malformed.
        """
        question = Question(action=action, branch=_trimmed(branch), target_branch=_trimmed(target_branch))
        if self._policy is not None:
            check_allowed(self._policy, self.actor, question)

    def authorize(self, request: Request[_R]) -> Request[_R]:
        """Return a request as it may be executed: allowed, with trimmed names, pinned states and the actor.

        Raises:
            PolicyDeniedError: the policy does not allow it.
            PolicyEvaluationError: there is no decision.
            UsageError: it names another actor.
            OmnigraphError: a name is malformed, or what decides about it does not exist.
        """
        trimmed = _with_trimmed_names(request)
        allowed = trimmed if self._policy is None else self._decided(trimmed, self._policy)
        return cast("Request[_R]", self._with_actor(allowed))

    def _decided(self, request: Request[Any], policy: Policy) -> Request[Any]:
        questions = QUESTIONS.get(request.operation.name)
        if questions is None:
            raise InternalError(f"no policy question is defined for the operation '{request.operation.name}'")
        asking = _Asking(self._inner, request, self.actor)
        asked: set[Question] = set()
        try:
            # One after the other: what a denial looks like may change from question to question.
            for question in questions(asking):
                if question not in asked:
                    check_allowed(policy, self.actor, question)
                asked.add(question)
        except PolicyDeniedError as denied:
            if asking.hidden_behind is not None:
                raise asking.hidden_behind from denied
            raise
        return asking.request

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request that is allowed; raises what :meth:`authorize` does, and what the operation does."""
        return self._inner.execute(self.authorize(request), attached)

    def _with_actor(self, request: Request[Any]) -> Request[Any]:
        # The actor of a read is a filter of what it reads.
        if self.actor is None or not request.operation.writes or not hasattr(request, "actor"):
            return request
        given = request.actor
        if given is not None and given != self.actor.name:
            details = BadValue(what="actor", value=str(given), expected=f"nothing, or '{self.actor.name}'")
            raise UsageError(
                f"the actor of a write is the one that asks for it, not '{given}'",
                details=details,
                hint="leave the actor out",
            )
        return _changed(request, actor=self.actor.name)


class _Asking:
    """A request while its questions are found, and what they are found with.

    ``request`` is what will be executed: finding a question may pin what it is about. ``hidden_behind`` is raised in
    place of a denial that must look like something that does not exist.
    """

    def __init__(self, inner: Backend, request: Request[Any], actor: Actor | None) -> None:
        self._inner = inner
        self._actor = actor
        self.request = request
        self.hidden_behind: OmnigraphError | None = None

    @property
    def action(self) -> Action:
        return self.request.operation.action

    def name(self, field: str) -> str:
        return str(getattr(self.request, field))

    def branch_of(self, field: str, seen_from: str) -> str:
        """Return the branch that a field's reference leads to, and pin the reference; main if it leads nowhere.

        A reference that is the name of a branch means this branch. Every other one means the branch that the commit
        was made on.
        """
        found = self._resolve(str(getattr(self.request, field)), seen_from)
        if found is None:
            return MAIN
        if isinstance(found.ref, BranchRef):
            return str(found.ref.branch)
        pinned = {field: str(found.commit.id)}
        if field == "at" and hasattr(self.request, "branch"):
            # A query of an earlier state uses the names of the branch that the reference is about.
            pinned["branch"] = found.seen_from(seen_from)
        self.request = _changed(self.request, **pinned)
        return str(found.commit.branch)

    def branch_of_ref(self, ref: str, seen_from: str = MAIN) -> str:
        """Return the branch that a reference leads to; main if it leads nowhere."""
        found = self._resolve(ref, seen_from)
        if found is None:
            return MAIN
        return str(found.ref.branch if isinstance(found.ref, BranchRef) else found.commit.branch)

    def _resolve(self, ref: str, seen_from: str) -> FoundState | None:
        try:
            return self._inner.execute(ResolveRefRequest(ref=ref, branch=seen_from))
        except OmnigraphError as error:
            # The engine will say so itself, to an actor who may read main.
            if error.kind not in {Kind.NOT_FOUND, Kind.GONE}:
                raise
            return None

    def branch_of_commit(self, commit_id: str) -> str:
        return str(self._inner.execute(GetCommitRequest(commit_id=commit_id)).branch)

    def branches_of_proposal(self, number: int) -> tuple[str, str] | None:
        """Return the source and the target of a proposal; None if it does not exist."""
        try:
            found = self._inner.execute(GetProposalRequest(number=number))
        except OmnigraphError as error:
            if error.kind is not Kind.NOT_FOUND:
                raise
            return None
        return str(found.source.branch), str(found.target.branch)

    def transaction(self, name: str) -> BegunTransaction:
        """Return a transaction of the actor; one of another actor looks like one that has ended."""
        begun = self._inner.execute(DescribeTransactionRequest(transaction=name))
        if self._actor is not None and begun.actor != self._actor.name:
            details = BadValue(what="transaction", value=name, expected="one that is open")
            raise TransactionEndedError(f"there is no open transaction '{name}'", details=details)
        return begun


# The fields that hold the name of a branch, whatever the operation is.
_BRANCH_FIELDS = frozenset({"branch", "source", "target"})
# Operations whose field ``name`` is that of a branch.
_NAMED_BRANCH = frozenset({"create_branch", "delete_branch"})


def _with_trimmed_names(request: Request[Any]) -> Request[Any]:
    names = _BRANCH_FIELDS | ({"name"} if request.operation.name in _NAMED_BRANCH else frozenset())
    given = {one.name: getattr(request, one.name) for one in fields(cast("Any", request)) if one.name in names}
    trimmed = {field: _trimmed(value) for field, value in given.items()}
    return request if trimmed == given else _changed(request, **trimmed)


def _trimmed(name: str | None) -> str | None:
    return None if name is None else str(BranchName.parse(name))


def _changed(request: Request[Any], **values: Any) -> Request[Any]:
    changed: Request[Any] = replace(cast("Any", request), **values)
    return changed


def _anywhere(asking: _Asking) -> Iterator[Question]:
    """The request is about no branch; a rule with the scope ``protected`` or ``unprotected`` does not match it."""
    yield Question(action=asking.action)


def _on_branch(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.name("branch"))


def _at_state(asking: _Asking) -> Iterator[Question]:
    """The newest state of a branch, or the one that the field ``at`` names."""
    branch = asking.name("branch")
    if getattr(asking.request, "at", None) is not None:
        branch = asking.branch_of("at", branch)
    yield Question(action=asking.action, branch=branch)


def _at_ref(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.branch_of_ref(asking.name("ref"), asking.name("branch")))


def _between_states(asking: _Asking) -> Iterator[Question]:
    for field in ("before", "after"):
        yield Question(action=asking.action, branch=asking.branch_of(field, asking.name("branch")))


def _on_commit(asking: _Asking) -> Iterator[Question]:
    commit_id = asking.name("commit_id")
    asking.hidden_behind = CommitMissingError.of(commit_id)
    yield Question(action=asking.action, branch=asking.branch_of_commit(commit_id))


def _targeting_branch(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, target_branch=asking.name("branch"))


def _creating_branch(asking: _Asking) -> Iterator[Question]:
    source = asking.name("source")
    if getattr(asking.request, "at", None) is not None:
        source = asking.branch_of("at", source)
    yield Question(action=asking.action, branch=source, target_branch=asking.name("name"))


def _deleting_branch(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, target_branch=asking.name("name"))


def _creating_tag(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.branch_of("at", MAIN))


def _deleting_tag(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.branch_of_ref(f"tag:{TagName.parse(asking.name('name'))}"))


def _merging(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.name("source"), target_branch=asking.name("target"))


def _comparing_branches(asking: _Asking) -> Iterator[Question]:
    for field in ("source", "target"):
        yield Question(action=asking.action, branch=asking.name(field))


def _on_source(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.name("source"))


def _on_proposed_source(asking: _Asking) -> Iterator[Question]:
    branches = asking.branches_of_proposal(cast("Any", asking.request).number)
    yield Question(action=asking.action, branch=branches and branches[0])


def _on_proposed_branches(asking: _Asking) -> Iterator[Question]:
    for branch in asking.branches_of_proposal(cast("Any", asking.request).number) or (None,):
        yield Question(action=asking.action, branch=branch)


def _merging_proposal(asking: _Asking) -> Iterator[Question]:
    source, target = asking.branches_of_proposal(cast("Any", asking.request).number) or (None, None)
    yield Question(action=asking.action, branch=source, target_branch=target)


def _invoking_read(asking: _Asking) -> Iterator[Question]:
    yield from _invoking(asking)
    yield from (replace(question, action=Action.READ) for question in _at_state(asking))


def _invoking_mutation(asking: _Asking) -> Iterator[Question]:
    yield from _invoking(asking)
    yield Question(action=Action.CHANGE, branch=asking.name("branch"))


def _invoking(asking: _Asking) -> Iterator[Question]:
    """Who may not invoke queries does not learn which there are; what one does is denied as elsewhere."""
    asking.hidden_behind = StoredQueryMissingError.hidden(asking.name("name"))
    yield Question(action=asking.action)
    asking.hidden_behind = None


def _on_main(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=MAIN)


def _in_transaction(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.transaction(asking.name("transaction")).branch)


QUESTIONS: Mapping[str, Questions] = MappingProxyType(
    {
        "query": _at_state,
        "explain": _at_state,
        "resolve_ref": _at_ref,
        "read_state": _at_state,
        "read_network": _at_state,
        "read_entity": _at_state,
        "read_blob": _at_state,
        "plan_schema": _at_state,
        "export": _at_state,
        "export_stream": _at_state,
        "run_algorithm": _at_state,
        "write_algorithm": _on_branch,
        "list_queries": _on_main,
        "validate_queries": _at_state,
        "invoke_read": _invoking_read,
        "invoke_mutation": _invoking_mutation,
        "mutate": _on_branch,
        "mutate_batch": _on_branch,
        "load": _on_branch,
        "embed": _on_branch,
        "apply_schema": _targeting_branch,
        "begin_transaction": _on_branch,
        "describe_transaction": _in_transaction,
        "call_in_transaction": _in_transaction,
        "commit_transaction": _in_transaction,
        "rollback_transaction": _in_transaction,
        "log": _on_branch,
        "get_commit": _anywhere,
        "commit_changes": _on_commit,
        "feed": _on_branch,
        "poll_changes": _on_branch,
        "apply_changes": _on_branch,
        "applied_feeds": _on_branch,
        "baseline": _on_branch,
        "diff": _between_states,
        "diff_page": _between_states,
        "blame": _at_state,
        "list_branches": _anywhere,
        "create_branch": _creating_branch,
        "delete_branch": _deleting_branch,
        "list_tags": _anywhere,
        "create_tag": _creating_tag,
        "delete_tag": _deleting_tag,
        "merge": _merging,
        "preview_merge": _comparing_branches,
        "revert": _on_branch,
        "open_proposal": _on_source,
        "list_proposals": _anywhere,
        "get_proposal": _anywhere,
        "check_proposal": _on_proposed_branches,
        "comment_proposal": _on_proposed_source,
        "approve_proposal": _merging_proposal,
        "merge_proposal": _merging_proposal,
        "close_proposal": _on_proposed_source,
        "optimize": _on_branch,
        "build_indexes": _on_branch,
        "cleanup": _anywhere,
        "status": _on_branch,
        "repair": _on_branch,
        "migrate": _anywhere,
    }
)
"""What each operation asks of a policy, by its name."""
