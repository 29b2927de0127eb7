"""The resolutions of a run: what is known of earlier ones, and the rows of entities, members and evidence.

What is decided is written with all other rows of the run. People decide between runs, so that a run which finds
nothing new looks for their decisions, and one that is overtaken by a decision begins again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import RunConflict, RunConflictError
from omnigraph.pipelines.check.resolutions import (
    DECISION,
    SCORE,
    is_partial,
    takes_rows_of,
    takes_rows_with,
    writer_of,
)
from omnigraph.pipelines.model import Declaration, ResolveStep, TypeStep
from omnigraph.pipelines.order import sources_of
from omnigraph.pipelines.sql import names_in
from omnigraph.spark.resolution import Comparison, EvidenceNames, Resolution
from omnigraph.spark.steps.resolving import CANONICAL, KeptEntities, ResolvedRecords, resolve_records
from omnigraph.spark.steps.rows import StepRows, with_retired
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.snapshot import GraphSnapshot

# What changes files of tables, and no row.
_SAME_ROWS = frozenset({WriteKind.OPTIMIZE, WriteKind.ENSURE_INDICES})


class Resolutions:
    """Resolves records for one run, upon the state that it begins with."""

    def __init__(
        self,
        engine: OpenGraph,
        declaration: Declaration,
        base: GraphSnapshot,
        *,
        full_refresh: bool = False,
        is_stream: bool = False,
    ) -> None:
        self._engine = engine
        self._declaration = declaration
        self._base = base
        self._catalog = engine.catalog_at(base)
        self._full_refresh = full_refresh
        self._is_stream = is_stream
        self._found: dict[str, ResolvedRecords] = {}
        self.types: dict[str, TypeStep] = {}

    def resolved(self, step: ResolveStep, frame: Any) -> Any:
        """Return records with the ids of the entities that they mean; what is kept of that is remembered."""
        found = resolve_records(self._engine, frame, step.id_column, _resolution(step), self._kept(step))
        self._found[step.name] = found
        return found.frame

    def add_to(self, steps: Iterable[StepRows]) -> tuple[StepRows, ...]:
        """Return the rows of all types, nodes before edges: those of steps, and what resolutions keep."""
        by_table = {step.table_key: step for step in steps}
        for step in self._declaration.resolves:
            found = self._found[step.name]
            sources = tuple(source.name for source in sources_of(self._declaration, step.name))
            for table_key, frame in found.rows.items():
                if table_key in by_table:
                    # Entities that people make of the records: theirs are the rows, and only what is gone is added.
                    if found.retired is not None:
                        (key,) = self._catalog.nodes[table_key[5:]].key or ()
                        by_table[table_key] = with_retired(by_table[table_key], found.retired, key)
                    continue
                kind, _, type_name = table_key.partition(":")
                name = f"{step.name}.{type_name}"
                self.types[name] = TypeStep(
                    name=name,
                    place=step.place,
                    kind="edge" if kind == "edge" else "node",
                    type_name=type_name,
                    inputs=(step.name,),
                )
                # A record that was put aside has no node; its edges go the same way.
                by_table[table_key] = StepRows(
                    name=name, table_key=table_key, frame=frame, missing_end="quarantine", sources=sources
                )
        return tuple(sorted(by_table.values(), key=lambda one: one.table_key.startswith("edge:")))

    def close(self) -> None:
        """Let go of what was kept."""
        for found in self._found.values():
            for frame in found.cached:
                frame.unpersist()

    def _kept(self, step: ResolveStep) -> KeptEntities | None:
        if step.same_as is None:
            return None
        records = self._catalog.nodes[self._catalog.edges[step.same_as].from_type]
        writer = writer_of(self._declaration, records.name)
        accepts, keeps_others = None, False
        adds: dict[str, str] = {}
        if writer is not None and (takes_rows_of(writer, step) or takes_rows_with(writer, step)):
            adds = {name: text for name, text in writer.set.items() if CANONICAL not in names_in(text)}
            unknown = {CANONICAL, *(name.lower() for name in writer.set if name not in adds)}
            conditions = [one.condition for one in writer.expect if one.outcome in {"drop", "quarantine"}]
            conditions = [one for one in conditions if unknown.isdisjoint(names_in(one))]
            accepts = " AND ".join(f"({one}\n)" for one in conditions) or None
            keeps_others = takes_rows_of(writer, step)
        # A full refresh that removes what is missing has all records there are.
        has_all = self._full_refresh and writer is not None and writer.removes_missing
        return KeptEntities(
            names=evidence_names(step, self._catalog),
            records=records,
            branch=str(self._base.state.head.branch),
            commit=str(self._base.state.head.commit),
            accepts=accepts,
            adds=adds,
            keeps_others=keeps_others,
            adds_stored=is_partial(self._declaration, step, is_stream=self._is_stream) and not has_all,
        )


def evidence_names(step: ResolveStep, catalog: Catalog) -> EvidenceNames:
    """Return what a resolution is kept in; properties are found by their names. The schema must fit."""
    assert step.same_as is not None  # noqa: S101 - asked by the caller
    member = catalog.edges[step.same_as]
    (key,) = catalog.nodes[member.to_type].key or ()
    pair = None if step.evidence is None else catalog.edges[step.evidence]
    known = () if pair is None else [prop.name for prop in pair.properties]
    return EvidenceNames(
        entity=member.to_type,
        key=key,
        member=member.name,
        pair=step.evidence,
        decision=DECISION,
        score=SCORE if SCORE in known else None,
        scores={column: f"{SCORE}_{column}" for column, _, _ in step.comparisons if f"{SCORE}_{column}" in known},
    )


def has_decisions(engine: OpenGraph, snapshot: GraphSnapshot, declaration: Declaration) -> bool:
    """Whether somebody has changed what resolutions keep since the last run of the pipeline."""
    tables = _tables(declaration)
    for commit, _ in engine.store.refs.iter_all_commits(snapshot) if tables else ():
        if commit.run is not None and commit.run.pipeline == declaration.name:
            return False
        if _changes(commit, tables):
            return True
    return False


def expect_undecided(
    engine: OpenGraph, snapshot: GraphSnapshot, declaration: Declaration, *, head: str, run: str
) -> None:
    """Return if nobody has changed what resolutions keep since a run began, at the commit ``head``.

    Raises:
        RunConflictError: somebody has, so that the run would write over it.
    """
    tables = _tables(declaration)
    for commit, _ in engine.store.refs.iter_all_commits(snapshot) if tables else ():
        if commit.id == head:
            return
        if _changes(commit, tables):
            branch = snapshot.state.head.branch
            raise RunConflictError(
                f"run '{run}' of pipeline '{declaration.name}' began before a decision on branch '{branch}' was made",
                details=RunConflict(pipeline=declaration.name, run=run, branch=branch),
            )


def _tables(declaration: Declaration) -> frozenset[str]:
    steps = declaration.resolves
    return frozenset(f"edge:{name}" for step in steps for name in (step.same_as, step.evidence) if name is not None)


def _changes(commit: Commit, tables: frozenset[str]) -> bool:
    return commit.operation not in _SAME_ROWS and not tables.isdisjoint(commit.touched)


def _resolution(step: ResolveStep) -> Resolution:
    return Resolution(
        blocking=step.blocking,
        comparisons=tuple(
            Comparison(column=column, method=method, weight=weight)  # type: ignore[arg-type]  # one of the known ones
            for column, method, weight in step.comparisons
        ),
        threshold=step.threshold,
        review=step.review,
    )
