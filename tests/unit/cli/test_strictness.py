"""What is not known is refused with what is near, also where it would do nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.session_graph import create_graph

from omnigraph.cli import main
from omnigraph.cli.graphs import open_graph
from omnigraph.operations.history import CreateBranchRequest

SCHEMA = """
node Event {
  slug: String @key
  kind: enum(open, shut)?
  size: I32?
}
edge Follows: Event -> Event
"""
SEED = '{"type": "Event", "data": {"slug": "a", "kind": "open"}}\n'
Command = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strict")
    create_graph(folder / "g", SCHEMA, SEED)
    with open_graph(str(folder / "g")) as backend:
        backend.execute(CreateBranchRequest(name="draft"))
    (folder / "rows.jsonl").write_text('{"type": "Event", "data": {"slug": "b"}}\n')
    (folder / "s.pg").write_text(SCHEMA)
    (folder / "rows.csv").write_text("slug,size\nc,1\n")
    return folder


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder / "home"))

    def run(*arguments: str) -> tuple[int, str]:
        code = main.run(lambda: main._invoke(list(arguments)), arguments)
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("diff g main draft --type Evnt", 5, "did you mean 'Event'?"),
        ("diff g main draft --type node:Event", 5, "did you mean Event?"),
        ("changes poll g --start now --type Evnt", 5, "did you mean 'Event'?"),
        ("changes poll g", 2, "--start now"),
        ("changes follow g --once --from beginning --type Evnt", 5, "did you mean 'Event'?"),
        ("changes follow g --once --from now --type Evnt", 5, "did you mean 'Event'?"),
        ("changes baseline g --out b.jsonl --type Evnt", 5, "did you mean 'Event'?"),
        ("commit list g --filter type=Evnt", 5, "did you mean 'Event'?"),
        ("commit list g --filter operation=mutat", 2, "did you mean 'mutate'?"),
        ("optimize g --type Evnt", 5, "did you mean 'Event'?"),
        ("blame g Evnt x", 5, "did you mean 'node:Event'?"),
        ("cleanup g --older-than 30", 2, "use a number followed by s, m, h, d or w, such as 30d"),
        ("load g --mode merge --data rows.jsonl --column Event.slug=x", 2, "only files of one type have columns"),
        ("load g --mode merge --table Event=rows.csv --column Evnt.slug=x", 2, "did you mean 'Event'?"),
        ("load g --mode merge --table Event=rows.csv --header Evnt=slug", 2, "did you mean 'Event'?"),
        ("load g --mode merge --table Event=rows.csv --header Event", 2, "TYPE=NAME,NAME"),
        ("load g --mode merge --data rows.jsonl --delimiter ;", 2, "applies only to a CSV file; the load has none"),
        ("load g --mode merge --data rows.jsonl --trim", 2, "applies only to a file of one type; the load has none"),
        ("load g --mode merge --data rows.csv --mapping s.pg", 2, "a mapping describes the files of a folder"),
        ("load g --mode merge --data rows.csv --encoding klingon", 2, "the name of an encoding"),
        ("status rows.csv", 2, "rows.csv is a file, not a graph"),
        ("init rows.csv --schema s.pg", 2, "rows.csv is a file, not a graph"),
        ("optimize g --nothing", 2, "no such option: --nothing"),
        ("query --alias hot", 2, "hint: use `omnigraph alias NAME`"),
        ("query g --name q -e x", 2, "hint: pass the name of the query as the first argument"),
        ("query --target g -e x", 2, "hint: name the graph by --server, --store or --cluster"),
        ("policy validate --config omnigraph.yaml", 2, "hint: name the graph by --server, --store or --cluster"),
    ],
)
def test_what_is_unknown_is_refused(command: Command, arguments: str, code: int, told: str):
    ended, err = command(*arguments.split())
    assert (ended, told in err) == (code, True), err
    assert not Path("b.jsonl").exists()


def test_a_commit_knows_the_types_of_its_state(command: Command, folder: Path):
    with open_graph(str(folder / "g")) as backend:
        head = str(backend.engine.snapshot().state.head.commit)
    assert command("commit", "changes", "g", head, "--type", "Follows")[0] == 0
    ended, err = command("commit", "changes", "g", head, "--type", "Evnt")
    assert (ended, "did you mean 'Event'?" in err) == (5, True)


@pytest.mark.parametrize(
    "body",
    [
        'match { $e: Event { kind: "opn" } } return { $e.slug }',
        'match { $e: Event $e.kind = "opn" } return { $e.slug }',
        'match { $e: Event "opn" != $e.kind } return { $e.slug }',
        'match { $e: Event $e.kind in ["open", "opn"] } return { $e.slug }',
        'match { $e: Event not ($e.size = 1 or $e.kind = "opn") } return { $e.slug }',
        'match { $e: Event } return { $e.kind as k } having k = "opn"',
        'match { $e: Event } return { count($e where $e.kind = "opn") as n }',
        'delete Event where kind = "opn"',
        'update Event set { size: 1 } where kind in ["opn"] or size = 2',
        'insert Event { slug: "x", kind: "opn" }',
    ],
)
def test_a_literal_that_an_enum_cannot_be_is_refused_everywhere(command: Command, body: str):
    verb = "query" if body.startswith("match") else "mutate"
    ended, err = command(verb, "g", "-e", f"query q() {{ {body} }}")
    assert (ended, "'opn' is not a value of" in err, "did you mean 'open'?" in err) == (2, True, True), err


def test_a_key_must_not_be_empty(command: Command, folder: Path):
    (folder / "empty.jsonl").write_text(
        '{"type": "Event", "data": {"slug": "x"}}\n{"type": "Event", "data": {"slug": ""}}\n'
    )
    (folder / "Event.csv").write_text('slug,size\n"",1\n')
    ended, err = command("load", "g", "--mode", "merge", "--data", "empty.jsonl")
    assert (ended, "empty.jsonl:2: key 'slug' of Event is empty" in err) == (2, True), err
    ended, err = command("load", "g", "--mode", "merge", "--data", "Event.csv")
    assert (ended, "key 'slug' of Event is empty" in err) == (2, True), err
    ended, err = command("mutate", "g", "-e", 'query q() { insert Event { slug: "" } }')
    assert (ended, "key 'slug' of Event is empty" in err) == (2, True), err


@pytest.mark.parametrize("text", ["lower($e.kind) = 'opn'", "$e.kind starts_with 'op'", "$e.slug = 'opn'"])
def test_texts_that_are_no_enum_are_compared_with_anything(command: Command, text: str):
    read = f"query q() {{ match {{ $e: Event {text} }} return {{ $e.slug }} }}"
    assert command("query", "g", "-e", read)[0] == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [("slgu=a", "did you mean 'slug'?"), ("$slug=a", "did you mean 'slug'?"), ("odd=1", "the query declares slug")],
)
def test_a_parameter_that_a_query_does_not_declare_is_refused(command: Command, given: str, told: str):
    read = "query q($slug: String?) { match { $e: Event { slug: $slug } } return { $e.slug } }"
    ended, err = command("query", "g", "-e", read, "--param", given)
    assert (ended, told in err) == (2, True), err
