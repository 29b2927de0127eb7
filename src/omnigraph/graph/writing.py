"""``WriteVerbs``: what writes rows and schemas of a branch, one call or several as one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import InternalError, SchemaMovedError, TransactionConflictError
from omnigraph.graph.arguments.values import query_text, schema_text
from omnigraph.graph.state import State, expected_commit
from omnigraph.graph.waiting import computed
from omnigraph.operations.request import Attachments
from omnigraph.operations.transactions import BeginTransactionRequest
from omnigraph.operations.writes import (
    ApplySchemaRequest,
    EmbedRequest,
    LoadRequest,
    MutateBatchRequest,
    MutateRequest,
)
from omnigraph.values import check_whole, unfit

if TYPE_CHECKING:
    from omnigraph.engine.embedding.rewrite import EmbedProgress, EmbedResult
    from omnigraph.engine.load.options import LoadMode, LoadProgress, LoadResult, LoadSettings, OnDelete
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.schema import SchemaApplyResult
    from omnigraph.graph.arguments.loads import LoadArgument
    from omnigraph.graph.transaction import Transaction
    from omnigraph.txn.manifest.rows import Commit
    from omnigraph.txn.transaction import OnConflict

_Done = TypeVar("_Done")


class WriteVerbs(State):
    """A branch as far as rows and schemas are written to it."""

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

    def embed(
        self,
        types: Sequence[str] | None = None,
        *,
        every: bool = False,
        limit: int | None = None,
        dry_run: bool = False,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        progress: Callable[[EmbedProgress], None] | None = None,
    ) -> EmbedResult:
        """Compute the ``@embed`` vectors whose texts have changed, or that are missing, and store them as one commit.

        Args:
            types: only these node types; all when None.
            every: compute all vectors that have a text, stale or not.
            limit: how many vectors at most; call it again until ``result.remaining`` is 0.
            dry_run: count what is stale, and write nothing.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that the branch must be at.
            progress: told how far it is.

        Raises:
            TypeMissingError, UsageError: there is no such node type, or it has no vector with ``@embed``.
            EmbeddingSettingsError, EmbeddingLibraryError, EmbeddingModelMismatchError: no provider could be asked.
            EmbeddingUnavailableError, EmbeddingDeadlineError, EmbeddingRefusedError, EmbeddingAnswerError: the
                provider gave no usable answer; nothing was written.
            ReadOnlyError: the graph is open for reading only.
        """
        request = EmbedRequest(
            types=types,
            every=every,
            limit=limit,
            dry_run=dry_run,
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
        )
        return self._backend.execute(request, Attachments(progress=progress))

    def load(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
        self,
        sources: LoadArgument,
        mode: LoadMode = "append",
        *,
        patch: bool = False,
        truncate: bool = False,
        on_delete: OnDelete = "cascade",
        batch: tuple[str, int] | None = None,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        on_conflict: OnConflict = "rerun",
        errors_to: str | Path | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        settings: LoadSettings | None = None,
        projections: bool = True,
    ) -> LoadResult:
        """Read every row of files, or of what a program holds, and publish all of them as one commit, or nothing.

        Args:
            sources: a file, folder, glob or ``s3://`` address of JSONL, CSV, Parquet or Arrow, or several of them; or
                by type a file, a DataFrame, an Arrow table or reader, or dictionaries, which an iterator gives once.
            mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` empties types first,
                ``apply`` takes the rows of a change log, each with an operation and perhaps a sequence.
            patch: with ``merge``, change only the properties that are given.
            truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
            on_delete: with ``apply``, whether the edges of a deleted node go with it, or such a delete is refused.
            batch: the name of a stream and the number of this piece of it. A call that is repeated changes nothing, and
                returns the commit of the first.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that the branch must be at.
            on_conflict: ``refuse`` raises a conflict when another writer changed rows that it replaces or completes,
                instead of making the load again on the newer state.
            errors_to: a file that gets every bad row.
            progress: told how far it is.
            settings: what it may use of the machine.
            projections: after a large load, build the projections of the tables that it filled, for quick reads;
                otherwise that is left to :meth:`optimize` and to readers.

        Raises:
            BadRowsError: rows cannot be read or do not fit their type.
            ConstraintViolationError: the graph would break a rule of its schema.
            KeyExistsError: an id exists already, or stands twice in the input.
            FileMissingError, FileAccessError: a source is not there, or cannot be read.
            TypeMissingError: the schema has no type for a source.
            BatchRepeatedError: the branch has a later piece of the stream, and history does not tell of this one.
            PreconditionFailedError: the branch is not at ``expected_head``.
            ReadOnlyError: the graph is open for reading only.
        """
        from omnigraph.engine.load.sources.memory import open_row_files  # noqa: PLC0415 - a read needs none of it
        from omnigraph.graph.arguments.loads import row_sources  # noqa: PLC0415 - see above

        with open_row_files() as files:
            given = computed(lambda: row_sources(sources, files))
            request = LoadRequest(
                sources=given,
                mode=mode,
                patch=patch,
                truncate=truncate,
                on_delete=on_delete,
                batch=batch,
                branch=self._branch,
                actor=actor,
                message=message,
                expected_head=expected_commit(expected_head),
                on_conflict=on_conflict,
                errors_to=errors_to,
                settings=settings,
                projections=projections,
            )
            return self._backend.execute(request, Attachments(progress=progress))

    def transaction(
        self,
        *,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        on_conflict: OnConflict = "rerun",
    ) -> Transaction:
        """Begin a transaction: several calls on a private state, published as one commit or not at all.

        ``with graph.transaction(message="…") as t:`` commits at the end of the block, and rolls back when an exception
        leaves it. If another writer changes rows that the calls were decided on, they are run again on the newer
        state, unless their results were looked at: then it is a conflict, and :meth:`run_transaction` helps.

        Args:
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that the branch must be at, now and when the transaction is committed.
            on_conflict: ``refuse`` raises a conflict instead of running the calls again.

        Raises:
            PreconditionFailedError: the branch is not at ``expected_head``.
            ReadOnlyError: the graph is open for reading only.
        """
        request = BeginTransactionRequest(
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
            on_conflict=on_conflict,
        )
        from omnigraph.graph.transaction import Transaction  # noqa: PLC0415 - a read needs none of it

        return Transaction(self._backend, self._backend.execute(request))

    def run_transaction(
        self,
        run: Callable[[Transaction], _Done],
        *,
        actor: str | None = None,
        message: str | None = None,
        attempts: int = 10,
    ) -> _Done:
        """Call a function with a transaction, commit it, and return what the function returned.

        If another writer changes what the function has read, it is called again with another transaction on the
        newer state. It must therefore have no effect but on the transaction.

        Args:
            run: the function; an exception rolls the transaction back and is raised.
            actor: who asks for it.
            message: what the commit says.
            attempts: how often it is called at most.

        Raises:
            TransactionConflictError, SchemaMovedError: other writers were faster every time.
            OmnigraphError: whatever :meth:`Transaction.commit` raises.
        """
        if not callable(run):
            raise unfit("run", run, "a function")
        check_whole("attempts", attempts, least=1)
        for attempt in range(1, attempts + 1):
            try:
                with self.transaction(actor=actor, message=message) as transaction:
                    done = run(transaction)
            except (TransactionConflictError, SchemaMovedError):
                if attempt == attempts:
                    raise
            else:
                return done
        raise InternalError("a transaction was neither committed nor refused")

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
