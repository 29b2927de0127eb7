"""Checks of a proposal: queries that must return no row, declared when it is opened and run on the merged state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.runner import PendingRead, ReadCall
from omnigraph.engine.results.encodings import json_texts
from omnigraph.errors import (
    BadValue,
    DiagnosticError,
    FailedCheck,
    FailedChecks,
    MissingThing,
    OmnigraphError,
    ProposalChecksError,
    QueryMemoryError,
    QueryNotFoundError,
    QueryParameterError,
    QueryRuntimeError,
    UsageError,
    WrongQueryKindError,
)
from omnigraph.history.merge import Conflicts, MergePreview
from omnigraph.history.merge.merged_state import MergeCandidate
from omnigraph.history.proposals.record import ProposalRecord
from omnigraph.ir import compile_query
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import QueryDecl
from omnigraph.records import record
from omnigraph.runtime import current_counters
from omnigraph.txn.proposals import DeclaredCheck
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_SHOWN_ROWS = 5
_MOST_CHECKS = 100
_MOST_BYTES = 1 << 20
# What a query alone is to blame for. Anything else, such as storage that does not answer, says nothing about the check.
_OF_THE_QUERY = (
    DiagnosticError,
    QueryMemoryError,
    QueryNotFoundError,
    QueryParameterError,
    QueryRuntimeError,
    WrongQueryKindError,
)


class CheckStatus(StrEnum):
    """How a check fared; it is not run while the merge has conflicts, because there is nothing to run it on."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_RUN = "not_run"


@record
class CheckResult(Printable):
    """The outcome of one check: the first rows that it found, and whether there are more; or why it could not run."""

    name: str
    status: CheckStatus
    rows: tuple[dict[str, Any], ...] = ()
    has_more: bool = False
    problem: str | None = None

    def lines(self) -> Iterator[str]:
        """Yield the verdict, and what it rests on."""
        found = counted(len(self.rows), "row")
        told = {
            CheckStatus.PASSED: "passed",
            CheckStatus.FAILED: f"failed: more than {found}" if self.has_more else f"failed: {found}",
            CheckStatus.ERROR: f"could not run: {self.problem}",
            CheckStatus.NOT_RUN: "not run",
        }
        yield f"check {self.name} {told[self.status]}"
        yield from (f"  {json.dumps(row, ensure_ascii=False)}" for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "name": self.name,
            "status": self.status.value,
            "rows": list(self.rows),
            "has_more": self.has_more,
            "problem": self.problem,
        }


@record
class CheckReport(Printable):
    """Whether a proposal could be merged as everything is: conflicts, broken rules, checks, approvals."""

    proposal: ProposalRecord
    merge: MergePreview
    checks: tuple[CheckResult, ...]

    @property
    def conflicts(self) -> Conflicts:
        """What the merge could not decide."""
        return self.merge.conflicts

    @property
    def is_passed(self) -> bool:
        """Whether nothing stands in the way of merging the rows; approvals are another matter."""
        return not self.merge.conflicts and all(check.status is CheckStatus.PASSED for check in self.checks)

    def lines(self) -> Iterator[str]:
        """Yield the verdict, then what the merge would do, then each check."""
        yield f"proposal {self.proposal.number} {'passes' if self.is_passed else 'does not pass'}"
        yield from self.merge.lines()
        yield from (line for check in self.checks for line in check.lines())
        if not self.proposal.is_approved:
            given, required = len(self.proposal.approved_by), self.proposal.required_approvals
            yield f"approvals: {given} of {required} required"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "proposal": self.proposal.number,
            "passed": self.is_passed,
            "approved": self.proposal.is_approved,
            "merge": self.merge.to_json(),
            "checks": [check.to_json() for check in self.checks],
        }


