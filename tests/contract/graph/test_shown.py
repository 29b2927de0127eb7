"""How the objects show themselves: texts, HTML, drawings, networks; nothing in the data becomes markup."""

from __future__ import annotations

import sys
from xml.etree import ElementTree as ET

import networkx as nx
import pytest

import omnigraph
from omnigraph.engine.results.drawing import Box, Link, Picture, draw_svg
from omnigraph.errors import LibraryMissingError, ResultWithoutNodesError, ViewTooLargeError
from tests.session_graph import RELAXED

SCHEMA = """
node Person { name: String @key  photo: Blob? }
node Team { code: String @key }
edge WorksIn: Person -> Team { key: String? }
edge Knows: Person -> Person {
    @key(src, dst)
}
"""
HOSTILE_ACTOR = "<script>alert('&\"]]>"
HOSTILE = f"{HOSTILE_ACTOR}\x01\ufffe"
ROWS = """query rows($p: String, $photo: Blob) {
    insert Person { name: $p, photo: $photo }
    insert Person { name: "bo" }
    insert Team { code: "lab" }
    insert WorksIn { from: $p, to: "lab", key: "boss" }
    insert WorksIn { from: $p, to: "lab", key: "cook" }
    insert Knows { from: $p, to: "bo" }
    insert Knows { from: "bo", to: $p }
}"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def graph(tmp_path_factory, backend):
    with omnigraph.init(tmp_path_factory.mktemp("shown") / "<b>&", SCHEMA, settings=RELAXED) as made:
        made.mutate(ROWS, {"p": HOSTILE, "photo": b"abc"}, actor=HOSTILE_ACTOR)
        yield made


def rows(graph, match, returned):
    return graph.query(f"query q() {{ match {{ {match} }} return {{ {returned} }} }}")


def texts(drawing: str) -> list[str | None]:
    return [element.text for element in ET.fromstring(drawing).iter(f"{SVG}text")]  # noqa: S314 - made here


def test_every_noun_has_a_short_repr_that_needs_no_storage(graph):
    before = graph.at("~1")
    assert repr(graph) == f"<Graph {graph.uri!r}, read_write>"
    assert repr(graph.branch("main")) == f"<Branch main of {graph.uri!r}>"
    assert repr(before) == f"<Snapshot {before.commit.id} of main in {graph.uri!r}>"
    assert repr(graph.schema) == "<Schema: 2 node types, 2 edge types>"
    assert repr(graph.log(limit=1)) == "<Log of main: 1 commit, more follow>"
    assert repr(graph.diff(before)) == f"<Diff from {before.commit.id} to {graph.at('main').commit.id}>"


@pytest.mark.reads_when_shown
def test_html_shows_data_and_makes_no_markup_of_it(graph):
    shown = [item._repr_html_() for item in (graph, graph.schema, graph.log(), graph.diff("~1"), graph.at("~1"))]
    assert not any("<script" in page or "<b>" in page for page in shown)
    assert "&lt;b&gt;&amp;" in shown[0]
    assert "<td>Person</td><td>2</td>" in shown[0]
    assert "<svg" in shown[1]
    assert "&lt;script&gt;alert(&#x27;&amp;&quot;]]&gt;" in shown[2]
    assert "<caption>7 inserted, 0 updated, 0 deleted</caption>" in shown[3]
    assert str(graph.schema) == SCHEMA


def test_every_result_has_a_short_repr_a_readable_text_and_html(graph, tmp_path):
    branch = graph.create_branch("results")
    (tmp_path / "Team.csv").write_text("code\nnew\n")
    results = {
        "<MutationResult: changed results via q: 1 node, 0 edges>": branch.mutate(
            "query q($n: String) { insert Person { name: $n } return { name } }",
            {"n": f"{HOSTILE}2"},
            actor=HOSTILE_ACTOR,
        ),
        "<LoadResult: loaded 1 entity on branch results with append>": branch.load(tmp_path / "Team.csv"),
        "<MergePreview: merging results into main would be fast_forward, no conflicts>": graph.branch(
            "main"
        ).preview_merge("results"),
        "<SchemaApplyResult: schema not applied: 0 changes>": branch.apply_schema(SCHEMA),
        "<OptimizeResult: edge:Knows: ": branch.optimize(),
        "<GraphStatus: branch results: ": branch.status(),
        "<RepairResult: no drift in ": branch.repair(),
        "<CleanupResult: ": graph.cleanup(keep=9),
        "<ExportResult: exported 9 entities across 4 types to ": branch.export(tmp_path / "out"),
        "<EntityHistory: node:Team new: 1 change>": branch.blame("Team", "new"),
        "<FeedBatch: ": next(iter(branch.feed("beginning"))),
        "<CommitChanges: ": branch.commit_changes(branch.log(limit=1)[0]),
        "<RevertResult: reverted ": branch.revert(branch.log(limit=9, operation="load_append")[0]),
        "<Tag: mark ": branch.create_tag("mark", message=HOSTILE),
        "<BranchStatus: ": graph.branches()[0],
        "<Commit: ": branch.log(limit=1)[0],
        "<Explanation: read q>": branch.explain("query q() { match { $p: Person } return { $p } }"),
    }
    for begin, result in results.items():
        shown, text = repr(result), str(result)
        assert shown.startswith(begin), shown
        assert len(shown) <= 160
        assert text
        assert not {"\x01", "\r"} & {*shown, *text}
        assert "<script" not in result._repr_html_()
    assert graph.delete_tag("mark").name == "mark"
    graph.delete_branch("results")


@pytest.mark.reads_when_shown
def test_a_difference_prints_its_counts_and_a_line_for_each_of_the_first_changes(graph):
    counts, *lines = str(graph.diff("~1")).splitlines()
    assert counts == "7 inserted, 0 updated, 0 deleted"
    assert (len(lines), lines[-1]) == (7, '+ Team lab  code: "lab"')
    assert r"""+ Person <script>alert('&"]]>\x01""" in "\n".join(lines)
    assert any(line.startswith(r"+ Knows [") and line.endswith("→ bo)") for line in lines)
    assert str(graph.diff("main")) == "0 inserted, 0 updated, 0 deleted"
    crowd = graph.create_branch("crowd")
    calls = [{"name": f"p{number:02}"} for number in range(60)]
    crowd.mutate_batch("query add($name: String) { insert Person { name: $name } }", calls)
    assert str(crowd.diff("main")).splitlines()[-2:] == ['+ Person p49  name: "p49"', "… and 10 more changes"]


def test_drawings_are_valid_repeatable_and_escape_what_they_show(graph):
    found = rows(graph, "$p: Person $p knows $q", "$p, $p.name, $q")
    drawing = found.to_svg()
    assert drawing == rows(graph, "$p: Person $p knows $q", "$p, $p.name, $q").to_svg()
    shown = texts(drawing)
    assert "<script>alert('&\"]]>\\x01\ufffd" in shown
    assert shown.count("Knows") == 2
    assert {"Person", "Team", "WorksIn", "name: String"} <= set(texts(graph.schema.to_svg()))


def test_boxes_of_a_drawing_never_overlap():
    boxes = tuple(Box(title=str(n) * (n % 9 + 1), kind="x", lines=("y",) * (n % 4)) for n in range(40))
    links = tuple(Link(source=n % 5, target=n, label="l") for n in range(40))
    drawing = ET.fromstring(draw_svg(Picture(title="", boxes=boxes, links=links)))  # noqa: S314 - made here
    places = [[int(rect.get(side, 0)) for side in ("x", "y", "width", "height")] for rect in drawing.iter(f"{SVG}rect")]
    sheet, *inner = places
    for number, (x, y, width, height) in enumerate(inner):
        assert x >= 0 <= y
        assert x + width <= sheet[2]
        assert y + height <= sheet[3]
        for other_x, other_y, other_width, other_height in inner[:number]:
            beside = x >= other_x + other_width or other_x >= x + width
            assert beside or y >= other_y + other_height or other_y >= y + height


def test_rows_become_networks_of_what_the_query_found(graph):
    cycle = rows(graph, "$a: Person $a knows $b $b knows $a", "$a, $b").to_networkx()
    assert isinstance(cycle, nx.MultiDiGraph)
    ends = {("Person", HOSTILE), ("Person", "bo")}
    assert {(near, far) for near, far in cycle.edges()} == {(a, b) for a in ends for b in ends if a != b}

    jobs = rows(graph, "$t: Team $p $w:worksIn $t", "$t, $p, $p.name as who, $w.key").to_networkx()
    assert jobs.nodes["Person", HOSTILE] == {"name": HOSTILE}
    assert sorted(jobs.edges(keys=True, data="key")) == [
        (("Person", HOSTILE), ("Team", "lab"), ("WorksIn", 0), "boss"),
        (("Person", HOSTILE), ("Team", "lab"), ("WorksIn", 1), "cook"),
    ]


def test_networks_and_drawings_show_stored_edges_only(graph):
    far = rows(graph, '$p: Person { name: "bo" } $p knows{1,2} $q', "$p, $q, $q.*")
    assert (len(far.to_networkx()), far.to_networkx().number_of_edges()) == (2, 0)
    assert not any("Knows" in (text or "") for text in texts(far.to_svg()))
    # That there is an edge is known, its direction is not: a line may show it, an arrow may not.
    either = rows(graph, '$p: Person { name: "bo" } $p <knows> $q', "$p, $q")
    assert either.to_networkx().number_of_edges() == 0
    assert texts(either.to_svg()).count("Knows") == 1
    assert "<polygon" not in either.to_svg()


@pytest.mark.parametrize(
    ("clauses", "projections", "nodes", "edges"),
    [
        ("$p: Person $p.name = 'bo' or $p.name = 'x' $p knows $q", "$p, $q", 2, [("Knows", 0)]),
        ("$p: Person $p.name = 'bo' optional { $p worksIn $t }", "$p, $t", 1, []),
        ("$p: Person optional { $p $w:worksIn $t }", "$p, $t, $w.key", 3, [("WorksIn", 0), ("WorksIn", 1)]),
        ("$p: Person $p $w:worksIn $t where $w.key = 'boss'", "$p, $t", 2, [("WorksIn", 0)]),
        ("$p: Person { name: 'bo' } path $w: $p knows{1,2} $q", "$p, $q, length($w) as n", 2, []),
        ("$p: Person $p worksIn $t", "$t, count($p) as n", 1, []),
    ],
)
def test_rows_of_every_kind_of_match_become_a_network(graph, clauses, projections, nodes, edges):
    found = rows(graph, clauses, projections).to_networkx()
    assert len(found) == nodes
    assert sorted(key for _, _, key in found.edges(keys=True)) == edges


def test_rows_of_stages_become_a_network_of_the_last_one(graph):
    text = "query q() { match { $p: Person } with { $p as who } match { $who worksIn $t } return { $who, $t } }"
    found = graph.query(text).to_networkx()
    assert sorted(found.nodes) == [("Person", HOSTILE), ("Team", "lab")]
    assert [key for _, _, key in found.edges(keys=True)] == [("WorksIn", 0)]


def test_nodes_of_a_union_are_not_told_apart(graph):
    text = "query q() { match { $p: Person } return { $p } union match { $t: Team } return { $t } }"
    with pytest.raises(ResultWithoutNodesError):
        graph.query(text).to_networkx()


def test_a_whole_state_becomes_a_network(graph):
    everything = graph.to_networkx()
    assert everything.nodes["Person", "bo"] == {"name": "bo"}
    assert (len(everything), everything.number_of_edges()) == (3, 4)
    assert {key[0] for _, _, key in everything.edges(keys=True)} == {"Knows", "WorksIn"}
    assert len(graph.at("~1").to_networkx()) == 0


def test_what_cannot_be_drawn_or_held_is_refused(graph, monkeypatch):
    with pytest.raises(ResultWithoutNodesError):
        rows(graph, "$p: Person", "$p.name").to_svg()
    with pytest.raises(ViewTooLargeError, match="7, the limit is 6"):
        graph.to_networkx(limit=6)
    people = rows(graph, "$p: Person", "$p")
    with pytest.raises(ViewTooLargeError, match="2, the limit is 1"):
        people.to_networkx(limit=1)
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(LibraryMissingError, match="needs networkx"):
        people.to_networkx()


def test_a_commit_prints_as_a_line_of_the_log(graph):
    commit = graph.log(limit=1)[0]
    assert str(commit) == str(graph.log(limit=1))
    assert str(commit).startswith(f"{commit.id}  ")
    assert HOSTILE_ACTOR in str(commit)
    assert "\x01" not in str(commit)


@pytest.mark.reads_when_shown
def test_a_change_prints_as_a_line_of_the_difference(graph):
    found = graph.diff("~1")
    assert [str(change) for change in found] == str(found).splitlines()[1:]


def test_a_conflict_prints_what_each_side_made_of_the_row(tmp_path, backend):
    with omnigraph.init(tmp_path / "g", "node Person { name: String @key  age: I64? }", settings=RELAXED) as graph:
        graph.mutate('query q() { insert Person { name: "ann", age: 1 } }')
        draft = graph.create_branch("draft")
        draft.mutate('query q() { update Person set { age: 3 } where name = "ann" }')
        graph.mutate('query q() { delete Person where name = "ann" }')
        (conflict,) = graph.branch("main").preview_merge("draft").conflicts
    headline, *sides = str(conflict).splitlines()
    assert headline == f"{conflict.kind} Person ann: {conflict.message}"
    assert sides == ['  base: name = "ann", age = 1', '  source: name = "ann", age = 3', "  target: no row"]


@pytest.mark.reads_when_shown
def test_a_closed_graph_says_so_in_a_notebook(tmp_path):
    with omnigraph.init(tmp_path / "g", "node Person { name: String @key }", settings=RELAXED) as graph:
        pass
    assert "the graph is closed" in graph._repr_html_()
