"""``Branch``: a graph seen through one of its branches, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from omnigraph.engine.load import LoadMode, LoadProgress, LoadResult, LoadSettings
from omnigraph.engine.maintenance.optimize import OptimizeResult
from omnigraph.engine.maintenance.repair import RepairResult
from omnigraph.engine.maintenance.status import GraphStatus
from omnigraph.engine.mutate import MutationResult
from omnigraph.engine.schema import SchemaApplyResult
from omnigraph.graph.sources import GivenSource, load_sources, query_text, schema_text
from omnigraph.graph.state import expected_commit
from omnigraph.graph.timeline import Timeline
from omnigraph.txn.manifest.rows import Commit


class BranchVerbs(Timeline):
    """Everything that is about one branch; a graph is its branch ``main`` too."""

    def mutate(
        self,
        text: str | bytes | Path,
        params: Any = None,
        name: str | None = None,
        *,
        actor: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> MutationResult:
        """Run a mutation and publish it as one commit.

        Args:
            text: a whole ``.gq`` source, or a :class:`~pathlib.Path` to one.
            params: values by parameter name.
            name: the declaration to run; None if the source holds exactly one.
            actor: who asks for it.
            expected_head: the commit that the branch must be at, such as ``commit_id`` of a result.

        Raises:
            QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a mutation.
            QueryLaneError: it is a read.
            QueryParameterError: a parameter is missing or does not fit.
            ConstraintViolationError: the graph would break a rule of its schema.
            PreconditionFailedError: the branch is not at ``expected_head``.
            ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
            ReadOnlyError: the graph is open for reading only.
        """
        given = query_text(text)
        return self._handle.session.mutate(
            given.text,
            params,
            name,
            branch=self._branch,
            actor=actor,
            expected_head=expected_commit(expected_head),
            source_name=given.name,
        )

    def mutate_batch(
        self,
        text: str | bytes | Path,
        rows: Sequence[Any],
        name: str | None = None,
        *,
        actor: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> MutationResult:
        """Run a mutation once per row of parameters and publish all of it as one commit, or nothing.

        Raises:
            QueryParameterError: a parameter is missing or does not fit; says in which row, counted from 1.
            OmnigraphError: whatever :meth:`mutate` does.
        """
        given = query_text(text)
        return self._handle.session.mutate_batch(
            given.text,
            rows,
            name,
            branch=self._branch,
            actor=actor,
            expected_head=expected_commit(expected_head),
            source_name=given.name,
        )

    def load(
        self,
        sources: GivenSource | Sequence[GivenSource],
        mode: LoadMode = "append",
        *,
        patch: bool = False,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        errors_to: str | Path | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        settings: LoadSettings | None = None,
    ) -> LoadResult:
        """Read every row of files and publish all of them as one commit, or nothing.

        Args:
            sources: a file, folder, glob or ``s3://`` address of JSONL, CSV or Parquet, or several of them.
            mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` empties types first.
            patch: with ``merge``, change only the properties that are given.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that the branch must be at.
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
        return self._handle.session.load(
            load_sources(sources),
            mode,
            patch=patch,
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
            errors_to=errors_to,
            progress=progress,
            settings=settings,
        )

    def apply_schema(
        self,
        schema: str | bytes | Path,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> SchemaApplyResult:
        """Bring the branch to another schema, its rows included, as one commit.

        Args:
            schema: the text, or the path of a ``.pg`` file.
            allow_data_loss: reclaim what is dropped at once.
            actor: who asks for it.
            expected_head: the commit that the branch must be at.

        Raises:
            SchemaSyntaxError, SchemaCheckError, SchemaPlanError: the text is no schema that the branch can come to.
            ConstraintViolationError: a row breaks a rule that was to be added.
            ExpectedVersionMismatchError, SchemaMovedError: somebody else changed what it was decided on.
            PreconditionFailedError: the branch is not at ``expected_head``.
        """
        given = schema_text(schema)
        return self._handle.session.apply_schema(
            given.text,
            branch=self._branch,
            allow_data_loss=allow_data_loss,
            actor=actor,
            expected_head=expected_commit(expected_head),
            source_name=given.name,
        )

    def optimize(self, types: Sequence[str] | None = None, *, actor: str | None = None) -> OptimizeResult:
        """Compact the tables of the branch and bring their indexes up to date, beside whoever writes to it.

        Raises:
            TypeMissingError: there is no such type.
            ReadOnlyError: the graph is open for reading only.
        """
        return self._handle.session.optimize(self._branch, types, actor=actor)

    def status(self, *, storage: bool = False) -> GraphStatus:
        """Say how the graph fares: rows, fragments, indexes, writes under way, and what to do about it.

        Args:
            storage: look at every stored file, too: versions and bytes. That takes longer the more states are kept.
        """
        return self._handle.session.status(self._branch, storage=storage)

    def repair(self, *, confirm: bool = False, force: bool = False, discard: bool = False) -> RepairResult:
        """Show what something other than omnigraph has done to the tables of the branch, and settle it if asked to.

        Args:
            confirm: adopt compactions, which change no row; otherwise only look.
            force: adopt every other change too.
            discard: undo every change instead.

        Raises:
            UsageError: ``force`` or ``discard`` without ``confirm``, or both.
            ClaimBusyError: a write is under way, or waits to be recovered.
            ReadOnlyError: the graph is open for reading only.
        """
        return self._handle.session.repair(self._branch, confirm=confirm, force=force, discard=discard)


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
        self._handle.session.delete_branch(self._branch, actor=actor)

    def __repr__(self) -> str:
        return f"<Branch {self._branch} of {self._handle.uri!r}>"
