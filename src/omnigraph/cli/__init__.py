"""The command line: one file per group of commands, one output layer, one place for exit codes."""
