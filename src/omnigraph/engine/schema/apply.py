"""Applying a schema: plan, look at the rows, change tables and schema in one commit, then reclaim what must go.

A type's rows are handed over as if all of them were being written, under a type that has nothing but the rules to be
added and the columns these speak of. So only what could be in the way is read, and it is judged and described as on
any other way into the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.identity import with_own_numbers
from omnigraph.catalog.migration import (
    AddConstraint,
    ChangeCardinality,
    DeclaredConstraint,
    HintDiagnostic,
    MakeRequired,
    MigrationPlan,
    Step,
    plan_migration,
)
from omnigraph.catalog.model import (
    ENDPOINTS,
    CheckRule,
    EdgeType,
    NodeType,
    PropertyDef,
    PropertyType,
    RangeRule,
    Scalar,
)
from omnigraph.engine.accepted import accept_schema
from omnigraph.engine.constraints import find_miscounted, find_violations
from omnigraph.engine.schema.lower import Continued, continued_types, dropped_types, lower_schema
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.errors import (
    ConstraintViolationError,
    Diagnostic,
    OmnigraphError,
    SchemaMovedError,
    SchemaPlanError,
    Violation,
    Violations,
)
from omnigraph.lang.pg import parse_schema
from omnigraph.lang.pg.ast import SchemaFile
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema, Commit
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import WriteTxn
from omnigraph.values import BranchName, CommitId
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_NO_TYPES = Catalog(interfaces={}, nodes={}, edges={}, shape_hash="")
_TEXT = PropertyType(scalar=Scalar.STRING)


@record
class RowsToCheck:
    """A type with what is to be demanded of the rows it has: values of some properties, constraints, a cardinality."""

    pair: Continued
    required: tuple[MakeRequired, ...]
    constraints: tuple[DeclaredConstraint, ...]
    counts_edges: bool

    @property
    def table_key(self) -> str:
        """The table that holds the rows, as it is called before the change."""
        return self.pair.before.table_key


def rows_to_check(accepted: Catalog, plan: MigrationPlan) -> list[RowsToCheck]:
    """Return the types whose rows must be looked at before ``plan`` may be applied."""
    required: defaultdict[tuple[str, str], list[MakeRequired]] = defaultdict(list)
    constraints: defaultdict[tuple[str, str], list[DeclaredConstraint]] = defaultdict(list)
    counted: set[tuple[str, str]] = set()
    for step in plan.validated_steps:
        if isinstance(step, MakeRequired):
            required[step.type_kind, step.type_name].append(step)
        elif isinstance(step, AddConstraint):
            constraints[step.type_kind, step.type_name].append(step.constraint)
        elif isinstance(step, ChangeCardinality):
            counted.add((step.type_kind, step.type_name))
    found = []
    for pair in continued_types(accepted, plan.catalog):
        kind = "node" if isinstance(pair.after, NodeType) else "edge"
        place = (kind, pair.after.name)
        if place in required or place in constraints or place in counted:
            found.append(
                RowsToCheck(
                    pair=pair,
                    required=tuple(required[place]),
                    constraints=tuple(constraints[place]),
                    counts_edges=place in counted,
                )
            )
    return found


class RowsAfter(Protocol):
    """The rows that a schema is about to hold for, in the columns that it gives them."""

    @property
    def snapshot(self) -> GraphSnapshot:
        """The published state that they are in, or that they come upon."""

    def lacking(self, check: RowsToCheck, column: str) -> pa.Table:
        """Return the ids of the rows without a value in a column."""

    def read(self, check: RowsToCheck, columns: Sequence[str]) -> pa.Table:
        """Return ``id`` and these columns of all rows."""


@record
class StoredRowsAfter:
    """The rows of a published state."""

    snapshot: GraphSnapshot

    def lacking(self, check: RowsToCheck, column: str) -> pa.Table:
        """Return the ids of the rows without a value in a column."""
        return self.snapshot.table(check.table_key).read(["id"], f"`{check.pair.origins[column]}` IS NULL")

    def read(self, check: RowsToCheck, columns: Sequence[str]) -> pa.Table:
        """Return ``id`` and these columns of all rows."""
        return check.pair.rows_after(self.snapshot.table(check.table_key), columns)


def check_rows(checks: Sequence[RowsToCheck], snapshot: GraphSnapshot, *, limit: int = 100) -> None:
    """Return if the rows of ``snapshot`` keep what is to be demanded of them.

    Raises:
        ConstraintViolationError: some do not; the message is that of the first violation, with its row.
    """
    found = find_broken_rows(checks, StoredRowsAfter(snapshot=snapshot), limit=limit)
    if found.total:
        raise ConstraintViolationError(_told(found.items[0]), details=found)


def find_broken_rows(checks: Sequence[RowsToCheck], rows: RowsAfter, *, limit: int = 100) -> Violations:
    """Return the rows that do not keep what is to be demanded of them."""
    items: list[Violation] = []
    total = 0
    for check in checks:
        for found in (*_missing(check, rows, limit), _broken(check, rows, limit), _miscounted(check, rows, limit)):
            items += found.items
            total += found.total
    return Violations(items=tuple(items[:limit]), total=total)


def _told(first: Violation) -> str:
    row = f"'{first.entity_id}'"
    if first.entity_id is None or row in first.message:
        return first.message
    return f"{first.message}, in {first.type_name} {row}"


def _missing(check: RowsToCheck, after: RowsAfter, limit: int) -> list[Violations]:
    found = []
    for step in check.required:
        column = step.property_name
        prop = _property(check.pair, column)
        rows = after.lacking(check, column)
        rows = rows.append_column(column, pa.nulls(rows.num_rows, arrow_type(prop.type)))
        slim = NodeType(name=check.pair.after.name, properties=(prop,))
        violations = _violations(slim, rows, after.snapshot, limit)
        coded = tuple(replace(item, message=f"[{step.code}] {item.message}") for item in violations.items)
        found.append(replace(violations, items=coded))
    return found


def _broken(check: RowsToCheck, after: RowsAfter, limit: int) -> Violations:
    columns = sorted({column for constraint in check.constraints for column in constraint.columns})
    if not columns:
        return Violations(items=(), total=0)
    by_kind: defaultdict[str, list[DeclaredConstraint]] = defaultdict(list)
    for constraint in check.constraints:
        by_kind[constraint.kind].append(constraint)
    # Without a table of its own an edge can be judged as a node: its ends are two texts like any other.
    slim = NodeType(
        name=check.pair.after.name,
        properties=tuple(_nullable(_property(check.pair, column)) for column in columns),
        uniques=tuple(one.columns for one in by_kind["Unique"]),
        ranges=tuple(RangeRule(property=one.columns[0], low=one.low, high=one.high) for one in by_kind["Range"]),
        checks=tuple(CheckRule(property=one.columns[0], pattern=one.pattern or "") for one in by_kind["Check"]),
    )
    return _violations(slim, after.read(check, columns), after.snapshot, limit)


def _miscounted(check: RowsToCheck, after: RowsAfter, limit: int) -> Violations:
    edge = check.pair.after
    if not check.counts_edges or not isinstance(edge, EdgeType):
        return Violations(items=(), total=0)
    return find_miscounted(edge, after.read(check, ENDPOINTS), GraphView(after.snapshot, _NO_TYPES), limit)


def _violations(slim: NodeType, rows: pa.Table, snapshot: GraphSnapshot, limit: int) -> Violations:
    # All rows are in the change, so the view, which would be asked about the others, is never asked.
    part = TypeChange(type=slim, rows=rows, replaces_all=True)
    view = GraphView(snapshot, _NO_TYPES)
    return find_violations(GraphChange(types={slim.table_key: part}), view, limit)


def _property(pair: Continued, name: str) -> PropertyDef:
    prop = pair.after.get(name)
    if prop is None or (name in ENDPOINTS and not isinstance(pair.after, NodeType)):
        return PropertyDef(name=name, type=_TEXT)
    return prop


def _nullable(prop: PropertyDef) -> PropertyDef:
    return replace(prop, type=replace(prop.type, nullable=True))


@record
class SchemaApplyResult(Printable):
    """What applying a schema did. ``commit`` is None when the graph had that schema already.

    ``warnings`` tells what did not work out after the commit; the schema is in force all the same.
    """

    supported: bool
    applied: bool
    steps: tuple[Step, ...]
    commit: Commit | None
    manifest_version: int
    diagnostics: tuple[HintDiagnostic, ...]
    warnings: tuple[str, ...]
    cost: Cost

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> SchemaApplyResult:
        """Return what a repeated request is told: the commit of the first, and how many steps it took."""
        steps = counted(receipt.get("steps", 0), "change")
        return cls(
            supported=True,
            applied=True,
            steps=(),
            commit=commit,
            manifest_version=commit.manifest_version,
            diagnostics=(),
            warnings=(f"the schema was applied by an earlier request with the same key ({steps})",),
            cost=Counters().cost(),
        )

    def lines(self) -> Iterator[str]:
        """Yield whether the schema is in force, and the steps that led there."""
        yield f"schema {'applied' if self.applied else 'not applied'}: {counted(len(self.steps), 'change')}"
        yield from (f"- {step.describe()}" for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the result with the field names of the public contract."""
        return {
            "supported": self.supported,
            "applied": self.applied,
            "step_count": len(self.steps),
            "graph_manifest_version": self.manifest_version,
            "steps": [step.to_json() for step in self.steps],
            "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
            "warnings": list(self.warnings),
            "commit": None if self.commit is None else self.commit.to_brief_json(),
        }


