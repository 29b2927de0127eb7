"""Applying a plan: graphs are made and changed one by one, then the ledger says so."""
