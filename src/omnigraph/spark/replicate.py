"""Replication with a stream: the changes of one graph, written to another as they are committed.

A micro-batch becomes one commit. Its number is stored in that commit, so that a micro-batch which Spark delivers again
after a failure changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BadValue, BatchRepeatedError, UsageError
from omnigraph.history.feed.apply import apply_rows
from omnigraph.history.feed.batch import ReceivedChange, received_change
from omnigraph.operations.local.writes import for_newest_schema
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.txn.manifest.rows import BatchMark
from omnigraph.values import MAIN, BranchName, check_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = ("op", "kind", "type", "id", "commit", "sequence", "after")


def replicate_into(
    target: str | PathLike[str],
    app: str,
    *,
    branch: str = MAIN,
    storage_options: dict[str, str] | None = None,
    actor: str | None = None,
    message: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return the function for ``foreachBatch`` of a change stream that applies each micro-batch to another graph.

    The stream is one of all types, whose rows come as JSON. Ids, edges and deletes are kept. A micro-batch is collected
    in the driver: ``max_commits`` bounds it.

    Args:
        target: the graph to write to.
        app: the name of the replication; it must stay the same when the stream is restarted from its checkpoint.
        branch: where to write.
        storage_options: how to reach the target's storage.
        actor: who asks for it.
        message: what the commits say.

    Raises:
        UsageError: the name is empty, or, in a micro-batch, the frame is none of a change stream.
        FeedSchemaError: in a micro-batch: the target's schema cannot take the rows; the hint says which to apply.
    """
    check_text("app", app)
    storage = Storage.open(str(target), storage_options or {})

    def apply(frame: DataFrame, number: int) -> None:
        rows = _collect(frame)
        Runtime.system().failpoints.hit("spark.source.before_publish")
        with OpenGraph.open(storage) as session:
            changes = list(_changes(rows))
            last = rows.column("commit")[-1].as_py() if rows.num_rows else ""

            def run() -> None:
                branch_writer, newest = session.store.current(BranchName.parse(branch))
                schema = newest.state.schema
                apply_rows(
                    branch_writer,
                    session.catalogs.get(schema),
                    changes,
                    BatchMark(app=app, number=number),
                    commit_id=last,
                    actor=actor,
                    message=message,
                    schema_hash=schema.hash,
                )

            try:
                # A delivery that is repeated must not even be judged: the schema may have changed since.
                state = session.store.snapshot(BranchName.parse(branch)).state
                if changes and state.batches.get(app, -1) < number:
                    for_newest_schema(run, lambda: True)
            except BatchRepeatedError:
                # Another driver with the same checkpoint was faster.
                pass
        Runtime.system().failpoints.hit("spark.source.after_publish")

    return apply


def _collect(frame: DataFrame) -> pa.Table:
    missing = [name for name in _COLUMNS if name not in frame.columns]
    kinds = dict(frame.dtypes)
    if missing or kinds["after"] != "string":
        details = BadValue(what="stream", value=", ".join(frame.columns)[:80], expected="a change stream of all types")
        raise UsageError(
            "only a change stream of all types can be replicated",
            details=details,
            hint="read it with the option changes=true and without the option type",
        )
    rows: pa.Table = frame.select(*_COLUMNS).toArrow()
    return rows.sort_by("sequence")


def _changes(rows: pa.Table) -> Iterator[ReceivedChange]:
    for row in rows.to_pylist():
        op = "insert" if row["op"] == "baseline" else row["op"]
        after: dict[str, Any] = {} if row["after"] is None else {"after": msgspec.json.decode(row["after"])}
        yield received_change({**row, "op": op, "type": {"name": row["type"]}, **after})
