"""A mapping says once what the files of a folder hold; what makes no sense in it is told at once, with its lines."""

from __future__ import annotations

import pytest
from tests.load_graph import export, load_files, make_graph
from tests.raw_files import GRAPH, MAPPING, SCHEMA, write_raw

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.engine.load import Dialect, Source
from omnigraph.engine.load.sources.expand import expand_sources
from omnigraph.errors import ConfigError, FileMissingError, MappingError, TypeMissingError, UsageError
from omnigraph.values.temporal import format_date, format_datetime


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def _shown(name, value):
    if value is None:
        return None
    if name in {"born", "since"}:
        return format_date(value)
    if name == "seen":
        return format_datetime(value)
    return str(value) if name == "budget" else value


def _graph(graph):
    catalog = graph.catalog()
    found = {name: [] for name in (*catalog.nodes, *catalog.edges)}
    for row in export(graph):
        owner = catalog.node(row["type"]) if "type" in row else catalog.edge(row["edge"])
        names = [name for name in arrow_schema(owner).names if name not in {"id", "src", "dst"}]
        ends = (row["from"], row["to"]) if "edge" in row else ()
        found[owner.name].append((*ends, *(_shown(name, row["data"][name]) for name in names)))
    return {name: sorted(rows, key=str) for name, rows in found.items()}


@pytest.mark.parametrize("is_in_folder", [True, False])
def test_a_folder_is_read_as_its_mapping_says(graph, tmp_path, is_in_folder):
    folder = write_raw(tmp_path / "raw", mapping=MAPPING if is_in_folder else None)
    (tmp_path / "other.yaml").write_text(MAPPING)
    source = str(folder) if is_in_folder else Source(path=str(folder), mapping=str(tmp_path / "other.yaml"))
    done = load_files(graph, [source], "append")
    assert done.nodes_loaded == {"City": 2, "Person": 3}
    assert _graph(graph) == GRAPH


def test_the_mapping_wins_over_what_is_said_of_the_folder(tmp_path):
    folder = write_raw(tmp_path / "raw", mapping='delimiter: ";"\nskip: ["*.parquet", "*.jsonl"]\nfiles: {}\n')
    source = Source(path=str(folder), dialect=Dialect(delimiter="|", quote="'"))
    expanded = expand_sources([source])
    assert [one.stem for one in expanded] == ["knows", "notes", "people-1", "people-2"]
    assert {(one.dialect.delimiter, one.dialect.quote, one.mapping) for one in expanded} == {(";", "'", None)}


def test_files_that_a_mapping_does_not_name_are_read_by_their_names(graph, tmp_path):
    folder = write_raw(tmp_path / "raw", mapping=MAPPING.replace('skip: ["notes.csv"]\n', ""))
    with pytest.raises(TypeMissingError, match="no type 'notes'"):
        load_files(graph, [str(folder)], "append")


def test_everything_that_is_wrong_with_a_mapping_is_told_with_its_line(tmp_path):
    text = """delimter: ";"
null: [NULL, "NA"]
trim: "yes"
files:
  people-1.csv:
    typ: Person
    columns: {name: 3}
    quote: ab
    format: xml
  knows.tsv: Knows
skip: [1]
"""
    folder = write_raw(tmp_path / "raw", mapping=text)
    with pytest.raises(MappingError) as caught:
        expand_sources([str(folder)])
    place = folder / "mapping.yaml"
    assert str(caught.value).splitlines() == [
        f"{place}:1: unknown key 'delimter'; did you mean 'delimiter'? (and 8 more)",
        f"  {place}:1: unknown key 'delimter'; did you mean 'delimiter'?",
        f"  {place}:2: null must be a list of texts, not None; write it in quotes",
        f"  {place}:3: trim must be True or False, not 'yes'",
        f"  {place}:6: unknown key 'typ'; did you mean 'type'?",
        f"  {place}:7: name must be text, not 3",
        f"  {place}:8: quote must be one ASCII character except letters and digits, or nothing, not 'ab'",
        f"  {place}:9: format must be jsonl | csv | parquet | arrow, not 'xml'",
        f"  {place}:10: 'knows.tsv' must be a mapping, not 'Knows'",
        f"  {place}:11: skip must be a list of texts, not 1; write it in quotes",
    ]


def test_files_are_there_and_have_one_description(tmp_path):
    text = "files:\n  people-*.csv: {type: Person}\n  people-1.csv: {type: Person}\n  none.csv: {type: Person}\n"
    folder = write_raw(tmp_path / "raw", mapping=text)
    with pytest.raises(MappingError) as caught:
        expand_sources([str(folder)])
    assert [(item.line, item.message.partition(" file '")[0]) for item in caught.value.details.items] == [
        (3, "'people-1.csv' and 'people-*.csv' both match"),
        (4, "no file of the folder matches 'none.csv'"),
    ]


def test_a_mapping_that_cannot_be_read_is_refused(tmp_path):
    folder = write_raw(tmp_path / "raw", mapping="files: [")
    with pytest.raises(ConfigError, match="not valid YAML"):
        expand_sources([str(folder)])
    with pytest.raises(FileMissingError, match="no such file"):
        expand_sources([Source(path=str(folder), mapping=str(tmp_path / "none.yaml"))])
    with pytest.raises(UsageError, match="describes the files of a folder"):
        expand_sources([Source(path=str(folder / "knows.tsv"), mapping=str(folder / "mapping.yaml"))])


def test_a_mapping_never_leaves_its_folder_unread(tmp_path):
    folder = write_raw(tmp_path / "raw", mapping=None)
    assert {one.mapping for one in expand_sources([str(folder)])} == {None}
    assert len(expand_sources([str(folder)])) == 6
