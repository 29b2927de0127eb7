"""Mutations: inserts, updates and deletes of a compiled query, published as one commit."""

from omnigraph.engine.mutate.mutation import MutationResult
from omnigraph.engine.mutate.run_mutation import run_mutation

__all__ = ["MutationResult", "run_mutation"]
