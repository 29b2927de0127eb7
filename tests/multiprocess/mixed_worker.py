"""A process of a mixed run: ``python -m tests.multiprocess.mixed_worker <ground> <number> <deeds> <seed> <one in>``.

It does whatever its dice say until it has done ``deeds`` of them and the run is declared finished. With the last number
above 0 it ends itself with SIGKILL about once in so many deeds, at a random moment.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import omnigraph
from omnigraph.engine.maintenance import cleanup as cleaning
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.errors import OmnigraphError
from omnigraph.graph.graph import Graph
from tests.multiprocess import mixed_reads as reads
from tests.multiprocess import mixed_writes as writes
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import Journal
from tests.multiprocess.mixed_member import LOST, Member

# A run is much shorter than what is safe for machines whose clocks and pauses nobody knows.
_FENCE_S = 30.0
_MAINTENANCE = MaintenanceSettings(threads=2, auto_every=24, unnamed_age_s=8.0)
_LATEST_KILL_S = 0.6
_SERVER_TICK_S = 0.1

DEEDS: dict[Callable[[Graph, Member], None], int] = {
    writes.append: 14,
    writes.upsert: 10,
    writes.update: 8,
    writes.batch: 3,
    writes.delete: 5,
    writes.thin_out: 4,
    writes.fork: 5,
    writes.branch_write: 9,
    writes.revert: 4,
    writes.tag: 3,
    reads.hold: 4,
    writes.optimize: 3,
    writes.cleanup: 5,
    reads.look: 6,
    reads.search: 2,
    reads.look_back: 6,
    reads.look_at_tag: 4,
    reads.branch_look: 3,
    reads.export: 3,
    reads.export_files: 2,
    reads.diff: 4,
    reads.poll: 4,
    writes.merge: 5,
    writes.unbranch: 3,
    writes.untag: 2,
    reads.status: 1,
}


class Worker:
    """One process; a restarted one goes on where its journal ends."""

    def __init__(self, ground: Ground, number: int, deeds: int, seed: int, kill_one_in: int) -> None:
        self._ground = ground
        self._deeds = deeds
        self._address = ground.addresses.get(str(number))
        # A server finishes what it was asked for, so that only its own end leaves writes behind.
        self._kill_one_in = 0 if self._address else kill_one_in
        self._parent = os.getppid()
        journal = ground.journal(f"member-{number}")
        self.me = Member(number, Path(ground.folder), journal, seed, asks_server=self._address is not None)

    def run(self) -> None:
        """Do deeds until the run is over."""
        ground, me = self._ground, self.me
        with self._open() as graph:
            me.note("open", pid=os.getpid())
            self._arm(often=bool(me.unanswered))
            self._come_back(graph)
            ground.path(f"ready-{os.getpid()}").touch()
            while not self._is_over():
                me.deeds += 1
                self._arm(often=False)
                self._do(self._choose(), graph)
                reads.go_on(me)
                if me.has_lost_answers:
                    self._come_back(graph)
            reads.go_on(me, is_end=True)
            reads.export(graph, me)
        me.note("close", deeds=me.deeds)

    def _do(self, deed: Callable[[Graph, Member], None], graph: Graph) -> None:
        """Do something; a server that is gone before it has begun leaves nothing behind."""
        try:
            deed(graph, self.me)
        except OmnigraphError as error:
            if self._address is None or error.code not in LOST:
                raise
            self.me.has_lost_answers = True

    def _open(self) -> Graph:
        ground = self._ground
        if self._address is None:
            return omnigraph.open(
                ground.root, storage_options=ground.options, settings=ground.txn_settings, maintenance=_MAINTENANCE
            )
        while True:
            self._check_parent()
            try:
                return omnigraph.open(self._address)
            except OmnigraphError as error:
                if error.code not in LOST:
                    raise
            time.sleep(_SERVER_TICK_S)

    def _come_back(self, graph: Graph) -> None:
        """Find out what became of what was under way when this process, or its server, was killed."""
        me = self.me
        while True:
            me.forget_names()
            while me.unanswered and not writes.settle(graph, me):
                self._wait_for_server()
            with me.attempt("come_back"):
                me.resolve(graph)
                writes.tidy(graph, me)
            if not me.has_lost_answers:
                return
            self._wait_for_server()

    def _wait_for_server(self) -> None:
        if self._address is not None:
            self._open().close()

    def _choose(self) -> Callable[[Graph, Member], None]:
        """Return each deed once, in an order in which the first process can do all of them, and then any."""
        deeds, me = list(DEEDS), self.me
        if me.number == 0 and me.deeds <= len(deeds):
            return deeds[me.deeds - 1]
        return me.random.choices(deeds, list(DEEDS.values()))[0]

    def _is_over(self) -> bool:
        self._check_parent()
        if self.me.deeds < self._deeds:
            return False
        self._ground.path(f"reached-{self.me.number}").touch()
        return self._ground.path("finish").exists()

    def _check_parent(self) -> None:
        if os.getppid() != self._parent:
            raise SystemExit("whoever started this is gone")

    def _arm(self, *, often: bool) -> None:
        """Perhaps decide to die soon; whoever was interrupted is a little likelier to be interrupted again."""
        one_in = self._kill_one_in
        if not one_in or self._ground.path("finish").exists():
            return
        if self.me.random.random() < (3 if often else 1) / one_in:
            later = threading.Timer(self.me.random.random() * _LATEST_KILL_S, os.kill, (os.getpid(), signal.SIGKILL))
            later.daemon = True
            later.start()


def main() -> None:
    """Run one process; whatever ends it early is in its journal."""
    # A process that seems stuck can be asked where it is.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    cleaning._FENCE_S = _FENCE_S
    ground, number = Ground.load(sys.argv[1]), int(sys.argv[2])
    deeds, seed, kill_one_in = (int(text) for text in sys.argv[3:6])
    try:
        Worker(ground, number, deeds, seed, kill_one_in).run()
    except BaseException:
        Journal(ground.journal(f"member-{number}")).write("error", trace=traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
