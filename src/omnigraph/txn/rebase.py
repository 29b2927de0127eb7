"""Rebase: may a write that was made on one state of the branch be published on a newer one?"""

from __future__ import annotations

from omnigraph.errors import (
    BadValue,
    BatchRepeatedError,
    ExpectedVersionMismatchError,
    HeadMismatch,
    PreconditionFailedError,
    RepeatedBatch,
    SchemaMovedError,
    VersionMismatch,
    WriteSweptError,
)
from omnigraph.txn.changes import MadeElsewhere, RowChange, TableRegister, WrittenRows
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.txn.plan import RebaseRule, WriteKind
from omnigraph.txn.transaction import WriteTxn

_TIDYING = frozenset({WriteKind.OPTIMIZE.value, WriteKind.ENSURE_INDICES.value})


def check_rebase(txn: WriteTxn, newer: ManifestState) -> None:
    """Return if ``txn`` may go on upon ``newer``; whether its constraints hold there is for its checks to say.

    Raises:
        WriteSweptError: a cleanup may have removed files that it names.
        PreconditionFailedError: the caller demanded a head that is not the head any more.
        SchemaMovedError: the rows were made for another schema.
        ExpectedVersionMismatchError: a table it was decided on has moved and only the caller can decide again.
    """
    base = txn.snapshot.state
    _refuse_repeated(txn, newer)
    if txn.expected_head is not None and newer.head.commit != txn.expected_head:
        details = HeadMismatch(branch=newer.head.branch, expected=txn.expected_head, actual=newer.head.commit)
        raise PreconditionFailedError(
            f"the branch head is another commit expected={txn.expected_head} actual={newer.head.commit}",
            details=details,
        )
    if newer.version == base.version:
        return
    _refuse_cleaned(txn, newer)
    if newer.schema.hash != base.schema.hash:
        details_schema = BadValue(what="schema", value=newer.schema.hash, expected=base.schema.hash)
        raise SchemaMovedError("the accepted schema changed while the write was made", details=details_schema)
    if txn.rule is RebaseRule.REFUSE:
        for table_key in sorted({*txn.changes, *txn.read_set}):
            if not _was_only_tidied(table_key, base, newer):
                _refuse_moved(table_key, base, newer)
    for change in txn.changes.values():
        if isinstance(change, TableRegister) or (isinstance(change, WrittenRows) and not change.is_append):
            _refuse_moved(change.table_key, base, newer)


def _refuse_repeated(txn: WriteTxn, newer: ManifestState) -> None:
    # Before anything else: the rows of a piece that is there already cannot be inserted again.
    mark = txn.batch
    last = None if mark is None else newer.batches.get(mark.app)
    if mark is not None and last is not None and last >= mark.number:
        details = RepeatedBatch(app=mark.app, number=mark.number, last=last)
        raise BatchRepeatedError(
            f"the branch has this batch already app={mark.app} batch={mark.number}", details=details
        )


def _refuse_cleaned(txn: WriteTxn, newer: ManifestState) -> None:
    """Refuse what names files or states from before a cleanup, which may have taken them away."""
    base, head = txn.snapshot.state.version, newer.head
    for change in txn.changes.values():
        is_swept = isinstance(change, MadeElsewhere) and base < head.swept
        if is_swept or (isinstance(change, RowChange) and change.outcome is not None and base < head.cleaned):
            raise swept(change.table_key, base, head.cleaned)


def swept(table_key: str, expected: int, actual: int) -> WriteSweptError:
    """Return the error for files that a cleanup may have taken away."""
    details = VersionMismatch(table_key=table_key, expected=expected, actual=actual)
    return WriteSweptError(
        f"a cleanup came in between table={table_key} expected={expected} actual={actual}", details=details
    )


def _was_only_tidied(table_key: str, base: ManifestState, newer: ManifestState) -> bool:
    """Whether a table holds the rows that it held: nothing but maintenance came in between."""
    before, after = base.table(table_key), newer.table(table_key)
    if before is None or after is None:
        return False
    if (before.pin.location, before.pin.branch) != (after.pin.location, after.pin.branch):
        return False
    at, known = newer.head.commit, {commit.id: commit for commit in newer.recent}
    while at != base.head.commit:
        commit = known.get(at)
        # What the newest version does not tell is not worth reading history for.
        if commit is None or commit.parent is None:
            return False
        if table_key in commit.touched and commit.operation not in _TIDYING:
            return False
        at = commit.parent
    return True


def moved(table_key: str, expected: int, actual: int) -> ExpectedVersionMismatchError:
    """Return the error for a table that is not what the write was made for."""
    details = VersionMismatch(table_key=table_key, expected=expected, actual=actual)
    return ExpectedVersionMismatchError(
        f"a table that the write depends on has changed table={table_key} expected={expected} actual={actual}",
        details=details,
    )


def _refuse_moved(table_key: str, base: ManifestState, newer: ManifestState) -> None:
    before, after = base.table(table_key), newer.table(table_key)
    if (before and before.pin) == (after and after.pin):
        return
    raise moved(table_key, 0 if before is None else before.pin.version, 0 if after is None else after.pin.version)
