"""The two languages: text to tree and back, with no knowledge of a schema or of storage."""
