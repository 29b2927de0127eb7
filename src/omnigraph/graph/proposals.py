"""``Proposals`` and ``Proposal``: requests to merge a branch, which people and programs look at together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.graph.arguments.values import query_text
from omnigraph.graph.deciding import execute_decided
from omnigraph.graph.state import State, expected_commit, reference_of
from omnigraph.operations.proposals import (
    ApproveProposalRequest,
    CheckProposalRequest,
    CloseProposalRequest,
    CommentProposalRequest,
    GetProposalRequest,
    ListProposalsRequest,
    MergeProposalRequest,
    OpenProposalRequest,
)
from omnigraph.operations.request import Backend
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.graph.deciding import Resolve
    from omnigraph.history.merge import Resolution
    from omnigraph.history.proposals import (
        CheckReport,
        ProposalApproval,
        ProposalComment,
        ProposalMerge,
        ProposalPage,
        ProposalRecord,
    )

CheckSource = str | bytes | Path


class Proposal:
    """A proposal. What it tells is what it was when it was last asked for; :meth:`refresh` asks again."""

    def __init__(self, backend: Backend, found: ProposalRecord) -> None:
        self._backend = backend
        self._found = found

    @property
    def record(self) -> ProposalRecord:
        """Everything that is known of it."""
        return self._found

    @property
    def number(self) -> int:
        """What it is called by."""
        return self._found.number

    @property
    def title(self) -> str:
        """What it is about, in one line."""
        return self._found.title

    @property
    def description(self) -> str:
        """The rest."""
        return self._found.description

    @property
    def author(self) -> str | None:
        """Who opened it."""
        return self._found.author

    @property
    def state(self) -> str:
        """``open``, ``merged`` or ``closed``."""
        return self._found.state.value

    @property
    def source(self) -> str:
        """The branch to merge from."""
        return str(self._found.source.branch)

    @property
    def target(self) -> str:
        """The branch to merge into."""
        return str(self._found.target.branch)

    @property
    def commit_id(self) -> str | None:
        """The commit that merged it, if it was merged."""
        return self._found.commit

    @property
    def comments(self) -> tuple[ProposalComment, ...]:
        """What was said about it, in order."""
        return self._found.comments

    @property
    def approvals(self) -> tuple[ProposalApproval, ...]:
        """The last approval of each actor, in order; one is stale if the source has moved on since."""
        return self._found.approvals

    def __str__(self) -> str:
        return str(self._found)

    def __repr__(self) -> str:
        return f"<Proposal {self.number}: {self.title!r}, {self.state}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return self._found.to_json()

    def refresh(self) -> Proposal:
        """Look at it again, and return it."""
        self._found = self._backend.execute(GetProposalRequest(number=self.number))
        return self

    def check(self, *, resolve: Resolve = None, rest: Resolution | None = None) -> CheckReport:
        """Return what merging it would do, with its checks run on the merged state; nothing is written.

        ``resolve`` and ``rest`` decide conflicts as for a merge of branches.

        Raises:
            ProposalStateError: it was merged or closed, or a branch of it was deleted.
        """
        return execute_decided(self._backend, CheckProposalRequest(number=self.number), resolve, rest)

    def comment(self, text: str, *, on: tuple[str, str] | None = None, actor: str | None = None) -> Proposal:
        """Say something about it, or about one entity; also when it has ended.

        Args:
            text: the words.
            on: the type and the id of the entity, such as ``("Person", "ann")``.
            actor: who says it.

        Raises:
            UsageError, ValueFormatError: the text is empty or too long.
            TypeMissingError: neither branch has such a type.
        """
        type_name, entity_id = (None, None) if on is None else on
        request = CommentProposalRequest(
            number=self.number, text=text, type_name=type_name, entity_id=entity_id, actor=actor
        )
        self._found = self._backend.execute(request)
        return self

    def approve(self, *, head: str | Commit | None = None, actor: str | None = None) -> Proposal:
        """Approve the source as it is; what it commits later is not approved.

        Args:
            head: the commit that the source must be at.
            actor: who approves: another than the author.

        Raises:
            ProposalStateError: it was merged or closed, or a branch of it was deleted.
            UsageError: no actor is given, or it is the author.
            PreconditionFailedError: the source is not at ``head``.
        """
        request = ApproveProposalRequest(number=self.number, head=expected_commit(head), actor=actor)
        self._found = self._backend.execute(request)
        return self

    def merge(
        self,
        *,
        resolve: Resolve = None,
        rest: Resolution | None = None,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> ProposalMerge:
        """Merge it, if every check passes on the state that is published.

        Args:
            resolve: how to decide rows that both sides changed, as for a merge of branches; None leaves them
                undecided, which is a conflict.
            rest: ``ours``, ``theirs`` or ``properties`` for what a mapping or a function does not decide.
            actor: who asks for it.
            message: what the commit says; the number and the title when not given.
            expected_head: the commit that the target must be at.

        Raises:
            ProposalStateError: it was merged or closed, a branch of it was deleted, or there is nothing to merge.
            ProposalApprovalsError, ProposalChecksError: it has too few approvals, or a check did not pass.
            MergeConflictsError: something cannot be decided, or the merged graph would break a rule; carries all of it.
            ReadSetChangedError, ExpectedVersionMismatchError, SchemaMovedError: another write moved what it relies on.
            PreconditionFailedError: the target is not at ``expected_head``.
        """
        request = MergeProposalRequest(
            number=self.number,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
        )
        done = execute_decided(self._backend, request, resolve, rest)
        self._found = done.proposal
        return done

    def close(self, reason: str | None = None, *, actor: str | None = None) -> Proposal:
        """Give it up; it stays listed, and nothing happens to its branches.

        Raises:
            ProposalStateError: it was merged or closed before.
        """
        self._found = self._backend.execute(CloseProposalRequest(number=self.number, reason=reason, actor=actor))
        return self


class Proposals:
    """The proposals of a graph. Iterating gives the open ones, newest first."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __repr__(self) -> str:
        return f"<Proposals of {self._backend.uri!r}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def open(
        self,
        source: str | State,
        target: str | State = MAIN,
        *,
        title: str,
        description: str = "",
        checks: CheckSource | Iterable[CheckSource] = (),
        check_names: Iterable[str] = (),
        required_approvals: int = 0,
        actor: str | None = None,
    ) -> Proposal:
        """Ask for the branch ``source`` to be merged into ``target``.

        Args:
            source: the branch to merge from.
            target: the branch to merge into.
            title: what it is about, in one line.
            description: the rest.
            checks: ``.gq`` sources or the paths of such files; every query in them must return no row in the merged
                state. They are kept with the proposal.
            check_names: only these of their queries; all of them when empty.
            required_approvals: how many others than the author must have approved the source as it is.
            actor: who asks for it.

        Raises:
            BranchMissingError: there is no such branch.
            UsageError, ValueFormatError: same branches, a text that is empty or too long, a query that is not a check.
            QuerySyntaxError, QueryTypeError, QueryMeaningError, QueryNotFoundError: a check is not a query of either
                branch.
            FileMissingError, FileAccessError: a file is not there, or cannot be read.
        """
        given = [checks] if isinstance(checks, str | bytes | Path) else checks
        request = OpenProposalRequest(
            source=reference_of(source),
            target=reference_of(target),
            title=title,
            description=description,
            checks=[query_text(one).text for one in given],
            check_names=check_names,
            required_approvals=required_approvals,
            actor=actor,
        )
        return Proposal(self._backend, self._backend.execute(request))

    def get(self, number: int) -> Proposal:
        """Return a proposal.

        Raises:
            ProposalMissingError: there is none of that number.
        """
        return Proposal(self._backend, self._backend.execute(GetProposalRequest(number=number)))

    def list(self, state: str = "open", *, limit: int = 20, after: int | None = None) -> ProposalPage:
        """Return proposals, newest first.

        Args:
            state: only those that are ``open``, ``merged`` or ``closed``; ``all`` of them.
            limit: how many at most.
            after: ``following`` of the page before.

        Raises:
            UsageError: the state is none, or a number makes no sense.
        """
        return self._backend.execute(ListProposalsRequest(state=state, limit=limit, after=after))

    def __iter__(self) -> Iterator[Proposal]:
        after: int | None = None
        while True:
            page = self.list(after=after)
            for found in page:
                yield Proposal(self._backend, found)
            after = page.following
            if after is None:
                return
