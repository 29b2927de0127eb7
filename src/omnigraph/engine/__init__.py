"""The engine: constraints, mutations and loads over a pinned state of the graph."""
