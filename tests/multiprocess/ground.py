"""Where a run takes place: the graph, and the folder through which its processes know of each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.store.location import Storage
from omnigraph.txn.settings import TxnSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The graph, the folder for journals and flags, and the settings that every process opens the graph with.

    ``addresses`` are those of the servers that workers ask instead of opening the graph, by the number of the worker.
    """

    root: str
    folder: str
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def storage(self) -> Storage:
        """The graph's storage."""
        return Storage.open(self.root, self.options)

    @property
    def txn_settings(self) -> TxnSettings:
        """The settings as the engine takes them."""
        return TxnSettings(**self.settings)

    def path(self, name: str) -> Path:
        """Return a file of the run's folder."""
        return Path(self.folder, name)

    def journal(self, name: str) -> Path:
        """Return the journal of a process."""
        return self.path(f"{name}.jsonl")

    def save(self) -> Path:
        """Write the ground down for processes to :meth:`load`."""
        path = self.path("ground.json")
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: str) -> Ground:
        """Return the ground that :meth:`save` wrote."""
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))
