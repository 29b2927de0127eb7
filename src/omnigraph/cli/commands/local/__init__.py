"""Commands that take no graph: files, the operator config, the shell, and the versions."""
