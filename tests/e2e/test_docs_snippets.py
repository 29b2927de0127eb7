"""Every fenced block of every document is run, or compared. ``docs/dev/testing.md`` lists what each fence means."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.cluster.config.reading import read_cluster
from omnigraph.cluster.declaration import CONFIG_FILE
from omnigraph.errors import DiagnosticError
from omnigraph.ir import compile_query
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.pg import parse_schema
from tests.e2e.process import ROOT, clean_environment, copy_club, copy_people
from tests.query_pages import LANGUAGES as ELSEWHERE_LANGUAGES
from tests.query_pages import PAGES as QUERY_PAGES
from tests.warm import run_warm, warm_command

DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *(page for room in ("docs", "src") for page in sorted((ROOT / room).rglob("*.md"))),
]
# The blocks of these pages share one session of Spark, and so do the tests that run them.
ELSEWHERE = (ROOT / "docs" / "user" / "spark.md", ROOT / "docs" / "user" / "resolve.md")
# The blocks of these continue each other, for somebody who follows them to the letter.
FOLLOWED_PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / "user" / f"{name}.md" for name in ("journey", "agents", "cluster")),
)
PAGES = [page for page in DOCUMENTS if page not in ELSEWHERE]
# What a fence may say, and nothing else: ``text`` is the output of the ``python`` block above it, or a drawing.
KINDS = {"pg", "gq", "console", "python", "sh", "json", "yaml", "text", *ELSEWHERE_LANGUAGES}
# Why the commands of a ``sh`` block are run by no test, as the comment above the block says; no other block has one.
REASONS = {
    "continuous integration runs it": re.compile(r"make [a-z-]+"),
    "it installs the package": re.compile(r"pip install '?\.(\[[a-z,-]+\])?'?"),
    "needs Docker": re.compile(r"docker (build|run|compose) .+"),
}
# Where a server listens unless told otherwise. Tests run beside each other, so that theirs take any free port.
DEFAULT_ADDRESS = "127.0.0.1:8080"
# What drawings of the documents are made of.
DRAWN = ("│", "→", "──")
BASH = shutil.which("bash") or "/bin/bash"
_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]*) -->\n)?```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One fenced block; ``schema`` is the nearest compiling schema above it, ``output`` what a text block promises.

    Of an excerpt, ``fails`` names the file that it is from; ``reason`` is why no test runs the block.
    """

    page: str
    line: int
    language: str
    fails: str | None
    body: str
    schema: str | None = None
    output: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}-{self.language}"


