"""Graphs with a write that was torn apart, and what it leaves behind."""

from __future__ import annotations

import pytest

from omnigraph.runtime import Runtime
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.txn.claims import identity
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from tests.crash.later import Torn, tear_at
from tests.txn_graph import PERSON, TEAM, authority_of, insert, node_rows, open_graph

# A claim that is left behind must not make the next write of the same process wait until somebody presumes it dead.
FULL = TxnSettings()
IMPATIENT = TxnSettings(durability="relaxed", claim_wait_s=6.0)


def fill(storage: Storage) -> None:
    """Put a person and a team into a graph, by a commit each."""
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        insert(graph, TEAM, node_rows(["t"]))


def tear(storage: Storage, point: str = "txn.commit.after_tables", nth: int = 1) -> None:
    """Leave a claim behind; at the point that is usual its tables have moved."""
    with open_graph(storage, runtime=tear_at(Runtime.system({}), point, nth)) as graph:
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.INSERT, actor="torn")
        txn.insert(PERSON, node_rows(["torn"]))
        txn.insert(TEAM, node_rows(["torn"]))
        with pytest.raises(Torn):
            branch_writer.commit(txn)


def stop_write(storage: Storage, point: str, monkeypatch: pytest.MonkeyPatch, branch: str | None = None) -> str | None:
    """Begin a durable write of a machine that goes down at a point; its claim stays, no process of it is alive.

    Returns the native branch of the manifest that it was written to.
    """
    with monkeypatch.context() as patched:
        patched.setattr(identity, "_host", lambda: "here/boot-before-the-cut/pid")
        with open_graph(storage, runtime=tear_at(Runtime.system({}), point), settings=FULL) as graph:
            branch_writer = authority_of(graph, branch or "main")
            txn = branch_writer.begin(WriteKind.INSERT, actor="torn")
            txn.insert(PERSON, node_rows(["torn"]))
            txn.insert(TEAM, node_rows(["torn"]))
            with pytest.raises(Torn):
                branch_writer.commit(txn)
            return branch_writer.services.line.lance_branch


def sidecars(storage: Storage) -> tuple[str, ...]:
    """The claims that are there."""
    keys = ControlObjects(storage).list_keys("__recovery")
    return tuple(key for key in keys if key.endswith(".json"))
