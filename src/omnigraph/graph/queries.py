"""``Queries``: the stored queries of a state, called by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadValue, StoredQueryMissingError, UsageError
from omnigraph.graph.arguments.stored import bind_arguments, help_of, signature_of
from omnigraph.graph.arguments.values import attachments_of, data_of
from omnigraph.ir.stored_queries import QueryEntry, near_queries
from omnigraph.operations.request import Backend
from omnigraph.operations.stored import (
    InvokeMutationRequest,
    InvokeReadRequest,
    ListQueriesRequest,
    QueryReport,
    ValidateQueriesRequest,
)
from omnigraph.txn.manifest.rows import Commit

if TYPE_CHECKING:
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.query.options import QueryOptions
    from omnigraph.engine.results import Result
    from omnigraph.txn.transaction import OnConflict


class StoredCall:
    """A stored query on a state. Its signature and its help are those of the declaration."""

    def __init__(self, backend: Backend, branch: str, at: str | None, entry: QueryEntry) -> None:
        self._backend = backend
        self._branch = branch
        self._at = at
        self.entry = entry
        self.__name__ = entry.name
        self.__doc__ = help_of(entry)
        self.__signature__ = signature_of(entry)

    @property
    def name(self) -> str:
        """What it is called by."""
        return self.entry.name

    @property
    def is_mutation(self) -> bool:
        """Whether calling it changes the graph."""
        return self.entry.is_mutation

    def __repr__(self) -> str:
        kind = "mutation" if self.is_mutation else "read"
        return f"<Stored {kind} {self.entry.signature()}>"

    def _bound(self, args: Iterable[Any], params: dict[str, Any]) -> Any:
        return bind_arguments(self.entry, self.__signature__, tuple(args), params)


class StoredRead(StoredCall):
    """A stored read: call it with its parameters, or :meth:`run` it with options."""

    def __call__(self, *args: Any, **params: Any) -> Result:
        """Run it with these parameters; raises what :meth:`run` does.

        Raises:
            StoredQueryArgumentsError: a parameter is missing, or is not declared.
        """
        return self.run(self._bound(args, params))

    def run(self, params: Any = None, *, options: QueryOptions | None = None) -> Result:
        """Run it with parameters by their declared names, as :meth:`Graph.query` does.

        Raises:
            StoredQueryMissingError: it is not stored any more.
            QueryParameterError: a parameter is missing or does not fit.
            OmnigraphError: whatever :meth:`Graph.query` raises.
        """
        request = InvokeReadRequest(
            name=self.name, params=params, branch=self._branch, at=self._at, options=data_of(options)
        )
        return self._backend.execute(request, attachments_of(options))


class StoredMutation(StoredCall):
    """A stored mutation: call it with its parameters, or :meth:`run` it with what a commit is told."""

    def __call__(self, *args: Any, **params: Any) -> MutationResult:
        """Run it with these parameters; raises what :meth:`run` does.

        Raises:
            StoredQueryArgumentsError: a parameter is missing, or is not declared.
        """
        return self.run(self._bound(args, params))

    def run(
        self,
        params: Any = None,
        *,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        on_conflict: OnConflict = "rerun",
        max_affected: int | None = None,
    ) -> MutationResult:
        """Run it with parameters by their declared names, as :meth:`Graph.mutate` does; the rest is as there.

        Raises:
            StoredQueryMissingError: it is not stored any more.
            UsageError: this is an earlier state, which does not change.
            QueryParameterError: a parameter is missing or does not fit.
            PreconditionFailedError: the branch is not at ``expected_head``.
            OmnigraphError: whatever :meth:`Graph.mutate` raises.
        """
        if self._at is not None:
            details = BadValue(what="state", value=self._at, expected="a branch")
            raise UsageError(
                f"'{self.name}' is a mutation, and an earlier state does not change",
                details=details,
                hint="call it on the graph, or on a branch",
            )
        request = InvokeMutationRequest(
            name=self.name,
            params=params,
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=str(expected_head.id) if isinstance(expected_head, Commit) else expected_head,
            on_conflict=on_conflict,
            max_affected=max_affected,
        )
        return self._backend.execute(request)


class Queries:
    """The stored queries of a state, by name: ``queries.find_person(slug="mira")``, or ``queries["find_person"]``.

    Which there are is read once. A query whose name is one of a method here is reached by its name in brackets.
    """

    def __init__(self, backend: Backend, branch: str, at: str | None, entries: Iterable[QueryEntry]) -> None:
        self._backend = backend
        self._branch = branch
        self._at = at
        self._entries = {entry.name: entry for entry in entries}

    def refresh(self) -> None:
        """Read again which there are: a server may have taken over others."""
        self._entries = {entry.name: entry for entry in self._backend.execute(ListQueriesRequest())}

    def validate(self) -> QueryReport:
        """Check all of them against the schema of this state; what is wrong stands in the report.

        Raises:
            BranchMissingError, HistoryGoneError: the state is gone.
        """
        return self._backend.execute(ValidateQueriesRequest(branch=self._branch, at=self._at))

    def __getitem__(self, name: str) -> StoredRead | StoredMutation:
        """Return a query.

        Raises:
            StoredQueryMissingError: there is none of that name.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise StoredQueryMissingError.of(name, near_queries(name, self._entries))
        kind = StoredMutation if entry.is_mutation else StoredRead
        return kind(self._backend, self._branch, self._at, entry)

    def __getattr__(self, name: str) -> StoredRead | StoredMutation:
        if name.startswith("_"):
            # Libraries look for their own methods on whatever they are shown.
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[StoredRead | StoredMutation]:
        return iter([self[name] for name in self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._entries})

    def _ipython_key_completions_(self) -> list[str]:
        return [*self._entries]

    def __repr__(self) -> str:
        state = self._branch if self._at is None else self._at
        return f"<Queries on {state} in {self._backend.uri!r}: {', '.join(self._entries) or 'none'}>"

    def __str__(self) -> str:
        return "\n".join(
            f"{'mutation' if one.is_mutation else 'read':<8}  {one.signature()}" for one in self._entries.values()
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
