"""A process that offers a write or publishes those of others: ``python -m tests.crash.offer_child``.

With jobs on standard input it dies where they say. With one job as its argument it runs to the end, unless the
environment has it killed or stopped on the way, and prints what it was told.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import ClassVar

from omnigraph.errors import ClaimBusyError, OmnigraphError
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from tests.crash.child import Job, main
from tests.crash.offer_scenes import DYING, settings_of, write_twice
from tests.txn_graph import open_graph


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfferJob(Job):
    """A write that waits behind another process; ``act`` tells whether it gives up soon."""

    module: ClassVar[str] = "tests.crash.offer_child"

    line_up: bool

    def run(self, runtime: Runtime) -> None:
        """Do the work of the job."""
        try:
            self.write(runtime)
        except ClaimBusyError:
            assert self.act == "give_up"

    def write(self, runtime: Runtime) -> None:
        """Open the graph and write."""
        storage = Storage.open(self.root, self.options)
        settings = settings_of(line_up=self.line_up, gives_up=self.act == "give_up")
        with open_graph(storage, settings=settings, runtime=runtime) as graph:
            write_twice(graph, DYING)


def _tell(job: OfferJob) -> None:
    told = "acknowledged"
    try:
        job.write(Runtime.system())
    except OmnigraphError as error:
        told = error.effect.value
    sys.stdout.write(told)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _tell(OfferJob(**json.loads(sys.argv[1])))
    else:
        main(OfferJob)
