"""Proposes a schema for data that has none: types, keys and edges guessed from names and values, each explained."""

from omnigraph.engine.infer.propose import SchemaProposal, propose_schema
from omnigraph.engine.infer.tables import DEFAULT_ROWS, SampledTable, sample_files, table_of_rows

__all__ = ["DEFAULT_ROWS", "SampledTable", "SchemaProposal", "propose_schema", "sample_files", "table_of_rows"]
