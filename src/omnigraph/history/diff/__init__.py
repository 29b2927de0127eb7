"""Differences between two states of a graph, exact to the row."""
