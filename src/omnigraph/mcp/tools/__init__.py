"""The tools, one module for each group."""
