"""The schema language: ``.pg`` text to tree and back."""

from omnigraph.lang.pg.format import format_schema
from omnigraph.lang.pg.parser import parse_schema

__all__ = ["format_schema", "parse_schema"]
