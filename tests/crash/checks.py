"""What a graph shows, and what must be true of it after any crash."""

from __future__ import annotations

from omnigraph.txn.recovery.undo import RECOVERY_ACTOR
from omnigraph.values import BranchName
from tests.auditor import Auditor, audit
from tests.crash.kinds import ACTOR, KINDS, WriterKind
from tests.txn_graph import PERSON, history, insert, node_rows

_CLIENT_ONLY = {"client_max_retries", "client_retry_timeout"}


def state_of(graph):
    """Everything a write of ours may change, on every branch: rows, fragments, indexes, schema and format."""
    return {branch: _branch_state(graph, branch) for branch in graph.branch_names()}


def without_indexes(state):
    """The same without index names: undoing a table commit may keep a derived index, never a row."""
    return {
        branch: ({key: (rows, fragments) for key, (rows, fragments, _) in tables.items()}, *rest)
        for branch, (tables, *rest) in state.items()
    }


def _branch_state(graph, branch):
    snapshot = graph.snapshot(BranchName(branch))
    tables = {}
    for table_key in snapshot.state.tables:
        table = snapshot.table(table_key)
        rows = sorted(tuple(row.values()) for row in table.read().to_pylist())
        names = sorted(index.name for index in table.indexes())
        tables[table_key] = (rows, len(table.fragments), names)
    stones = sorted(stone.table_key for stone in snapshot.state.tombstones)
    return tables, stones, snapshot.state.schema.source, snapshot.manifest.format


def visible_state(kind: WriterKind, storage):
    """The state that a reader sees, whatever lies about of writers that died."""
    with kind.open(storage, mode="read_only") as graph:
        return state_of(graph)


def assert_sound(storage):
    """Demand a clean bill from the auditor: no sidecar, no drift, one line, counts and audit rows right."""
    findings = audit(storage.root, _plain_options(storage))
    assert findings == [], "\n".join(findings)


def recovery_kinds(storage):
    """The recoveries on record, oldest first."""
    rows = Auditor(storage.root, _plain_options(storage)).audit_rows()
    return [row["recovery_kind"] for row in rows if row["original_actor"] in {ACTOR, None}]


def assert_next_write_succeeds(kind: WriterKind, storage):
    """Demand that a plain insert goes through and nothing is left behind by it."""
    with kind.open(storage) as graph:
        insert(graph, PERSON, node_rows(["next"]), branch=kind.branch)
    assert_sound(storage)


def assert_history_tells(graph, branch, recoveries):
    """Demand that a write that was finished keeps its author and one that was undone is the recovery's commit."""
    newest = next(iter(history(graph, branch)))
    if recoveries[-1:] == ["RolledForward"]:
        assert newest.actor == ACTOR
    elif recoveries[-1:] == ["RolledBack"]:
        assert newest.actor == RECOVERY_ACTOR


def _plain_options(storage):
    return {key: value for key, value in storage.options.items() if key not in _CLIENT_ONLY}


# Only an object store gets an index on ids, because keys answer on a local disk.
_DIFFERENT_BY_STORE = {"optimize"}


class Twins:
    """The states before and after each kind of write, taken from an undisturbed run."""

    def __init__(self, places_of):
        self._places_of = places_of
        self._places = {}
        self._known = {}

    def of(self, name: str, storage):
        """The two states of a kind, as they are where ``storage`` is."""
        store = "s3" if name in _DIFFERENT_BY_STORE and not storage.is_local else "local"
        if (name, store) not in self._known:
            kind = KINDS[name]
            if store not in self._places:
                self._places[store] = self._places_of(store)
            places = self._places[store]
            storage = kind.prepare(places.fresh(), places.options)
            before = visible_state(kind, storage)
            with kind.open(storage) as graph:
                kind.write(graph)
            after = visible_state(kind, storage)
            assert before != after
            self._known[name, store] = before, after
        return self._known[name, store]
