"""A graph of a chosen depth and width at the counting endpoint, and the one-row writes that the gate prices."""

import itertools
import time
from collections import Counter
from dataclasses import dataclass

from omnigraph.errors import KeyExistsError
from omnigraph.store.staging import IndexBuild
from omnigraph.testing.s3 import measure
from omnigraph.txn.changes import IndexBuilds
from omnigraph.txn.publish.kinds import WriteKind
from tests.txn_graph import (
    KNOWS,
    PERSON,
    TEAM,
    authority_of,
    edge_rows,
    init_graph,
    node_rows,
    open_graph,
)

OPERATIONS = ("keyed insert", "blind insert", "edge insert", "upsert")
SEEDS = 512
_OWN_TABLES = 3
_SETTLE_S = 300.0


@dataclass(frozen=True)
class Sample:
    """One write: what the endpoint served before the acknowledgement, and what the product says it cost."""

    kinds: tuple
    calls: int
    released: int
    cost: object

    @property
    def stages(self):
        return self.cost.serial_stages


def sample(endpoint, write):
    """Run a write and measure it; deletes of sidecars come after the acknowledgement, perhaps of the write before."""
    with measure(endpoint) as measured:
        result = write()
    counts = Counter((call.operation, call.object_class) for call in measured.calls)
    released = counts.pop(("POST_DELETE", "sidecar"), 0)
    kinds = tuple(sorted(counts.items()))
    return Sample(kinds=kinds, calls=sum(counts.values()), released=released, cost=result.cost)


def usual(samples):
    """The kinds of calls that most of the samples made: a fold, which is rare, does not change it."""
    return Counter(item.kinds for item in samples).most_common(1)[0][0]


class Driver:
    """A writer with a warm handle on a graph with ``depth`` commits and ``tables`` tables."""

    def __init__(self, endpoint, *, depth, tables, settings=None):
        self.endpoint = endpoint
        self.storage = init_graph(endpoint.fresh_prefix(), endpoint.storage_options, extra=tables - _OWN_TABLES)
        self.graph = open_graph(self.storage, **({} if settings is None else {"settings": settings}))
        self.main = authority_of(self.graph)
        self._fresh = itertools.count()
        # The first is for writes that nobody measures: it may lie alone in its fragment.
        self._existing = itertools.cycle(range(1, SEEDS))
        self._seed()
        for number in range(depth - 1):
            self.deepen(number)

    def close(self):
        self.graph.close()

    def settle(self):
        """Wait until the sidecars of all acknowledged writes are gone."""
        deadline_s = time.monotonic() + _SETTLE_S
        while self.main.services.claims.pending_versions():
            assert time.monotonic() < deadline_s

    def deepen(self, number):
        """One more commit, of each kind in turn."""
        operation = OPERATIONS[number % len(OPERATIONS)]
        return self.upsert("seed-0") if operation == "upsert" else self.write(operation)

    def write(self, operation):
        """One acknowledged write of one row."""
        match operation:
            case "keyed insert":
                return self._commit(lambda txn: txn.insert(PERSON, node_rows([self._new_id()])))
            case "blind insert":
                rows = node_rows([self._new_id()])
                return self._commit(lambda txn: txn.insert(PERSON, rows, has_fresh_ids=True))
            case "edge insert":
                return self.write_edge(WriteKind.INSERT, self._new_id())
            case "upsert":
                return self.upsert(self.existing_id())
            case _:
                raise ValueError(operation)

    def upsert(self, key):
        rows = node_rows([key], value=next(self._fresh))
        return self._commit(lambda txn: txn.upsert(PERSON, rows), WriteKind.LOAD_MERGE)

    def write_edge(self, kind, edge_id):
        """Insert or merge one edge; both ends must exist at the moment of the commit."""
        ends = [self.existing_id(), self.existing_id()]

        def change(txn):
            rows = edge_rows([(edge_id, *ends)])
            if kind is WriteKind.INSERT:
                txn.insert(KNOWS, rows)
            else:
                txn.upsert(KNOWS, rows)
            txn.add_check(check)

        def check(view):
            assert view.existing_ids(PERSON, ends) == frozenset(ends)

        return self._commit(change, kind)

    def write_tables(self, count):
        """One commit that inserts a row into each of ``count`` tables."""

        def change(txn):
            txn.insert(PERSON, node_rows([self._new_id()]))
            if count > 1:
                txn.insert(TEAM, node_rows([self._new_id()]))
            if count > 2:
                txn.insert(KNOWS, edge_rows([(self._new_id(), "seed-1", "seed-2")]))
            for number in range(count - _OWN_TABLES):
                txn.insert(f"node:Extra{number}", node_rows([self._new_id()]))

        return self._commit(change)

    def write_to_branch(self, branch):
        """Insert one row on a branch."""
        branch_writer = authority_of(self.graph, branch)
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows([self._new_id()]))
        return branch_writer.commit(txn)

    def index_ids(self):
        """Give the tables that merges touch a current index on their ids."""
        builds = (IndexBuild(column="id", kind="btree", name="id_idx"),)

        def change(txn):
            for table_key in (PERSON, KNOWS):
                txn.change(IndexBuilds(table_key=table_key, builds=builds))

        return self._commit(change, WriteKind.ENSURE_INDICES)

    def existing_id(self):
        return f"seed-{next(self._existing)}"

    def has_taken(self, key):
        """Whether a strict insert of ``key`` is refused."""
        try:
            self._commit(lambda txn: txn.insert(PERSON, node_rows([key])))
        except KeyExistsError:
            return True
        return False

    def fresh_branch_name(self):
        return f"work-{next(self._fresh)}"

    def _seed(self):
        def change(txn):
            txn.insert(PERSON, node_rows(f"seed-{number}" for number in range(SEEDS)))
            txn.insert(TEAM, node_rows(["team-0", "team-1"]))
            edges = [(f"edge-{number}", f"seed-{number}", "seed-1") for number in range(SEEDS)]
            txn.insert(KNOWS, edge_rows(edges))

        self._commit(change)

    def _new_id(self):
        return f"new-{next(self._fresh)}"

    def _commit(self, change, kind=WriteKind.INSERT):
        txn = self.main.begin(kind)
        change(txn)
        result = self.main.commit(txn)
        assert result.commit is not None
        return result
