"""How a run becomes visible: at once, or by way of a branch of its own, where checks and what follows are run first.

A run that has neither checks nor anything that follows, and that nobody wants to look at, commits where it belongs.
Every other one is loaded into a branch of its own, so that the branch it is meant for gets one commit, or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain, count
from types import TracebackType
from typing import Any, Self

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.runner import PendingRead, ReadCall
from omnigraph.engine.results.encodings import json_texts
from omnigraph.errors import CheckFailedError, Effect, MergeConflictsError, OmnigraphError, RefusedRun
from omnigraph.history.merge import merge_branch
from omnigraph.history.merge.merged_state import MergeCandidate
from omnigraph.lang.gq import parse_queries
from omnigraph.operations.algorithms import WriteAlgorithmRequest
from omnigraph.operations.history import CreateBranchRequest, DeleteBranchRequest
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.proposals import OpenProposalRequest
from omnigraph.operations.writes import MutateRequest
from omnigraph.pipelines.model import AfterStep, CheckStep, Declaration
from omnigraph.pipelines.results import CheckReport, RunReport, StepReport
from omnigraph.pipelines.running.leftovers import RunNote
from omnigraph.pipelines.running.options import RunOptions
from omnigraph.records import record
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.manifest.rows import RunMark
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName
from omnigraph.values.counts import counted

_SAMPLES = 5
_COUNTED = 1_000


@record(frozen=False, kw_only=False)
class RunBranch:
    """Where the rows of a run go first: the branch they are meant for, or one of the run's own.

    A branch of its own is deleted when the block ends, unless it is to be kept. Its ``note`` says so to other runs
    until then.
    """

    engine: OpenGraph
    name: str
    target: str
    base: GraphSnapshot
    is_own: bool
    actor: str | None
    note: RunNote | None = None
    is_kept: bool = field(default=False)

    @classmethod
    def begin(cls, engine: OpenGraph, declaration: Declaration, options: RunOptions, run: str) -> Self:
        """Return where the rows of a run go, and make the branch if it is one of its own."""
        has_more = bool(declaration.checks or declaration.afters)
        is_own = (options.publish != "direct" or has_more) and not options.dry_run
        name, note = options.branch, None
        if is_own:
            name = f"pipelines/{declaration.name}/{run}"
            note = RunNote(
                pipeline=declaration.name,
                run=run,
                branch=name,
                target=options.branch,
                writer=WriterIdentity.of_this_process(),
                at_ms=engine.runtime.clock.now_ms(),
                quarantine=options.quarantine_to,
            )
            note.put(engine)
            try:
                _ask(engine, CreateBranchRequest(name=name, source=options.branch, actor=options.actor))
            except OmnigraphError as error:
                if error.effect is Effect.NONE:
                    note.forget(engine)
                raise
        base = engine.store.snapshot(BranchName.parse(name))
        return cls(
            engine=engine,
            name=name,
            target=options.branch,
            base=base,
            is_own=is_own,
            actor=options.actor,
            note=note,
        )

    def drop(self) -> None:
        """Delete the branch, if it is one of the run's own."""
        if self.is_own and not self.is_kept:
            _ask(self.engine, DeleteBranchRequest(name=self.name, actor=self.actor))
            self.keep()

    def keep(self) -> None:
        """Leave the branch when the block ends: it belongs to people from here on."""
        self.is_kept = True
        if self.note is not None:
            self.note.forget(self.engine)
            self.note = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()


