"""Rejected rows of runs: which there are, what they are, and taking them after a repair.

What is in quarantine follows from history: rows that a run has rejected, unless that run was undone, or another one
that counts has taken them since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import MissingThing, RunMissingError
from omnigraph.history.runs import runs_that_count
from omnigraph.pipelines.declare import Pipeline
from omnigraph.pipelines.model import Declaration, Publish
from omnigraph.pipelines.results import RunReport
from omnigraph.pipelines.running.batch_run import QUARANTINE_FOLDER, Run
from omnigraph.pipelines.running.options import checked_options, declaration_of, opened
from omnigraph.records import record
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.spark.steps.rejected import QUARANTINE, QuarantinePlace
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, BranchName


@record
class QuarantinedRun:
    """The rejected rows of a run: where they are, and how many of each step and rule."""

    run: str
    commit: str
    uri: str
    rows: int
    counts: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        counts = [{"step": step, "rule": rule, "rows": rows} for (step, rule), rows in self.counts.items()]
        return {"run": self.run, "commit": self.commit, "uri": self.uri, "rows": self.rows, "counts": counts}


def quarantined(graph: Any, pipeline: str, branch: str = MAIN) -> tuple[QuarantinedRun, ...]:
    """Return the runs of a pipeline whose rejected rows wait on a branch, newest first."""
    engine = engine_of(graph)
    return tuple(_described(place, run, commit) for run, commit, place in _waiting(engine, pipeline, branch))


def read_quarantine(graph: Any, pipeline: str, run: str | None = None, branch: str = MAIN) -> pa.Table:
    """Return rejected rows: with reason, rule, step, source, file, number among the rows of the step, and as JSON.

    Args:
        graph: the open graph.
        pipeline: the name of the pipeline.
        run: only those of this run; of all runs that wait when None.
        branch: whose history.

    Raises:
        RunMissingError: no such run waits.
    """
    places = [place for _, _, place in _chosen(engine_of(graph), pipeline, run, branch)]
    return pa.concat_tables(
        [QUARANTINE.empty_table(), *(place.read(name) for place in places for name in place.names())]
    )


def export_quarantine(graph: Any, pipeline: str, to: str | Path, run: str | None = None, branch: str = MAIN) -> int:
    """Write rejected rows to a file of this machine, Parquet or lines of JSON by its name; return how many.

    Raises:
        RunMissingError: no such run waits.
    """
    rows = read_quarantine(graph, pipeline, run, branch)
    target = Path(to)
    if target.suffix in {".jsonl", ".ndjson", ".json"}:
        import msgspec  # noqa: PLC0415 - only for this

        target.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows.to_pylist()))
    else:
        pq.write_table(rows, target)
    return int(rows.num_rows)


def replay(
    pipeline: Declaration | Pipeline,
    graph: Any = None,
    *,
    run: str | None = None,
    spark: Any = None,
    branch: str | None = None,
    publish: Publish | None = None,
    actor: str | None = None,
    progress: Any = None,
) -> RunReport:
    """Run the steps that have rejected rows over these rows again, as one commit.

    Rows that are rejected again are in the quarantine of the new run. Those of earlier runs leave it with the commit,
    and come back if that is reverted.

    Args:
        pipeline: what is declared by now.
        graph: an open graph, or where one is; that of the declaration when None.
        run: only the rows of this run; of all runs that wait when None.
        spark: the session to work with.
        branch: where to write; the branch of the declaration when None.
        publish: how; as the declaration says when None.
        actor: who asks for it.
        progress: told how far it is.

    Raises:
        RunMissingError: no such run waits.
        OmnigraphError: whatever :func:`omnigraph.pipelines.run` does.
    """
    declaration = declaration_of(pipeline)
    options = checked_options(declaration, branch=branch, publish=publish, actor=actor, progress=progress)
    with opened(graph, declaration) as engine:
        places = {one: place for one, _, place in _chosen(engine, declaration.name, run, options.branch)}
        return Run(engine, declaration, options, session_for(engine.store.storage, spark)).replay(places)


def _chosen(engine: OpenGraph, pipeline: str, run: str | None, branch: str) -> list[tuple[str, str, QuarantinePlace]]:
    found = list(_waiting(engine, pipeline, branch))
    if run is None:
        return found
    chosen = [one for one in found if one[0] == run]
    if not chosen:
        details = MissingThing(what="run", name=run, near=tuple(one for one, _, _ in found[:3]))
        raise RunMissingError(f"run '{run}' of pipeline '{pipeline}' has no rows in quarantine", details=details)
    return chosen


def _waiting(engine: OpenGraph, pipeline: str, branch: str) -> Iterator[tuple[str, str, QuarantinePlace]]:
    snapshot = engine.store.snapshot(BranchName.parse(branch))
    taken: set[str] = set()
    for found in runs_that_count(engine.store, snapshot, pipeline):
        mark = found.mark
        taken.update(mark.report.get("replayed", ()))
        uri = mark.report.get("quarantine")
        if uri is not None and mark.run not in taken:
            # A merge and the commit that it brought tell of the same run.
            taken.add(mark.run)
            yield mark.run, found.commit.id, _place(engine, pipeline, mark.run, uri)


def _place(engine: OpenGraph, pipeline: str, run: str, uri: str) -> QuarantinePlace:
    storage = engine.store.storage
    folder = f"{QUARANTINE_FOLDER}/{pipeline}/run={run}"
    if uri.endswith(folder):
        # A graph that was moved has taken them along.
        return QuarantinePlace(storage=storage, folder=folder)
    folder = f"{pipeline}/run={run}"
    return QuarantinePlace(storage=Storage.open(uri.removesuffix(f"/{folder}"), dict(storage.options)), folder=folder)


def _described(place: QuarantinePlace, run: str, commit: str) -> QuarantinedRun:
    counts: dict[tuple[str, str], int] = {}
    for name in place.names():
        grouped = place.read(name).group_by(["step", "rule"]).aggregate([([], "count_all")])
        for row in grouped.to_pylist():
            key = row["step"], row["rule"]
            counts[key] = counts.get(key, 0) + row["count_all"]
    return QuarantinedRun(run=run, commit=commit, uri=place.uri, rows=sum(counts.values()), counts=counts)
