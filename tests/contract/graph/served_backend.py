"""A backend that asks a real server process, which serves every graph that a test makes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from omnigraph.client import ClientSettings, GraphAddress
from omnigraph.client._sync.backend import RemoteBackend

# Errors that say "try again" are what tests look for, so they are not waited for.
AT_ONCE = ClientSettings(attempts=1)


class ServedBackend(RemoteBackend):
    """Opens the graph in the server instead of in this process."""

    server = ""
    folder = Path()

    def __init__(self, engine, mode):
        root = engine.store.storage.root
        engine.close()
        graph_id = hashlib.sha256(root.encode()).hexdigest()[:32]
        (self.folder / graph_id).write_text(root)
        super().__init__(GraphAddress(server=self.server, graph_id=graph_id), mode=mode, settings=AT_ONCE)
        self.connect()
        # Tests make names of files of it.
        self.uri = root
