"""What a write through the data source is about, as all of its processes carry it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.load import LoadMode, Source
from omnigraph.engine.load.binding import Binding, bind
from omnigraph.engine.load.parquet import misfits
from omnigraph.engine.load.problems import ProblemList
from omnigraph.engine.rows import RowProblem
from omnigraph.errors import BadValue, InternalError, UsageError
from omnigraph.records import record
from omnigraph.runtime import World
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinning import find_type
from omnigraph.spark.source.sessions import reading_session
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace

_PROBLEMS = 100
_LONGEST_APP = 200


@record
class WritePlan:
    """One write, or the writes of one stream.

    Args:
        storage: where the graph is.
        branch: where to write.
        type_name: the type of all rows.
        mode: what happens to rows that exist.
        columns: the columns that rows have, and their types.
        scratch: where tasks put what only this write looks at.
        actor: who writes.
        message: what commits say.
        expected_head: the commit that the branch must be at.
        app: what names the stream, when the caller or its checkpoint does.
    """

    storage: Storage
    branch: str
    type_name: str
    mode: LoadMode
    columns: pa.Schema
    scratch: ScratchPlace
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    app: str | None = None

    @classmethod
    def begin(cls, options: SourceOptions, columns: pa.Schema, *, overwrite: bool) -> WritePlan:
        """Return the plan for options, after a look at the schema: columns that do not fit cost no job.

        Raises:
            BadRowsError: a column is unknown, missing or of another type.
            TypeMissingError, BranchMissingError: there is no such type or branch.
            UsageError: the options contradict each other.
        """
        plan = cls(
            storage=options.storage,
            branch=_branch(options),
            type_name=options.the_type(),
            mode=_mode(options, overwrite=overwrite),
            columns=columns,
            scratch=ScratchPlace(storage=options.storage, operation_id=str(World.system().ids.ulid())),
            actor=options.actor,
            message=options.message,
            expected_head=options.expected_head,
            app=_app(options),
        )
        plan.binding(reading_session(plan.storage).catalog(plan.branch))
        return plan

    @property
    def title(self) -> str:
        """What problems call the frame."""
        return f"<{self.type_name}>"

    def binding(self, catalog: Catalog) -> Binding:
        """Return which column is which property.

        Raises:
            BadRowsError: a column is unknown, missing or of another type.
        """
        source = Source(path=self.title, format="parquet", type_name=self.type_name)
        bound = bind(source, find_type(catalog, self.type_name), self.columns.names)
        with ProblemList(_PROBLEMS, None) as problems:
            found = [bound] if isinstance(bound, RowProblem) else misfits(bound, self.columns)
            problems.add(problem.violation(source.name) for problem in found)
            problems.fail()
        if isinstance(bound, RowProblem):
            raise InternalError(f"a problem was not reported: {bound.message}")
        return bound

    def at(self, operation_id: str) -> WritePlan:
        """Return the plan with the scratch place of another process that made one for the same stream."""
        return replace(self, scratch=ScratchPlace(storage=self.storage, operation_id=operation_id))


def _branch(options: SourceOptions) -> str:
    if options.at is not None:
        details = BadValue(what="snapshot", value=options.at, expected="option branch")
        raise UsageError("only a branch can be written to", details=details)
    return options.branch


def _mode(options: SourceOptions, *, overwrite: bool) -> LoadMode:
    if options.mode is None:
        return "overwrite" if overwrite else "append"
    if overwrite and options.mode != "overwrite":
        details = BadValue(what="mode", value=options.mode, expected="the mode append of Spark beside it")
        raise UsageError("the two modes of the write contradict each other", details=details)
    return options.mode


def _app(options: SourceOptions) -> str | None:
    if options.app is not None and not 0 < len(options.app) <= _LONGEST_APP:
        details = BadValue(what="app", value=options.app[:_LONGEST_APP], expected=f"1 to {_LONGEST_APP} characters")
        raise UsageError("the name of a stream has no such length", details=details)
    return options.app
