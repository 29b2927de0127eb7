"""The calls of a mutation: its statements once per row of parameters, each on what the ones before it left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import NodeType
from omnigraph.engine.mutate.inserts import insert_tables
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.statements import Affected, Statements
from omnigraph.engine.mutate.values import Given
from omnigraph.errors import ExternalBlobError, QueryMeaningError
from omnigraph.ir.model import InsertPlan, MutationPlan, StatementPlan
from omnigraph.ir.parameter_rows import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import IdSource

# Fewer inserts than this are quicker one by one.
_WORTH_COLUMNS = 8


@record
class CallRunner:
    """Runs calls: they read and change ``staging`` and nothing else."""

    catalog: Catalog
    staging: MutationStaging
    now_ms: int
    ids: IdSource

    def run(self, plan: MutationPlan, calls: ParameterRows) -> Affected:
        """Run every call in order.

        Raises:
            QueryMeaningError: a value does not fit the property it is assigned to.
            ExternalBlobError: a Blob is given as an address outside the graph.
        """
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
            try:
                affected = sum((run_one(run, one) for run in runs), affected)
            except (QueryMeaningError, ExternalBlobError) as problem:
                if calls.count == 1:
                    raise
                message = f"row {number + 1}: {problem.message}"
                raise type(problem)(message, details=problem.details, hint=problem.hint) from problem
        return affected

    def _run_one(self, run: Sequence[StatementPlan], call: ParameterRows) -> Affected:
        done = self._insert_all(run, call)
        return self._run_statements(run, call) if done is None else done

    def _run_statements(self, run: Sequence[StatementPlan], call: ParameterRows) -> Affected:
        statements = Statements(
            catalog=self.catalog,
            staging=self.staging,
            given=Given(parameters=call.row(0), now_ms=self.now_ms),
            ids=self.ids,
        )
        return sum(map(statements.run, run), Affected())

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
            is_node = isinstance(owner, NodeType)
            affected += Affected(nodes=rows.num_rows if is_node else 0, edges=0 if is_node else rows.num_rows)
        return affected
