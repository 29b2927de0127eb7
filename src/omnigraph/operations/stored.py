"""Requests about stored queries: which there are, whether they fit the schema, and running one by its name.

They are answered by a backend that was given queries, such as a server; see :mod:`omnigraph.operations.registry`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN
from omnigraph.values.printable import Printable

if TYPE_CHECKING:
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.query.options import QueryOptions
    from omnigraph.engine.results import Result
    from omnigraph.ir import ParamsForm
    from omnigraph.ir.stored_queries import QueryEntry
    from omnigraph.txn.transaction import OnConflict


@operation("list_queries", Action.READ)
@record
class ListQueriesRequest(Request["tuple[QueryEntry, ...]"]):
    """List the stored queries, by name."""


@record
class QueryFinding:
    """What is wrong with a stored query: its name, and the place and the problem in one text."""

    query: str
    message: str

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        return {"query": self.query, "message": self.message}


@record(repr=False)
class QueryReport(Printable):
    """Whether the stored queries fit a schema: how many there are, and what is wrong."""

    checked: int
    breakages: tuple[QueryFinding, ...] = ()
    warnings: tuple[QueryFinding, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether all of them can be run."""
        return not self.breakages

    def lines(self) -> Iterable[str]:
        """Return what the report says, a line for each fact; warnings follow."""
        count = f"{self.checked} stored {'query' if self.checked == 1 else 'queries'}"
        yield f"{count} checked, {len(self.breakages) or 'none'} broken"
        yield from map(str, self.breakages)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "ok": self.is_ok,
            "breakages": [one.to_json() for one in self.breakages],
            "warnings": [one.to_json() for one in self.warnings],
        }


@operation("validate_queries", Action.READ)
@record
class ValidateQueriesRequest(Request[QueryReport]):
    """Check every stored query against the schema of a state: the newest of a branch, or an earlier one."""

    branch: str = MAIN
    at: str | None = None


@operation("invoke_read", Action.INVOKE_QUERY)
@record
class InvokeReadRequest(Request["Result"]):
    """Run a stored read on one pinned snapshot; the fields are those of a query.

    Args:
        name: the stored query.
        params: values by parameter name.
        params_form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.
        branch: where to read.
        at: a reference to an earlier state; the newest of the branch when None.
        options: how to run it, and what it may cost.
    """

    name: str
    params: Any = None
    params_form: ParamsForm = "host"
    branch: str = MAIN
    at: str | None = None
    options: QueryOptions | None = None


@operation("invoke_mutation", Action.INVOKE_QUERY, writes=True)
@record
class InvokeMutationRequest(Request["MutationResult"]):
    """Run a stored mutation and publish it as one commit; the fields are those of a mutation.

    Args:
        name: the stored query.
        params: values by parameter name.
        params_form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``rerun`` runs it again on the newer state when another writer changed rows that it was decided
            on; ``refuse`` raises a conflict instead.
        max_affected: how many entities it may insert, update and delete; with more it changes nothing.
    """

    name: str
    params: Any = None
    params_form: ParamsForm = "host"
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    on_conflict: OnConflict = "rerun"
    max_affected: int | None = None
