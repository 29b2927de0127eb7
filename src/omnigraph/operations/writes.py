"""Requests that change rows or the schema of a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.engine.embedding.rewrite import EmbedResult
    from omnigraph.engine.load import Dialect, LoadMode, LoadResult, LoadSettings, OnDelete, Source
    from omnigraph.engine.load.sources.source import SourceFormat
    from omnigraph.engine.mutate import MutationResult
    from omnigraph.engine.schema import SchemaApplyResult
    from omnigraph.ir import ParamsForm
    from omnigraph.txn.transaction import OnConflict


@operation("mutate", Action.CHANGE, writes=True)
@record
class MutateRequest(Request["MutationResult"]):
    """Run a mutation and publish it as one commit.

    Args:
        text: a whole ``.gq`` source.
        params: values by parameter name.
        name: the declaration to run; None if the source holds exactly one.
        params_form: whether they are host values, or JSON values to be read strictly or as JavaScript writes them.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``rerun`` runs the mutation again on the newer state when another writer changed rows that it
            was decided on; ``refuse`` raises a conflict instead.
        max_affected: how many entities it may insert, update and delete; with more it changes nothing.
        source_name: what errors call the source.
    """

    text: str | bytes
    params: Any = None
    name: str | None = None
    params_form: ParamsForm = "host"
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    on_conflict: OnConflict = "rerun"
    max_affected: int | None = None
    source_name: str = "<query>"


@operation("mutate_batch", Action.CHANGE, writes=True)
@record
class MutateBatchRequest(Request["MutationResult"]):
    """Run a mutation once per row of parameters and publish all of it as one commit, or nothing.

    The calls follow each other as if their statements stood in one text: each sees what the ones before it did, and
    all of them have the same ``now()``. A mutation that only inserts is made column by column. ``rows`` holds the
    parameters of each call, which are all read before the first call is made.
    """

    text: str | bytes
    rows: Sequence[Any]
    name: str | None = None
    params_form: ParamsForm = "host"
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    on_conflict: OnConflict = "rerun"
    max_affected: int | None = None
    source_name: str = "<query>"


@record
class SentSource:
    """A source of a load whose file travels with the request; all but ``file`` is as for a ``Source``.

    It has no path, mapping or options: where the file lies is known only to the process that received it.
    """

    file: str
    format: SourceFormat | None = None
    type_name: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect | None = None
    is_exported: bool = False
    longest_bytes: int = 0
    called: str | None = None
    takes_changes: bool = False
    takes_texts: bool = False


@operation("load", Action.CHANGE, writes=True)
@record
class LoadRequest(Request["LoadResult"]):
    """Read every row of the sources and publish all of them as one commit, or nothing.

    Args:
        sources: files, folders, globs or ``s3://`` addresses of JSONL, CSV, Parquet or Arrow.
        mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``overwrite`` empties types first,
            ``apply`` takes the rows of a change log.
        patch: with ``merge``, change only the properties that are given.
        truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
        on_delete: with ``apply``, whether the edges of a deleted node go with it, or such a delete is refused.
        batch: the name of a stream and the number of this piece of it; a piece is published once.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``rerun`` makes the load again on the newer state when another writer changed what it replaces
            or completes; ``refuse`` raises a conflict instead.
        errors_to: a file that gets every bad row.
        limit: how many problems the error lists.
        settings: what it may use of the machine.
        projections: after a large load, build the projections of the tables that it filled; otherwise that is left to
            optimize and to readers.
    """

    sources: Sequence[Source | str]
    mode: LoadMode = "append"
    patch: bool = False
    truncate: bool = False
    on_delete: OnDelete = "cascade"
    batch: tuple[str, int] | None = None
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    on_conflict: OnConflict = "rerun"
    errors_to: str | Path | None = None
    limit: int = 100
    settings: LoadSettings | None = None
    projections: bool = True


@operation("apply_schema", Action.SCHEMA_APPLY, writes=True)
@record
class ApplySchemaRequest(Request["SchemaApplyResult"]):
    """Bring a branch to another schema, its rows included, as one commit.

    Args:
        text: the schema.
        branch: which branch.
        allow_data_loss: reclaim what is dropped at once.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        source_name: what errors call the source.
    """

    text: str | bytes
    branch: str = MAIN
    allow_data_loss: bool = False
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    source_name: str = "<schema>"


@operation("embed", Action.CHANGE, writes=True)
@record
class EmbedRequest(Request["EmbedResult"]):
    """Compute the ``@embed`` vectors of a branch whose texts have changed, or that are missing, as one commit.

    Args:
        types: only these node types; all when None.
        every: all vectors that have a text, stale or not.
        limit: how many vectors at most; the others stay stale.
        dry_run: count what is stale, and write nothing.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
    """

    types: Sequence[str] | None = None
    every: bool = False
    limit: int | None = None
    dry_run: bool = False
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
