"""Stored queries as people call them in Python: those of files and those of a server alike."""

from __future__ import annotations

import inspect
from datetime import date

import pytest

import omnigraph
from omnigraph.errors import (
    FileMissingError,
    PreconditionFailedError,
    QueryParameterError,
    QueryRowLimitError,
    QuerySyntaxError,
    QueryTypeError,
    StoredQueryArgumentsError,
    StoredQueryDuplicateError,
    StoredQueryMissingError,
    UsageError,
    WrongQueryKindError,
)
from omnigraph.operations.stored import InvokeMutationRequest, InvokeReadRequest
from tests.session_graph import RELAXED

SCHEMA = "node Person { slug: String @key  age: I32?  born: Date?  tags: [String]?  v: Vector(2)? }"
STORED = """
query find($slug: String, $least: I32?)
    @description("One person, by slug")
    @instruction("Ask for the slug; do not make one up")
{
    match { $p: Person { slug: $slug }  $least is null or $p.age >= $least }
    return { $p.slug as slug, $p.age as age }
}
query all() { match { $p: Person } return { $p.slug as slug } order { slug } }
query add($slug: String, $age: I32?, $born: Date?, $tags: [String]?) {
    insert Person { slug: $slug, age: $age, born: $born, tags: $tags }
}
query older($by: I32?, $from: I32, $branch: String?, $at: String?, $class: String?)
    @mcp("expose")
{
    match { $p: Person  $p.age >= $from }
    return { $p.slug as slug, $branch as branch, $at as at, $class as class }
}
query validate() { match { $p: Person } return { count($p) as n } }
"""


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "gq").mkdir()
    (tmp_path / "gq" / "people.gq").write_text(STORED)
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED):
        pass
    with omnigraph.open(tmp_path / "g", queries=tmp_path / "gq", settings=RELAXED) as opened:
        opened.queries.add("ann", 7)
        yield opened


def rows(result):
    return [dict(row) for row in result]


def test_a_stored_query_is_called_by_its_name(graph):
    assert rows(graph.queries.find(slug="ann")) == [{"slug": "ann", "age": 7}]
    assert rows(graph.queries.find("ann", least=8)) == []
    assert rows(graph.queries["find"]("ann", None)) == [{"slug": "ann", "age": 7}]
    done = graph.queries.add("bo", born=date(2001, 2, 3), tags=["x"])
    assert (done.query_name, done.affected_nodes, done.commit.branch) == ("add", 1, "main")
    assert rows(graph.queries.all()) == [{"slug": "ann"}, {"slug": "bo"}]


def test_branches_and_earlier_states_have_the_same_queries(graph):
    """What is read is said by the object, so that a parameter may have any name."""
    before = graph.at("main")
    draft = graph.create_branch("draft")
    draft.queries.add("cy", 9)
    assert [rows(state.queries.all()) for state in (graph, before, draft)] == [
        [{"slug": "ann"}],
        [{"slug": "ann"}],
        [{"slug": "ann"}, {"slug": "cy"}],
    ]
    asked = draft.queries.older(from_=8, branch="x", at="y", class_="z")
    assert rows(asked) == [{"slug": "cy", "branch": "x", "at": "y", "class": "z"}]
    with pytest.raises(UsageError, match="'add' is a mutation, and an earlier state does not change"):
        before.queries.add("di")


def test_a_write_is_told_what_a_mutation_is_told(graph):
    head = graph.queries["all"].run().commit_id
    done = graph.queries.add.run({"slug": "bo"}, actor="mira", message="hello", expected_head=head)
    assert (done.commit.actor, done.commit.message) == ("mira", "hello")
    with pytest.raises(PreconditionFailedError):
        graph.queries.add.run({"slug": "cy"}, expected_head=head)
    assert rows(graph.queries["validate"]()) == [{"n": 2}]


def test_rows_of_a_stored_read_are_drawn_as_those_of_a_query(graph):
    """A large result is not held as a whole anywhere, nor one that costs more than the caller allows made."""
    for number in range(3):
        graph.queries.add(f"p{number}")
    streamed = graph.queries["all"].run(options=omnigraph.QueryOptions(streams=True))
    assert sum(batch.num_rows for batch in streamed.stream()) == 4
    with pytest.raises(QueryRowLimitError):
        graph.queries["all"].run(options=omnigraph.QueryOptions(max_rows=1))


@pytest.mark.reads_when_shown
def test_a_call_has_the_signature_and_the_help_of_its_declaration(graph):
    find, older = graph.queries.find, graph.queries.older
    assert str(inspect.signature(find)) == "(slug: str, least: int | None = None) -> 'Result'"
    assert str(inspect.signature(graph.queries.add)) == (
        "(slug: str, age: int | None = None, born: datetime.date | None = None,"
        " tags: collections.abc.Sequence[str] | None = None) -> 'MutationResult'"
    )
    assert str(inspect.signature(older)) == (
        "(*, by: int | None = None, from_: int, branch: str | None = None, at: str | None = None,"
        " class_: str | None = None) -> 'Result'"
    )
    assert inspect.getdoc(find) == (
        "One person, by slug\n\nAsk for the slug; do not make one up\n\nArgs:\n    slug: String\n    least: I32?"
    )
    assert inspect.getdoc(graph.queries.all) == "The stored read all."
    assert (find.__name__, find.name, find.is_mutation, older.entry.mcp_expose) == ("find", "find", False, True)
    assert repr(find) == "<Stored read find($slug: String, $least: I32?)>"