def declare_checks(
    texts: Sequence[str | bytes], names: Sequence[str], catalogs: Sequence[Catalog]
) -> tuple[tuple[str, ...], tuple[DeclaredCheck, ...]]:
    """Return the sources of checks and the checks that they declare.

    Args:
        texts: whole ``.gq`` sources; every query in them is a check.
        names: only these of their queries, all of them when empty.
        catalogs: the schemas of the branches; a check has to fit one of them.

    Raises:
        QuerySyntaxError, QueryTypeError, QueryMeaningError: a text is not a query, or fits neither branch.
        QueryNotFoundError: no text declares a query of one of the names.
        UsageError: a query is not a read, takes parameters, or has the name of another; or there are too many.
    """
    files = [parse_queries(text, f"<check {number}>") for number, text in enumerate(texts, start=1)]
    sources = tuple(file.source.text for file in files)
    declared = [(decl, place) for place, file in enumerate(files) for decl in file.queries]
    known = [decl.name.text for decl, _ in declared]
    for name in names:
        if name not in known:
            missing = MissingThing(what="query", name=name, near=tuple(known))
            raise QueryNotFoundError(f"no check is called '{name}'", details=missing)
    chosen = [(decl, place) for decl, place in declared if not names or decl.name.text in names]
    if len(chosen) > _MOST_CHECKS or sum(len(source.encode()) for source in sources) > _MOST_BYTES:
        details = BadValue(what="checks", value=str(len(chosen)), expected=f"{_MOST_CHECKS} in {_MOST_BYTES} bytes")
        raise UsageError("a proposal cannot hold so many checks", details=details)
    for decl, place in chosen:
        _expect_check(decl, known)
        _expect_fit(sources[place], decl, catalogs, place)
    return sources, tuple(DeclaredCheck(name=decl.name.text, text=place) for decl, place in chosen)


def _expect_check(decl: QueryDecl, known: Sequence[str]) -> None:
    name = decl.name.text
    problems = {
        "is a mutation": decl.is_mutation,
        "takes parameters": bool(decl.parameters),
        "is declared twice": known.count(name) > 1,
    }
    for problem, is_there in problems.items():
        if is_there:
            details = BadValue(what="check", value=name, expected="a read with a unique name and without parameters")
            raise UsageError(f"check '{name}' {problem}", details=details)


def _expect_fit(text: str, decl: QueryDecl, catalogs: Sequence[Catalog], place: int) -> None:
    first: OmnigraphError | None = None
    for catalog in catalogs:
        try:
            compile_query(text, decl.name.text, catalog, f"<check {place + 1}>")
        except DiagnosticError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first


def run_checks(graph: OpenGraph, proposal: ProposalRecord, candidate: MergeCandidate) -> tuple[CheckResult, ...]:
    """Run every check of a proposal on the state that a merge would make."""
    if not proposal.checks:
        return ()
    with candidate.reading(graph) as merged:
        return tuple(_run(graph, proposal, check, merged) for check in proposal.checks)


def checks_not_run(proposal: ProposalRecord) -> tuple[CheckResult, ...]:
    """Return every check as not run: a merge with conflicts gives them no state to read."""
    return tuple(CheckResult(name=check.name, status=CheckStatus.NOT_RUN) for check in proposal.checks)


def refuse_failed(proposal: int, results: Sequence[CheckResult]) -> None:
    """Refuse to go on unless every check has passed.

    Raises:
        ProposalChecksError: one has not.
    """
    failed = [result for result in results if result.status is not CheckStatus.PASSED]
    if not failed:
        return
    items = tuple(
        FailedCheck(name=one.name, rows=one.rows, has_more=one.has_more, problem=one.problem) for one in failed
    )
    names = ", ".join(f"'{one.name}'" for one in failed)
    details = FailedChecks(proposal=proposal, items=items)
    raise ProposalChecksError(
        f"proposal {proposal} does not pass {counted(len(failed), 'check')}: {names}", details=details
    )


def _run(graph: OpenGraph, proposal: ProposalRecord, check: DeclaredCheck, merged: PendingRead) -> CheckResult:
    call = ReadCall(
        text=proposal.check_texts[check.text],
        name=check.name,
        params=None,
        params_form="host",
        branch=proposal.target.branch,
        at=None,
        options=QueryOptions(streams=True),
        source_name=f"<check of proposal {proposal.number}>",
    )
    try:
        result = graph.reads.run(call, merged)
        rows = _first_rows(result.columns, result.stream())
        current_counters().add(result.cost)
    except _OF_THE_QUERY as error:
        return CheckResult(name=check.name, status=CheckStatus.ERROR, problem=error.message)
    return CheckResult(
        name=check.name,
        status=CheckStatus.FAILED if rows else CheckStatus.PASSED,
        rows=tuple(rows[:_SHOWN_ROWS]),
        has_more=len(rows) > _SHOWN_ROWS,
    )


def _first_rows(columns: Sequence[str], batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Return one row more than is shown, if there are as many; the rest is not drawn."""
    found: list[dict[str, Any]] = []
    for batch in batches:
        few = batch.slice(0, _SHOWN_ROWS + 1 - len(found))
        values = [[json.loads(text) for text in json_texts(column)] for column in few.columns]
        found += [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
        if len(found) > _SHOWN_ROWS:
            break
    return found
