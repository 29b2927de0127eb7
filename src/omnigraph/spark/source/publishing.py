"""The end of a write: what the tasks staged becomes one commit, or is taken away.

Spark does this in a process of its own, without a session. It asks for an abort also when a commit failed, or when it
only never heard of its success: then files that the commit may have published must stay. They are removed only while
the scratch place says that nothing can name them, which a commit takes back before it does anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from omnigraph.engine.session import GraphSession
from omnigraph.errors import (
    BadValue,
    BatchRepeatedError,
    ConstraintViolationError,
    KeyExistsError,
    OmnigraphError,
    SchemaMovedError,
    UsageError,
)
from omnigraph.runtime import Counters, World
from omnigraph.spark.keys import Places
from omnigraph.spark.load.asked import commit_id
from omnigraph.spark.load.job import LoadJob, LoadRequest
from omnigraph.spark.runner import InProcessRunner
from omnigraph.spark.source.staging import MAY_GO, StagedRows
from omnigraph.spark.source.write_plan import WritePlan
from omnigraph.store.pins import TablePin
from omnigraph.store.portable import TableTicket, discard_fragments
from omnigraph.txn.manifest.rows import BatchMark
from omnigraph.txn.rebase import moved
from omnigraph.values import BranchName

_MUST_STAY = b"a commit may name them"


def publish(plan: WritePlan, staged: Sequence[StagedRows], batch: BatchMark | None = None) -> None:
    """Make what tasks staged visible as one commit; without a row there is none.

    With ``batch`` this is a piece of a stream, which is published once however often it is asked for.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.engine.load.load` does.
    """
    failpoints = World.system().failpoints
    failpoints.hit("spark.source.before_publish")
    with GraphSession.open(plan.storage) as session:
        # A delivery that is repeated after a schema change or beside its own rows must not even be judged.
        if batch is not None and _is_there(session, plan, batch):
            take_away(plan, staged)
            return
        try:
            _publish(session, plan, staged, batch)
        except BatchRepeatedError:
            pass
        except (KeyExistsError, ConstraintViolationError):
            # Its own rows are in the way when it was published a moment ago.
            if batch is None or not _is_there(session, plan, batch):
                raise
    failpoints.hit("spark.source.after_publish")
    _clear(plan, staged)


def take_away(plan: WritePlan, staged: Sequence[StagedRows]) -> None:
    """Remove what tasks staged; files that a commit may have published stay."""
    for item in staged:
        scratch = plan.at(item.operation_id).scratch
        if item.place is not None and scratch.get(item.leave) == MAY_GO:
            fragments = [text for found in item.part.types for text in found.fragments]
            discard_fragments(TableTicket(storage=plan.storage, pin=item.place), fragments)
    _clear(plan, staged)


def _clear(plan: WritePlan, staged: Sequence[StagedRows]) -> None:
    for place in {item.operation_id for item in staged} or {plan.scratch.operation_id}:
        plan.at(place).scratch.clear()


def stream_mark(plan: WritePlan, number: int, query_id: str | None, checkpoint: str | None) -> BatchMark:
    """Return what marks a micro-batch: the caller's name for the stream, else the one that its checkpoint gives it.

    Raises:
        UsageError: there is neither.
    """
    app = plan.app or query_id or checkpoint
    if app is None:
        details = BadValue(what="app", value="", expected="a name that stays the same when the stream is restarted")
        raise UsageError("a stream must be recognisable option=app", details=details)
    return BatchMark(app=app, number=number)


def _publish(session: GraphSession, plan: WritePlan, staged: Sequence[StagedRows], batch: BatchMark | None) -> None:
    parts = sorted((item.part for item in staged), key=lambda part: part.number)
    if not any(part.lines for part in parts):
        return
    _expect_schema(session, plan, staged)
    plan = plan.at(next((item.operation_id for item in staged), plan.scratch.operation_id))
    request = LoadRequest(
        mode=plan.mode,
        branch=plan.branch,
        actor=plan.actor,
        message=plan.message,
        expected_head=commit_id(plan.expected_head),
        batch=batch,
    )
    job = LoadJob(session, request, InProcessRunner())
    tickets = {key: TableTicket(storage=plan.storage, pin=pin) for key, pin in _written_to(staged).items()}
    orders = replace(job.orders, scratch=plan.scratch, tickets=tickets)
    job.resume(orders, min(item.read_on for item in staged))
    lines = [part.lines for part in parts]
    count = max((part.number for part in parts), default=-1) + 1
    by_number = dict(zip((part.number for part in parts), accumulate(lines, initial=0), strict=False))
    offsets = tuple(by_number.get(number, 0) for number in range(count))
    for item in staged:
        if item.place is not None and item.part.types:
            plan.at(item.operation_id).scratch.put(item.leave, _MUST_STAY)
    try:
        job.finish(parts, Places(names=(plan.title,) * count, offsets=offsets))
    except OmnigraphError as error:
        job.discard(parts, error)
        raise


def _written_to(staged: Sequence[StagedRows]) -> dict[str, TablePin]:
    """Return where fragments of each table are; tasks that saw a branch deleted and made again do not go together."""
    found: dict[str, TablePin] = {}
    for item in staged:
        for written in item.part.types:
            if item.place is None or not written.fragments:
                continue
            known = found.setdefault(written.table_key, item.place)
            if (known.location, known.branch) != (item.place.location, item.place.branch):
                raise moved(written.table_key, known.version, item.place.version)
    return found


def _is_there(session: GraphSession, plan: WritePlan, batch: BatchMark) -> bool:
    state = session.store.snapshot(BranchName.parse(plan.branch), Counters()).state
    last = state.batches.get(batch.app)
    return last is not None and last >= batch.number


def _expect_schema(session: GraphSession, plan: WritePlan, staged: Sequence[StagedRows]) -> None:
    found = session.snapshot(plan.branch).state.schema.hash
    for item in staged:
        if item.schema_hash != found:
            details = BadValue(what="schema", value=found, expected=item.schema_hash)
            raise SchemaMovedError("the accepted schema changed while the rows were written", details=details)