@pytest.mark.reads_when_shown
def test_which_queries_there_are_is_shown_and_completed(graph):
    queries = graph.queries
    assert [one.name for one in queries] == ["add", "all", "find", "older", "validate"]
    assert (len(queries), "find" in queries, "nope" in queries) == (5, True, False)
    assert {"find", "older", "refresh"} <= set(dir(queries))
    assert str(queries).splitlines()[1:3] == ["read      all()", "read      find($slug: String, $least: I32?)"]
    assert repr(queries) == f"<Queries on main in {graph.uri!r}: add, all, find, older, validate>"
    assert "find($slug" in queries._repr_html_()
    assert not hasattr(queries, "_ipython_display_")
    assert getattr(queries, "nope", None) is None


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda q: q.find(),
            "stored query 'find' needs the parameter 'slug'",
            "it is find($slug: String, $least: I32?)",
        ),
        (lambda q: q.find("a", slug="b"), "stored query 'find' gets the parameter 'slug' twice", None),
        (lambda q: q.find(slgu="a"), "stored query 'find' has no parameter 'slgu'", "did you mean 'slug'?"),
        (lambda q: q.find("a", 1, 2), "stored query 'find' accepts at most 2 arguments by position, not 3", None),
        (lambda q: q.older(1), "stored query 'older' accepts at most 0 arguments by position, not 1", None),
    ],
)
def test_a_call_with_wrong_arguments_names_the_parameter(graph, call, message, hint):
    with pytest.raises(StoredQueryArgumentsError) as caught:
        call(graph.queries)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint
    assert isinstance(caught.value, TypeError)


def test_a_value_that_does_not_fit_is_refused_as_in_a_query(graph):
    with pytest.raises(QueryParameterError, match="'slug'"):
        graph.queries.find(slug=7)
    with pytest.raises(QueryParameterError, match="'slug'"):
        graph.queries.find.run({})


def test_a_name_that_is_missing_is_told_with_the_nearest(graph):
    with pytest.raises(StoredQueryMissingError, match="stored query 'fnd' was not found") as caught:
        _ = graph.queries.fnd
    assert (caught.value.details.near, caught.value.hint) == (("find",), "did you mean 'find'?")
    with pytest.raises(KeyError):
        _ = graph.queries["nope"]


def test_what_is_invoked_as_the_other_kind_is_refused(tmp_path, graph, backend):
    if backend.startswith("async"):
        return
    with pytest.raises(WrongQueryKindError, match="'add' is a mutation — use omnigraph mutate add"):
        graph.backend.execute(InvokeReadRequest(name="add"))
    with pytest.raises(WrongQueryKindError, match="'find' is a read — use omnigraph query find"):
        graph.backend.execute(InvokeMutationRequest(name="find"))
    with pytest.raises(StoredQueryMissingError, match="'fnd' was not found") as caught:
        graph.backend.execute(InvokeReadRequest(name="fnd"))
    assert caught.value.details.near == ("find",)


def test_queries_are_checked_against_the_schema_of_the_state(graph):
    """They are stored beside the graph, so that its schema may leave them behind."""
    before = graph.at("main")
    assert graph.queries.validate().to_json() == {"ok": True, "breakages": [], "warnings": []}
    graph.create_branch("draft").apply_schema(SCHEMA.replace("born: Date?", "birthday: Date?"))
    report = graph.branch("draft").queries.validate()
    assert [(one.query, one.message.partition(": ")[2][:10]) for one in report.breakages] == [("add", "type error")]
    assert str(report).startswith("5 stored queries checked, 1 broken\n")
    assert before.queries.validate().is_ok
    with pytest.raises(QueryTypeError):
        graph.branch("draft").queries.add("di")


def test_a_graph_without_stored_queries_has_none(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        assert [len(graph.queries), list(graph.queries), graph.queries.validate().is_ok] == [0, [], True]
        with pytest.raises(StoredQueryMissingError, match="stored query 'find' was not found"):
            _ = graph.queries.find


def test_files_that_cannot_be_read_open_nothing(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED):
        pass
    (tmp_path / "cut.gq").write_text("query")
    (tmp_path / "twice.gq").write_text(STORED + STORED)
    for queries, problem in (
        (tmp_path / "nope.gq", FileMissingError),
        (tmp_path / "cut.gq", QuerySyntaxError),
        ([tmp_path / "twice.gq"], StoredQueryDuplicateError),
        (7, UsageError),
    ):
        with pytest.raises(problem):
            omnigraph.open(tmp_path / "g", queries=queries)
    with pytest.raises(UsageError, match="queries is an argument for a graph that this process opens itself"):
        omnigraph.open("https://host/graphs/crm", queries="gq")
