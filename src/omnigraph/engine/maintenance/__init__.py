"""Maintenance: keeping tables flat and indexed, giving storage back, and saying how a graph fares."""
