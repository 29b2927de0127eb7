"""Commands that read and write the rows of a graph."""
