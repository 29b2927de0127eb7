"""The steps that make rows: scan, expand, filter, test, count, anti-join."""
