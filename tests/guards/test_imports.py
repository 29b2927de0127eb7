"""What importing costs: nothing optional, nothing heavy, before it is needed."""

from __future__ import annotations

import pytest

from tests.guards.fresh import command, packages_after
from tests.guards.layout import ROOT

HEAVY = {"pyarrow", "lark", "numpy", "lance", "rich", "msgspec"}
OPTIONAL = {"pyspark", "fastapi", "pydantic", "uvicorn", "duckdb", "obstore", "httpx", "mcp", "cedarpy", "hypothesis"}


def test_importing_the_package_loads_nothing_heavy_or_optional():
    looking = "import omnigraph; dir(omnigraph); hasattr(omnigraph, 'nothing')"
    assert not packages_after(looking) & (HEAVY | OPTIONAL | {"typer"})


@pytest.mark.parametrize("room", ["errors", "values", "runtime"])
def test_lowest_rooms_need_the_standard_library_only(room: str):
    assert not packages_after(f"import omnigraph.{room}") & (HEAVY | OPTIONAL | {"typer"})


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ()])
def test_help_loads_nothing_but_the_argument_parser(arguments: tuple[str, ...]):
    assert not packages_after(command(*arguments)) & (HEAVY | OPTIONAL)


@pytest.mark.parametrize("arguments", [("--version",), ("version",), ("nonsense",)])
def test_what_needs_no_language_loads_none(arguments: tuple[str, ...]):
    # The argument parser loads pydantic by itself where a value has to be converted.
    assert not packages_after(command(*arguments)) & ((HEAVY | OPTIONAL) - {"pydantic"})


def test_formatting_needs_neither_arrow_nor_the_library_that_makes_parse_tables():
    loaded = packages_after(command("fmt", "--check", str(ROOT / "examples" / "people" / "schema.pg")))
    assert not loaded & ((HEAVY | OPTIONAL) - {"pydantic"})


def test_front_end_loads_nothing_optional():
    assert not packages_after("import omnigraph.ir, omnigraph.catalog, omnigraph.lang.pg, omnigraph.lang.gq") & OPTIONAL


def test_commands_that_may_run_on_spark_do_not_load_it_for_that():
    modules = ("data.export", "data.load", "data.query", "graph.maintenance")
    code = "\n".join(f"import omnigraph.cli.commands.{module}" for module in modules)
    assert not packages_after(f"{code}\nassert 'omnigraph.spark' not in sys.modules") & {"pyspark", "py4j"}


def test_the_room_of_spark_can_be_imported_without_spark():
    """What is missing is then said by an error of ours."""
    assert not packages_after("import omnigraph.spark") & {"pyspark", "py4j"}
