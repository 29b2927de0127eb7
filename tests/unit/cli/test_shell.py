"""The shell inside this process: its commands, and its prompt with typed keys."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.session_graph import create_graph

from omnigraph.cli.graphs import open_graph
from omnigraph.cli.shell.prompt import ShellCompleter, converse, is_ready, open_history
from omnigraph.cli.shell.session import ShellSession
from omnigraph.errors import (
    BranchMissingError,
    CommitMissingError,
    OmnigraphError,
    QueryTypeError,
    TagMissingError,
    TransactionConflictError,
    UsageError,
)
from omnigraph.operations.history import CreateBranchRequest, LogRequest
from omnigraph.operations.writes import MutateRequest

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\nedge Knows: Person -> Person\n"
SEED = '{"type": "Person", "data": {"name": "Ada", "age": 36}}\n'
NAMES = "match { $p: Person } return { $p.name }"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShellSession]:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    create_graph(tmp_path / "g", SCHEMA, SEED)
    with open_graph(str(tmp_path / "g")) as backend:
        backend.execute(CreateBranchRequest(name="draft"))
        yield ShellSession(backend=backend, out=io.StringIO(), actor="zoe")


def told(session: ShellSession, text: str) -> str:
    session.out = io.StringIO()
    session.run(text)
    return session.out.getvalue()


def test_reads_and_mutations_run_on_the_branch(session: ShellSession, capsys: pytest.CaptureFixture[str]):
    session.run(":branch draft")
    session.run('insert Person { name: "Bob" };')
    assert capsys.readouterr().out == "changed draft via statement: 1 node, 0 edges\nactor_id: zoe\n"
    assert told(session, NAMES).splitlines()[0] == "2 rows from branch draft via statement"
    assert told(session, ":branch") == "* draft\n  main\n"
    session.run(":branch main")
    assert told(session, f"query all() {{ {NAMES} }}").splitlines()[0] == "1 row from branch main via all"


def test_an_earlier_state_is_read_and_not_written(session: ShellSession):
    session.run(":as-of main~1")
    assert session.place == "main as of main~1"
    assert told(session, NAMES).startswith("0 rows from snapshot main~1")
    with pytest.raises(UsageError, match="the state as of main~1 can only be read"):
        session.run('insert Person { name: "Bob" }')
    session.run(":as-of now")
    assert told(session, ":as-of") == "reading main\n"


def test_a_transaction_collects_statements(session: ShellSession, capsys: pytest.CaptureFixture[str]):
    session.run(":branch draft")
    session.run(":begin two people")
    assert session.place == "draft in a transaction"
    session.run('insert Person { name: "Bob" }')
    session.run('update Person set { age: 5 } where name = "Bob"')
    assert capsys.readouterr().out == "pending on draft via statement: 1 node, 0 edges\nactor_id: zoe\n" * 2
    assert told(session, NAMES).splitlines()[0] == "2 rows from branch draft via statement"
    for refused in (":begin", ":branch main", ":as-of main~1"):
        with pytest.raises(UsageError, match="a transaction is open"):
            session.run(refused)
    with pytest.raises(QueryTypeError):
        session.run('insert Persn { name: "Cid" }')
    assert told(session, ":explain " + NAMES).startswith("read")
    commit = told(session, ":commit")
    head = session.backend.execute(LogRequest(branch="draft", limit=1)).commits[0]
    assert commit == f"committed 2 statements to draft: commit {head.id}\n"
    assert (head.message, head.actor, head.operation) == ("two people", "zoe", "transaction")
    for command in (":commit", ":rollback"):
        with pytest.raises(UsageError, match="no transaction is open"):
            session.run(command)
    session.run(":begin")
    session.run('delete Person where name = "Bob"')
    assert told(session, ":rollback") == "rolled back; branch draft is as it was\n"
    session.run(":begin")
    assert told(session, ":commit") == "committed 0 statements to draft: nothing to change\n"
    session.finish()
    session.run(":begin")
    session.run('delete Person where name = "Bob"')
    # What was shown here must still be so: another writer makes it a conflict.
    session.backend.execute(MutateRequest(text='query q() { insert Person { name: "Bob" } }', branch="draft"))
    with pytest.raises(TransactionConflictError):
        session.run(":commit")
    assert session.place == "draft"
    session.run(":begin")
    with pytest.raises(UsageError, match="the shell ended inside a transaction"):
        session.finish()
    assert len(session.backend.execute(LogRequest(branch="draft")).commits) == 4


def test_parameters_are_set_used_shown_and_removed(session: ShellSession):
    session.run(":param n=Ada")
    session.run(":param least=30")
    session.run(":param odd=1")
    asked = "match { $p: Person { name: $n } $p.age >= $least } return { $p.age }"
    assert told(session, asked).splitlines()[-1].strip() == "36"
    assert told(session, f"query q($n: String, $least: I32) {{ {asked} }}").splitlines()[-1].strip() == "36"
    session.run(":param odd")
    assert told(session, ":param") == '$n = "Ada"\n$least = 30\n'


def test_plan_schema_and_help_are_shown(session: ShellSession):
    assert "scan $p: Person" in told(session, f":explain {NAMES}")
    assert told(session, ":schema") == SCHEMA
    assert all(f":{name}" in told(session, ":help") for name in ("branch", "as-of", "explain", "help", "quit"))


def test_a_mutation_is_explained_without_being_run(session: ShellSession):
    names = told(session, NAMES)
    assert "delete node Person where name" in told(session, ":explain delete Person where name = 'Ada'")
    assert told(session, NAMES) == names


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (":brnch x", UsageError),
        (":branch nowhere", BranchMissingError),
        (":as-of tag:nowhere", TagMissingError),
        (":as-of main~99", CommitMissingError),
        (":explain", UsageError),
        (":param 1=2", UsageError),
        ("match { $p: Persn } return { $p.name }", QueryTypeError),
    ],
)
def test_what_cannot_be_done_is_an_error_and_changes_nothing(
    session: ShellSession, text: str, error: type[OmnigraphError]
):
    with pytest.raises(error):
        session.run(text)
    assert (session.branch, session.as_of, session.params) == ("main", None, {})


def talk(session: ShellSession, keys: str) -> None:
    with create_pipe_input() as given:
        given.send_text(keys)
        assert converse(session, given=given, shown=DummyOutput()) == 0


def test_statements_are_typed_over_several_lines_and_completed(
    session: ShellSession, capsys: pytest.CaptureFixture[str]
):
    talk(session, "match { $p: Per\t }\rreturn { $p.na\t }\r:br\t draft\r:quit\r")
    assert session.out.getvalue().splitlines()[-1].strip() == "Ada"
    assert session.branch == "draft"
    assert capsys.readouterr().err == ""


def test_errors_do_not_end_the_shell(session: ShellSession, capsys: pytest.CaptureFixture[str]):
    talk(session, f"match {{ $p: Persn }} return {{ $p.name }}\r{NAMES}\r\x04")
    assert "  |             ^^^^^" in capsys.readouterr().err.splitlines()
    assert session.out.getvalue().splitlines()[-1].strip() == "Ada"


def test_ctrl_c_gives_the_line_up_and_alt_enter_goes_on(session: ShellSession):
    talk(session, f"nonsense\x03{NAMES}\x1b\rorder {{ $p.name }}\r\x04")
    assert session.out.getvalue().splitlines()[-1].strip() == "Ada"


def test_the_history_is_kept_for_the_next_shell_and_for_its_owner_only(session: ShellSession, tmp_path: Path):
    talk(session, f"{NAMES}\r\x04")
    path = tmp_path / "home" / "shell_history"
    assert path.stat().st_mode & 0o777 == 0o600
    talk(session, "\x1b[A\r\x04")
    assert session.out.getvalue().count("1 row from") == 2
    assert next(iter(open_history(path).load_history_strings())) == NAMES
    (tmp_path / "file").write_text("")
    assert list(open_history(tmp_path / "file" / "below").load_history_strings()) == []


def test_enter_ends_what_can_end():
    assert all(map(is_ready, ("", ":quit", NAMES, "match {};", "match {\n", "nonsense")))
    assert not any(map(is_ready, ("match {", "match { $p: Person }", "query q() {")))


def test_completion_knows_commands_branches_and_the_schema(session: ShellSession):
    from prompt_toolkit.completion import CompleteEvent  # noqa: PLC0415 - used here only
    from prompt_toolkit.document import Document  # noqa: PLC0415 - used here only

    completer = ShellCompleter(session)
    completer.refresh()

    def found(text: str) -> list[str]:
        return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]

    assert found(":as") == [":as-of"]
    assert found(":branch dr") == ["draft"]
    assert found("match { $p: Pe") == ["Person"]
    assert found(":explain match { $p: Person } return { $p.a") == ["age"]
    assert found("match { $p: Person  $p kn") == ["knows"]
    assert "substring" in found("match { $p: Person } return { subst")
    assert "insert" in found("ins")
