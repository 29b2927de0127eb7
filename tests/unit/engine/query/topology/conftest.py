import pytest
from tests.unit.engine.query.topology.stored import Graph


@pytest.fixture
def graph(tmp_path):
    """Five nodes with parallel edges, edges both ways, a self-loop, and an edge that leads nowhere."""
    graph = Graph(tmp_path / "graph")
    graph.change("a", {name: at for at, name in enumerate(("ann", "bo", "cy", "dee", "eli"))})
    graph.change("b", {"lab": 1, "ann": 2})
    edges = {
        "k1": ("ann", "bo"),
        "k2": ("ann", "bo"),
        "k3": ("bo", "ann"),
        "k4": ("cy", "cy"),
        "k5": ("bo", "cy"),
        "k6": ("ann", "lab"),
        "k7": ("dee", "nobody"),
    }
    graph.change("e", edges)
    return graph
