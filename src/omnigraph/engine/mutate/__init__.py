"""Mutations: inserts, updates and deletes of a compiled query, published as one commit."""

from omnigraph.engine.mutate.execute import run_mutation
from omnigraph.engine.mutate.mutation import MutationResult

__all__ = ["MutationResult", "run_mutation"]