def read_snippets(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    found: list[Snippet] = []
    schema: str | None = None
    for match in _FENCE.finditer(text):
        language, _, attribute = match["info"].strip().partition(" ")
        if attribute.startswith("excerpt="):
            language = "excerpt"
            attribute = attribute.removeprefix("excerpt=")
        fails = attribute.removeprefix("fails=") or None
        if language == "text" and found and found[-1].language in ("python", "gq"):
            found.append(replace(found.pop(), output=match["body"]))
            continue
        line = text.count("\n", 0, match.start()) + 1
        found.append(
            Snippet(
                page=str(page.relative_to(ROOT)),
                line=line,
                language=language,
                fails=fails,
                body=match["body"],
                schema=schema,
                reason=match["reason"],
            )
        )
        if language == "pg" and fails is None:
            schema = match["body"]
    return found


# The examples of these pages are run on a graph, by ``tests/e2e/test_query_pages.py``.
QUERY_PAGE_NAMES = {str(page.relative_to(ROOT)) for page in QUERY_PAGES}


def is_run_elsewhere(snippet: Snippet) -> bool:
    return snippet.page in QUERY_PAGE_NAMES and snippet.language in ELSEWHERE_LANGUAGES


SNIPPETS = [snippet for page in PAGES for snippet in read_snippets(page) if not is_run_elsewhere(snippet)]


FOLLOWED = {
    page: [one for one in read_snippets(page) if one.language in ("console", "python")] for page in FOLLOWED_PAGES
}
APART = [one for one in SNIPPETS if all(one not in blocks for blocks in FOLLOWED.values())]


@pytest.mark.parametrize("snippet", APART, ids=str)
def test_snippet_does_what_its_page_says(snippet: Snippet, tmp_path: Path):
    match snippet.language:
        case "pg":
            check_schema(snippet)
        case "gq":
            check_queries(snippet)
        case "console":
            check_console(snippet, copy_folder(snippet, tmp_path))
        case "python":
            check_python(snippet, copy_folder(snippet, tmp_path))
        case "excerpt":
            assert snippet.body in (ROOT / str(snippet.fails)).read_text(encoding="utf-8")
        case "sh":
            check_steps(snippet)
        case "json":
            json.loads(snippet.body)
        case "yaml":
            check_cluster_config(snippet, tmp_path)
        case "text":
            assert any(mark in snippet.body for mark in DRAWN), "text that is neither an output nor a drawing"
        case _:
            pytest.fail(f"no test runs this kind of block: {snippet.language!r}")


@pytest.mark.parametrize("page", FOLLOWED_PAGES, ids=lambda page: page.name)
def test_page_can_be_followed_to_the_letter(tmp_path: Path, page: Path):
    folder = copy_people(tmp_path)
    assert len(FOLLOWED[page]) >= 3
    for snippet in FOLLOWED[page]:
        (check_python if snippet.language == "python" else check_console)(snippet, folder)


def test_pages_have_snippets_of_every_kind_that_matters():
    """An extractor that finds nothing would let every page pass."""
    languages = [snippet.language for page in PAGES for snippet in read_snippets(page)]
    assert languages.count("pg") >= 8
    assert languages.count("gq") >= 8
    assert languages.count("console") >= 8
    assert languages.count("python") >= 8


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_only_closed_fences_of_a_known_kind(page: Path):
    """A fence that is indented, longer or of another kind would be passed over by the test above."""
    marks = re.findall(r"^[ \t>]*(?:```+|~~~+).*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert marks[1::2] == ["```"] * (len(marks) // 2)
    opened = [re.fullmatch(r"```([a-z]+)(?: fails=[\w.]+| excerpt=[\w./]+)?", mark) for mark in marks[::2]]
    assert [
        mark for mark, known in zip(marks[::2], opened, strict=True) if known is None or known[1] not in KINDS
    ] == []
    assert len(marks) % 2 == 0


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_no_commands_in_indented_blocks_which_no_test_would_run(page: Path):
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    # Further lines of an item of a list are indented as well, and follow the item.
    assert re.findall(r"(?<=\n\n)(?: {4}|\t).*", text) == []


def test_only_steps_that_no_test_can_run_are_left_out_and_every_reason_is_used():
    blocks = [snippet for page in DOCUMENTS for snippet in read_snippets(page)]
    assert {str(one): one.reason for one in blocks if (one.reason in REASONS) != (one.language == "sh")} == {}
    assert {one.reason for one in blocks if one.reason is not None} == set(REASONS)
    comments = sum(page.read_text(encoding="utf-8").count("\n<!-- not run:") for page in DOCUMENTS)
    assert comments == sum(one.reason is not None for one in blocks) <= 5


def test_index_names_every_page_and_every_page_is_one_of_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([^)]+\.md)\)", index)) == set()


