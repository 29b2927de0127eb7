"""Every way a command can end has its exit code, and none of them is a traceback."""

from __future__ import annotations

import gc
import json
import sys

import pytest

from omnigraph.cli.main import main, run
from omnigraph.errors import BY_CODE, Kind, SourceTooLargeError
from omnigraph.lang.pg import parse_schema
from omnigraph.runtime.context import last_commit, note_commit, remember_commits


def end_with(problem: BaseException) -> int:
    raise problem


@pytest.mark.parametrize("code", [0, 2])
def test_command_that_returns_decides_by_its_code(code: int):
    assert run(lambda: code, []) == code


def test_error_of_ours_exits_with_the_code_of_its_kind(capsys: pytest.CaptureFixture[str]):
    assert run(lambda: parse_schema("node A {" * 99) and 0, []) == Kind.TOO_LARGE.exit_code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith(f"hint: {SourceTooLargeError.row.hint}\ncode: source.too_large\n")


def test_exit_codes_of_kinds_are_distinct_and_not_those_of_signals():
    codes = {kind.exit_code for kind in Kind}
    assert len(codes) == len(Kind)
    assert not codes & {0, 130, 141}
    assert {cls.row.kind for cls in BY_CODE.values()} <= set(Kind)


def test_interrupt_is_130(capsys: pytest.CaptureFixture[str]):
    assert run(lambda: end_with(KeyboardInterrupt()), []) == 130
    assert capsys.readouterr().err == ""


def test_commits_of_an_earlier_command_are_not_told():
    def write() -> int:
        remember_commits()
        note_commit("main", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
        assert last_commit() is not None
        return 0

    assert run(write, []) == 0
    assert last_commit() is None


def test_streams_closed_by_the_caller_are_no_bug(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert run(lambda: parse_schema("node A {" * 99) and 0, []) == Kind.TOO_LARGE.exit_code
    sys.stdout.close()
    sys.stderr.close()


def test_bug_is_one_line_and_a_hint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OMNIGRAPH_DEBUG", raising=False)
    assert run(lambda: end_with(ZeroDivisionError("first line\nsecond line")), []) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    error, hint, code = shown.err.splitlines()
    assert error == "error: unexpected ZeroDivisionError: first line"
    assert "OMNIGRAPH_DEBUG=1" in hint
    assert code == "code: internal"


def test_bug_shows_its_traceback_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMNIGRAPH_DEBUG", "1")
    assert run(lambda: end_with(ZeroDivisionError("why")), []) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_bug_in_json_is_one_document(capsys: pytest.CaptureFixture[str]):
    assert run(lambda: end_with(RecursionError("deep")), ["lint", "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["code"] == "internal"
    assert shown.err == ""


def test_command_inside_a_program_leaves_the_program_s_heap_alone(capsys: pytest.CaptureFixture[str]):
    frozen = gc.get_freeze_count()
    with pytest.raises(SystemExit) as ended:
        main(["query", "--help"])
    assert ended.value.code == 0
    assert "Usage" in capsys.readouterr().out
    # What the run itself has frozen may end in the meantime; what a command froze would be thousands of objects.
    assert gc.get_freeze_count() <= frozen
