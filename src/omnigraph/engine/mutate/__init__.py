"""Mutations: inserts, updates and deletes of a compiled query, published as one commit."""

from omnigraph.engine.mutate.run_mutation import MutationResult, is_insert_only, run_mutation

__all__ = ["MutationResult", "is_insert_only", "run_mutation"]