def apply_schema(
    store: GraphStore,
    branch: BranchName,
    desired: str | bytes,
    *,
    catalog_of: Callable[[AcceptedSchema], Catalog],
    allow_data_loss: bool = False,
    actor: str | None = None,
    message: str | None = None,
    expected_head: CommitId | None = None,
    source_name: str = "<schema>",
    is_declared: bool = False,
) -> SchemaApplyResult:
    """Bring a branch to a desired schema, rows included, as one commit or not at all.

    Args:
        store: the open graph.
        branch: where to apply it; other branches keep their schemas.
        desired: the schema to move to.
        catalog_of: decodes the schema that is in force.
        allow_data_loss: make every drop a hard one: earlier versions of the tables concerned are reclaimed.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        source_name: what errors call the desired schema.
        is_declared: the text is to be in force as it stands, whatever comes between. A commit is made also for one that
            means what is in force already, such as one with other comments; and when rows of a table that it reshapes
            were written meanwhile, the change is decided again.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        SchemaPlanError: a rename hint cannot be followed, or a change cannot be made; the message names the first.
        ConstraintViolationError: a row breaks a rule that was to be added.
        ExpectedVersionMismatchError: somebody else changed rows that it was decided on, and it is not to be run again.
        SchemaMovedError: somebody else brought another schema into force.
        PreconditionFailedError: the branch is not at ``expected_head``.
    """
    # Half of a surrogate pair is no UTF-8, which the parser says properly.
    source = desired.encode(errors="surrogatepass") if isinstance(desired, str) else desired
    tree = parse_schema(source, source_name)

    def run() -> SchemaApplyResult:
        branch_writer, _ = store.current(branch)
        txn = branch_writer.begin(WriteKind.SCHEMA_APPLY, actor=actor, message=message, expected_head=expected_head)
        deciding = _Deciding(
            tree=tree,
            source=source.decode(),
            catalog_of=catalog_of,
            born_as=branch_writer.services.line.born_as,
            allow_data_loss=allow_data_loss,
            is_declared=is_declared,
        )
        return _commit(store, branch_writer, txn, deciding)

    while True:
        try:
            return run()
        except SchemaMovedError:
            # It may be this very schema: brought by somebody else, or by an attempt that broke off and was finished.
            if store.snapshot(branch).state.schema.source.encode() != source:
                raise


