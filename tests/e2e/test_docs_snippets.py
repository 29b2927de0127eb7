"""Every fenced block of the documents people read first is run. ``docs/dev/testing.md`` lists what each fence means."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.errors import DiagnosticError
from omnigraph.ir import compile_query
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.pg import parse_schema
from tests.e2e.process import ROOT, clean_environment, copy_people
from tests.warm import run_warm, warm_command

# The blocks of this page share one session of Spark, and so do the tests that run them.
ELSEWHERE = ROOT / "docs" / "user" / "spark.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs" / "user").glob("*.md")) if page != ELSEWHERE),
]
BASH = shutil.which("bash") or "/bin/bash"
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One fenced block; ``schema`` is the nearest compiling schema above it, ``output`` what a text block promises."""

    page: str
    line: int
    language: str
    fails: str | None
    body: str
    schema: str | None = None
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}-{self.language}"


def read_snippets(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    found: list[Snippet] = []
    schema: str | None = None
    for match in _FENCE.finditer(text):
        language, _, attribute = match["info"].strip().partition(" ")
        fails = attribute.removeprefix("fails=") or None
        if language == "text" and found and found[-1].language == "python":
            code = found.pop()
            found.append(
                Snippet(
                    page=code.page, line=code.line, language="python", fails=None, body=code.body, output=match["body"]
                )
            )
            continue
        line = text.count("\n", 0, match.start()) + 1
        found.append(
            Snippet(page=page.name, line=line, language=language, fails=fails, body=match["body"], schema=schema)
        )
        if language == "pg" and fails is None:
            schema = match["body"]
    return found


SNIPPETS = [snippet for page in PAGES for snippet in read_snippets(page)]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_snippet_does_what_its_page_says(snippet: Snippet, tmp_path: Path):
    match snippet.language:
        case "pg":
            check_schema(snippet)
        case "gq":
            check_queries(snippet)
        case "console":
            check_console(snippet, tmp_path)
        case "python":
            check_python(snippet, tmp_path)
        case "sh":
            check_make_targets(snippet)
        case "json":
            json.loads(snippet.body)
        case _:
            pytest.fail(f"no test runs this kind of block: {snippet.language!r}")


def test_pages_have_snippets_of_every_kind_that_matters():
    """An extractor that finds nothing would let every page pass."""
    languages = [snippet.language for snippet in SNIPPETS]
    assert languages.count("pg") >= 8
    assert languages.count("gq") >= 8
    assert languages.count("console") >= 8
    assert "python" in languages


def test_every_fence_of_a_page_is_closed():
    for page in PAGES:
        marks = re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(marks) % 2 == 0, page


def check_schema(snippet: Snippet) -> None:
    if snippet.fails is None:
        compile_schema(parse_schema(snippet.body, snippet.page))
        return
    with pytest.raises(DiagnosticError) as caught:
        compile_schema(parse_schema(snippet.body, snippet.page))
    assert snippet.fails in (caught.value.details.rule, caught.value.code)


def check_queries(snippet: Snippet) -> None:
    assert snippet.schema is not None, "the page has no schema above this block"
    catalog = compile_schema(parse_schema(snippet.schema, snippet.page))
    if snippet.fails is None:
        compile_all(snippet.body, catalog)
        return
    with pytest.raises(DiagnosticError) as caught:
        compile_all(snippet.body, catalog)
    assert snippet.fails in (caught.value.details.rule, caught.value.code)


def compile_all(text: str, catalog: Catalog) -> None:
    names = [decl.name.text for decl in parse_queries(text).queries]
    assert names
    for name in names:
        compile_query(text, name, catalog)


def check_console(snippet: Snippet, tmp_path: Path) -> None:
    folder = copy_people(tmp_path)
    environment = clean_environment(PATH=f"{shim(tmp_path)}:{os.environ['PATH']}")
    commands = list(read_commands(snippet.body))
    assert commands
    for command, expected in commands:
        finished = subprocess.run(
            [BASH, "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        if expected:
            assert finished.stdout.decode() == expected, command
        else:
            assert finished.returncode == 0, command


def read_commands(body: str) -> Iterator[tuple[str, str]]:
    """Yield each command with the output that follows it."""
    command: str | None = None
    output: list[str] = []
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            if command is not None:
                yield command, "".join(output)
            command, output = line[2:].rstrip("\n"), []
        else:
            output.append(line)
    if command is not None:
        yield command, "".join(output)


def shim(tmp_path: Path) -> Path:
    """Make a folder whose ``omnigraph`` is the one under test, whatever is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "omnigraph"
    script.write_text(f'#!/bin/sh\n{warm_command("omnigraph")} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


def check_python(snippet: Snippet, tmp_path: Path) -> None:
    folder = copy_people(tmp_path)
    (tmp_path / "snippet.py").write_text(snippet.body, encoding="utf-8")
    finished = run_warm("tests.warm.script", [str(tmp_path / "snippet.py")], cwd=folder, env=clean_environment())
    assert finished.returncode == 0, finished.stderr.decode()
    if snippet.output is not None:
        assert finished.stdout.decode() == snippet.output


def check_make_targets(snippet: Snippet) -> None:
    """The suite cannot run itself, but it can see that the commands exist."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in snippet.body.splitlines():
        program, target = line.split()
        assert program == "make"
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), line
