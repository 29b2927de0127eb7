"""What a short command does not wait for: libraries and rooms that it has no use for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import omnigraph
from tests.guards.fresh import command, modules_after
from tests.session_graph import create_graph

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\nedge Knows: Person -> Person\n"
SEED = """
{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bob"}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "k1"}}
"""
POINT = 'query q() { match { $p: Person { name: "Ada" } } return { $p.age } }'
HOP = 'query q() { match { $p: Person { name: "Ada" }  $p knows $f } return { $p.age } }'
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
# What a program that opens a graph and reads has no use for either: beside it, what the objects it holds could do.
UNUSED_BY_PROGRAMS = {
    *(UNUSED_BY_READS - {"omnigraph.graph"}),
    *("yaml", "email", "fastapi", "uvicorn", "pydantic", "omnigraph.cli", "omnigraph.server", "omnigraph.pipelines"),
    *("omnigraph.aio", "omnigraph.client._sync", "omnigraph.engine.infer", "omnigraph.engine.algorithms"),
    *("omnigraph.engine.embedding.providers", "omnigraph.engine.embedding.http", "omnigraph.engine.external_blobs"),
    *("omnigraph.lang.pg", "omnigraph.lang.gq.format", "omnigraph.ir.lint", "omnigraph.catalog.compile"),
    *("omnigraph.graph.algorithms", "omnigraph.graph.diff", "omnigraph.graph.feed", "omnigraph.graph.proposals"),
    *(
        "omnigraph.graph.schema",
        "omnigraph.graph.transaction",
        "omnigraph.graph.arguments.loads",
        "omnigraph.graph.infer",
    ),
}
# What opening a graph as a command does has no use for: the command loads what it is about to do.
UNUSED_BY_OPENING = {
    *(UNUSED_BY_PROGRAMS - {"yaml", "email"}),
    *("omnigraph.catalog", "omnigraph.ir", "omnigraph.lang.gq", "omnigraph.engine.query", "omnigraph.engine.results"),
    *("omnigraph.store.staging", "omnigraph.txn.publish.plan", "omnigraph.txn.publish.publisher", "omnigraph.txn.refs"),
    *("omnigraph.txn.claims.store", "omnigraph.txn.recovery", "omnigraph.txn.branches.refs", "omnigraph.txn.proposals"),
}
# Parts of the engine that a look-up and a hop pass by, and the write path.
UNUSED_BY_HOPS = {
    *UNUSED_BY_PROGRAMS,
    *("Stemmer", "difflib", "fractions", "html", "omnigraph.engine.query.search", "omnigraph.engine.past"),
    *("omnigraph.engine.query.functions.table", "omnigraph.engine.query.functions.texts"),
    *("omnigraph.engine.query.operators.walk", "omnigraph.engine.query.operators.blocks"),
    *("omnigraph.engine.query.operators.intersect", "omnigraph.engine.query.output.aggregates"),
    *("omnigraph.engine.results.network", "omnigraph.engine.results.frames", "omnigraph.lang.gq.foreign"),
    *("omnigraph.store.staging", "omnigraph.txn.publish.plan", "omnigraph.txn.publish.publisher", "omnigraph.txn.refs"),
    *("omnigraph.txn.claims.store", "omnigraph.txn.recovery", "omnigraph.txn.branches.refs", "omnigraph.txn.proposals"),
}
# How many modules of ours a process may hold once it has opened a graph as a command does, and once a program has
# opened one and read from it. Whoever raises one says why that needs more.
MOST_OF_OPENING = 110
MOST_MODULES = 247
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
        "omnigraph.distribution",
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


def ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.split(".")[0] == "omnigraph"}


def test_opening_a_graph_loads_neither_what_reads_nor_what_writes(tmp_path):
    create_graph(tmp_path / "g", SCHEMA, SEED)
    code = f"""
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.store.location import Storage
OpenGraph.open(Storage.open({str(tmp_path / "g")!r})).close()
"""
    loaded = modules_after(code) - modules_after("import numpy, pyarrow.compute, pyarrow.dataset, lance")
    assert loaded & UNUSED_BY_OPENING == {"omnigraph.engine.query"} & loaded
    assert len(ours(loaded)) <= MOST_OF_OPENING


OF_FIRST_READ = ("query.output.few", "query.output.relational", "exact_sums")


@pytest.mark.parametrize("text", [POINT, HOP], ids=["point", "hop"])
def test_a_program_that_opens_a_graph_and_reads_loads_nothing_that_it_has_no_use_for(tmp_path, text: str):
    create_graph(tmp_path / "g", SCHEMA, SEED)
    libraries = modules_after("import numpy, pyarrow.compute, pyarrow.dataset, lance")
    opening = f"import omnigraph\ngraph = omnigraph.open({str(tmp_path / 'g')!r})"
    opened = modules_after(opening)
    read = modules_after(f"{opening}\nassert [dict(row) for row in graph.query({text!r}).rows()] == [{{'p.age': 36}}]")
    # Lance loads some of them itself.
    assert (read - libraries) & UNUSED_BY_HOPS == set()
    assert len(ours(read)) <= MOST_MODULES
    # The first read waits for no module that every read needs.
    assert ours(read - opened) <= {f"omnigraph.engine.{name}" for name in OF_FIRST_READ}


def test_asking_for_one_name_of_the_package_loads_no_other():
    loaded = modules_after("import omnigraph\nomnigraph.QueryOptions, omnigraph.TxnSettings, omnigraph.OmnigraphError")
    assert loaded & {"omnigraph.graph", "omnigraph.engine.load", "omnigraph.history"} == set()


def test_loading_leaves_the_collector_as_it_was():
    code = """
import gc, omnigraph
omnigraph.QueryOptions
assert gc.isenabled()
assert gc.get_freeze_count() == 0
gc.disable()
omnigraph.TxnSettings
assert not gc.isenabled()
gc.freeze()
held = gc.get_freeze_count()
gc.enable()
omnigraph.PageLimits
assert gc.get_freeze_count() == held and gc.isenabled()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_what_was_loaded_is_not_looked_through_for_garbage(tmp_path):
    code = """
import gc, omnigraph
looked_at = []
gc.callbacks.append(lambda phase, told: phase == "start" and looked_at.append(len(gc.get_objects(told["generation"]))))
omnigraph.Graph
for _ in range(2_000):
    [[]]
held = [[] for _ in range(2_000)]
assert looked_at and max(looked_at) < 10_000, looked_at
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_every_exported_name_is_found_where_it_is_said_to_be():
    assert set(omnigraph.__homes__) == set(omnigraph.__all__) - {"__version__"}
    for name, home in omnigraph.__homes__.items():
        assert getattr(omnigraph, name).__module__ == f"omnigraph.{home}"


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
