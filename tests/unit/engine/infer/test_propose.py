"""A proposed schema compiles, and the files that it was made for can be loaded with it."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, make_graph

import omnigraph
from omnigraph.engine.load import Dialect, Source
from omnigraph.errors import BadRowsError, FileMissingError, UsageError

PEOPLE = """slug,Full Name,age,joined,zip,active,seen,ratio,empty
ada,Ada L,36,2020-01-02,01234,true,2020-01-02T10:00:00Z,0.5,
bob,"Bob, B",,2021-03-04,12345,false,2020-01-02T11:30:00+01:00,2,
"""
LINES = """
{"type": "Doc", "data": {"slug": "d1", "id": "d1", "tags": ["a", "b"], "size": 9223372036854775808, "v": VECTOR}}
{"type": "Doc", "data": {"slug": "d2", "id": "d2", "tags": [], "v": VECTOR}}

{"edge": "Cites", "from": "d1", "to": "d2", "data": {"weight": 1}}
{"edge": "Cites", "from": "d1", "to": "d2", "data": {"weight": 0.5}}
""".replace("VECTOR", "[0.1, 1, 2, 3, 4, 5, 6, 7]")


def load_proposed(proposal, graph, folder):
    """Load what was looked at as the comments say."""
    files = {}
    for one in proposal.types:
        if one.origin.endswith(".jsonl"):
            files[one.origin] = one.origin
            continue
        columns = {prop.name: prop.column for prop in one.properties if prop.kind and prop.name != prop.column}
        if one.end_columns and set(one.end_columns) not in ({"from", "to"}, {"src", "dst"}):
            columns |= dict(zip(("from", "to"), one.end_columns, strict=True))
        files[one.origin] = Source(path=one.origin, type_name=one.name, columns=columns)
    return load_files(graph, list(files.values()), "append")


def test_files_of_every_format_are_loaded_with_the_schema_that_is_proposed_for_them(tmp_path):
    (tmp_path / "Person.csv").write_text(PEOPLE)
    (tmp_path / "docs.jsonl").write_text(LINES)
    companies = pa.table(
        {
            "id": pa.array([7, 8], pa.int64()),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "rate": pa.array([1.5, None], pa.float32()),
            "day": pa.array([1, 2], pa.date32()),
            "at": pa.array([1000, 2000], pa.timestamp("us", "UTC")),
            "owner": ["ada", "bob"],
            "raw": pa.array([b"x", None], pa.binary()),
        }
    )
    pq.write_table(companies, tmp_path / "big companies.parquet")
    (tmp_path / "works_at.csv").write_text("source,target,share\nada,7,0.5\nbob,7,1\n")
    proposal = omnigraph.infer_schema(tmp_path)
    assert [(one.name, one.ends) for one in proposal.types] == [
        ("Person", None),
        ("BigCompanies", None),
        ("Doc", None),
        ("Cites", ("Doc", "Doc")),
        ("WorksAt", ("Person", "BigCompanies")),
    ]
    person, company, doc = (proposal.catalog.nodes[name] for name in ("Person", "BigCompanies", "Doc"))
    assert [f"{prop.name}: {prop.type}" for prop in person.properties] == [
        "slug: String",
        "full_name: String",
        "age: I64?",
        "joined: Date",
        "zip: String",
        "active: Bool",
        "seen: DateTime",
        "ratio: F64",
        "empty: String?",
    ]
    assert (person.key, company.key, doc.key) == (("slug",), ("bigCompanies_id",), ("slug",))
    assert [str(prop.type) for prop in company.properties] == [
        "I64",
        "String",
        "F32?",
        "Date",
        "DateTime",
        "String",
        "Blob?",
    ]
    assert [f"{prop.name}: {prop.type}" for prop in doc.properties] == [
        "slug: String",
        "tags: [String]",
        "size: U64?",
        "v: Vector(8)",
    ]
    assert proposal.catalog.edges["Cites"].key is None
    assert proposal.catalog.edges["WorksAt"].key == ("src", "dst")
    for reason in (
        "the key: its name, and all 2 values differ",
        "1 of 2 rows has no value",
        "numbers with leading zeros stay text",
        "every value is an id of Person: consider an edge instead of this property",
        "every list has 8 numbers",
        "source: 2 of 2 different values are ids of Person",
        "--column 'Person.full_name=Full Name'",
    ):
        assert reason in proposal.text
    with make_graph(tmp_path / "graph", proposal.text) as graph:
        result = load_proposed(proposal, graph, tmp_path)
        assert dict(result.nodes_loaded) == {"BigCompanies": 2, "Doc": 2, "Person": 2}
        assert dict(result.edges_loaded) == {"Cites": 2, "WorksAt": 2}
        assert {row["to"] for row in export(graph) if row.get("edge") == "WorksAt"} == {"7"}


def test_frames_tables_and_lists_of_dictionaries_are_looked_at_alike(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"code": ["a", "b"], "n": [1, 2]}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for data in (pandas.DataFrame(columns), polars.DataFrame(columns), pa.table(columns), rows, iter(rows)):
        proposal = omnigraph.infer_schema({"Thing": data})
        thing = proposal.catalog.nodes["Thing"]
        assert [str(prop.type) for prop in thing.properties] == ["String", "I64"]
        assert thing.key == ("code",)
        assert str(proposal) == proposal.text
        assert repr(proposal) == "<SchemaProposal: 1 node type, 0 edge types>"
        assert proposal._repr_html_().startswith("<pre>// Proposed")
    with pytest.raises(UsageError, match="cannot be read as a table"):
        omnigraph.infer_schema({"Thing": 5})
    with pytest.raises(UsageError, match="rows"):
        omnigraph.infer_schema({"Thing": rows}, rows=0)


def test_closed_sets_of_texts_are_enums_and_rows_beyond_the_limit_are_not_looked_at():
    rows = [{"state": "in progress" if at % 2 else "done", "n": at} for at in range(40)] + [{"state": None, "n": "x"}]
    proposal = omnigraph.infer_schema({"Task": rows}, rows=40)
    assert 'state: enum(done, "in progress")' in proposal.text
    assert "Task: the first 40 rows" in proposal.text
    assert "no key" in proposal.text


def test_names_that_the_language_does_not_have_are_changed_and_what_no_type_holds_is_left_out():
    rows = [{"id": 1, "First Name": "a", "first_name": "b", "2x": 1, "é": 2, "src": 3, "obj": {"a": 1}, "mix": 1}]
    rows.append({"id": 2, "mix": "x", "deep": [[1]], "line\nbreak */ //": 1})
    proposal = omnigraph.infer_schema({"my things": rows, "42": [], "my_things": [{"a": True}]})
    assert list(proposal.catalog.nodes) == ["MyThings", "MyThings_2", "T42"]
    names = [prop.name for prop in proposal.catalog.nodes["MyThings"].properties]
    assert names == ["myThings_id", "first_name", "first_name_2", "_2x", "column", "myThings_src", "line_break"]
    assert "obj is left out: no property type fits all of these values: dict" in proposal.text
    assert "mix is left out" in proposal.text
    assert "deep is left out" in proposal.text


def test_edges_whose_ends_are_ids_of_nothing_are_nodes():
    proposal = omnigraph.infer_schema({"A": [{"name": "x"}], "E": [{"from": "y", "to": "z"}]})
    assert (list(proposal.catalog.nodes), list(proposal.catalog.edges)) == (["A", "E"], [])


def test_files_that_break_their_format_are_refused_with_their_place(tmp_path):
    (tmp_path / "T.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(BadRowsError, match=r"T\.csv:3: the record has 1 cells, the header has 2"):
        omnigraph.infer_schema(tmp_path / "T.csv")
    (tmp_path / "T.csv").write_bytes(b"a\n\xff\n")
    with pytest.raises(BadRowsError, match="invalid UTF-8"):
        omnigraph.infer_schema(tmp_path / "T.csv")
    (tmp_path / "T.csv").write_text('a\n"x\n')
    with pytest.raises(BadRowsError, match="never closed"):
        omnigraph.infer_schema(tmp_path / "T.csv")
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": }\n')
    with pytest.raises(BadRowsError, match=r"t\.jsonl:2: invalid strict JSON"):
        omnigraph.infer_schema(tmp_path / "t.jsonl")
    with pytest.raises(FileMissingError):
        omnigraph.infer_schema(tmp_path / "none.csv")
    assert omnigraph.infer_schema([]).catalog.nodes == {}


def test_files_are_looked_at_as_their_dialect_says(tmp_path):
    (tmp_path / "Person.csv").write_bytes(" slug ;active;pay;age\nada;yes;1,5;NULL\nbob; no ;2;3\n".encode("utf-16"))
    (tmp_path / "City.jsonl").write_text('{"type": "x", "data": {}}\n{"type": "y"}\n')
    dialect = Dialect(delimiter=";", encoding="utf-16", null=["NULL"], decimal=",", trim=True)
    proposed = omnigraph.infer_schema(
        {"Person": Source(path=str(tmp_path / "Person.csv"), dialect=dialect), "City": tmp_path / "City.jsonl"}
    )
    person = proposed.catalog.nodes["Person"]
    assert {prop.name: str(prop.type) for prop in person.properties} == {
        "slug": "String",
        "active": "Bool",
        "pay": "F64",
        "age": "I64?",
    }
    assert "City" in proposed.catalog.nodes
    table = pa.table({"slug": ["a", "b"], "size": [1, 2]})
    with pa.OSFile(str(tmp_path / "Box.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert omnigraph.infer_schema(str(tmp_path / "Box.arrow")).catalog.nodes["Box"].key == ("slug",)


def test_a_mapping_that_says_what_columns_hold_is_followed(tmp_path):
    (tmp_path / "Person.csv").write_text("slug\nada\nbob\n")
    work = tmp_path / "work.csv"
    work.write_text("person_id;boss_id;share;note\nada;bob;0.5;x\nbob;bob;1;y\n")
    columns = {"from": "person_id", "to": "boss_id", "part": "share"}
    works = Source(path=str(work), type_name="WorksFor", columns=columns, dialect=Dialect(delimiter=";"))
    proposal = omnigraph.infer_schema([str(tmp_path / "Person.csv"), works])
    edge = next(one for one in proposal.types if one.name == "WorksFor")
    assert (edge.ends, edge.end_columns) == (("Person", "Person"), ("person_id", "boss_id"))
    assert [(prop.name, prop.column) for prop in edge.properties] == [("part", "share"), ("note", "note")]
    assert "--column 'WorksFor.part=share' --column 'WorksFor.from=person_id'" in proposal.text
    graph = make_graph(tmp_path / "graph", proposal.text)
    load_files(graph, [str(tmp_path / "Person.csv"), works], "append")
    few = Source(path=str(work), columns=columns, dialect=Dialect(delimiter=";", ignore_extra_columns=True))
    only = omnigraph.infer_schema([str(tmp_path / "Person.csv"), few]).types[-1]
    assert [prop.name for prop in only.properties] == ["part"]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            {"frm": "person_idd"},
            "is mapped to column 'person_idd', which the file does not have; did you mean 'person_id'",
        ),
        ({"share": "person_id"}, "two columns map to 'share': 'person_id' and 'share'"),
    ],
)
def test_a_mapping_that_does_not_fit_the_file_is_refused(tmp_path, columns, problem):
    path = tmp_path / "work.csv"
    path.write_text("person_id,boss_id,share\nada,bob,0.5\n")
    with pytest.raises(BadRowsError, match=problem):
        omnigraph.infer_schema([Source(path=str(path), columns=columns)])


def test_numbers_of_the_rows_of_a_frame_are_no_property(tmp_path):
    frame = pd.DataFrame({"slug": ["a", "b", "b"]}).drop_duplicates()[::-1]
    frame.to_parquet(tmp_path / "Thing.parquet")
    for proposal in (omnigraph.infer_schema({"Thing": frame}), omnigraph.infer_schema(tmp_path)):
        (only,) = proposal.types
        assert [prop.name for prop in only.properties] == ["slug"]


MARKED = "\ufeffslug,city\nada,Malmö\n"


def test_a_byte_order_mark_wins_over_the_encoding_of_a_folder(tmp_path):
    (tmp_path / "Old.csv").write_bytes("slug,city\nbob,Köln\n".encode("cp1252"))
    (tmp_path / "New.csv").write_text(MARKED, encoding="utf-8")
    sources = [
        Source(path=str(tmp_path / f"{name}.csv"), dialect=Dialect(encoding="cp1252")) for name in ("Old", "New")
    ]
    proposal = omnigraph.infer_schema(sources)
    assert [[prop.column for prop in one.properties] for one in proposal.types] == [["slug", "city"]] * 2
    graph = make_graph(tmp_path / "graph", proposal.text)
    load_files(graph, sources, "append")
    assert [line["data"]["city"] for line in export(graph)] == ["Malmö", "Köln"]


def test_a_text_that_is_not_utf_8_is_named_by_its_line_with_the_option(tmp_path):
    path = tmp_path / "Town.csv"
    lines = ["name,size", *(f"t{number},{number}" for number in range(18)), "Köln,1", "Rom,2"]
    path.write_bytes("\n".join(lines).encode("cp1252"))
    with pytest.raises(BadRowsError, match=r"Town\.csv:20: invalid UTF-8 in a cell; .*--encoding"):
        omnigraph.infer_schema(str(path))
    graph = make_graph(tmp_path / "graph", "node Town { name: String @key  size: I32 }")
    with pytest.raises(BadRowsError, match=r"Town\.csv:20: invalid UTF-8 in column 'name'; .*--encoding"):
        load_files(graph, [str(path)], "append")
