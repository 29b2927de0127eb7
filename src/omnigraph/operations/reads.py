"""Requests that read one state of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from omnigraph.errors import BlobMissingError, BlobReferenceError, BlobSource, MissingThing
from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN, Ref
from omnigraph.values.refs import seen_from

if TYPE_CHECKING:
    from omnigraph.catalog.migration import MigrationPlan
    from omnigraph.engine.export import ExportFormat, ExportResult, ExportSettings
    from omnigraph.engine.query.explain import Explanation
    from omnigraph.engine.query.options import QueryOptions
    from omnigraph.engine.results import Result
    from omnigraph.engine.results.entity import Entity
    from omnigraph.engine.results.network import Network
    from omnigraph.ir import ParamsForm
    from omnigraph.store.location import Storage
    from omnigraph.store.tables.pinned import BlobPart
    from omnigraph.txn.manifest.rows import Commit, ManifestState


@operation("query", Action.READ)
@record
class QueryRequest(Request["Result"]):
    """Run a read on one pinned snapshot.

    Args:
        text: a whole ``.gq`` source.
        params: values by parameter name.
        name: the declaration to run; None if the source holds exactly one.
        params_form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.
        branch: where to read.
        at: a reference to a state, such as a commit id, ``main~3``, ``tag:v1`` or ``@2026-01-31``; the newest state of
            the branch when None.
        options: how to run it, and what it may cost.
        source_name: what errors call the source.
    """

    text: str | bytes
    params: Any = None
    name: str | None = None
    params_form: ParamsForm = "host"
    branch: str = MAIN
    at: str | None = None
    options: QueryOptions | None = None
    source_name: str = "<query>"


@operation("explain", Action.READ)
@record
class ExplainRequest(Request["Explanation"]):
    """Show the plan of a read; with ``run`` also the rows, calls and time of each step. The rest is as for a query."""

    text: str | bytes
    params: Any = None
    name: str | None = None
    run: bool = False
    params_form: ParamsForm = "host"
    branch: str = MAIN
    at: str | None = None
    options: QueryOptions | None = None
    source_name: str = "<query>"

    @classmethod
    def of(cls, query: QueryRequest, *, run: bool) -> Self:
        """Return the request that explains what another one reads."""
        return cls(run=run, **{one.name: getattr(query, one.name) for one in fields(query)})


@record
class FoundState:
    """The state that a reference means at this moment: the commit that made it visible."""

    ref: Ref
    commit: Commit

    def seen_from(self, branch: str) -> str:
        """Return the branch that the reference names, or else the one that it was asked from."""
        return seen_from(self.ref, branch)


@record
class PinnedState:
    """A state: what it consists of, exactly."""

    state: ManifestState


@operation("resolve_ref", Action.READ)
@record
class ResolveRefRequest(Request[FoundState]):
    """Find the state that a reference names, seen from a branch."""

    ref: str
    branch: str = MAIN


@operation("read_state", Action.READ)
@record
class ReadStateRequest(Request[PinnedState]):
    """Pin a state and say what it consists of: its commit, its schema, its tables and their rows."""

    branch: str = MAIN
    at: str | None = None


@operation("read_network", Action.READ)
@record
class ReadNetworkRequest(Request["Network"]):
    """Read every node and edge of a small state."""

    limit: int
    branch: str = MAIN
    at: str | None = None


@operation("read_entity", Action.READ)
@record
class ReadEntityRequest(Request["Entity | None"]):
    """Read one node or edge by its id; ``type_name`` is ``Person``, ``node:Person`` or ``edge:Knows``."""

    type_name: str
    entity_id: str
    branch: str = MAIN
    at: str | None = None


@operation("read_blob", Action.READ)
@record
class ReadBlobRequest(Request["BlobPart | None"]):
    """Read some bytes of one Blob, and no others; None when there is no such entity, or its Blob is null.

    Args:
        type_name: ``Person``, ``node:Person`` or ``edge:Knows``.
        entity_id: the entity.
        property: the Blob.
        start: the first byte.
        length: how many bytes at most; all to the end when None, none when only the size is wanted.
        branch: where to read.
        at: a reference to an earlier state; the newest of the branch when None.
    """

    type_name: str
    entity_id: str
    property: str
    start: int = 0
    length: int | None = None
    branch: str = MAIN
    at: str | None = None


def found_blob(request: ReadBlobRequest, found: BlobPart | None) -> BlobPart:
    """Return what was found of a Blob, if there is one.

    Raises:
        BlobMissingError: there is no such entity, or its Blob is null.
    """
    if found is not None:
        return found
    details = MissingThing(what="blob", name=request.entity_id)
    raise BlobMissingError(f"{_named(request)} has no {request.property}", details=details)


def content_of(request: ReadBlobRequest, found: BlobPart | None) -> BlobPart:
    """Return what was found of a Blob, if the graph has its content.

    Raises:
        BlobMissingError: there is no such entity, or its Blob is null.
        BlobReferenceError: the graph keeps its address only.
    """
    part = found_blob(request, found)
    if part.uri is None:
        return part
    source = BlobSource(uri=part.uri, reason="its content is not in the graph")
    raise BlobReferenceError(f"{request.property} of {_named(request)} is stored at '{part.uri}'", details=source)


def _named(request: ReadBlobRequest) -> str:
    return f"{request.type_name.rpartition(':')[2]} '{request.entity_id}'"


@operation("plan_schema", Action.READ)
@record
class PlanSchemaRequest(Request["MigrationPlan"]):
    """Show the steps that bring a state to another schema, refused ones included; nothing is written.

    Args:
        text: the schema.
        branch: where to read.
        at: a reference to an earlier state; the newest of the branch when None.
        allow_data_loss: plan to reclaim what is dropped at once.
        source_name: what errors call the source.
    """

    text: str | bytes
    branch: str = MAIN
    at: str | None = None
    allow_data_loss: bool = False
    source_name: str = "<schema>"


@operation("export", Action.EXPORT)
@record
class ExportRequest(Request["ExportResult"]):
    """Write all rows of one pinned state into an empty folder, with a manifest; loading it gives them back.

    Args:
        to: a directory that is empty or does not exist, or ``s3://bucket/prefix``.
        format: ``jsonl``, ``csv`` or ``parquet``.
        branch: where to read.
        at: a reference to an earlier state, such as a commit id, ``main~3`` or ``tag:v1``.
        types: only types of these names; ``node:Name`` and ``edge:Name`` tell two of one name apart.
        settings: what it may use of the machine.
    """

    to: str | Path | Storage
    format: ExportFormat = "jsonl"
    branch: str = MAIN
    at: str | None = None
    types: Sequence[str] | None = None
    settings: ExportSettings | None = None


@operation("export_stream", Action.EXPORT)
@record
class ExportStreamRequest(Request["ExportResult"]):
    """Write all rows of one pinned state as JSONL to the attached sink: edges first, types by name, rows by id."""

    branch: str = MAIN
    at: str | None = None
    types: Sequence[str] | None = None
