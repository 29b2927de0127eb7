"""``Branch``: a graph seen through one of its branches, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.engine.load.options import LoadMode, LoadProgress, LoadResult, LoadSettings
from omnigraph.graph.diff import Log
from omnigraph.graph.sources import SourceArgument, load_sources, moment_text, query_text, schema_text
from omnigraph.graph.state import Snapshot, State, expected_commit, reference_of
from omnigraph.operations.history import (
    CommitChangesRequest,
    CreateTagRequest,
    DeleteBranchRequest,
    GetCommitRequest,
    LogRequest,
    MergeRequest,
    PollChangesRequest,
    PreviewMergeRequest,
    RevertRequest,
)
from omnigraph.operations.maintenance import OptimizeRequest, RepairRequest, StatusRequest
from omnigraph.operations.reads import ResolveRefRequest
from omnigraph.operations.request import Attachments
from omnigraph.operations.writes import ApplySchemaRequest, LoadRequest, MutateBatchRequest, MutateRequest
from omnigraph.txn.manifest.rows import Commit

if TYPE_CHECKING:
    from omnigraph.engine.maintenance.optimize import OptimizeResult
    from omnigraph.engine.maintenance.repair import RepairResult
    from omnigraph.engine.maintenance.status import GraphStatus
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.schema import SchemaApplyResult
    from omnigraph.history.feed.reader import ChangeFeedPage, CommitChanges
    from omnigraph.history.feed.tokens import PageLimits
    from omnigraph.history.merge import MergePreview, MergeResult, Resolution, RevertResult
    from omnigraph.txn.branches.tags import Tag
    from omnigraph.txn.transaction import OnConflict


class BranchVerbs(State):
    """Everything that is about one branch; a graph is its branch ``main`` too."""

    def at(self, ref: str | datetime | Commit | State) -> Snapshot:
        """Return one state for good, whatever is written later.

        Args:
            ref: ``~3`` (three commits ago), ``@2026-01-31T10:00:00Z``, both of this branch; a branch, ``review~1``, a
                commit, ``tag:v1``, or a datetime.

        Raises:
            ValueFormatError: the text is no reference.
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        found = self._backend.execute(ResolveRefRequest(ref=reference_of(ref), branch=self._branch))
        return Snapshot(self._backend, found.commit)

    def log(
        self,
        *,
        limit: int = 20,
        after: str | None = None,
        actor: str | None = None,
        operation: str | None = None,
        type_name: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        full: bool = False,
    ) -> Log:
        """Return commits, newest first.

        Args:
            limit: how many at most.
            after: the id of a commit to go on behind; :meth:`Log.next_page` does that for you.
            actor: only those that this actor asked for.
            operation: only those of this kind, such as ``branch_merge``.
            type_name: only those that changed this type, ``Person`` or ``node:Person``.
            since: only those published at this moment or later.
            until: only those published at this moment or earlier.
            full: also those that merges brought, each behind its merge; :meth:`Log.draw` shows how they follow.

        Raises:
            ValueFormatError: a moment, the limit or ``after`` makes no sense.
        """
        request = LogRequest(
            branch=self._branch,
            limit=limit,
            after=after,
            actor=actor,
            kind=operation,
            type_name=type_name,
            since=moment_text(since),
            until=moment_text(until),
            full=full,
        )
        return Log(self._backend, request)

    def get_commit(self, commit_id: str) -> Commit:
        """Return a commit of this branch, or of any other.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
        """
        return self._backend.execute(GetCommitRequest(commit_id=commit_id, branch=self._branch))

    def changes(
        self,
        *,
        start: str | None = None,
        cursor: str | None = None,
        page_token: str | None = None,
        kinds: Iterable[str] = (),
        types: Iterable[str] = (),
        ops: Iterable[str] = (),
        limits: PageLimits | None = None,
    ) -> ChangeFeedPage:
        """Return the next commits of the branch with what they changed, oldest first.

        Args:
            start: ``now`` (unless given), ``beginning`` or ``after:<commit>``.
            cursor: go on behind what an earlier answer ended with.
            page_token: go on inside the commit that an earlier answer ended in.
            kinds: only ``node`` or ``edge``.
            types: only types of these names.
            ops: only ``insert``, ``update`` or ``delete``.
            limits: how much an answer carries.

        Raises:
            UsageError: more than one place to start at, or none that is known.
            ChangeCursorError: the cursor, token or commit does not belong to this branch and filter.
            ChangeFeedGapError, ChangeSchemaBoundaryError: the next commit cannot be told row by row.
        """
        request = PollChangesRequest(
            branch=self._branch,
            start=start,
            cursor=cursor,
            page_token=page_token,
            kinds=kinds,
            types=types,
            ops=ops,
            limits=limits,
        )
        return self._backend.execute(request)

    def commit_changes(self, commit: str | Commit, *, page_token: str | None = None) -> CommitChanges:
        """Return what one commit changed relative to its first parent, one page of it.

        Raises:
            CommitMissingError, CommitHasNoParentError: there is no such commit, or it is the first of all.
            ChangeFeedGapError, ChangeSchemaBoundaryError: it cannot be told row by row.
        """
        return self._backend.execute(CommitChangesRequest(commit_id=reference_of(commit), page_token=page_token))

    def create_tag(
        self,
        name: str,
        at: str | datetime | Commit | State | None = None,
        *,
        actor: str | None = None,
        message: str | None = None,
    ) -> Tag:
        """Name a state, the newest of this branch unless ``at`` says otherwise; it is kept from being reclaimed.

        Raises:
            TagExistsError: the name is taken.
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        state = self._branch if at is None else self.at(at).reference
        return self._backend.execute(CreateTagRequest(name=name, at=state, actor=actor, message=message))

    def merge(
        self,
        source: str | State,
        *,
        resolve: Resolution | None = None,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> MergeResult:
        """Bring everything that the branch ``source`` changed into this one, as one commit or not at all.

        Args:
            source: the branch to merge from; it stays as it is.
            resolve: how to decide rows that both sides changed: ``ours``, ``theirs`` or ``properties``; None leaves
                them undecided, which is a conflict.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that this branch must be at.

        Raises:
            MergeConflictsError: something cannot be decided, or the merged graph would break a rule; carries all of it.
            BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
            ReadSetChangedError, ExpectedVersionMismatchError, SchemaMovedError: somebody moved what it relies on.
            PreconditionFailedError: this branch is not at ``expected_head``.
            MemoryBudgetError: the difference is too large.
        """
        request = MergeRequest(
            source=reference_of(source),
            target=self._branch,
            resolve=resolve,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
        )
        return self._backend.execute(request)

    def preview_merge(self, source: str | State, *, resolve: Resolution | None = None) -> MergePreview:
        """Return what :meth:`merge` would do with the branches as they are; nothing is written.

        Raises:
            BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
        """
        request = PreviewMergeRequest(source=reference_of(source), target=self._branch, resolve=resolve)
        return self._backend.execute(request)

    def revert(
        self,
        commit: str | Commit,
        *,
        resolve: Resolution | None = None,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> RevertResult:
        """Undo what one commit of this branch changed, as a commit of its own.

        Rows that later commits changed again are conflicts; ``ours`` keeps them, ``theirs`` brings back what was.

        Raises:
            CommitMissingError: the branch's history has no such commit.
            RevertRefusedError: the commit is the first one, or was published together with others.
            MergeConflictsError: later commits touched the same rows, or the graph would break a rule of its schema.
            HistoryGoneError: the state before the commit was reclaimed.
            PreconditionFailedError: this branch is not at ``expected_head``.
        """
        request = RevertRequest(
            commit=reference_of(commit),
            branch=self._branch,
            resolve=resolve,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
        )
        return self._backend.execute(request)

    def mutate(
        self,
        text: str | bytes | Path,
        params: Any = None,
        name: str | None = None,
        *,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        on_conflict: OnConflict = "rerun",
        max_affected: int | None = None,
    ) -> MutationResult:
        """Run a mutation and publish it as one commit.

        If another writer changes rows that it was decided on before it is published, it is run again on the newer
        state as if it had been sent then; counts and ``now()`` are those of the run that was published.

        Args:
            text: a whole ``.gq`` source, or a :class:`~pathlib.Path` to one.
            params: values by parameter name.
            name: the declaration to run; None if the source holds exactly one.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that the branch must be at, such as ``commit_id`` of a result.
            on_conflict: ``refuse`` raises a conflict instead of running it again.
            max_affected: how many entities it may insert, update and delete; with more it changes nothing.

        Raises:
            QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a mutation.
            WrongQueryKindError: it is a read.
            QueryParameterError: a parameter is missing or does not fit.
            ConstraintViolationError: the graph would break a rule of its schema.
            PreconditionFailedError: the branch is not at ``expected_head``.
            ExpectedVersionMismatchError, SchemaMovedError: another writer changed what it was decided on, and
                ``on_conflict`` is ``refuse``.
            ClaimBusyError: other writers kept changing what it was decided on.
            AffectedLimitError: it would change more than ``max_affected`` entities.
            ReadOnlyError: the graph is open for reading only.
        """
        source = query_text(text)
        request = MutateRequest(
            text=source.text,
            params=params,
            name=name,
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
            on_conflict=on_conflict,
            max_affected=max_affected,
            source_name=source.name,
        )
        return self._backend.execute(request)

    def mutate_batch(
        self,
        text: str | bytes | Path,
        rows: Sequence[Any],
        name: str | None = None,
        *,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        on_conflict: OnConflict = "rerun",
        max_affected: int | None = None,
    ) -> MutationResult:
        """Run a mutation once per row of parameters and publish all of it as one commit, or nothing.

        Raises:
            QueryParameterError: a parameter is missing or does not fit; says in which row, counted from 1.
            OmnigraphError: whatever :meth:`mutate` does.
        """
        source = query_text(text)
        request = MutateBatchRequest(
            text=source.text,
            rows=rows,
            name=name,
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
            on_conflict=on_conflict,
            max_affected=max_affected,
            source_name=source.name,
        )
        return self._backend.execute(request)

    def load(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
        self,
        sources: SourceArgument | Sequence[SourceArgument],
        mode: LoadMode = "append",
        *,
        patch: bool = False,
        truncate: bool = False,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        on_conflict: OnConflict = "rerun",
        errors_to: str | Path | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        settings: LoadSettings | None = None,
    ) -> LoadResult:
        """Read every row of files and publish all of them as one commit, or nothing.

        Args:
            sources: a file, folder, glob or ``s3://`` address of JSONL, CSV or Parquet, or several of them.
            mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` empties types first.
            patch: with ``merge``, change only the properties that are given.
            truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that the branch must be at.
            on_conflict: ``refuse`` raises a conflict when another writer changed rows that it replaces or completes,
                instead of making the load again on the newer state.
            errors_to: a file that gets every bad row.
            progress: told how far it is.
            settings: what it may use of the machine.

        Raises:
            BadRowsError: rows cannot be read or do not fit their type.
            ConstraintViolationError: the graph would break a rule of its schema.
            KeyExistsError: an id exists already, or stands twice in the input.
            FileMissingError, FileAccessError: a source is not there, or cannot be read.
            TypeMissingError: the schema has no type for a source.
            PreconditionFailedError: the branch is not at ``expected_head``.
            ReadOnlyError: the graph is open for reading only.
        """
        request = LoadRequest(
            sources=load_sources(sources),
            mode=mode,
            patch=patch,
            truncate=truncate,
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
            on_conflict=on_conflict,
            errors_to=errors_to,
            settings=settings,
        )
        return self._backend.execute(request, Attachments(progress=progress))

    def apply_schema(
        self,
        schema: str | bytes | Path,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> SchemaApplyResult:
        """Bring the branch to another schema, its rows included, as one commit.

        Args:
            schema: the text, or the path of a ``.pg`` file.
            allow_data_loss: reclaim what is dropped at once.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that the branch must be at.

        Raises:
            SchemaSyntaxError, SchemaCheckError, SchemaPlanError: the text is no schema that the branch can come to.
            ConstraintViolationError: a row breaks a rule that was to be added.
            ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
            PreconditionFailedError: the branch is not at ``expected_head``.
        """
        source = schema_text(schema)
        request = ApplySchemaRequest(
            text=source.text,
            branch=self._branch,
            allow_data_loss=allow_data_loss,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
            source_name=source.name,
        )
        return self._backend.execute(request)

    def optimize(
        self, types: Sequence[str] | None = None, *, actor: str | None = None, message: str | None = None
    ) -> OptimizeResult:
        """Compact the tables of the branch and bring their indexes up to date, beside whoever writes to it.

        Raises:
            TypeMissingError: there is no such type.
            ReadOnlyError: the graph is open for reading only.
        """
        return self._backend.execute(OptimizeRequest(branch=self._branch, types=types, actor=actor, message=message))

    def status(self, *, storage: bool = False) -> GraphStatus:
        """Say how the graph fares: rows, fragments, indexes, writes under way, and what to do about it.

        Args:
            storage: look at every stored file, too: versions and bytes. That takes longer the more states are kept.
        """
        return self._backend.execute(StatusRequest(branch=self._branch, storage=storage))

    def repair(
        self, *, confirm: bool = False, force: bool = False, discard: bool = False, message: str | None = None
    ) -> RepairResult:
        """Show what something other than omnigraph has done to the tables of the branch, and settle it if asked to.

        Args:
            confirm: adopt compactions, which change no row; otherwise only look.
            force: adopt every other change too.
            discard: undo every change instead.
            message: what the commit says.

        Raises:
            UsageError: ``force`` or ``discard`` without ``confirm``, or both.
            ClaimBusyError: a write is under way, or waits to be recovered.
            ReadOnlyError: the graph is open for reading only.
        """
        request = RepairRequest(branch=self._branch, confirm=confirm, force=force, discard=discard, message=message)
        return self._backend.execute(request)


class Branch(BranchVerbs):
    """A branch of an open graph. It holds no state: every call sees the newest one."""

    @property
    def name(self) -> str:
        """The name."""
        return self._branch

    def delete(self, *, actor: str | None = None) -> None:
        """Delete the branch and its own commits for good.

        Raises:
            UsageError: it is main.
            BranchInUseError: a branch or a tag depends on it.
        """
        self._backend.execute(DeleteBranchRequest(name=self._branch, actor=actor))

    def __repr__(self) -> str:
        return f"<Branch {self._branch} of {self._backend.uri!r}>"
