"""Tools that change rows: by a query, and by loading rows. They write to a fresh branch unless one is named."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.mutate import MutationResult
from omnigraph.errors import BodyTooLargeError, LimitExceeded
from omnigraph.mcp.tool import Answer, Question, Step, Tool, ToolCall
from omnigraph.mcp.tools.reads import QueryName, QueryParams, QueryText
from omnigraph.mcp.workspace import Place, Write, ask_about_write, review_steps, write_somewhere
from omnigraph.operations.writes import LoadRequest, MutateRequest
from omnigraph.values.counts import counted

_MOST_RECORDS = 10_000
_MOST_BYTES = 8 << 20
_MOST_RETURNED = 100
_FRESH = (
    " Without a branch it creates a new branch, writes to it, and returns the calls that review and "
    "merge it; main does not change. A write to a protected branch needs the consent of a person."
)


class Mutate(Write, kw_only=True, frozen=True):
    """Arguments of ``mutate``."""

    text: QueryText
    params: QueryParams = None
    name: QueryName = None
    max_affected: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(description="Change nothing if more entities would change."),
    ] = None


class Written(Answer, kw_only=True, frozen=True):
    """Result of a write. ``commit`` is null if there was nothing to change."""

    branch: str
    branch_created: bool
    commit: str | None
    inserted: int
    updated: int
    deleted: int
    unchanged: int
    query: str | None = None
    rows: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = ()
    next: tuple[Step, ...] = ()


class Load(Write, kw_only=True, frozen=True):
    """Arguments of ``load``."""

    records: Annotated[
        list[dict[str, Any]],
        msgspec.Meta(
            min_length=1,
            max_length=_MOST_RECORDS,
            description=(
                'Nodes as {"type": "Person", "data": {"name": "Ada"}} and edges as '
                '{"edge": "Knows", "from": "ID", "to": "ID", "data": {}}, in any order.'
            ),
        ),
    ]
    mode: Annotated[
        Literal["append", "merge"],
        msgspec.Meta(description="append refuses ids that exist, merge replaces their rows."),
    ] = "merge"
    patch: Annotated[bool, msgspec.Meta(description="With merge, change only the properties in the records.")] = False


class Loaded(Answer, kw_only=True, frozen=True):
    """Result of a load: the number of records of each type."""

    branch: str
    branch_created: bool
    commit: str | None
    nodes: dict[str, int]
    edges: dict[str, int]
    next: tuple[Step, ...] = ()


def ask_about_mutation(call: ToolCall, given: Mutate) -> Question | None:
    """Return what a person is asked about a mutation of a protected branch; raises what finding the branch does."""
    params = "" if given.params is None else f"\n{msgspec.json.encode(given.params).decode()}"
    return ask_about_write(call, given, "Run a mutation on", given.text + params)


def mutate(call: ToolCall, given: Mutate) -> Written:
    """Run a mutation.

    Raises:
        OmnigraphError: the text is no mutation of this schema, or it breaks a rule.
    """

    def write(place: Place) -> MutationResult:
        return call.execute(
            MutateRequest(
                text=given.text,
                params=given.params,
                name=given.name,
                params_form="strict",
                branch=place.branch,
                message=given.message,
                expected_head=place.expected_head,
                max_affected=given.max_affected,
            )
        )

    place, done = write_somewhere(call, given, "mutate", write)
    return written(call, place, done)


def written(call: ToolCall, place: Place, done: MutationResult) -> Written:
    """Return what a mutation did."""
    found = done.to_json()
    return Written(
        branch=place.branch,
        branch_created=place.is_new,
        commit=None if done.commit is None else str(done.commit.id),
        inserted=done.inserted,
        updated=done.updated,
        deleted=done.deleted,
        unchanged=done.unchanged,
        query=done.query_name,
        rows=tuple(found.get("rows", ())[:_MOST_RETURNED]),
        warnings=(*found.get("warnings", ()), *_cut(found.get("rows", ()))),
        next=review_steps(place, call.graph.protected),
    )


def _cut(rows: Sequence[Any]) -> list[str]:
    rest = len(rows) - _MOST_RETURNED
    return [f"the mutation returned {rest} more rows than this answer has"] if rest > 0 else []


def ask_about_load(call: ToolCall, given: Load) -> Question | None:
    """Return what a person is asked about a load into a protected branch; raises what finding the branch does."""
    return ask_about_write(call, given, f"Load {counted(len(given.records), 'record')} into", given.records)


def load(call: ToolCall, given: Load) -> Loaded:
    """Load records.

    Raises:
        BodyTooLargeError: they are too large for one call.
        OmnigraphError: a record does not fit the schema.
    """
    data = b"".join(msgspec.json.encode(item) + b"\n" for item in given.records)
    if len(data) > _MOST_BYTES:
        details = LimitExceeded(resource="bytes of records", limit=_MOST_BYTES, actual=len(data))
        raise BodyTooLargeError(f"the records are longer than {_MOST_BYTES} bytes", details=details)

    def write(place: Place) -> Any:
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(data)
            file.flush()
            source = Source(path=str(Path(file.name)), format="jsonl", called="records")
            return call.execute(
                LoadRequest(
                    sources=[source],
                    mode=given.mode,
                    patch=given.patch,
                    branch=place.branch,
                    message=given.message,
                    expected_head=place.expected_head,
                )
            )

    place, done = write_somewhere(call, given, "load", write)
    return Loaded(
        branch=place.branch,
        branch_created=place.is_new,
        commit=None if done.commit is None else str(done.commit.id),
        nodes=dict(done.nodes_loaded),
        edges=dict(done.edges_loaded),
        next=review_steps(place, call.graph.protected),
    )


TOOLS = (
    Tool(
        name="mutate",
        title="Change the graph",
        description=f"Run a mutation written in gq as one commit.{_FRESH}",
        arguments=Mutate,
        answer=Written,
        run=mutate,
        writes=True,
        is_destructive=True,
        question=ask_about_mutation,
    ),
    Tool(
        name="load",
        title="Load records",
        description=f"Write nodes and edges, as JSON records, in one commit: all of them or none.{_FRESH}",
        arguments=Load,
        answer=Loaded,
        run=load,
        writes=True,
        is_destructive=True,
        question=ask_about_load,
    ),
)
