"""The texts themselves: whole, portable, and clean on empty relations."""

import re
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

from omnigraph.engine.constraints.kernel import Kernel, KernelSettings
from omnigraph.engine.constraints.set_rules import SET_RULES, UNIQUE_IN_CHANGE
from omnigraph.errors import InternalError, MemoryBudgetError

# What one of the engines that run these texts refuses, or answers differently.
NOT_PORTABLE = (
    r'"',
    r"\\",
    r"\bVARCHAR\b",
    r"\b(ANTI|SEMI)\s+JOIN\b",
    r"<=>",
    r"\bR?LIKE\b",
    r"~",
    r"\bNOT\s+IN\b",
    r"\bregexp",
    r"/",
    r"\bconcat\b",
    r"\barray_agg\b",
    r"\blist(agg)?\b",
    r"\bmin_by\b",
    r"\bunnest\b|\bexplode\b",
    r"\bcount\s*\(\s*DISTINCT\s+[^)]*,",
    r"::",
    r"\bQUALIFY\b",
    r"\bEXCLUDE\b|\bREPLACE\s*\(",
    r"SELECT\s+\*",
    r"NULLS",
)
WORDS = frozenset(
    re.findall(
        r"\w+",
        "select as from where not exists and or is null join left on group by having order desc union all "
        "count min row_number over partition cast bigint",
    )
)


def empty(columns):
    kinds = {"row": pa.int64()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in columns]).empty_table()


def _text(rule):
    return rule.text(**dict.fromkeys(rule.bounds, 1))


@pytest.mark.parametrize("rule", SET_RULES, ids=lambda rule: rule.name)
def test_a_text_keeps_to_the_portable_subset(rule):
    for pattern in NOT_PORTABLE:
        assert not re.search(pattern, _text(rule), re.IGNORECASE), pattern
    bare = re.sub(r"`[^`]*`|'[^']*'|\{[a-z]+\}", " ", _text(rule))
    words = {word.lower() for word in re.findall(r"[A-Za-z_]{2,}", bare)}
    assert words <= WORDS


@pytest.mark.parametrize("rule", SET_RULES, ids=lambda rule: rule.name)
def test_every_name_in_a_text_is_quoted_or_an_alias_of_one_letter(rule):
    bare = re.sub(r"`[^`]*`|'[^']*'|\{[a-z]+\}", " ", _text(rule))
    names = {word for word in re.findall(r"[A-Za-z_]\w*", bare) if word.lower() not in WORDS}
    assert all(len(name) == 1 for name in names)


@pytest.mark.parametrize("rule", SET_RULES, ids=lambda rule: rule.name)
def test_a_text_is_one_statement_that_reads_what_it_declares_and_returns_what_it_promises(rule):
    text = _text(rule)
    assert len(duckdb.extract_statements(text)) == 1
    with duckdb.connect(":memory:") as connection:
        assert set(connection.get_table_names(text)) == set(rule.reads)
        for name, columns in rule.reads.items():
            connection.register(name, empty(columns))
        found = connection.sql(text).to_arrow_table()
    assert tuple(found.column_names) == rule.returns
    assert found.num_rows == 0


def test_the_kernel_reads_neither_files_nor_the_variables_of_its_callers(tmp_path):
    secret = pa.table({"row": [1], "id": ["a"], "value": ["b"]})  # noqa: F841 - must not be found by name
    (tmp_path / "x.csv").write_text("a\n1\n")
    file = f"FROM '{tmp_path / 'x.csv'}'"
    for text in ("FROM secret", file, "INSTALL httpfs"):
        with Kernel(KernelSettings(uses_proofs=False)) as kernel:
            kernel._open()
            with pytest.raises(duckdb.Error):
                kernel._connection.execute(text)


def test_the_kernel_leaves_no_folder_behind_and_can_be_closed_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Kernel(KernelSettings(uses_proofs=False)) as kernel:
        written = pa.table({"row": [0, 1], "id": ["a", "b"], "value": ["v", "v"]})
        found = kernel.find(UNIQUE_IN_CHANGE, lambda: {"written": written}, unless=lambda: True)
        assert found.to_pylist() == [{"row": 1, "other": "a", "first_row": 0}]
        assert list(tmp_path.iterdir())
    kernel.close()
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_cannot_be_run_is_our_bug_and_says_which():
    broken = replace(UNIQUE_IN_CHANGE, sql="SELECT `nothing` FROM `written`")
    with Kernel(KernelSettings(uses_proofs=False)) as kernel, pytest.raises(InternalError, match="unique_in_change"):
        kernel.find(broken, lambda: {"written": empty(("row", "id", "value"))}, unless=lambda: False)


def test_a_check_that_passes_its_memory_is_refused_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ids = pa.array(range(200_000)).cast(pa.string())
    written = pa.table({"row": pa.array(range(200_000)), "id": ids, "value": ids})
    settings = KernelSettings(uses_proofs=False, memory_limit_bytes=1 << 20)
    with Kernel(settings) as kernel, pytest.raises(MemoryBudgetError, match="more memory than the limit") as caught:
        kernel.find(UNIQUE_IN_CHANGE, lambda: {"written": written}, unless=lambda: True)
    assert caught.value.details.limit == 1 << 20
    assert list(tmp_path.iterdir()) == []
