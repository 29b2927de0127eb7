"""A difference that tasks work out, a range of ids of one table each; what they find is read back range by range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from omnigraph.history.diff.change import NO_FILTER, ChangeFilter, ChangeOp
from omnigraph.history.diff.compare import GraphDiff, OpenPair, TablePair, iter_deltas
from omnigraph.history.diff.rows import ChangedRows, TableDelta, rows_delta
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.history.ranges import Cut, Ranging, SparkHistorySettings, read_range
from omnigraph.spark.history.states import ComparedStates
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.spark.runner import Runner
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.txn.snapshot import GraphSnapshot

_FILES = ("inserted", "deleted", "before", "after")


class ExecutorDiff(GraphDiff):
    """A difference like any other, worked out wherever ``runner`` runs tasks; this process holds one range of it.

    Args:
        before: the earlier state.
        after: the later state.
        wanted: which changes.
        storage: where the graph is.
        runner: who works.
        settings: how large pieces are.
    """

    def __init__(
        self,
        before: GraphSnapshot,
        after: GraphSnapshot,
        wanted: ChangeFilter = NO_FILTER,
        *,
        storage: Storage,
        runner: Runner,
        settings: SparkHistorySettings,
    ) -> None:
        super().__init__(before, after, wanted, settings.memory_bytes)
        self._storage = storage
        self._runner = runner
        self._settings = settings

    def _counts(self, pairs: Sequence[OpenPair]) -> Iterator[tuple[TablePair, Counter[ChangeOp]]]:
        if self._wanted.ids or not pairs:
            yield from super()._counts(pairs)
            return
        with self._scratch() as scratch:
            tasks, answers = self._work(pairs, scratch, keeps_rows=False)
            counts: list[Counter[ChangeOp]] = [Counter() for _ in pairs]
            for task, found in zip(tasks, answers, strict=True):
                for part in found:
                    counts[task.pair].update(part.counts)
        yield from zip((opened.pair for opened in pairs), counts, strict=True)

    def _changed_rows(self, pairs: Sequence[OpenPair]) -> Iterator[tuple[TablePair, ChangedRows]]:
        # Single entities are looked up sooner than a job is started.
        if self._wanted.ids or not pairs:
            yield from super()._changed_rows(pairs)
            return
        with self._scratch() as scratch:
            tasks, answers = self._work(pairs, scratch, keeps_rows=True)
            for task, found in zip(tasks, answers, strict=True):
                for part in found:
                    yield pairs[task.pair].pair, ChangedRows.held(part.read(scratch, pairs[task.pair]))

    @contextmanager
    def _scratch(self) -> Iterator[ScratchPlace]:
        place = ScratchPlace(storage=self._storage, operation_id=str(Runtime.system().ids.ulid()))
        try:
            yield place
        finally:
            place.clear()

    def _work(
        self, pairs: Sequence[OpenPair], scratch: ScratchPlace, *, keeps_rows: bool
    ) -> tuple[list[CompareTask], list[list[ChangedPart]]]:
        states = ComparedStates(
            before=PinnedState.of(self._storage, self.before),
            after=PinnedState.of(self._storage, self.after),
            pairs=tuple(opened.pair for opened in pairs),
        )
        ranging = Ranging(compared=states, runner=self._runner, scratch=scratch, settings=self._settings)
        ranges = ranging.divide({str(at): [(opened.before, opened.after)] for at, opened in enumerate(pairs)})
        tasks: list[CompareTask] = []
        for at in range(len(pairs)):
            cuts = ranges[str(at)].cuts
            found = [None] if cuts is None else [cuts[place] for place in sorted(cuts)]
            tasks += [CompareTask(pair=at, cuts=some) for some in found]
        order = CompareOrder(states=states, scratch=scratch, keeps_rows=keeps_rows, settings=self._settings)
        return tasks, self._runner.run(partial(compare_rows, order), tasks, "compare the rows of both states")


@record
class CompareOrder:
    """What all tasks of a difference have in common; ``keeps_rows``: not only their number is wanted."""

    states: ComparedStates
    scratch: ScratchPlace
    keeps_rows: bool
    settings: SparkHistorySettings


@record
class CompareTask:
    """A range of ids of one pair of tables, or all of it: then there are no files."""

    pair: int
    cuts: tuple[Cut, ...] | None


@record
class ChangedPart:
    """What differs in a range: how much of it, and the files that hold it."""

    counts: dict[ChangeOp, int]
    files: dict[str, str]

    def read(self, scratch: ScratchPlace, opened: OpenPair) -> TableDelta:
        """Return the rows."""
        shown = opened.after if opened.after is not None else opened.before
        none = pa.schema([]).empty_table() if shown is None else shown.schema.empty_table()
        found = {
            kind: pa.Table.from_batches(scratch.read_arrow(self.files[kind])) if kind in self.files else none
            for kind in _FILES
        }
        return TableDelta(**found)


def compare_rows(order: CompareOrder, task: CompareTask) -> list[ChangedPart]:
    """Compare a range of ids, and write down the rows that differ."""
    table = str(task.pair)
    if task.cuts is None:
        deltas = iter_deltas(order.states.open_pair(table), order.settings.memory_bytes)
    else:
        deltas = iter([rows_delta(*read_range(order.scratch, task.cuts, order.states.versions(table)))])
    return [_part(order, delta) for delta in deltas]


def _part(order: CompareOrder, delta: TableDelta) -> ChangedPart:
    files: dict[str, str] = {}
    if order.keeps_rows:
        attempt = Runtime.system().ids.ulid()
        for kind in _FILES:
            rows = getattr(delta, kind)
            if rows.num_rows:
                files[kind] = f"changed/{attempt}-{kind}"
                order.scratch.put(files[kind], rows)
    return ChangedPart(counts=ChangedRows.held(delta).counts, files=files)
