"""The read engine: from a compiled read to rows, on one pinned snapshot."""