def test_pages_for_contributors_name_only_files_that_exist():
    folders = ("src", "tests", "docs", "bench", "examples", "tools")
    there = [f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*")]
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs" / "dev").glob("*.md"))]
    named = {name for page in pages for name in re.findall(r"`([\w./-]+(?:\.py|/))`", page.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert {name for name in named if not any(path.endswith(f"/{name.rstrip('/')}") for path in there)} == set()


def test_contributors_are_told_of_every_make_target():
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [target for target in targets if target != "help" and f"| `make {target}` |" not in told] == []


def copy_folder(snippet: Snippet, target: Path) -> Path:
    """Copy the folder that a page's commands run in."""
    return (copy_club if snippet.page in QUERY_PAGE_NAMES else copy_people)(target)


def check_schema(snippet: Snippet) -> None:
    if snippet.fails is None:
        compile_schema(parse_schema(snippet.body, snippet.page))
        return
    with pytest.raises(DiagnosticError) as caught:
        compile_schema(parse_schema(snippet.body, snippet.page))
    assert snippet.fails in (caught.value.details.rule, caught.value.code)


def check_queries(snippet: Snippet) -> None:
    assert snippet.schema is not None, "the page has no schema above this block"
    assert snippet.output is None, "rows are shown on the pages about the query language"
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


def check_console(snippet: Snippet, folder: Path) -> None:
    environment = clean_environment(PATH=f"{shim(folder.parent)}:{os.environ['PATH']}")
    with ExitStack() as servers:
        address = DEFAULT_ADDRESS
        commands = list(read_commands(snippet.body))
        assert commands
        for command, expected in commands:
            if command.endswith(" &"):
                address = servers.enter_context(serving(command.removesuffix(" &"), expected, folder, environment))
                continue
            here = (text.replace(DEFAULT_ADDRESS, address) for text in (command, expected))
            check_command(*here, folder, environment)


@contextmanager
def serving(command: str, promised: str, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a command that serves until the block ends, on a port that is free, and give its address."""
    process = subprocess.Popen(
        [BASH, "-c", f"exec env {command} --bind 127.0.0.1:0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        shown = process.stdout.readline()
        address = shown.strip().partition("=")[2]
        assert shown.replace(address, DEFAULT_ADDRESS) == promised, command
        yield address
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def check_command(command: str, expected: str, folder: Path, environment: dict[str, str]) -> None:
    finished = subprocess.run(
        [BASH, "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    if expected:
        assert finished.stdout.decode() == expected, command
    else:
        assert finished.returncode == 0, command


def read_commands(body: str) -> Iterator[tuple[str, str]]:
    """Yield each command, with lines behind ``> `` that go on with it, and the output that follows it."""
    command: str | None = None
    output: list[str] = []
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            if command is not None:
                yield command, "".join(output)
            command, output = line[2:].rstrip("\n"), []
        elif command is not None and not output and line.startswith("> "):
            command += f"\n{line[2:].rstrip()}"
        else:
            output.append(line)
    if command is not None:
        yield command, "".join(output)


def shim(place: Path) -> Path:
    """Make a folder whose commands are those under test, whatever is installed."""
    folder = place / "bin"
    folder.mkdir(exist_ok=True)
    for name, module in (("omnigraph", "omnigraph"), ("omnigraph-server", "omnigraph.server.main")):
        script = folder / name
        script.write_text(f'#!/bin/sh\n{warm_command(module)} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


def check_python(snippet: Snippet, folder: Path) -> None:
    script = folder.parent / "snippet.py"
    script.write_text(snippet.body, encoding="utf-8")
    finished = run_warm(
        "tests.warm.script", [str(script)], cwd=folder, env=clean_environment(PYTHONPATH=str(ROOT / "src"))
    )
    assert finished.returncode == 0, finished.stderr.decode()
    if snippet.output is not None:
        assert finished.stdout.decode() == snippet.output


def check_steps(snippet: Snippet) -> None:
    """Nothing runs these, so that each command must be of the kind that its reason is for, and of this project."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = snippet.body.splitlines()
    assert lines
    for line in lines:
        assert REASONS[str(snippet.reason)].fullmatch(line), line
        match line.split():
            case ["make", target]:
                assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), line
            case ["docker", *words]:
                named = [word for word in words if word.startswith("examples/")]
                assert [name for name in named if not (ROOT / name).is_file()] == [], line
                settings = {word.partition("=")[0] for word in words if word.startswith("OMNIGRAPH_")}
                pages = (ROOT / "docs" / "user").glob("*.md")
                known = {name for page in pages for name in re.findall(r"OMNIGRAPH_[A-Z_]+", page.read_text("utf-8"))}
                assert settings <= known, line


def check_cluster_config(snippet: Snippet, folder: Path) -> None:
    """The files that it names are not there; there must be nothing else to say of it."""
    (folder / CONFIG_FILE).write_text(snippet.body, encoding="utf-8")
    reading = read_cluster(str(folder))
    assert reading.declaration is not None
    assert [one.message for one in reading.findings.items if not one.message.endswith("it was not found")] == []
