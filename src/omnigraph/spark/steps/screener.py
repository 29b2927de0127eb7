"""A look at all rows of a run together: what is left out, what is made up, and what has to go, upon one state.

On a newer state nodes may be there that were missing, so that every attempt to publish looks for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load import LoadMode
from omnigraph.engine.load.sequences import StreamMemory
from omnigraph.engine.rows.changes import NO_SEQUENCE
from omnigraph.errors import ConstraintViolationError, Violation, Violations
from omnigraph.records import record
from omnigraph.spark.keys import Places
from omnigraph.spark.loads.change_log import LogChange
from omnigraph.spark.loads.decided import TableFiles
from omnigraph.spark.loads.written import LoadedType
from omnigraph.spark.runner import Runner
from omnigraph.spark.steps.binding import keeps_originals, sequence_property
from omnigraph.spark.steps.model import CountedStep
from omnigraph.spark.steps.rejected import RejectedFile
from omnigraph.spark.steps.screening import (
    EndsTask,
    FoundRows,
    LateTask,
    RejectTask,
    RestTask,
    ScreenOrder,
    StubRows,
    StubTask,
    find_late,
    find_missing_ends,
    find_repeated,
    find_rest,
    find_taken,
    make_stubs,
    reject_found,
    row_files,
    without,
)
from omnigraph.txn.transaction import key_exists


@record(frozen=False)
class Screener:
    """What was read of each type, less what cannot be taken.

    Args:
        runner: who works.
        order: the schema, where files are, and the state that rows meet.
        steps: what was counted of each step, by table.
        modes: what happens to the stored rows of each table.
        places: what row numbers stand for.
        types: what was read, by table; rows that are rejected leave it.
        late: how many rows were older than what is stored.
        quarantined: how many rows were put aside.
        rejected: their files.
        removed: how many stored entities go because a step does not have them.
        stubs: nodes that were made for missing ends, by the table of their type.
        made_for: how many of them were made for the edges of a table.
        memory: what earlier runs of the pipeline have applied; None where no row has a sequence.
        keeps_edges: tables of node types whose deletes take no edges with them.
    """

    runner: Runner
    order: ScreenOrder
    steps: Mapping[str, CountedStep]
    modes: Mapping[str, LoadMode]
    places: Places
    types: dict[str, LoadedType]
    late: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, list[RejectedFile]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    stubs: dict[str, StubRows] = field(default_factory=dict)
    made_for: dict[str, int] = field(default_factory=dict)
    memory: StreamMemory | None = None
    keeps_edges: frozenset[str] = frozenset()

    def is_ordered(self, key: str) -> bool:
        """Whether it is said which of several rows of an entity counts."""
        return key not in self.steps or self.steps[key].prepared.step.is_ordered

    def screen_rows(self) -> bool:
        """Look at rows that are written as they are; return whether something is different now."""
        is_changed = False
        for key in self.steps:
            if key in self.types and not self.is_ordered(key):
                is_changed |= self.leave_out_repeated(key)
        coming = {
            loaded.owner.name: row_files(loaded) for loaded in self.types.values() if isinstance(loaded.owner, NodeType)
        }
        is_changed |= self._reject_edges(coming, {})
        if self._make_stubs(coming):
            for key, stubs in self.stubs.items():
                self.types[key] = _with_stubs(self.types.get(key), self.order.catalog.nodes[key[5:]], stubs)
            is_changed = True
        return is_changed

    def screen_log(self, decided: LogChange) -> bool:
        """Look at rows that were folded; return whether they have to be folded again."""
        nodes = {key[5:]: files for key, files in decided.tables.items() if key.startswith("node:")}
        coming = {name: tuple(file.name for file in one.inserts) for name, one in nodes.items()}
        going = {name: tuple(file.name for file in one.deletes) for name, one in nodes.items()}
        return self._reject_edges(coming, going) | self._make_stubs(coming)

    def with_stubs(self, decided: LogChange) -> LogChange:
        """Return what was decided, and beside it the nodes that were made."""
        tables = dict(decided.tables)
        for key, stubs in self.stubs.items():
            known = tables.get(key, TableFiles())
            tables[key] = replace(known, inserts=(*known.inserts, stubs.aside))
        return replace(decided, tables=dict(sorted(tables.items())))

    def leave_out_repeated(self, key: str) -> bool:
        """Reject rows whose key an earlier row has, if the step keeps what it rejects."""
        if not keeps_originals(self.steps[key].prepared.step):
            return False
        found = self._repeated(key)
        if found is None:
            return False
        self._reject(key, found, "duplicate_key", {"id": "an earlier row of the run has the key '{}'"})
        return True

    def repeated_error(self, key: str) -> ConstraintViolationError:
        """Return the error for rows of a run that have one key, when nobody says which of them counts."""
        owner, found = self.steps[key].prepared.owner, self._repeated(key)
        name, line = (None, None) if found is None else self.places.of(found.first)
        text = f"{owner.name}: an earlier row of the run has the same key"
        item = Violation(rule="unique", type_name=owner.name, message=text, source=name, line=line)
        details = Violations(items=(item,), total=1 if found is None else found.rows)
        hint = "choose one row per key with `dedupe` or `sequence`, or put the others into quarantine"
        return ConstraintViolationError(text, details=details, hint=hint)

    def leave_out_late(self) -> None:
        """Leave out rows that are older than what earlier runs have applied, or than the stored value of a property.

        A late delete of a node stays: it takes the edges that are older.
        """
        tasks = []
        for key, counted in self.steps.items():
            loaded, name = self.types.get(key), sequence_property(counted.prepared)
            is_known = self.memory is not None and isinstance(counted.prepared.owner, EdgeType)
            if loaded is not None and loaded.aside and (name is not None or is_known):
                tasks.append(
                    LateTask(table_key=key, files=row_files(loaded), property=name, keeps_edges=self.keeps_edges)
                )
        done = self.runner.run(partial(find_late, self.order), tasks, "find late rows")
        for task, found in zip(tasks, done, strict=True):
            if found is not None:
                self.late[task.table_key] = found.rows
                self._leave_out(task.table_key, found)

    def remove_rest(self) -> None:
        """Add rows that delete what a step does not have, where it says so."""
        tasks = []
        for key, counted in self.steps.items():
            if counted.prepared.step.removes_missing or self.modes[key] == "overwrite":
                loaded = self.types.get(key)
                kind = NO_SEQUENCE if loaded is None or not loaded.kinds else min(loaded.kinds)
                files = () if loaded is None else row_files(loaded)
                tasks.append(RestTask(table_key=key, files=files, kind=kind, place=self.stored_place))
        done = self.runner.run(partial(find_rest, self.order), tasks, "find the missing rows")
        for task, file in zip(tasks, done, strict=True):
            if file is None:
                continue
            known = self.types.get(task.table_key) or _nothing_of(self.steps[task.table_key].prepared.owner)
            self.types[task.table_key] = replace(
                known, rows=known.rows + file.rows, aside=(*known.aside, file), deletes=known.deletes + file.rows
            )
            self.removed[task.table_key] = file.rows

    def refuse_taken(self) -> None:
        """Refuse rows of an append whose ids are stored.

        Raises:
            KeyExistsError: there are some.
        """
        tasks = [(key, row_files(loaded)) for key, loaded in self.types.items() if self.modes[key] == "append"]
        done = self.runner.run(partial(find_taken, self.order), tasks, "find stored ids")
        for (key, _), taken in zip(tasks, done, strict=True):
            if taken.count:
                raise key_exists(key, taken.ids)

    @property
    def stored_place(self) -> int:
        """What the places of rows begin with that come from no step."""
        return len(self.places.names) - 1

    def _repeated(self, key: str) -> FoundRows | None:
        files = row_files(self.types[key])
        (found,) = self.runner.run(partial(find_repeated, self.order), [files], "find repeated keys")
        return found

    def _edges(self, outcome: str) -> list[str]:
        return [
            key
            for key, counted in self.steps.items()
            if key in self.types and key.startswith("edge:") and counted.prepared.step.missing_end == outcome
        ]

    def _reject_edges(self, coming: Mapping[str, tuple[str, ...]], going: Mapping[str, tuple[str, ...]]) -> bool:
        """Reject edges that lack an end, where steps want that."""
        is_changed = False
        for key, found in self._find_missing(self._edges("quarantine"), coming, going):
            edge = self.order.catalog.edges[key[5:]]
            says = {
                "src": f"{edge.from_type} '{{}}', the source of the edge, does not exist",
                "dst": f"{edge.to_type} '{{}}', the target of the edge, does not exist",
            }
            self._reject(key, found, "missing_end", says)
            is_changed = True
        return is_changed

    def _make_stubs(self, coming: Mapping[str, tuple[str, ...]]) -> bool:
        """Make nodes for edges that lack one, where steps want that; not for nodes that the run itself deletes."""
        wanted: dict[str, list[tuple[str, str, str]]] = {}
        for key, found in self._find_missing(self._edges("stub"), coming, {}):
            edge = self.order.catalog.edges[key[5:]]
            for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
                wanted.setdefault(name, []).append((key, found.name, side))
        tasks = [
            StubTask(node=name, found=tuple((file, side) for _, file, side in some), place=self.stored_place)
            for name, some in wanted.items()
        ]
        made = self.runner.run(partial(make_stubs, self.order), tasks, "make nodes for missing ends")
        for task, stubs in zip(tasks, made, strict=True):
            if stubs is not None:
                self.stubs[f"node:{task.node}"] = stubs
                for (key, _, _), count in zip(wanted[task.node], stubs.counts, strict=True):
                    self.made_for[key] = self.made_for.get(key, 0) + count
        return bool(self.stubs)

    def _find_missing(
        self,
        keys: Sequence[str],
        coming: Mapping[str, tuple[str, ...]],
        going: Mapping[str, tuple[str, ...]],
    ) -> list[tuple[str, FoundRows]]:
        tasks = [EndsTask(table_key=key, files=row_files(self.types[key]), coming=coming, going=going) for key in keys]
        done = self.runner.run(partial(find_missing_ends, self.order), tasks, "find missing ends")
        return [(key, found) for key, found in zip(keys, done, strict=True) if found is not None]

    def _reject(self, key: str, found: FoundRows, rule: str, says: Mapping[str, str]) -> None:
        """Put rows aside, and leave them out."""
        originals = tuple(file.name for file in self.steps[key].originals)
        task = RejectTask(found=found.name, originals=originals, rule=rule, says=dict(says))
        (files,) = self.runner.run(partial(reject_found, self.order.scratch), [task], "keep the rejected rows")
        self.rejected.setdefault(key, []).extend(files)
        self.quarantined[key] = self.quarantined.get(key, 0) + sum(file.rows for file in files)
        self._leave_out(key, found)

    def _leave_out(self, key: str, found: FoundRows) -> None:
        self.types[key] = without(self.runner, self.order.scratch, self.types[key], [found])


def _nothing_of(owner: NodeType | EdgeType) -> LoadedType:
    return LoadedType(owner=owner, rows=0, has_fresh_ids=False, keys=(), fragments=(), aside=())


def _with_stubs(known: LoadedType | None, node: NodeType, stubs: StubRows) -> LoadedType:
    known = known or _nothing_of(node)
    return replace(
        known,
        rows=known.rows + stubs.aside.rows,
        has_fresh_ids=False,
        keys=(*known.keys, stubs.keys),
        aside=(*known.aside, stubs.aside),
    )
