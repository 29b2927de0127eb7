"""The projections that there are, by the names that their files have."""

from __future__ import annotations

# Where the row of an id is.
KEYS = "keys"
# The words of a property.
TEXT = "text"
# The edges of a table, sorted by where they start and by where they lead to.
ADJACENCY_OUT = "adjacency-out"
ADJACENCY_IN = "adjacency-in"

# Fewer edges are sorted sooner than they are found in a file.
LEAST_EDGES = 20_000
