"""The objects that people hold: a graph, its branches and states. ``omnigraph`` exports them."""
