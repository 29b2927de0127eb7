"""A reading process: ``python -m tests.multiprocess.reader <ground> <number>``.

It looks at the graph over and over until the run's ``quiet`` flag appears, and writes down everything that no
published state can look like.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import Journal
from tests.txn_graph import KNOWS, PERSON, TEAM, open_graph

_FRESH_EVERY = 5
_HOLD_FOR = 7
# A reader that never pauses would take the processor away from those it watches.
_PAUSE_S = 0.02

Content = dict[str, dict[str, dict[str, Any]]]


class Reader:
    """Compares each look with the ones before it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._version = 0
        self._ids: dict[str, set[str]] = {}
        self._held: tuple[GraphSnapshot, Content] | None = None
        self.looks = 0
        self.states = 0

    def look(self, graph: Any, *, may_hold: bool) -> Iterator[str]:
        """Take one snapshot and yield what is wrong with it; ``may_hold``: the graph stays open for later looks."""
        snapshot = graph.snapshot(BranchName(MAIN))
        version = snapshot.state.version
        content, findings = _read(snapshot)
        yield from findings
        if version < self._version:
            yield f"the newest version went back from={self._version} to={version}"
        yield from _torn(version, content)
        for table_key, rows in content.items():
            gone = self._ids.get(table_key, set()) - rows.keys()
            if gone:
                yield f"rows vanished version={version} table={table_key} ids={sorted(gone)[:5]}"
            self._ids[table_key] = set(rows)
        self.states += version > self._version
        self.looks += 1
        self._version = max(version, self._version)
        if self._held is not None:
            held, before = self._held
            if _read(held)[0] != before:
                yield f"a held snapshot changed version={held.state.version}"
        if may_hold and (self._held is None or self.looks % _HOLD_FOR == 0):
            self._held = snapshot, content


def _read(snapshot: GraphSnapshot) -> tuple[Content, list[str]]:
    content: Content = {}
    findings = []
    for table_key, entry in snapshot.state.tables.items():
        rows = snapshot.table(table_key).read().to_pylist()
        content[table_key] = {row["id"]: row for row in rows}
        where = f"version={snapshot.state.version} table={table_key}"
        if len(rows) != entry.row_count:
            findings.append(f"the manifest counts other rows {where} manifest={entry.row_count} real={len(rows)}")
        if len(rows) != len(content[table_key]):
            findings.append(f"an id stands twice {where}")
    return content, findings


def _torn(version: int, content: Content) -> Iterator[str]:
    """Yield what was written in one commit and is seen in part, and edges that hang in the air."""
    persons, teams = ({name for name in content[key] if name.startswith("pair-")} for key in (PERSON, TEAM))
    for name in sorted(persons ^ teams):
        yield f"half of a pair is visible version={version} id={name}"
    for edge in content[KNOWS].values():
        if not {edge["src"], edge["dst"]} <= content[PERSON].keys():
            yield f"an edge without an end is visible version={version} edge={edge['id']}"


def main() -> None:
    """Look until the run is quiet."""
    ground, name = Ground.load(sys.argv[1]), f"reader-{sys.argv[2]}"
    journal = Journal(ground.journal(name))
    reader, parent = Reader(ground), os.getppid()

    def open_() -> Any:
        return open_graph(ground.storage, settings=ground.txn_settings, mode="read_only")

    try:
        with open_() as lasting:
            while os.getppid() == parent and (reader.looks == 0 or not ground.path("quiet").exists()):
                for finding in reader.look(lasting, may_hold=True):
                    journal.write("finding", text=finding)
                if reader.looks % _FRESH_EVERY == 0:
                    with open_() as fresh:
                        for finding in reader.look(fresh, may_hold=False):
                            journal.write("finding", text=finding)
                time.sleep(_PAUSE_S)
    except BaseException:
        journal.write("error", trace=traceback.format_exc())
        raise
    journal.write("close", looks=reader.looks, states=reader.states)


if __name__ == "__main__":
    main()
