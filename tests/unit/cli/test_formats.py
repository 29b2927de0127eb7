"""The format of rows: who decides, and tables that fit where they are shown."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from tests.results import result_of

from omnigraph.cli.commands.data.query import ResultFormat, choose_format, write_result

TEXT = pa.string()
WIDE = (("id", TEXT, ["1"]), ("title", TEXT, ["a" * 40]), ("body", TEXT, ["b" * 90]))


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    return tmp_path / "config.yaml"


def test_first_that_says_something_decides(home: Path):
    home.write_text("defaults: {output: kv}")
    assert choose_format(as_json=True, given=ResultFormat.CSV, alias="jsonl") is ResultFormat.JSON
    assert choose_format(as_json=False, given=ResultFormat.CSV, alias="jsonl") is ResultFormat.CSV
    assert choose_format(as_json=False, given=None, alias="jsonl") is ResultFormat.JSONL
    assert choose_format(as_json=False, given=None) is ResultFormat.KV


def test_table_is_what_remains(home: Path):
    assert choose_format(as_json=False, given=None) is ResultFormat.TABLE


def shown(stream: io.StringIO) -> list[str]:
    write_result(result_of(*WIDE), ResultFormat.TABLE, stream)
    return stream.getvalue().splitlines()[1:]


def test_table_is_no_wider_than_the_terminal(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert shown(Terminal()) == [
        "id | title            | body            ",
        "---+------------------+-----------------",
        f"1  | {'a' * 15}… | {'b' * 15}…",
    ]


def test_files_and_pipes_get_columns_as_wide_as_the_config_allows(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert shown(io.StringIO())[2] == f"1  | {'a' * 40} | {'b' * 79}…"


def test_config_sets_width_and_layout(home: Path):
    home.write_text("defaults: {table_max_column_width: 25, table_cell_layout: wrap}")
    assert shown(io.StringIO())[2:] == [
        f"1  | {'a' * 25} | {'b' * 25}",
        f"   | {'a' * 15}{' ' * 10} | {'b' * 25}",
        f"   | {' ' * 25} | {'b' * 25}",
        f"   | {' ' * 25} | {'b' * 15}{' ' * 10}",
    ]


def test_too_many_columns_keep_a_few_characters_each(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    write_result(result_of(*((f"c{at}", TEXT, ["x" * 9]) for at in range(9))), ResultFormat.TABLE, stream)
    assert stream.getvalue().splitlines()[3] == " | ".join(["xxx…"] * 9)
