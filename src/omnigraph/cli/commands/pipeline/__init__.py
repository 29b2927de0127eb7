"""``omnigraph pipeline``: one file for each kind of command."""
