"""The write path: manifest, publish protocol, recovery, branches, graph lifecycle."""
