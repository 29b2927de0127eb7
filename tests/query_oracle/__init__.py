"""A naive evaluator of reads: nested loops over dictionaries, straight from the syntax tree.

It shares no code with the compiler or the engine, so that an agreement of both means something. Where the page on the
language is silent, ``decisions`` tells what is done here.
"""

from tests.query_oracle.agreement import disagreement, outcome_disagreement
from tests.query_oracle.decisions import DECISIONS
from tests.query_oracle.evaluate import Answer, evaluate
from tests.query_oracle.faults import Fault, Illegal
from tests.query_oracle.schema import EdgeShape, Kind, Schema, read_schema
from tests.query_oracle.values import Graph

__all__ = [
    "DECISIONS",
    "Answer",
    "EdgeShape",
    "Fault",
    "Graph",
    "Illegal",
    "Kind",
    "Schema",
    "disagreement",
    "evaluate",
    "outcome_disagreement",
    "read_schema",
]
