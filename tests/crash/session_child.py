"""The process that dies in the middle of a user's write: ``python -m tests.crash.session_child``."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import ClassVar

from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from tests.crash.child import Job, main
from tests.crash.large_loads import LARGE_LOADS
from tests.crash.session_kinds import SESSION_KINDS


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionJob(Job):
    """A crash of a session. ``inputs`` holds what loads read, ``scratch`` is where temporary files go."""

    module: ClassVar[str] = "tests.crash.session_child"

    inputs: str
    scratch: str

    def run(self, runtime: Runtime) -> None:
        """Do the work of the job."""
        tempfile.tempdir = self.scratch
        storage = Storage.open(self.root, self.options)
        kind = {**SESSION_KINDS, **LARGE_LOADS}[self.kind]
        match self.act:
            case "write":
                kind.run(storage, runtime, Path(self.inputs))
            case "recover":
                kind.open(storage, runtime=runtime).close()


if __name__ == "__main__":
    main(SessionJob)
