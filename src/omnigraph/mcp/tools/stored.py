"""Tools for stored queries: listing and running them, and those that are tools of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

import msgspec

from omnigraph.catalog.model import INTEGERS, PropertyType, Scalar
from omnigraph.errors import Kind, OmnigraphError, WrongQueryKindError
from omnigraph.ir.stored_queries import QueryEntry
from omnigraph.mcp.answers import DEFAULT_BYTES, DEFAULT_ROWS, GoOn, MaxBytes, MaxRows, query_digest
from omnigraph.mcp.tool import Answer, Arguments, Question, Tool, ToolCall, schema_of
from omnigraph.mcp.tools.reads import PageOfQuery, QueryParams, Rows
from omnigraph.mcp.tools.schema import AsOf, BranchToRead
from omnigraph.mcp.tools.writes import Written, written
from omnigraph.mcp.workspace import Place, Write, ask_about_write, write_somewhere
from omnigraph.operations.stored import InvokeMutationRequest, InvokeReadRequest, ListQueriesRequest
from omnigraph.records import record

StoredName = Annotated[str, msgspec.Meta(description="The stored query, by its name.")]
_PREFIX = "stored_"


class StoredList(Arguments, kw_only=True, frozen=True):
    """Arguments of ``stored_query_list``."""

    text: Annotated[str, msgspec.Meta(description="Only queries whose name or description contains this text.")] = ""


class ListedQuery(Answer, kw_only=True, frozen=True):
    """A stored query: its parameters with their types, a ``?`` where they may be left out."""

    name: str
    is_mutation: bool
    params: dict[str, str]
    description: str | None = None
    instruction: str | None = None


class ListedQueries(Answer, kw_only=True, frozen=True):
    """The stored queries, by name."""

    queries: list[ListedQuery]


class ReadInvocation(Arguments, kw_only=True, frozen=True):
    """Arguments of a stored read that is a tool."""

    params: QueryParams = None
    branch: BranchToRead = None
    as_of: AsOf = None
    max_rows: MaxRows = DEFAULT_ROWS
    max_bytes: MaxBytes = DEFAULT_BYTES
    continuation: GoOn = None


class StoredRun(ReadInvocation, kw_only=True, frozen=True):
    """Arguments of ``stored_query_run``."""

    name: StoredName


class WriteInvocation(Write, kw_only=True, frozen=True):
    """Arguments of a stored mutation that is a tool."""

    params: QueryParams = None


class StoredChange(WriteInvocation, kw_only=True, frozen=True):
    """Arguments of ``stored_query_change``."""

    name: StoredName


def stored_queries(call: ToolCall) -> tuple[QueryEntry, ...]:
    """Return the stored queries that the caller may know of; none where the graph has no place for them.

    Raises:
        OmnigraphError: they cannot be read.
    """
    try:
        return call.execute(ListQueriesRequest())
    except OmnigraphError as error:
        if error.kind in {Kind.UNSUPPORTED, Kind.DENIED}:
            return ()
        raise


def list_queries(call: ToolCall, given: StoredList) -> ListedQueries:
    """List stored queries."""
    wanted = given.text.casefold()
    listed = [
        ListedQuery(
            name=entry.name,
            is_mutation=entry.is_mutation,
            params={one.name: str(one.type) for one in entry.parameters},
            description=entry.description,
            instruction=entry.instruction,
        )
        for entry in stored_queries(call)
        if wanted in f"{entry.name} {entry.description or ''}".casefold()
    ]
    return ListedQueries(queries=listed)


def run_read(call: ToolCall, name: str, given: ReadInvocation) -> Rows:
    """Run a stored read; raises what the read does."""
    branch = call.branch_of(given.branch)
    wanted = PageOfQuery(
        digest=query_digest("stored", name, given.params, branch, given.as_of),
        max_rows=given.max_rows,
        max_bytes=given.max_bytes,
        continuation=given.continuation,
    )
    place = wanted.place()
    request = InvokeReadRequest(
        name=name,
        params=given.params,
        params_form="strict",
        branch=branch,
        at=given.as_of if place is None else place.commit,
        options=wanted.options(place),
    )
    return wanted.answer(call.execute(request), place, as_of=given.as_of)


def ask_about_stored(call: ToolCall, name: str, given: WriteInvocation) -> Question | None:
    """Return what a person is asked about a stored mutation; raises what finding the branch does."""
    return ask_about_write(call, given, f"Run the stored mutation '{name}' on", given.params or {})


def run_mutation(call: ToolCall, name: str, given: WriteInvocation) -> Written:
    """Run a stored mutation; raises what the mutation does."""

    def write(place: Place) -> Any:
        return call.execute(
            InvokeMutationRequest(
                name=name,
                params=given.params,
                params_form="strict",
                branch=place.branch,
                message=given.message,
                expected_head=place.expected_head,
            )
        )

    place, done = write_somewhere(call, given, name.replace("_", "-"), write)
    return written(call, place, done)


def run_stored(call: ToolCall, given: StoredRun) -> Rows:
    """Run a stored read by its name.

    Raises:
        WrongQueryKindError: it is a mutation.
        OmnigraphError: there is no such query, or the read fails.
    """
    try:
        return run_read(call, given.name, given)
    except WrongQueryKindError as error:
        error.hint = "use the tool stored_query_change for a stored query that changes the graph"
        raise


def change_stored(call: ToolCall, given: StoredChange) -> Written:
    """Run a stored mutation by its name; raises what the mutation does."""
    return run_mutation(call, given.name, given)


@record
class QueryTool(Tool):
    """A stored query as a tool of its own: its parameters stand in the schema."""

    entry: QueryEntry

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, with the parameters of the query."""
        schema = schema_of(self.arguments)
        params = _params_schema(self.entry)
        required = [*schema.get("required", ()), *(["params"] if params["required"] else [])]
        return {**schema, "properties": {**schema["properties"], "params": params}, "required": required}


