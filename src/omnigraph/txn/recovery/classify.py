"""What a plan's tables look like to somebody who finds its claim abandoned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from omnigraph.records import record
from omnigraph.store.staging import StagedCommit
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.store import TableStore
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.txn.publish.plan import PublishPlan


class TableClass(StrEnum):
    """The observed head of a table against what a plan says of it."""

    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    NO_MOVEMENT = "NoMovement"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


@record
class Observation:
    """One table as found. ``is_foreign``: a commit past the pin carries no operation id of ours."""

    table_key: str
    pin: TablePin
    head: int
    klass: TableClass
    is_foreign: bool = False

    @property
    def has_moved(self) -> bool:
        """Whether the head is past the pin."""
        return self.head > self.pin.version


def observe_plan(plan: PublishPlan, state: ManifestState, tables: TableStore) -> tuple[Observation, ...]:
    """Classify every table that phase B of the plan moves; ``state`` is the newest one.

    A plan is finished only as a whole, so commits that landed while others did not are told apart from commits of a
    plan that landed completely.
    """
    published = {(entry.pin.location, entry.pin.branch): entry.pin.version for entry in state.tables.values()}
    seen = tuple(
        _observe_chain(table_key, chain, plan.operation_id, published, tables)
        for table_key, chain in plan.chains.items()
    )
    if all(observation.klass is TableClass.ROLLED_PAST_EXPECTED for observation in seen):
        return seen
    return tuple(
        replace(observation, klass=TableClass.INCOMPLETE_PHASE_B)
        if observation.klass is TableClass.ROLLED_PAST_EXPECTED
        else observation
        for observation in seen
    )


def observe_table(table_key: str, pin: TablePin, tables: TableStore, *, published: int = 0) -> Observation:
    """Classify a table against a pin, whoever moved it.

    Commits up to the version ``published`` are known to be ours. Looking at them too would make the recovery of an
    old claim the dearer the more was written since.
    """
    head = tables.head(pin.location, pin.branch)
    if head <= pin.version:
        klass = TableClass.NO_MOVEMENT if head == pin.version else TableClass.INVARIANT_VIOLATION
        return Observation(table_key=table_key, pin=pin, head=head, klass=klass)
    klass = TableClass.UNEXPECTED_AT_P1 if head == pin.version + 1 else TableClass.UNEXPECTED_MULTISTEP
    foreign = _has_foreign_commit(pin.at(max(pin.version, published)), head, tables)
    return Observation(table_key=table_key, pin=pin, head=head, klass=klass, is_foreign=foreign)


def stands_within(chain: Sequence[StagedCommit], head: int, tables: TableStore) -> bool:
    """Whether a head is where a commit of the chain puts it, and that commit is the one that made it."""
    return any(
        commit.after.version == head and tables.commit_mark(commit.after).uuid == commit.uuid for commit in chain
    )


def _observe_chain(
    table_key: str,
    chain: Sequence[StagedCommit],
    operation_id: str,
    published: Mapping[tuple[str, str | None], int],
    tables: TableStore,
) -> Observation:
    before = chain[0].before
    known = published.get((before.location, before.branch), 0)
    found = observe_table(table_key, before, tables, published=known)
    landed = found.head - before.version
    if not 0 < landed <= len(chain):
        return found
    marks = [tables.commit_mark(commit.after) for commit in chain[:landed]]
    if any(
        mark.operation_id != operation_id or mark.uuid != commit.uuid
        for mark, commit in zip(marks, chain, strict=False)
    ):
        return found
    is_whole = landed == len(chain)
    return replace(found, klass=TableClass.ROLLED_PAST_EXPECTED if is_whole else TableClass.INCOMPLETE_PHASE_B)


def _has_foreign_commit(pin: TablePin, head: int, tables: TableStore) -> bool:
    versions = range(pin.version + 1, head + 1)
    return any(tables.commit_mark(pin.at(version)).operation_id is None for version in versions)
