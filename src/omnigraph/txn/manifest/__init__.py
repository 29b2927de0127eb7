"""The manifest: the only authority on what a graph contains."""
