"""The process that dies in the middle of a merge or a revert: ``python -m tests.crash.merge_child``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from tests.crash.child import Job, main
from tests.crash.merge_kinds import MERGE_KINDS


@dataclasses.dataclass(frozen=True, kw_only=True)
class MergeJob(Job):
    """A crash of a merge or a revert."""

    module: ClassVar[str] = "tests.crash.merge_child"

    def run(self, runtime: Runtime) -> None:
        """Do the work of the job."""
        storage, kind = Storage.open(self.root, self.options), MERGE_KINDS[self.kind]
        match self.act:
            case "write":
                kind.run(storage, runtime, Path())
            case "recover":
                kind.open(storage, runtime=runtime).close()


if __name__ == "__main__":
    main(MergeJob)
