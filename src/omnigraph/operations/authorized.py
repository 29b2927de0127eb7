"""``AuthorizedBackend``: every request is decided by a policy before another backend sees it.

This is the one place where a policy is asked about operations, whether a graph is served or embedded. What a request
asks stands in :data:`QUESTIONS`, by the name of its operation. An operation that is missing there is refused, and so is
one whose questions leave out a branch, a state or a request that it names.

Whatever takes rows from somewhere asks for ``read`` there: the source of a branch, a merge or a tag as much as a query.
``change`` alone allows writes that need not look at stored rows; their answers and errors say nothing of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from omnigraph.errors import (
    BadValue,
    CommitMissingError,
    InternalError,
    Kind,
    OmnigraphError,
    PolicyDenial,
    PolicyDeniedError,
    QueryNotFoundError,
    QuerySyntaxError,
    StoredQueryMissingError,
    TransactionEndedError,
    UnreadableRefusalError,
    UsageError,
    ValueFormatError,
)
from omnigraph.operations.history import GetCommitRequest
from omnigraph.operations.proposals import GetProposalRequest
from omnigraph.operations.reads import FoundState, ResolveRefRequest
from omnigraph.operations.request import NOTHING, Attachments, Backend, BackendWrapper, Request, Response
from omnigraph.operations.stored import ListQueriesRequest
from omnigraph.operations.transactions import DescribeTransactionRequest
from omnigraph.policy import Action, Actor, Question
from omnigraph.policy.policy import Policy, check_allowed
from omnigraph.values import MAIN, BranchName, BranchRef

if TYPE_CHECKING:
    from omnigraph.operations.transactions import BegunTransaction

_R = TypeVar("_R")

Questions = Callable[["_Asking"], Iterator[Question]]


class AuthorizedBackend(BackendWrapper):
    """Executes requests on another backend if a policy allows them.

    References to states are resolved and pinned, so that what was decided is what is read.

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
        names = (None if name is None else str(BranchName.parse(name)) for name in (branch, target_branch))
        question = Question(action=action, branch=next(names), target_branch=next(names))
        if self._policy is not None:
            check_allowed(self._policy, self.actor, question)

    def authorize(self, request: Request[_R]) -> Request[_R]:
        """Return a request as it may be executed: allowed, with pinned states and the actor.

        Raises:
            PolicyDeniedError: the policy does not allow it.
            PolicyEvaluationError: there is no decision.
            UsageError: it names another actor.
            OmnigraphError: a name is malformed, or what decides about it does not exist.
        """
        return cast("Request[_R]", self._authorized(request)[0])

    def _authorized(self, request: Request[Any]) -> tuple[Request[Any], str | None]:
        """Return what may be executed, and the branch that it writes to without being allowed to read it."""
        if self._policy is None:
            return self._with_actor(request), None
        asking = self._decided(request, self._policy)
        written = asking.written
        return self._with_actor(asking.request), None if written is None or asking.may_read(written) else written

    def _decided(self, request: Request[Any], policy: Policy) -> _Asking:
        questions = QUESTIONS.get(request.operation.name)
        if questions is None:
            raise InternalError(f"no policy question is defined for the operation '{request.operation.name}'")
        asking = _Asking(self._inner, request, self.actor, policy)
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
        forgotten = references(request) - asking.consulted
        if forgotten:
            name = request.operation.name
            raise InternalError(f"no policy question of '{name}' is about its field '{min(forgotten)}'")
        return asking

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request that is allowed; raises what :meth:`authorize` does, and what the operation does.

        Raises:
            UnreadableRefusalError: what is stored stands against a write, and the actor may not read it.
        """
        allowed, unreadable = self._authorized(request)
        if unreadable is None:
            return cast("Response", self._inner.execute(allowed, attached))
        try:
            return cast("Response", without_counts(self._inner.execute(allowed, attached)))
        except OmnigraphError as error:
            if error.kind not in _TELLING or isinstance(error, _OF_THE_CALLER):
                raise
            details = PolicyDenial(
                action=Action.READ, actor=None if self.actor is None else self.actor.name, branch=unreadable
            )
            message = f"the write was refused ({error.code}), and the actor may not read branch '{unreadable}'"
            raise UnreadableRefusalError(message, details=details, retry=error.retry, effect=error.effect) from None

    def _with_actor(self, request: Request[Any]) -> Request[Any]:
        # The actor of a read is a filter of what it reads.
        if self.actor is None or not request.operation.writes or not hasattr(request, "actor"):
            return request
        given = request.actor
        if given is not None and given != self.actor.name:
            details = BadValue(what="actor", value=str(given), expected=f"nothing, or '{self.actor.name}'")
            raise UsageError(
                f"the actor of a write must be the caller, not '{given}'",
                details=details,
                hint="leave the actor out",
            )
        return _changed(request, actor=self.actor.name)


class _Asking:
    """A request while its questions are found, and what they are found with.

    ``request`` is what will be executed: finding a question may pin what it is about. ``hidden_behind`` is raised in
    place of a denial that must look like something that does not exist.
    """

    def __init__(self, inner: Backend, request: Request[Any], actor: Actor | None, policy: Policy) -> None:
        self._inner = inner
        self._actor = actor
        self._policy = policy
        self.request = request
        self.hidden_behind: OmnigraphError | None = None
        # The fields that a question was about, and the branch whose rows are written, if any.
        self.consulted: set[str] = set()
        self.written: str | None = None

    @property
    def action(self) -> Action:
        return self.request.operation.action

    def name(self, field: str) -> str:
        return str(self.value(field))

    def value(self, field: str) -> Any:
        self.consulted.add(field)
        return getattr(self.request, field)

    def may_read(self, branch: str) -> bool:
        return self._policy.decide(self._actor, Question(action=Action.READ, branch=branch)).allowed

    def questions_of_call(self, branch: str) -> Iterator[Question]:
        """Yield what the request in the field ``call`` asks, on the branch of its transaction."""
        call = self.value("call")
        questions = QUESTIONS.get(call.operation.name) if isinstance(call, Request) else None
        if questions is not None:
            on_branch = _changed(call, branch=branch) if hasattr(call, "branch") else call
            yield from questions(_Asking(self._inner, on_branch, self._actor, self._policy))

    def reads_stored_rows(self) -> bool:
        """Return False if a mutation inserts rows without looking at stored ones."""
        request: Any = self.request
        if request.operation.name == "invoke_mutation":
            entries = self._inner.execute(ListQueriesRequest())
            return next((one.reads_rows for one in entries if one.name == request.name), True)
        from omnigraph.lang.gq import parse_queries, select_query  # noqa: PLC0415 - few actors write without reading

        try:
            return select_query(parse_queries(request.text, request.source_name), request.name).reads_rows
        except OmnigraphError:
            # The engine refuses such a text with the same error.
            return False

    def branch_of(self, field: str, seen_from: str) -> str:
        """Return the branch that a field's reference leads to, and pin the reference; main if it leads nowhere.

        A reference that is the name of a branch means this branch. Every other one means the branch that the commit
        was made on.
        """
        found = self._resolve(self.name(field), seen_from)
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
            details = BadValue(what="transaction", value=name, expected="an open transaction")
            raise TransactionEndedError(f"there is no open transaction '{name}'", details=details)
        return begun


# Fields that name a branch, a state, a commit, a proposal or a transaction, whatever the operation is.
_REFERENCES = frozenset({"branch", "source", "target", "at", "ref", "before", "commit_id", "commit", "number"})
# Fields that do in some operations only, or that hold a request.
_MORE_REFERENCES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "create_branch": frozenset({"name"}),
        "delete_branch": frozenset({"name"}),
        "delete_tag": frozenset({"name"}),
        "diff": frozenset({"after"}),
        "diff_page": frozenset({"after"}),
        "call_in_transaction": frozenset({"transaction", "call"}),
        "commit_transaction": frozenset({"transaction"}),
        "rollback_transaction": frozenset({"transaction"}),
        "describe_transaction": frozenset({"transaction"}),
    }
)
# Errors that follow from what is stored, except where they are about the request alone.
_TELLING = frozenset({Kind.INVALID, Kind.CONFLICT, Kind.PRECONDITION, Kind.NOT_FOUND, Kind.TOO_LARGE, Kind.INTEGRITY})
_OF_THE_CALLER = (QueryNotFoundError, QuerySyntaxError, TransactionEndedError, UsageError, ValueFormatError)
# What answers to writes say of stored rows, and what they say to an actor who may not read these.
_SAID: Mapping[str, Any] = MappingProxyType(
    {
        **dict.fromkeys(("affected_nodes", "affected_edges", "inserted", "updated", "deleted", "unchanged"), 0),
        **dict.fromkeys(("changes", "rows"), None),
        "projections": (),
    }
)


def references(request: Request[Any]) -> frozenset[str]:
    """Return the fields of a request that name something a policy decides about, and that are given."""
    names = _REFERENCES | _MORE_REFERENCES.get(request.operation.name, frozenset())
    known = (one.name for one in fields(cast("Any", request)))
    return frozenset(name for name in known if name in names and getattr(request, name) is not None)


def without_counts(response: Any) -> Any:
    """Return the answer to a write as an actor gets it who may not read the branch."""
    if not is_dataclass(response):
        return response
    said = {one.name: _SAID[one.name] for one in fields(response) if one.name in _SAID}
    calls = getattr(response, "calls", None)
    if isinstance(calls, tuple):
        said["calls"] = tuple(map(without_counts, calls))
    return replace(cast("Any", response), **said) if said else response


def _changed(request: Request[Any], **values: Any) -> Request[Any]:
    changed: Request[Any] = replace(cast("Any", request), **values)
    return changed


def _reading(branch: str | None) -> Question:
    return Question(action=Action.READ, branch=branch)


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


def _finding_commit(asking: _Asking) -> Iterator[Question]:
    """A commit is looked for in every history: the request is about no branch, whichever it begins with."""
    asking.consulted.update(("branch", "commit_id"))
    yield from _anywhere(asking)


def _writing_rows(asking: _Asking) -> Iterator[Question]:
    """What is written need not be read."""
    asking.written = asking.name("branch")
    yield Question(action=Action.CHANGE, branch=asking.written)


def _mutating(asking: _Asking) -> Iterator[Question]:
    """A mutation that looks at stored rows, or returns any, reads them."""
    yield from _writing_rows(asking)
    branch = asking.name("branch")
    if not asking.may_read(branch) and asking.reads_stored_rows():
        yield _reading(branch)


def _rewriting(asking: _Asking) -> Iterator[Question]:
    """What is written comes of the rows that are there."""
    yield from _on_branch(asking)
    yield _reading(asking.name("branch"))


def _applying_schema(asking: _Asking) -> Iterator[Question]:
    """The answer says how the schema was, and what in the rows is against the new one."""
    yield Question(action=asking.action, target_branch=asking.name("branch"))
    yield _reading(asking.name("branch"))


def _reverting(asking: _Asking) -> Iterator[Question]:
    yield from _rewriting(asking)
    commit_id = asking.name("commit")
    asking.hidden_behind = CommitMissingError.of(commit_id)
    yield _reading(asking.branch_of_commit(commit_id))


def _creating_branch(asking: _Asking) -> Iterator[Question]:
    source = asking.name("source")
    if getattr(asking.request, "at", None) is not None:
        source = asking.branch_of("at", source)
    yield Question(action=asking.action, branch=source, target_branch=asking.name("name"))
    yield _reading(source)


def _deleting_branch(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, target_branch=asking.name("name"))


def _creating_tag(asking: _Asking) -> Iterator[Question]:
    branch = asking.branch_of("at", MAIN)
    yield Question(action=asking.action, branch=branch)
    yield _reading(branch)


def _deleting_tag(asking: _Asking) -> Iterator[Question]:
    branch = asking.branch_of_ref(f"tag:{asking.name('name')}")
    yield Question(action=asking.action, branch=branch)
    yield _reading(branch)


def _merging(asking: _Asking) -> Iterator[Question]:
    source, target = asking.name("source"), asking.name("target")
    yield Question(action=asking.action, branch=source, target_branch=target)
    yield from map(_reading, (source, target))


def _comparing_branches(asking: _Asking) -> Iterator[Question]:
    for field in ("source", "target"):
        yield Question(action=asking.action, branch=asking.name(field))


def _opening_proposal(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=asking.name("source"))
    yield from map(_reading, (asking.name("source"), asking.name("target")))


def _on_proposal(asking: _Asking) -> Iterator[Question]:
    """Who writes to a proposal reads it: every answer shows all of it."""
    source, target = asking.branches_of_proposal(asking.value("number")) or (None, None)
    if asking.action is Action.CHANGE:
        yield Question(action=Action.CHANGE, branch=source)
    elif asking.action is Action.BRANCH_MERGE:
        yield Question(action=Action.BRANCH_MERGE, branch=source, target_branch=target)
    yield from map(_reading, (source, target))


def _finding_proposal(asking: _Asking) -> Iterator[Question]:
    asking.value("number")
    yield from _anywhere(asking)


def _invoking_read(asking: _Asking) -> Iterator[Question]:
    yield from _invoking(asking)
    yield from (replace(question, action=Action.READ) for question in _at_state(asking))


def _invoking_mutation(asking: _Asking) -> Iterator[Question]:
    yield from _invoking(asking)
    yield from _mutating(asking)


def _invoking(asking: _Asking) -> Iterator[Question]:
    """Who may not invoke queries does not learn which there are; what one does is denied as elsewhere."""
    asking.hidden_behind = StoredQueryMissingError.hidden(asking.name("name"))
    yield Question(action=asking.action)
    asking.hidden_behind = None


def _on_main(asking: _Asking) -> Iterator[Question]:
    yield Question(action=asking.action, branch=MAIN)


def _in_transaction(asking: _Asking) -> Iterator[Question]:
    asking.written = asking.transaction(asking.name("transaction")).branch
    yield Question(action=asking.action, branch=asking.written)


def _calling_in_transaction(asking: _Asking) -> Iterator[Question]:
    """A call asks what it would ask outside, of the branch of its transaction."""
    yield from _in_transaction(asking)
    yield from asking.questions_of_call(str(asking.written))


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
        "write_algorithm": _rewriting,
        "list_queries": _on_main,
        "validate_queries": _at_state,
        "invoke_read": _invoking_read,
        "invoke_mutation": _invoking_mutation,
        "mutate": _mutating,
        "mutate_batch": _mutating,
        "load": _writing_rows,
        "embed": _rewriting,
        "apply_schema": _applying_schema,
        "begin_transaction": _on_branch,
        "describe_transaction": _in_transaction,
        "call_in_transaction": _calling_in_transaction,
        "commit_transaction": _in_transaction,
        "rollback_transaction": _in_transaction,
        "log": _on_branch,
        "get_commit": _finding_commit,
        "commit_changes": _on_commit,
        "feed": _on_branch,
        "poll_changes": _on_branch,
        "apply_changes": _rewriting,
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
        "revert": _reverting,
        "open_proposal": _opening_proposal,
        "list_proposals": _anywhere,
        "get_proposal": _finding_proposal,
        "check_proposal": _on_proposal,
        "comment_proposal": _on_proposal,
        "approve_proposal": _on_proposal,
        "merge_proposal": _on_proposal,
        "close_proposal": _on_proposal,
        "optimize": _on_branch,
        "build_indexes": _on_branch,
        "cleanup": _anywhere,
        "status": _on_branch,
        "repair": _on_branch,
        "migrate": _anywhere,
    }
)
"""What each operation asks of a policy, by its name."""