@record
class Publication:
    """What is done with the branch of a run when its rows are there."""

    engine: OpenGraph
    declaration: Declaration
    options: RunOptions
    run: str
    place: RunBranch

    def run_afters(self, told: Callable[[str], None]) -> Iterator[tuple[str, float]]:
        """Write what follows from the new state to the branch; yield how long each took."""
        clock = self.engine.runtime.clock
        for after in self.declaration.afters:
            told(after.name)
            since = clock.monotonic_s()
            self._run_after(after)
            yield after.name, clock.monotonic_s() - since

    def after_reports(self, seconds: Mapping[str, float]) -> tuple[StepReport, ...]:
        """Return what is told of what followed."""
        return tuple(
            StepReport(name=after.name, kind="after", seconds=seconds.get(after.name, 0.0))
            for after in self.declaration.afters
        )

    def run_checks(self) -> tuple[CheckReport, ...]:
        """Ask every check about the state of the branch."""
        return tuple(self._check(check, None) for check in self.declaration.checks)

    def refuse_failed(self, checks: Sequence[CheckReport]) -> None:
        """Return if every check holds.

        Raises:
            CheckFailedError: one does not; the branch is left for a look, unless the run is a direct one.
        """
        failed = next((check for check in checks if not check.passed), None)
        if failed is None:
            return
        left = None
        if self.options.publish != "direct":
            self.place.keep()
            left = self.place.name
        sample = json.dumps(failed.samples[0], ensure_ascii=False) if failed.samples else None
        raise CheckFailedError(
            f"check '{failed.name}' does not hold: it returned {counted(failed.rows, 'row')}",
            details=RefusedRun(
                pipeline=self.declaration.name,
                run=self.run,
                check=failed.name,
                rows=failed.rows,
                sample=sample,
                branch=left,
            ),
        )

    def propose(self, report: RunReport) -> int:
        """Open a proposal to merge the branch, and return its number.

        It tells what became of rows and how checks fared, and has the checks as its own: they are asked again about
        the state that a merge would make.
        """
        lines = [
            f"{one.kind} {one.name}: {one.written} written, {one.deleted} deleted"
            for one in report.steps
            if one.kind in {"node", "edge"}
        ]
        lines += [f"check {one.name}: passed" for one in report.checks]
        opened = _ask(
            self.engine,
            OpenProposalRequest(
                source=self.place.name,
                target=self.place.target,
                title=f"run {self.run} of pipeline {self.declaration.name}",
                description="\n".join(lines),
                checks=proposal_checks(self.declaration.checks),
                actor=self.options.actor,
            ),
        )
        self.place.keep()
        return int(opened.number)

    def merge(self, guard: Callable[[GraphSnapshot], None], mark: RunMark) -> str | None:
        """Merge the branch as one commit, and return that.

        Checks are asked again when the target has moved since: what would be published is something else then.

        Raises:
            RunConflictError: another run was first.
            CheckFailedError: a check does not hold on the merged state.
            MergeConflictsError: another write changed the same rows.
        """

        def gate(candidate: MergeCandidate) -> None:
            guard(candidate.target)
            if candidate.target.state.head.commit != self.place.base.state.head.commit and self.declaration.checks:
                with candidate.reading(self.engine) as merged:
                    self.refuse_failed([self._check(check, merged) for check in self.declaration.checks])

        try:
            done = merge_branch(
                self.engine,
                self.place.name,
                self.place.target,
                actor=self.options.actor,
                message=f"run {self.run} of pipeline {self.declaration.name}",
                run=mark,
                gate=gate,
            )
        except MergeConflictsError:
            if self.options.publish != "direct":
                self.place.keep()
            raise
        return None if done.commit is None else done.commit.id

    def _run_after(self, after: AfterStep) -> None:
        message = f"{after.name} of run {self.run} of pipeline {self.declaration.name}"
        if after.mutation is not None:
            _ask(
                self.engine,
                MutateRequest(text=after.mutation, branch=self.place.name, actor=self.options.actor, message=message),
            )
            return
        arguments = dict(after.arguments)
        _ask(
            self.engine,
            WriteAlgorithmRequest(
                algorithm=after.algorithm or "",
                write=after.write or "",
                edges=arguments.pop("edges", None),
                params=arguments or None,
                branch=self.place.name,
                actor=self.options.actor,
                message=message,
            ),
        )

    def _check(self, check: CheckStep, merged: PendingRead | None) -> CheckReport:
        call = ReadCall(
            text=_text_of(check),
            name=None,
            params=None,
            params_form="host",
            branch=self.place.name if merged is None else self.place.target,
            at=None,
            options=QueryOptions(streams=True),
            source_name=f"<check {check.name}>",
        )
        result = self.engine.reads.run(call, merged)
        rows, samples = 0, list[dict[str, Any]]()
        for batch in result.stream():
            rows += batch.num_rows
            if len(samples) < _SAMPLES:
                few = batch.slice(0, _SAMPLES - len(samples))
                values = [[json.loads(cell) for cell in json_texts(column)] for column in few.columns]
                samples += [dict(zip(result.columns, row, strict=True)) for row in zip(*values, strict=True)]
            if rows >= _COUNTED:
                break
        return CheckReport(name=check.name, rows=rows, samples=tuple(samples))


def proposal_checks(checks: Sequence[CheckStep]) -> tuple[str, ...]:
    """Return the queries of checks under names that tell them apart, made of what the checks are called."""
    found: dict[str, str] = {}
    for check in checks:
        file = parse_queries(_text_of(check), f"<check {check.name}>")
        text, span = file.source.text, file.queries[0].name.span
        words = re.sub(r"[^A-Za-z0-9]+", "_", check.name).strip("_").lower()
        names = chain([f"check_{words}"], (f"check_{words}_{at}" for at in count(2)))
        name = next(one for one in names if one not in found)
        found[name] = f"{text[: span.start]}{name}{text[span.end :]}"
    return tuple(found.values())


def _text_of(check: CheckStep) -> str:
    return (check.query if check.function is None else check.function()) or ""


def _ask(engine: OpenGraph, request: Any) -> Any:
    return LocalBackend(engine, "read_write").execute(request)