@record
class _Deciding:
    """A desired schema, and how its change is decided on a state."""

    tree: SchemaFile
    source: str
    catalog_of: Callable[[AcceptedSchema], Catalog]
    born_as: str | None
    allow_data_loss: bool
    is_declared: bool

    def decide(self, txn: WriteTxn) -> tuple[Catalog, MigrationPlan]:
        """Fill a transaction with the change, and return the schema that is in force and the plan.

        Raises:
            SchemaPlanError: a change cannot be made.
        """
        accepted = self.catalog_of(txn.snapshot.state.schema)
        numbering = with_own_numbers(accepted, self.born_as)
        plan = plan_migration(numbering, self.tree, allow_data_loss=self.allow_data_loss)
        if plan.catalog.next_identity == numbering.next_identity:
            # Nothing was added that would need a number of this branch.
            plan = replace(plan, catalog=replace(plan.catalog, next_identity=accepted.next_identity))
        _refuse_unsupported(plan)
        has_new_text = self.is_declared and self.source != txn.snapshot.state.schema.source
        if has_new_text or not plan.is_empty:
            _fill(txn, accepted, plan, self.source)
        return accepted, plan


def _commit(store: GraphStore, branch_writer: BranchWriter, txn: WriteTxn, deciding: _Deciding) -> SchemaApplyResult:
    decided = deciding.decide(txn)

    def decide_again(txn: WriteTxn) -> None:
        nonlocal decided
        decided = deciding.decide(txn)

    if deciding.is_declared:
        txn.decide = decide_again
    txn.receipt = lambda: {"steps": len(decided[1].steps)}
    done = branch_writer.commit(txn)
    accepted, plan = decided
    doomed: list[TablePin] = []
    if deciding.allow_data_loss and done.commit:
        doomed = _superseded(branch_writer, txn.snapshot, accepted, plan.catalog)
    return SchemaApplyResult(
        supported=True,
        applied=done.commit is not None,
        steps=plan.steps,
        commit=done.commit,
        manifest_version=done.manifest_version,
        diagnostics=plan.diagnostics,
        warnings=_reclaim(store, doomed),
        cost=done.cost,
    )


