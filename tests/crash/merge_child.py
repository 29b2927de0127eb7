"""The process that dies in the middle of a merge or a revert: ``python -m tests.crash.merge_child``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from omnigraph.runtime import World
from omnigraph.store.location import Storage
from tests.crash.child import Job, main
from tests.crash.merge_kinds import MERGE_KINDS


@dataclasses.dataclass(frozen=True, kw_only=True)
class MergeJob(Job):
    """A crash of a merge or a revert."""

    module: ClassVar[str] = "tests.crash.merge_child"

    def run(self, world: World) -> None:
        """Do the work of the job."""
        storage, kind = Storage.open(self.root, self.options), MERGE_KINDS[self.kind]
        match self.act:
            case "write":
                kind.run(storage, world, Path())
            case "recover":
                kind.open(storage, world=world).close()


if __name__ == "__main__":
    main(MergeJob)
