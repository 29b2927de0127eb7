"""The HTTP face of graphs: many callers, one process, the same operations as everywhere."""