def _refuse_unsupported(plan: MigrationPlan) -> None:
    refusal = plan.first_refusal
    if refusal is not None:
        rule = "unsupported_change" if refusal.code is None else refusal.code.code
        details = Diagnostic(rule=rule, found=refusal.entity)
        hint = f"see {refusal.entity}; `omnigraph schema plan` shows every step"
        raise SchemaPlanError(refusal.message, details=details, hint=hint)


def _fill(txn: WriteTxn, accepted: Catalog, plan: MigrationPlan, source: str) -> None:
    for change in lower_schema(accepted, plan.catalog):
        txn.change(change)
    txn.set_schema(accept_schema(source, plan.catalog))
    checks = rows_to_check(accepted, plan)
    for check in checks:
        txn.read_table(check.table_key)
    txn.add_check(lambda view: check_rows(checks, view.snapshot))


def _superseded(
    branch_writer: BranchWriter, base: GraphSnapshot, accepted: Catalog, desired: Catalog
) -> list[TablePin]:
    """Return, for every table that lost something, the oldest version that may stay.

    A table that the branch had not written to before belongs to another branch, whose versions are not ours to take.
    """
    owns = branch_writer.services.line.owns
    dropped = [base.entry(owner.table_key).pin for owner in dropped_types(accepted, desired)]
    narrowed = [
        base.entry(pair.before.table_key).pin for pair in continued_types(accepted, desired) if pair.drops_columns
    ]
    after = [pin.at(pin.version + 1) for pin in narrowed]
    return [pin for pin in (*dropped, *after) if owns(pin)]


def _reclaim(store: GraphStore, pins: list[TablePin]) -> tuple[str, ...]:
    warnings = []
    if pins:
        try:
            store.reclaim_older(pins)
        except OmnigraphError as error:
            # The commit stands whatever happens here, and a cleanup takes away what this one left.
            warnings.append(f"could not reclaim earlier versions: {error.message}")
    return tuple(warnings)
