"""Transactions of several calls: mutations and loads on a private state, published as one commit or not at all."""

from omnigraph.engine.transaction.graph_transaction import GraphTransaction, TransactionOptions, TransactionResult

__all__ = ["GraphTransaction", "TransactionOptions", "TransactionResult"]
