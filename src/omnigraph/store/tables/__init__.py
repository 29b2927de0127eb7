"""Tables of a graph: pinned versions, what reads and writes them, and work on them that any process can do."""
