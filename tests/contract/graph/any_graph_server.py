"""The process of a server that serves every graph which a file in a folder names."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

from omnigraph.graph import open as open_graph
from omnigraph.runtime import Runtime
from omnigraph.server import main as process
from omnigraph.server.access import Access
from omnigraph.server.config import ServerSettings
from omnigraph.server.graphs import Graphs, ReadyGraph
from omnigraph.server.service import Service
from tests.session_graph import RELAXED


class NamedGraphs(Graphs):
    """Graphs by the name of a file that holds their place, opened when they are first asked for."""

    def __init__(self, folder):
        super().__init__({}, {})
        self._folder = folder
        self._lock = threading.Lock()
        self._open = {}

    def get(self, graph_id):
        file = self._folder / graph_id
        with self._lock:
            if graph_id not in self._open:
                if not file.is_file():
                    return super().get(graph_id)
                graph = open_graph(file.read_text(), settings=RELAXED, group_commit=True)
                self._open[graph_id] = ReadyGraph(graph_id=graph_id, uri=graph.uri, backend=graph.backend)
            return self._open[graph_id]

    def close(self):
        for graph in self._open.values():
            graph.backend.close()


def main():
    settings = ServerSettings(graphs=(), port=0)
    service = Service(settings, NamedGraphs(Path(sys.argv[1])), Access(), Runtime.system())
    with process._listen(settings) as listener:
        asyncio.run(process._serve(service, listener))
    service.close()


if __name__ == "__main__":
    main()
