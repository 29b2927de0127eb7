"""The schema of a query case: its own section, else the ``schema.pg`` that its folder shares."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.lang.pg import parse_schema
from tests.corpus.cases import Case


def case_catalog(case: Case, folder: Path) -> Catalog:
    """Return the compiled schema that ``case`` is about."""
    own = case.sections.get("schema")
    return compile_text(own if own is not None else (folder / "schema.pg").read_text(encoding="utf-8"))


@cache
def compile_text(text: str) -> Catalog:
    """Compile a schema, once per text."""
    return compile_schema(parse_schema(text.encode(), "schema.pg"))