def query_tools(entries: Collection[QueryEntry], taken: Collection[str], most: int) -> Mapping[str, Tool]:
    """Return the stored queries that are tools of their own, the first by name.

    One whose name a built-in tool has gets another name; one whose other name is taken too is not a tool.

    Args:
        entries: the stored queries; those with ``mcp_expose`` are meant.
        taken: names that other tools have.
        most: how many there may be.
    """
    names = {entry.name for entry in entries}
    found: dict[str, Tool] = {}
    for name, entry in _named(entries, taken):
        if len(found) == most:
            break
        if name == entry.name or name not in names:
            found[name] = _query_tool(name, entry)
    return found


def _named(entries: Collection[QueryEntry], taken: Collection[str]) -> Iterator[tuple[str, QueryEntry]]:
    for entry in sorted(entries, key=lambda one: one.name):
        name = entry.name if entry.name not in taken else f"{_PREFIX}{entry.name}"
        if entry.mcp_expose and name not in taken:
            yield name, entry


def _query_tool(name: str, entry: QueryEntry) -> Tool:
    kind = "mutation" if entry.is_mutation else "read"
    about = [entry.description or f"Run the stored {kind} {entry.name}.", entry.instruction]
    return QueryTool(
        name=name,
        title=entry.name.replace("_", " ").capitalize(),
        description=" ".join(f"{part.rstrip('.')}." for part in about if part),
        arguments=WriteInvocation if entry.is_mutation else ReadInvocation,
        answer=Written if entry.is_mutation else Rows,
        run=_runner(entry),
        writes=entry.is_mutation,
        is_destructive=entry.is_mutation,
        question=(lambda call, given: ask_about_stored(call, entry.name, given)) if entry.is_mutation else None,
        entry=entry,
    )


def _runner(entry: QueryEntry) -> Any:
    run = run_mutation if entry.is_mutation else run_read
    return lambda call, given: run(call, entry.name, given)


def _params_schema(entry: QueryEntry) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "The parameters of the query.",
        "properties": {one.name: _value_schema(one.type) for one in entry.parameters},
        "required": [one.name for one in entry.parameters if not one.type.nullable],
        "additionalProperties": False,
    }


def _value_schema(of: PropertyType) -> dict[str, Any]:
    found = _single_schema(of)
    if of.is_list:
        found = {"type": "array", "items": found}
    elif of.is_vector:
        found = {"type": "array", "items": {"type": "number"}, "minItems": of.dimension, "maxItems": of.dimension}
    return {"anyOf": [found, {"type": "null"}]} if of.nullable else found


def _single_schema(of: PropertyType) -> dict[str, Any]:
    if of.scalar in INTEGERS:
        return {"type": "integer"}
    match of.scalar:
        case Scalar.BOOL:
            return {"type": "boolean"}
        case Scalar.F32 | Scalar.F64:
            return {"type": "number"}
        case Scalar.DECIMAL:
            return {"type": ["number", "string"]}
        case Scalar.DATE:
            return {"type": "string", "format": "date"}
        case Scalar.DATETIME:
            return {"type": "string", "format": "date-time"}
        case _:
            return {"type": "string"}


TOOLS = (
    Tool(
        name="stored_query_list",
        title="List stored queries",
        description=(
            "List the stored queries of the operator, with their parameters. Prefer them to queries of your own."
        ),
        arguments=StoredList,
        answer=ListedQueries,
        run=list_queries,
    ),
    Tool(
        name="stored_query_run",
        title="Run a stored read",
        description="Run a stored read by its name. Answers have continuations, as those of query.",
        arguments=StoredRun,
        answer=Rows,
        run=run_stored,
    ),
    Tool(
        name="stored_query_change",
        title="Run a stored mutation",
        description="Run a stored mutation by its name, on a branch as mutate does.",
        arguments=StoredChange,
        answer=Written,
        run=change_stored,
        writes=True,
        is_destructive=True,
        question=lambda call, given: ask_about_stored(call, given.name, given),
    ),
)
