"""Histories of concurrent clients, and the anomalies in them."""

from omnigraph.testing.histories.anomalies import Anomaly, find_anomalies
from omnigraph.testing.histories.linearizable import Call, is_linearizable
from omnigraph.testing.histories.transactions import Append, Read, Transaction

__all__ = [
    "Anomaly",
    "Append",
    "Call",
    "Read",
    "Transaction",
    "find_anomalies",
    "is_linearizable",
]
