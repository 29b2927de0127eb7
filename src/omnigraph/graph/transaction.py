"""``Transaction``: several calls on a private state of a branch, published as one commit or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from omnigraph.engine.load.sources.memory import open_row_files
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.results import Result
from omnigraph.errors import (
    BadValue,
    GraphClosedError,
    RequestOutcomeError,
    ServerUnreachableError,
    TransactionEndedError,
)
from omnigraph.graph.arguments.loads import LoadArgument, row_sources
from omnigraph.graph.arguments.values import attachments_of, data_of, query_text
from omnigraph.graph.waiting import computed, manner
from omnigraph.operations.reads import QueryRequest, ReadEntityRequest
from omnigraph.operations.request import NOTHING, Attachments, Backend, Request
from omnigraph.operations.transactions import (
    BegunTransaction,
    CallInTransactionRequest,
    CommitTransactionRequest,
    RollbackTransactionRequest,
)
from omnigraph.operations.writes import LoadRequest, MutateBatchRequest, MutateRequest
from omnigraph.values.printable import Printable

if TYPE_CHECKING:
    from omnigraph.engine.load.options import LoadMode, LoadProgress, LoadResult, LoadSettings, OnDelete
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.results.entity import Entity
    from omnigraph.engine.transaction import TransactionResult
    from omnigraph.txn.manifest.rows import Commit


class _WriteResult:
    """The result of a write inside a transaction.

    Until the transaction is committed it is what the first run did; afterwards it is what the published run did, with
    its commit. Looking at it tells the transaction that the caller may have decided something by it.
    """

    __slots__ = ("_number", "_place", "_transaction")

    def __init__(self, transaction: Transaction, number: int, place: int) -> None:
        self._transaction = transaction
        self._number = number
        self._place = place

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._transaction._look_at(self._number, self._place), name)  # noqa: SLF001 - its own

    def __str__(self) -> str:
        # Looking at it for people is no look that decides anything, and before the commit there is nothing to tell.
        result = self._transaction._result  # noqa: SLF001 - its own
        return repr(self) if result is None else str(result.calls[self._place])

    def __repr__(self) -> str:
        return f"<result of write {self._place + 1} of {self._transaction!r}>"


class Transaction(Printable):
    """Calls that become one commit, or nothing.

    :meth:`Graph.transaction` and :meth:`Branch.transaction` begin one. As a ``with`` block it is committed at the end
    of the block and rolled back by an exception. Reads see what was written before them. A call that fails leaves
    nothing behind, and the others can go on. Rules of the schema are checked once, on what is left at the end.

    Threads may share it: their calls run one after the other. Another transaction, begun inside the block, and writes
    to the graph itself are commits of their own, which this one sees as those of another writer.
    """

    def __init__(self, backend: Backend, begun: BegunTransaction) -> None:
        self._backend = backend
        self._lock = manner.get().lock()
        # Taken for a moment, also where results are looked at, which waits for no call.
        self._looking = threading.Lock()
        self._begun = begun
        self._first: list[MutationResult | LoadResult] = []
        self._result: TransactionResult | None = None
        # How many calls were made, and how many of the first ones the caller has looked at the results of.
        self._calls = 0
        self._seen = 0
        self._ended: str | None = None

    def __enter__(self) -> Self:
        self._refuse_ended()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._ended is not None:
                return
            if error is None:
                self._commit()
            else:
                # The graph may have been closed meanwhile, or its server be gone, and its transactions with it.
                with suppress(GraphClosedError, TransactionEndedError, ServerUnreachableError, RequestOutcomeError):
                    self._roll_back()

    def lines(self) -> Iterator[str]:
        """Yield where it writes, and whether it is open."""
        yield f"on {self._begun.branch} of {self._backend.uri!r}, {self._ended or 'open'}"

    @property
    def branch(self) -> str:
        """The branch that it writes to."""
        return self._begun.branch

    @property
    def is_open(self) -> bool:
        """Whether it takes calls."""
        return self._ended is None

    @property
    def published(self) -> Commit | None:
        """The commit; None before it is committed, and when there was nothing to change."""
        return None if self._result is None else self._result.commit

    def query(
        self,
        text: str | bytes | Path,
        params: Any = None,
        name: str | None = None,
        *,
        options: QueryOptions | None = None,
    ) -> Result:
        """Run a read on the private state: what is stored, with everything that was written before on top.

        Takes and raises what :meth:`State.query` does.

        Raises:
            TransactionEndedError: the transaction has ended.
        """
        source = query_text(text)
        request = QueryRequest(
            text=source.text, params=params, name=name, options=data_of(options), source_name=source.name
        )
        return cast("Result", self._read(request, attachments_of(options)))

    def entity(self, type_name: str, entity_id: str) -> Entity | None:
        """Return one node or edge of the private state by its id; takes and raises what :meth:`State.entity` does."""
        return cast("Entity | None", self._read(ReadEntityRequest(type_name=type_name, entity_id=entity_id), NOTHING))

    def mutate(
        self,
        text: str | bytes | Path,
        params: Any = None,
        name: str | None = None,
        *,
        max_affected: int | None = None,
    ) -> MutationResult:
        """Run a mutation on the private state; when it fails, nothing of it stays and the transaction goes on.

        The result has no commit before the transaction is committed. Afterwards it is that of the published run.

        Raises:
            QuerySyntaxError, QueryNotFoundError, QueryTypeError, QueryMeaningError: the text is not such a mutation.
            WrongQueryKindError: it is a read.
            QueryParameterError: a parameter is missing or does not fit.
            AffectedLimitError: it would change more than ``max_affected`` entities.
            TransactionEndedError: the transaction has ended.
        """
        source = query_text(text)
        request = MutateRequest(
            text=source.text, params=params, name=name, max_affected=max_affected, source_name=source.name
        )
        return cast("MutationResult", self._write(request, NOTHING))

    def mutate_batch(
        self,
        text: str | bytes | Path,
        rows: Sequence[Any],
        name: str | None = None,
        *,
        max_affected: int | None = None,
    ) -> MutationResult:
        """Run a mutation once per row of parameters; raises what :meth:`mutate` does."""
        source = query_text(text)
        request = MutateBatchRequest(
            text=source.text, rows=rows, name=name, max_affected=max_affected, source_name=source.name
        )
        return cast("MutationResult", self._write(request, NOTHING))

    def load(
        self,
        sources: LoadArgument,
        mode: LoadMode = "append",
        *,
        patch: bool = False,
        truncate: bool = False,
        on_delete: OnDelete = "cascade",
        errors_to: str | Path | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        settings: LoadSettings | None = None,
    ) -> LoadResult:
        """Read every row of files, or of what a program holds, and put them on the private state.

        Takes what :meth:`BranchVerbs.load` does. Bad rows and ids that exist are reported here, broken rules of the
        schema when the transaction is committed.

        Raises:
            BadRowsError: rows cannot be read or do not fit their type.
            KeyExistsError: an id exists already, or stands twice in the input.
            FileMissingError, FileAccessError: a source is not there, or cannot be read.
            TypeMissingError: the schema has no type for a source.
            TransactionEndedError: the transaction has ended.
        """
        with open_row_files() as files:
            given = computed(lambda: row_sources(sources, files))
            request = LoadRequest(
                sources=given,
                mode=mode,
                patch=patch,
                truncate=truncate,
                on_delete=on_delete,
                errors_to=errors_to,
                settings=settings,
            )
            return cast("LoadResult", self._write(request, Attachments(progress=progress)))

    def commit(self) -> Commit | None:
        """Publish everything as one commit and return it; None when there was nothing to change. It ends either way.

        Raises:
            ConstraintViolationError: the graph would break a rule of its schema.
            TransactionConflictError: another writer changed what the caller has read in this transaction.
            PreconditionFailedError: the branch is not at ``expected_head``.
            ExpectedVersionMismatchError: another writer changed what it was decided on, and ``on_conflict`` is
                ``refuse``.
            SchemaMovedError: the branch follows another schema than when the transaction began.
            ClaimBusyError: other writers kept changing what it was decided on.
            TransactionEndedError: it has ended.
        """
        with self._lock:
            return self._commit()

    def rollback(self) -> None:
        """End it without publishing anything; harmless when it was rolled back or has failed already.

        Raises:
            TransactionEndedError: it was committed.
        """
        with self._lock:
            if self._ended == "committed":
                self._refuse_ended()
            if self._ended is None:
                self._roll_back()

    def _commit(self) -> Commit | None:
        self._refuse_ended()
        self._ended = "failed"
        request = CommitTransactionRequest(transaction=self._begun.transaction, seen=self._seen)
        result = self._backend.execute(request)
        self._result = result
        self._ended = "committed"
        return result.commit

    def _roll_back(self) -> None:
        self._ended = "rolled back"
        self._backend.execute(RollbackTransactionRequest(transaction=self._begun.transaction))

    def _read(self, call: Request[Any], attached: Attachments) -> Any:
        with self._lock:
            found = self._call(call, attached)
            with self._looking:
                self._seen = self._calls
            return found

    def _write(self, call: Request[Any], attached: Attachments) -> _WriteResult:
        with self._lock:
            self._first.append(self._call(call, attached))
            return _WriteResult(self, self._calls, len(self._first) - 1)

    def _call(self, call: Request[Any], attached: Attachments) -> Any:
        self._refuse_ended()
        request = CallInTransactionRequest(transaction=self._begun.transaction, call=call)
        done = self._backend.execute(request, attached)
        self._calls += 1
        return done

    def _look_at(self, number: int, place: int) -> MutationResult | LoadResult:
        with self._looking:
            if self._result is not None:
                return self._result.calls[place]
            self._seen = max(self._seen, number)
            return self._first[place]

    def _refuse_ended(self) -> None:
        if self._ended is not None:
            details = BadValue(what="transaction", value=self._ended, expected="open")
            what = "has failed" if self._ended == "failed" else f"was {self._ended}"
            raise TransactionEndedError(f"the transaction {what} and accepts no further calls", details=details)
