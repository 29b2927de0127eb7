"""The process of a server that serves every graph which a file in a folder names."""

from __future__ import annotations

import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path

import uvicorn

from omnigraph.graph.graph import open as open_graph
from omnigraph.ir.stored_queries import QuerySource, StoredQueries
from omnigraph.runtime import Runtime
from omnigraph.server.access.decisions import Access
from omnigraph.server.app import create_app
from omnigraph.server.config import ServerSettings
from omnigraph.server.graphs import Graphs, ReadyGraph
from omnigraph.server.main import LISTENING
from omnigraph.server.service import Service
from tests.session_graph import RELAXED


class NamedGraphs(Graphs):
    """Graphs by the name of a file that holds their place, opened when they are first asked for."""

    def __init__(self, folder):
        super().__init__({}, {})
        self._folder = folder
        self._lock = threading.Lock()
        self._open = {}
        self._stored = {}

    def get(self, graph_id, **how):
        file = self._folder / graph_id
        with self._lock:
            if graph_id not in self._open:
                if not file.is_file():
                    return super().get(graph_id, **how)
                graph = open_graph(file.read_text(), settings=RELAXED, group_commit=True)
                self._open[graph_id] = ReadyGraph(
                    graph_id=graph_id, uri=graph.uri, backend=graph.backend, queries=StoredQueries({})
                )
            return replace(self._open[graph_id], queries=self._queries_of(graph_id))

    def _queries_of(self, graph_id):
        """The queries that the file beside a name holds now; a test may store others at any time."""
        file = self._folder / f"{graph_id}.gq"
        text = file.read_text() if file.is_file() else ""
        if text not in self._stored:
            self._stored[text] = StoredQueries.parse([QuerySource(name="stored.gq", text=text)])
        return self._stored[text]


def main():
    graphs = NamedGraphs(Path(sys.argv[1]))
    service = Service(ServerSettings(graphs=()), graphs, Access(trusts_names=True), Runtime.system())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(f"{LISTENING}127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(create_app(service), lifespan="off", log_config=None, access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
