"""A naive evaluator of reads: nested loops over dictionaries, straight from the syntax tree.

It shares no code with the compiler or the engine, so that an agreement of both means something.
"""

from tests.query_oracle.agreement import disagreement
from tests.query_oracle.evaluate import Answer, evaluate
from tests.query_oracle.schema import EdgeShape, Kind, Schema, read_schema
from tests.query_oracle.values import Graph

__all__ = ["Answer", "EdgeShape", "Graph", "Kind", "Schema", "disagreement", "evaluate", "read_schema"]
