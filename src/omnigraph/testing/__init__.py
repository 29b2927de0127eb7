"""What tests of omnigraph, and of things built on it, need beside the engine itself."""
