"""What a short command does not wait for: libraries and rooms that it has no use for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.guards.fresh import command, modules_after
from tests.session_graph import create_graph

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\n"
SEED = '{"type": "Person", "data": {"name": "Ada", "age": 36}}\n'
POINT = 'query q() { match { $p: Person { name: "Ada" } } return { $p.age } }'
# Libraries by what they are for, rooms by what they do: none of it answers a point query.
UNUSED_BY_READS = {
    *(
        "pandas",
        "duckdb",
        "rich",
        "httpx",
        "pyspark",
        "py4j",
        "asyncio",
        "prompt_toolkit",
        "xml.sax",
        "urllib.request",
        "http.client",
    ),
    *("pyarrow.parquet", "pyarrow.csv", "pyarrow.json", "pyarrow.pandas_compat"),
    *("omnigraph.history", "omnigraph.spark", "omnigraph.graph", "omnigraph.catalog.migration"),
    *("omnigraph.engine.mutate", "omnigraph.engine.load", "omnigraph.engine.export", "omnigraph.engine.schema"),
    *("omnigraph.engine.constraints", "omnigraph.engine.maintenance.optimize", "omnigraph.engine.results.drawing"),
}
UNUSED_BY_ARGUMENTS = {
    *UNUSED_BY_READS,
    *("pyarrow", "numpy", "lance", "obstore", "lark", "msgspec"),
    *("omnigraph.engine.open_graph", "omnigraph.txn", "omnigraph.store", "omnigraph.catalog", "omnigraph.ir"),
}


def test_help_loads_no_more_than_the_argument_parser_and_our_errors():
    loaded = modules_after(command("--help"))
    assert loaded & (UNUSED_BY_ARGUMENTS | {"pydantic", "ssl", "email", "socket", "logging"}) == set()
    assert {name for name in loaded if name.count(".") == 1 and name.startswith("omnigraph.")} == {
        "omnigraph.cli",
        "omnigraph.errors",
        "omnigraph.records",
    }


@pytest.mark.parametrize(
    "arguments",
    [("query", "--nonsense"), ("query", "--store", "https://host/graph", "-e", POINT), ("mutate", "--store", "g")],
    ids=["unknown option", "no storage", "no query"],
)
def test_arguments_are_refused_before_the_engine_is_loaded(arguments: tuple[str, ...]):
    assert modules_after(command(*arguments)) & UNUSED_BY_ARGUMENTS == set()


def test_a_point_query_loads_nothing_that_it_has_no_use_for(tmp_path):
    create_graph(tmp_path / "g", SCHEMA, SEED)
    code = command("query", "--store", str(tmp_path / "g"), "-e", POINT, "--format", "csv")
    checked = f"import io\nsys.stdout = io.StringIO()\n{code}\nassert sys.stdout.getvalue() == 'p.age\\n36\\n'"
    loaded = modules_after(checked)
    assert "lance" in loaded
    assert loaded & UNUSED_BY_READS == set()


def test_pandas_that_was_passed_over_is_there_for_those_who_need_it():
    code = """
import gc, sys
from omnigraph.cli.lazy import quick_imports, show_pandas
with quick_imports():
    import pyarrow as pa, pyarrow.dataset
assert 'pandas' not in sys.modules and gc.isenabled()
show_pandas()
import pandas
assert pa.array(pandas.Series([1.5, None])).null_count == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
