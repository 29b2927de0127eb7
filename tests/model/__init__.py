"""An explicit-state model of the publish protocol and an exhaustive search of its interleavings."""
