"""What every command says, success and failure, as text and as JSON, with the exit code; the words of errors once.

``make fixtures`` rewrites the files below ``golden``; read the difference before you keep it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from omnigraph.cli import main as program
from omnigraph.cli.lazy import LazyGroup
from omnigraph.errors import Kind
from tests.e2e.golden_case import Case, all_cases
from tests.e2e.golden_given import open_ground
from tests.marks import every

ROOT = Path(__file__).with_name("golden")
CASES = dict(all_cases(ROOT))
STEPS = [step for case in CASES.values() for step in case.steps]


@pytest.mark.parametrize("name", every(2, CASES))
def test_commands_say_what_the_case_holds(name: str, tmp_path: Path):
    path = ROOT / f"{name}.txt"
    with open_ground(CASES[name].given, tmp_path) as ground:
        said = ground.run(CASES[name])
    if os.environ.get("OMNIGRAPH_GOLDEN") == "write":
        path.write_text(said, encoding="utf-8")
    assert said == path.read_text(encoding="utf-8")


def commands(group: type[LazyGroup] = program._Commands, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups of commands resolved."""
    for name, entry in group.entries.items():
        inner = entry.load()
        if isinstance(inner, LazyGroup):
            yield from commands(type(inner), (*prefix, name))
        else:
            yield (*prefix, name)


def has_json(words: tuple[str, ...]) -> bool:
    """Whether a command can answer in JSON."""
    command: Any = get_command(program._app)
    for word in words:
        command = command.get_command(None, word)
    return any("--json" in parameter.opts for parameter in command.params)


def missing(words: tuple[str, ...]) -> set[tuple[str, str]]:
    """Which of the four cases a command lacks; of two, if it has no JSON."""
    steps = [step for step in STEPS if step.words[: len(words) + 1] == ["omnigraph", *words]]
    found = {("json" if step.is_json else "text", "fails" if step.exit_code else "succeeds") for step in steps}
    forms = ("text", "json") if has_json(words) else ("text",)
    return {(form, end) for form in forms for end in ("succeeds", "fails")} - found


# Starting Spark for a case takes longer than all cases together; tests/spark/pipelines shows these.
ON_SPARK = {("pipeline", "run"): {("text", "succeeds"), ("json", "succeeds")}}


def test_every_command_has_a_case_of_success_and_of_failure_in_each_form():
    assert {words: lacks for words in commands() if (lacks := missing(words))} == ON_SPARK


def test_every_kind_of_error_has_a_case_with_its_exit_code():
    failed = [(step.kind, step.exit_code) for step in STEPS if step.kind is not None]
    assert {kind for kind, _ in failed} == set(Kind)
    assert all(kind is not None and kind.exit_code == code for kind, code in failed)


def test_no_output_shows_what_only_a_programmer_should_see():
    words = ("Traceback", "object at 0x", "None", "Enum", "PosixPath", "dataclass")
    assert [(step.command, line) for step in STEPS for line in step.lines if any(word in line for word in words)] == []


def test_times_in_json_are_text():
    assert [
        (step.command, line) for step in STEPS for line in step.lines if line.endswith(('": <time>', '": <time>,'))
    ] == []


def test_every_case_says_what_it_shows():
    assert [name for name, case in CASES.items() if not _is_told(case)] == []


def _is_told(case: Case) -> bool:
    return case.head.startswith("# ") and case.head.splitlines()[0].endswith(".")
