"""Rebase: may a write that was made on one state of the branch be published on a newer one?"""

from __future__ import annotations

from omnigraph.errors import (
    BadValue,
    ExpectedVersionMismatchError,
    HeadMismatch,
    PreconditionFailedError,
    SchemaMovedError,
    VersionMismatch,
)
from omnigraph.txn.changes import TableRegister
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.txn.plan import RebaseRule
from omnigraph.txn.transaction import WriteTxn


def check_rebase(txn: WriteTxn, newer: ManifestState) -> None:
    """Return if ``txn`` may go on upon ``newer``; whether its constraints hold there is for its checks to say.

    Raises:
        PreconditionFailedError: the caller demanded a head that is not the head any more.
        SchemaMovedError: the rows were made for another schema.
        ExpectedVersionMismatchError: a table it was decided on has moved and only the caller can decide again.
    """
    base = txn.snapshot.state
    if txn.expected_head is not None and newer.head.commit != txn.expected_head:
        details = HeadMismatch(branch=newer.head.branch, expected=txn.expected_head, actual=newer.head.commit)
        raise PreconditionFailedError(
            f"the branch head is another commit expected={txn.expected_head} actual={newer.head.commit}",
            details=details,
        )
    if newer.version == base.version:
        return
    if newer.schema.hash != base.schema.hash:
        details_schema = BadValue(what="schema", value=newer.schema.hash, expected=base.schema.hash)
        raise SchemaMovedError("the accepted schema changed while the write was made", details=details_schema)
    if txn.rule is RebaseRule.REFUSE:
        for table_key in sorted({*txn.changes, *txn.read_set}):
            _refuse_moved(table_key, base, newer)
    else:
        for change in txn.changes.values():
            if isinstance(change, TableRegister):
                _refuse_moved(change.table_key, base, newer)


def _refuse_moved(table_key: str, base: ManifestState, newer: ManifestState) -> None:
    before, after = base.table(table_key), newer.table(table_key)
    if (before and before.pin) == (after and after.pin):
        return
    expected = 0 if before is None else before.pin.version
    actual = 0 if after is None else after.pin.version
    details = VersionMismatch(table_key=table_key, expected=expected, actual=actual)
    raise ExpectedVersionMismatchError(
        f"a table that the write depends on has changed table={table_key} expected={expected} actual={actual}",
        details=details,
    )
