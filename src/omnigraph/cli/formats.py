"""How the rows of a read are written: the format that is asked for, and tables that fit where they are shown."""

from __future__ import annotations

import shutil
from enum import Enum
from typing import TYPE_CHECKING, Annotated, TextIO, assert_never

import typer

from omnigraph.cli.operator.loading import operator_config
from omnigraph.cli.whole import WholeLines, whole_document

if TYPE_CHECKING:
    from omnigraph.engine.results import Result


class Format(Enum):
    """How rows are written."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


RowFormat = Annotated[
    Format | None, typer.Option("--format", help="How to write the rows; a table unless the operator config says else.")
]


def choose_format(*, as_json: bool, given: Format | None, alias: str | None = None) -> Format:
    """Return the format by the first that says something: ``--json``, ``--format``, an alias, the operator's defaults.

    Raises:
        ConfigError: the operator config has to be asked and is not valid.
    """
    if as_json:
        return Format.JSON
    if given is not None:
        return given
    return Format(alias or operator_config().defaults.output or Format.TABLE.value)


def write_result(result: Result, form: Format, stream: TextIO) -> None:
    """Write the rows in one of the formats.

    Raises:
        ConfigError: it is a table, and the operator config that says how to draw it is not valid.
    """
    match form:
        case Format.TABLE:
            _write_table(result, stream)
        case Format.KV:
            result.write_kv(stream)
        case Format.CSV:
            with WholeLines(stream, "\n") as lines:
                result.write_csv(lines)
        case Format.JSONL:
            with WholeLines(stream, "\n") as lines:
                result.write_jsonl(lines)
        case Format.JSON:
            with whole_document(stream) as document:
                result.write_json(document)
        case _:
            assert_never(form)


def _write_table(result: Result, stream: TextIO) -> None:
    from omnigraph.engine.results.table import MAX_COLUMN_WIDTH  # noqa: PLC0415 - comes with the result

    defaults = operator_config().defaults
    result.write_table(
        stream,
        max_column_width=defaults.table_max_column_width or MAX_COLUMN_WIDTH,
        layout=defaults.table_cell_layout or "truncate",
        # Files and pipes get every column as wide as its cells: what reads them has no edge to run over.
        max_width=shutil.get_terminal_size().columns if stream.isatty() else None,
    )
