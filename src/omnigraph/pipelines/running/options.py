"""What a run is asked for: which pipeline, which graph, where to and how, checked before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BadValue, UsageError
from omnigraph.pipelines.check.resolutions import is_partial
from omnigraph.pipelines.declare import Pipeline
from omnigraph.pipelines.model import ByColumn, Declaration, Publish
from omnigraph.pipelines.results import RunProgress
from omnigraph.records import record
from omnigraph.spark.sessions.session import engine_of
from omnigraph.store.location import Storage
from omnigraph.values import check_choice, check_flag, check_text, check_whole, checked_text


@record
class RunOptions:
    """What a run is asked for beyond its declaration; :func:`run` says what each of it means."""

    branch: str
    publish: Publish
    full_refresh: bool = False
    since: str | None = None
    limit: int | None = None
    dry_run: bool = False
    progress: Callable[[RunProgress], None] | None = None
    quarantine_to: str | None = None
    actor: str | None = None


def declaration_of(pipeline: object) -> Declaration:
    """Return what was declared.

    Raises:
        PipelineInvalidError: a part of it makes no sense.
        UsageError: it is no pipeline.
    """
    if isinstance(pipeline, Declaration):
        return pipeline
    if isinstance(pipeline, Pipeline):
        return pipeline.declaration()
    details = BadValue(what="pipeline", value=type(pipeline).__name__, expected="a pipeline or a declaration")
    raise UsageError("no pipeline to run", details=details)


def checked_options(
    declaration: Declaration, *, branch: str | None, publish: Publish | None, **rest: Any
) -> RunOptions:
    """Return the options of a run.

    Raises:
        UsageError: an option is of another type or out of bounds, or two of them contradict each other.
    """
    check_whole("limit", rest.get("limit"), least=1, optional=True)
    for name in ("full_refresh", "dry_run"):
        check_flag(name, rest.get(name, False))
    for name in ("since", "actor"):
        checked_text(name, rest.get(name))
    if publish is not None:
        check_choice("publish", publish, ("direct", "audit", "propose"))
    if branch is not None:
        check_text("branch", branch)
    if rest.get("since") is not None and rest.get("full_refresh"):
        details = BadValue(what="since", value=str(rest["since"])[:80], expected="no full refresh")
        raise UsageError("a full refresh reads from the beginning", details=details)
    if rest.get("since") is not None and not any(isinstance(one.incremental, ByColumn) for one in declaration.sources):
        details = BadValue(
            what="since", value=str(rest["since"])[:80], expected="a source that is incremental by a column"
        )
        raise UsageError(f"no source of pipeline '{declaration.name}' is incremental by a column", details=details)
    removes = any(step.removes_missing and rest.get("full_refresh") for step in declaration.types)
    removes |= any(step.mode == "overwrite" for step in declaration.types)
    removes |= any(step.same_as is not None and not is_partial(declaration, step) for step in declaration.resolves)
    if rest.get("limit") is not None and removes and not rest.get("dry_run"):
        details = BadValue(what="limit", value=str(rest["limit"]), expected="a dry run")
        raise UsageError("with a part of the rows, removes_missing would delete all others", details=details)
    return RunOptions(branch=branch or declaration.branch, publish=publish or declaration.publish, **rest)


@contextmanager
def opened(graph: Any, declaration: Declaration) -> Iterator[OpenGraph]:
    """Give the open graph that a caller has, or open that of an address.

    Raises:
        UsageError: neither the caller nor the declaration names one.
    """
    where = declaration.graph if graph is None else graph
    if where is None:
        details = BadValue(what="graph", value="", expected="a graph")
        raise UsageError(f"pipeline '{declaration.name}' names no graph, and none was passed", details=details)
    if not isinstance(where, str | Path):
        yield engine_of(where)
        return
    with OpenGraph.open(Storage.open(str(where))) as engine:
        yield engine
