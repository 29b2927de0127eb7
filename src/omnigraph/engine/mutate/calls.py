"""The calls of a mutation: its statements once for each row of parameters, runs of inserts column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import groupby

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.mutate.insert_columns import insert_tables
from omnigraph.engine.mutate.matching import Matcher
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.statements import Affected, Statements, in_row
from omnigraph.engine.mutate.values import RequestValues
from omnigraph.errors import ExternalBlobError, ExternalBlobSourceError, QueryMeaningError, QueryRuntimeError
from omnigraph.ir.model import DeletePlan, InsertPlan, MutationPlan, StatementPlan, UpdatePlan
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import IdSource
from omnigraph.store.tables.pinned import KEY

# Fewer inserts than this are quicker one by one.
_WORTH_COLUMNS = 8

# What is wrong with one call of several, whose row is told then.
_OF_STATEMENTS = (QueryMeaningError, QueryRuntimeError, ExternalBlobError, ExternalBlobSourceError)


def _is_plain(statement: StatementPlan) -> bool:
    """Whether a statement needs no other one, and an insert not to know what is there."""
    if isinstance(statement, InsertPlan):
        return statement.mode is None and statement.for_each is None
    return isinstance(statement, UpdatePlan | DeletePlan)


@record
class CallRunner:
    """Runs calls: they read and change ``staging`` and nothing else."""

    catalog: Catalog
    staging: MutationStaging
    now_ms: int
    ids: IdSource
    matcher: Matcher
    rows: list[pa.Table] = field(default_factory=list)

    def run(self, plan: MutationPlan, calls: ParameterRows) -> Affected:
        """Run every call in order; what they return is added to ``rows``.

        Raises:
            OmnigraphError: whatever :meth:`Statements.run` does.
        """
        if plan.returned is not None or not all(map(_is_plain, plan.statements)):
            return self._run_each(plan, calls)
        runs = [tuple(run) for _, run in groupby(plan.statements, key=lambda item: isinstance(item, InsertPlan))]
        if len(runs) == 1:
            # Inserts do not see each other, so all calls together are one long run of them.
            done = self._insert_all(runs[0], calls)
            if done is not None:
                return done
        run_one = self._run_statements if len(runs) == 1 else self._run_one
        affected = Affected()
        for number in range(calls.count):
            one = calls if calls.count == 1 else ParameterRows.of_one(calls.row(number))
            row = None if calls.count == 1 else number + 1
            try:
                affected = sum((run_one(run, one, row) for run in runs), affected)
            except _OF_STATEMENTS as problem:
                if row is None:
                    raise
                raise in_row(problem, row) from problem
        return affected

    def _run_each(self, plan: MutationPlan, calls: ParameterRows) -> Affected:
        """Run calls whose statements depend on each other in more than the order."""
        affected = Affected()
        for number in range(calls.count):
            row = None if calls.count == 1 else number + 1
            try:
                affected += self._run_whole(plan, ParameterRows.of_one(calls.row(number)), row)
            except _OF_STATEMENTS as problem:
                if row is None:
                    raise
                raise in_row(problem, row) from problem
        return affected

    def _run_whole(self, plan: MutationPlan, call: ParameterRows, row: int | None) -> Affected:
        statements = self._statements(call, row)
        affected = sum(map(statements.run, plan.statements), Affected())
        if plan.returned is not None:
            self.rows.append(statements.returned(plan.returned, plan.blocks))
        return affected

    def _run_one(self, run: Sequence[StatementPlan], call: ParameterRows, row: int | None) -> Affected:
        done = self._insert_all(run, call)
        return self._run_statements(run, call, row) if done is None else done

    def _run_statements(self, run: Sequence[StatementPlan], call: ParameterRows, row: int | None) -> Affected:
        return sum(map(self._statements(call, row).run, run), Affected())

    def _statements(self, call: ParameterRows, row: int | None) -> Statements:
        return Statements(
            catalog=self.catalog,
            staging=self.staging,
            given=RequestValues(parameters=call.row(0), now_ms=self.now_ms),
            ids=self.ids,
            matcher=self.matcher,
            row=row,
        )

    def _insert_all(self, run: Sequence[StatementPlan], calls: ParameterRows) -> Affected | None:
        """Make a run of inserts at once; None when it is not one, or not plainly right."""
        inserts = [statement for statement in run if isinstance(statement, InsertPlan)]
        if len(inserts) < len(run) or len(inserts) * calls.count < _WORTH_COLUMNS:
            return None
        found = insert_tables(inserts, calls, catalog=self.catalog, now_ms=self.now_ms, ids=self.ids)
        if found is None:
            return None
        affected = Affected()
        for owner, rows in found:
            self.staging.pending(owner).insert_rows(rows, is_made=owner.key is None)
            if self.staging.refused:
                self.staging.refused.forget(owner.table_key, set(rows.column(KEY).to_pylist()))
            affected += Affected.of(owner, rows.num_rows, inserted=rows.num_rows)
        return affected
