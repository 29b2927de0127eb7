"""A stream into a graph whose micro-batches are loads: executors read, compare and write, the driver publishes.

The sink of the data source has no session where it commits, so that one process compares the rows of a micro-batch
with what is stored. Here jobs do it, as in any other load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from omnigraph.engine.load import OnDelete
from omnigraph.engine.load.options import check_batch, check_on_delete
from omnigraph.engine.load.reading.tables import owner_of
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.operations.local import LocalBackend
from omnigraph.runtime import Runtime
from omnigraph.spark.loads import SparkLoadSettings, load_frames
from omnigraph.spark.loads.load_files import check_frames
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.source.reporting import reporting
from omnigraph.values import MAIN, check_choice, check_flag, check_instance, checked_text, unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from omnigraph.graph.graph import Graph

StreamMode = Literal["append", "merge", "apply"]
_EVERY_TYPE = "changes"


def write_stream(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    frame: DataFrame,
    graph: Graph | LocalBackend | OpenGraph,
    type_name: str | None = None,
    mode: StreamMode = "append",
    *,
    app: str,
    columns: Mapping[str, str] | None = None,
    branch: str = MAIN,
    actor: str | None = None,
    message: str | None = None,
    truncate: bool = False,
    on_delete: OnDelete = "cascade",
    settings: SparkLoadSettings | None = None,
) -> DataStreamWriter:
    """Return the writer of a stream into a graph; give it a checkpoint and a trigger, and start it.

    Each micro-batch is one commit, as :func:`omnigraph.spark.load_frames` makes it. Its number is stored in that
    commit, so that one which Spark delivers again changes nothing.

    Args:
        frame: the stream.
        graph: the open graph; every micro-batch opens it anew, so that the caller may close it.
        type_name: the type of all rows; None for a change stream of all types, which says it row by row.
        mode: ``append`` refuses ids that exist, ``merge`` replaces their rows, ``apply`` takes a change log.
        app: the name of the stream; it must stay the same when the stream is restarted from its checkpoint.
        columns: the column of the stream for a property where the two names differ.
        branch: where to write.
        actor: who asks for it.
        message: what the commits say.
        truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
        on_delete: with ``apply``, whether the edges of a deleted node go with it, or such a delete is refused.
        settings: what tasks may use.

    Raises:
        UsageError: an argument is of another type or out of bounds, or the frame is no stream.
        OmnigraphError: in a micro-batch: whatever :func:`omnigraph.spark.load_frames` does.
    """
    check_choice("mode", mode, get_args(StreamMode))
    check_on_delete(on_delete, mode)
    check_batch((app, 0))
    check_flag("truncate", truncate)
    check_instance("settings", settings, SparkLoadSettings)
    for what, text in (("type", type_name), ("actor", actor), ("message", message)):
        checked_text(what, text)
    name = type_name or _EVERY_TYPE
    named = None if columns is None else {name: columns}
    check_frames({name: frame}, named)
    if not frame.isStreaming:
        raise unfit("frame", frame, "a stream", "load_frames needs DataFrames")
    if type_name is None and mode != "apply":
        raise unfit("type", type_name, "the type of the rows")
    engine = engine_of(graph)
    # A branch or a type that is not there is told before the stream starts.
    catalog = engine.catalog(branch)
    if type_name is not None:
        owner_of(Source(path=name, format="parquet", type_name=type_name), catalog)
    storage = engine.store.storage

    def load_batch(rows: DataFrame, number: int) -> None:
        with reporting(), OpenGraph.open(storage) as session:
            load_frames(
                session,
                {name: rows},
                mode,
                spark=rows.sparkSession,
                columns=named,
                branch=branch,
                actor=actor,
                message=message,
                truncate=truncate,
                on_delete=on_delete,
                batch=(app, number),
                settings=settings,
            )
            Runtime.system().failpoints.hit("spark.source.after_publish")

    return frame.writeStream.foreachBatch(load_batch)
