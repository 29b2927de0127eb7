"""The operator config: who works here, on which graphs by default, and under which short names."""
