"""Value types: ids, names and references."""
