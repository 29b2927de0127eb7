"""``omnigraph pipeline init``, ``validate`` and ``plan``: what is declared, before anything runs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.engines import SparkConf, open_spark, spark_request
from omnigraph.cli.files import read_input, write_new_file
from omnigraph.cli.graphs import graph_address, open_storage, read_catalog
from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.scope import chosen_profile, has_remembered_scope
from omnigraph.cli.options import AsJson, GraphOptions, Store, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.records import record
from omnigraph.values import MAIN
from omnigraph.values.counts import counted

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.pipelines import Declaration

init_app = new_app()
validate_app = new_app()
plan_app = new_app()

PipelineFile = Annotated[
    str, typer.Argument(metavar="FILE", help="The declaration: Python (.py) or YAML (.yaml).", show_default=False)
]
SchemaFile = Annotated[
    str | None,
    typer.Option("--schema", metavar="FILE", help="Check against a schema file, not against the schema of a graph."),
]
PipelineBranch = Annotated[
    str | None,
    typer.Option(
        "--branch", metavar="NAME", help="The branch whose schema to use; the branch of the declaration by default."
    ),
]


@record
class SchemaOptions:
    """Which schema a pipeline is checked against."""

    store: Store = None
    schema: SchemaFile = None
    branch: PipelineBranch = None

    def find(self, declaration: Declaration | None) -> tuple[Catalog | None, str | None]:
        """Return the schema, and what it is called; nothing if nothing names one.

        Raises:
            UsageError: two are named.
            OmnigraphError: it cannot be read.
        """
        if self.schema is not None:
            if self.store is not None or self.branch is not None:
                raise usage_error(
                    "--schema and a graph cannot be combined", value=self.schema, expected="--schema or a graph"
                )
            return _of_file(self.schema), self.schema
        address = self.address(declaration)
        if address is None:
            return None, None
        branch = self.branch or (MAIN if declaration is None else declaration.branch)
        with open_storage(address, mode="read_only") as backend:
            return read_catalog(backend, branch), address

    def address(self, declaration: Declaration | None) -> str | None:
        """Return the graph: of the command line, of the declaration, or the one that is remembered."""
        declared = None if declaration is None else declaration.graph
        if self.store is None and chosen_profile() is None and declared is not None:
            return declared
        if self.store is None and not has_remembered_scope():
            return None
        return graph_address(GraphOptions(store=self.store), is_direct=True)


def _of_file(path: str) -> Catalog:
    from omnigraph.catalog import compile_schema  # noqa: PLC0415 - it brings the schema language
    from omnigraph.lang.pg import parse_schema  # noqa: PLC0415 - see above

    read = read_input(path)
    return compile_schema(parse_schema(read.data, read.name))


@init_app.command()
@expand_options
def init(*, file: PipelineFile, schema: SchemaOptions, as_json: AsJson = False) -> int:
    """Write an example of a pipeline to start from, in Python or YAML depending on the file name.

    It uses the types of the graph or of --schema. An existing file is not changed.
    """
    from omnigraph.pipelines.example import example_text  # noqa: PLC0415 - for a command line that makes sense

    write_new_file(file, None)
    catalog, _ = schema.find(None)
    text = example_text(file, catalog, None if schema.schema is not None else schema.address(None))
    write_new_file(file, text)
    document = {"file": file, "pipeline": Path(file).stem}
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=[f"wrote {file}"]))
    return 0


@validate_app.command()
@expand_options
def validate(
    *,
    file: PipelineFile,
    schema: SchemaOptions,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not start Spark: check everything except the columns of frames.")
    ] = False,
    spark_conf: SparkConf = None,
    as_json: AsJson = False,
) -> int:
    """Check a pipeline and report every mistake with its file and line.

    Functions are called with frames without rows, so that Spark can check the types of expressions; nothing is written.
    Exits with code 2 if there is a mistake.
    """
    request = spark_request(None, None, None, spark_conf)
    # Entered after the files are read: a name that is misspelled needs no session.
    declaration, catalog, against = _checked(file, schema, None if quick else open_spark(request, is_short=True))
    count = sum(1 for _ in declaration)
    document = {
        "pipeline": declaration.name,
        "steps": count,
        "digest": declaration.digest,
        "schema": against,
        "columns": not quick,
    }
    remarks = [] if catalog is not None else ["no graph and no --schema: types and queries were not checked"]
    lines = [f"{declaration.name}: {counted(count, 'step')}, no mistakes"]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines, remarks=remarks))
    return 0


@plan_app.command()
@expand_options
def plan(*, file: PipelineFile, schema: SchemaOptions, as_json: AsJson = False) -> int:
    """Show what a run would do: the sources of each type, the checks, and how the result is published.

    A pipeline with mistakes has no plan; they are reported as by `pipeline validate --quick`.
    """
    from omnigraph.pipelines.plan import plan_of  # noqa: PLC0415 - for a command line that makes sense

    declaration, catalog, _ = _checked(file, schema, None)
    planned = plan_of(declaration, catalog)
    report = PlainReport(document=planned.to_json(), lines=list(planned.to_lines()))
    choose_output(as_json=as_json).show(report)
    return 0


def _checked(
    file: str, schema: SchemaOptions, session: AbstractContextManager[Any] | None
) -> tuple[Declaration, Catalog | None, str | None]:
    """Return a declaration without mistakes, and the schema that it was checked against."""
    from omnigraph.pipelines.check import find_mistakes  # noqa: PLC0415 - for a command line that makes sense
    from omnigraph.pipelines.files import read_declared  # noqa: PLC0415 - see above
    from omnigraph.pipelines.mistakes import refuse  # noqa: PLC0415 - see above

    declared = read_declared(file)
    declaration = declared.declaration
    catalog, against = schema.find(declaration)
    with session or nullcontext() as spark:
        found = find_mistakes(declaration, catalog, spark)
    refuse(declaration.name, [*declared.mistakes, *found])
    return declaration, catalog, against
