"""What follows the match: groups, order, limit and columns, as tasks of which only the last must see all rows."""

from __future__ import annotations

from omnigraph.ir.model import ReadPlan
from omnigraph.spark.query.group_tasks import FirstGroupsTask, GroupTask, MergeTask
from omnigraph.spark.query.held import Given
from omnigraph.spark.query.layout import Layout
from omnigraph.spark.query.relations import Relation, Task
from omnigraph.spark.query.row_tasks import FirstRowsTask, ShowTask


def lower_output(read: ReadPlan, given: Given, rows: Relation, layout: Layout) -> tuple[Relation, Task | None]:
    """Return what is made of the rows of a match, and the task that makes the result of it in one place, if any."""
    if read.groups is not None:
        return _groups(read, given, rows, layout)
    if read.order:
        if read.limit is not None:
            rows = rows.map(FirstRowsTask(given=given, layout=layout, read=read))
        return rows, ShowTask(given=given, layout=layout, read=read, is_last=True)
    shown = rows.map(ShowTask(given=given, layout=layout, read=read))
    return (shown if read.limit is None else shown.limit(read.limit)), None


def _groups(read: ReadPlan, given: Given, rows: Relation, layout: Layout) -> tuple[Relation, Task | None]:
    grouping = GroupTask(given=given, layout=layout, read=read)
    partial = rows.map(grouping)
    if not grouping.keys:
        return partial, MergeTask(grouping=grouping)
    whole = partial.spread(grouping.keys).map(MergeTask(grouping=grouping))
    return whole, (FirstGroupsTask(read=read) if read.order or read.limit is not None else None)
