"""The files of stored queries, as commands, programs and configurations name them."""

from __future__ import annotations

import pytest

from omnigraph.errors import FileAccessError, FileMissingError, UsageError
from omnigraph.operations.query_files import discover_queries


@pytest.fixture
def folder(tmp_path):
    for name in ("gq/b.gq", "gq/a.gq", "gq/notes.txt", "gq/below/c.gq", "more/a.gq", "one.gq"):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"// {name}")
    return tmp_path / "root"


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        (None, []),
        ("one.gq", ["one.gq"]),
        ("gq/", ["gq/a.gq", "gq/b.gq"]),
        (["gq", "more", "one.gq"], ["gq/a.gq", "gq/b.gq", "more/a.gq", "one.gq"]),
        ({"find": {"file": "one.gq"}}, ["one.gq"]),
        ([], []),
    ],
)
def test_a_file_a_folder_a_list_and_a_mapping_are_read(folder, declared, names):
    """Files of one name in two folders must both be there."""
    found = discover_queries(folder, declared)
    assert [one.name for one in found] == names
    assert [one.text for one in found] == [f"// {name}" for name in names]


def test_a_mapping_registers_the_declarations_that_it_names(folder):
    found = discover_queries(folder, {"find": {"file": "one.gq"}, "forget": {"file": "one.gq"}})
    assert [one.only for one in found] == [{"find"}, {"forget"}]


def test_a_file_elsewhere_is_called_by_its_folder_and_its_name(folder, tmp_path):
    """A server says these names to its callers, who need not learn where on the machine a file stands."""
    outside = tmp_path / "elsewhere" / "q.gq"
    outside.parent.mkdir()
    outside.write_text("")
    assert [one.name for one in discover_queries(folder, str(outside))] == ["elsewhere/q.gq"]
    assert [one.name for one in discover_queries(folder, folder / "one.gq")] == ["one.gq"]


@pytest.mark.parametrize("declared", [7, b"x", [7], {"find": "one.gq"}, {"find": {"file": "x", "name": "y"}}])
def test_another_form_is_refused(folder, declared):
    with pytest.raises(UsageError, match="stored queries must be a file, a folder"):
        discover_queries(folder, declared)


def test_a_file_that_cannot_be_read_is_named(folder):
    with pytest.raises(FileMissingError, match=r"nope.gq' was not found"):
        discover_queries(folder, "nope.gq")
    with pytest.raises(FileAccessError, match="cannot read"):
        discover_queries(folder, "one.gq/x")
