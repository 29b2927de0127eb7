"""The interactive shell: statements and commands of a person, or of a script on standard input."""
