"""What happened to a graph: differences, the change feed, blame, merges and reverts."""
