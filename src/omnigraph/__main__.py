"""Lets ``python -m omnigraph`` be the same command as ``omnigraph``."""

from omnigraph.cli.main import main

if __name__ == "__main__":
    main()
