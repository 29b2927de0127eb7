"""A writing process: ``python -m tests.multiprocess.worker <ground> <number> <commits>``.

It commits until it has been told ``commits`` times that a write is in and the run is declared finished. Every write
is announced in the journal under the commit id that it will have, so that whoever reads the journal of a killed
process can look in the graph's history what became of the write that was under way.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from omnigraph.errors import BadValue, KeyExistsError, UsageError, WriteOutcomeError
from omnigraph.txn.publish.kinds import WriteKind
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import Journal, read_journal
from tests.txn_graph import EDGE_SCHEMA, KNOWS, NODE_SCHEMA, PERSON, TEAM, authority_of, open_graph

SHARED = tuple(f"shared-{number}" for number in range(4))
_KINDS = ("insert", "edge", "upsert", "pair", "contest")

Rows = dict[str, list[dict[str, Any]]]


class Worker:
    """One writer; a restarted one goes on where its journal ends."""

    def __init__(self, ground: Ground, number: int, commits: int) -> None:
        self._ground = ground
        self._number = number
        self._commits = commits
        self._parent = os.getppid()
        path = ground.journal(f"worker-{number}")
        events = read_journal(path)
        self._attempts = sum(event["event"] == "about" for event in events)
        self._acknowledged = sum(event["event"] == "ack" for event in events)
        self._own = _own_nodes(events)
        self._journal = Journal(path)

    def run(self) -> None:
        """Write until the run is over."""
        with open_graph(self._ground.storage, settings=self._ground.txn_settings) as graph:
            self._journal.write("open", pid=os.getpid())
            self._ground.path(f"ready-{os.getpid()}").touch()
            while not self._is_over():
                self._write(graph)
        self._journal.write("close", pid=os.getpid())

    def _is_over(self) -> bool:
        if os.getppid() != self._parent:
            raise SystemExit("whoever started this is gone")
        if self._acknowledged < self._commits:
            return False
        self._ground.path(f"reached-{self._number}").touch()
        return self._ground.path("finish").exists()

    def _write(self, graph: Any) -> None:
        kind = _KINDS[(self._attempts + self._number) % len(_KINDS)]
        self._attempts += 1
        rows = self._rows(kind)
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.LOAD_MERGE if kind == "upsert" else WriteKind.INSERT, actor=self._name)
        apply_rows(txn, kind, rows)
        self._journal.write("about", commit=txn.commit_id, operation=txn.operation_id, kind=kind, rows=rows)
        try:
            result = branch_writer.commit(txn)
        except KeyExistsError:
            if kind != "contest":
                raise
            self._journal.write("refused", commit=txn.commit_id)
        except WriteOutcomeError as error:
            self._journal.write("unknown", commit=txn.commit_id, error=str(error))
        else:
            self._journal.write("ack", commit=txn.commit_id, version=result.commit.manifest_version)
            self._acknowledged += 1
            self._own += [row["id"] for row in rows.get(PERSON, ()) if kind in {"insert", "pair"}]

    @property
    def _name(self) -> str:
        return f"worker-{self._number}"

    def _rows(self, kind: str) -> Rows:
        serial = f"{self._number}-{self._attempts}"
        value = self._number * 1_000_000 + self._attempts
        match kind:
            case "insert":
                return {PERSON: [{"id": f"single-{serial}", "value": value}]}
            case "edge":
                source = self._own[-1] if self._own else SHARED[0]
                return {KNOWS: [{"id": f"edge-{serial}", "src": source, "dst": SHARED[self._attempts % len(SHARED)]}]}
            case "upsert":
                return {PERSON: [{"id": SHARED[self._attempts % len(SHARED)], "value": value}]}
            case "pair":
                row = {"id": f"pair-{serial}", "value": value}
                return {PERSON: [row], TEAM: [row]}
            case _:
                # Everybody wants this id; one of them gets it.
                return {PERSON: [{"id": f"contest-{self._attempts // len(_KINDS)}", "value": value}]}


def apply_rows(txn: Any, kind: str, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Put the rows of one write into a transaction."""
    for table_key, records in rows.items():
        table = pa.Table.from_pylist(records, schema=EDGE_SCHEMA if table_key == KNOWS else NODE_SCHEMA)
        if kind == "upsert":
            txn.upsert(table_key, table)
        else:
            txn.insert(table_key, table)
        if table_key == KNOWS:
            txn.read_table(PERSON)
            txn.add_check(ends_exist(records))


def ends_exist(edges: list[dict[str, Any]]) -> Any:
    """Return the check that both ends of every edge are there."""
    ends = sorted({edge[end] for edge in edges for end in ("src", "dst")})

    def check(view: Any) -> None:
        missing = sorted(set(ends) - view.existing_ids(PERSON, ends))
        if missing:
            details = BadValue(what="end", value=missing[0], expected="a node")
            raise UsageError(f"an edge's end is missing id={missing[0]}", details=details)

    return check


def _own_nodes(events: list[dict[str, Any]]) -> list[str]:
    acknowledged = {event["commit"] for event in events if event["event"] == "ack"}
    return [
        row["id"]
        for event in events
        if event["event"] == "about" and event["commit"] in acknowledged and event["kind"] in {"insert", "pair"}
        for row in event["rows"][PERSON]
    ]


def main() -> None:
    """Run one worker; whatever ends it early is in its journal."""
    # A writer that seems stuck can be asked where it is.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    ground, number, commits = Ground.load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    try:
        Worker(ground, number, commits).run()
    except BaseException:
        Journal(ground.journal(f"worker-{number}")).write("error", trace=traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
