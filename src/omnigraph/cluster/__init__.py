"""Clusters: what should exist, as files; what has been made to exist, as a ledger."""
