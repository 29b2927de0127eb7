"""Schema changes: planned, checked against the rows there are, and published together with the tables they change."""

from omnigraph.engine.schema.apply import SchemaApplyResult, apply_schema

__all__ = ["SchemaApplyResult", "apply_schema"]
