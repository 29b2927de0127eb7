"""The process that dies in an apply: ``python -m tests.crash.cluster_child``; ``root`` is the directory."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from omnigraph.cluster.session import ClusterSession
from omnigraph.runtime import Runtime
from tests.crash.child import Job, main


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterJob(Job):
    """A crash of an apply."""

    module: ClassVar[str] = "tests.crash.cluster_child"

    def run(self, runtime: Runtime) -> None:
        """Do the work of the job."""
        ClusterSession(self.root, options=self.options, runtime=runtime).apply(actor="act-mira")


if __name__ == "__main__":
    main(ClusterJob)
