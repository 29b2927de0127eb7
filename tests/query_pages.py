"""The pages about the query language: their examples, and the graph of the sailing club that these are run on.

A ``gq`` block is an example. Lines such as ``// $slug = "ada"`` at its top are its parameters, the ``text`` block
behind it is what it gives, and ``fails=CODE`` says that it fails. A ``sql`` or ``cypher`` block asks the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.graph.branch import BranchVerbs
from omnigraph.lang.gq import parse_queries

ROOT = Path(__file__).parents[1]
CLUB = ROOT / "examples" / "harbour"
TUTORIAL = ROOT / "docs" / "user" / "query-language.md"
REFERENCE = ROOT / "docs" / "user" / "query-reference.md"
COMPARISON = ROOT / "docs" / "user" / "query-comparison.md"
PAGES = (TUTORIAL, REFERENCE, COMPARISON)
# What only these pages have, and what the tests of these pages run.
LANGUAGES = {"gq", "sql", "cypher"}

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"^// \$(\w+) = (.*)$", re.MULTILINE)
_COUNTS = ("inserted", "updated", "deleted", "unchanged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One text, below its heading; ``shown`` is what the page says it gives, None if it says nothing."""

    page: str
    line: int
    heading: str
    language: str
    text: str
    fails: str | None
    shown: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}-{self.language}"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that its comments give it."""
        return {name: json.loads(value) for name, value in _PARAMETER.findall(self.text)}

    @property
    def is_mutation(self) -> bool:
        """Whether running it changes the graph."""
        return any(query.is_mutation for query in parse_queries(self.text).queries)


def read_examples(page: Path) -> list[Example]:
    """Return the examples of a page from top to bottom, each with the ``text`` block that follows it directly."""
    text = page.read_text(encoding="utf-8")
    found: list[Example] = []
    blocks = list(_FENCE.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        language, _, attribute = block["info"].strip().partition(" ")
        if language not in LANGUAGES:
            continue
        is_shown = following is not None and following["info"] == "text"
        is_shown = is_shown and not text[block.end() : following.start() if following else 0].strip()
        found.append(
            Example(
                page=page.name,
                line=text.count("\n", 0, block.start()) + 1,
                heading=re.findall(r"^#+ (.*)$", text[: block.start()], re.MULTILINE)[-1],
                language=language,
                text=block["body"],
                fails=attribute.removeprefix("fails=") or None,
                shown=following["body"] if following is not None and is_shown else None,
            )
        )
    return found


def open_club(folder: Path) -> omnigraph.Graph:
    """Make the graph that the pages are about."""
    quick = omnigraph.TxnSettings(durability="relaxed")
    graph = omnigraph.init(str(folder / "club.omni"), CLUB / "schema.pg", settings=quick)
    graph.load(CLUB / "club.jsonl")
    return graph


def run_example(graph: BranchVerbs, example: Example) -> str:
    """Run every query of an example in turn, and return what a page shows for them, with a blank line between two."""
    shown: list[str] = []
    for query in parse_queries(example.text).queries:
        shown += [""] if shown else []
        names = {parameter.name for parameter in query.parameters}
        given = {name: value for name, value in example.parameters.items() if name in names}
        if query.is_mutation:
            done = graph.mutate(example.text, given, query.name.text)
            counts = [f"{getattr(done, word)} {word}" for word in _COUNTS if getattr(done, word)]
            shown.append(", ".join(counts) or "nothing changed")
            shown += [] if done.rows is None else [table_of(done.rows)]
        else:
            shown.append(table_of(graph.query(example.text, given, query.name.text)))
    return "\n".join(shown) + "\n"


def table_of(rows: omnigraph.Result) -> str:
    """Return the table of a result without its headline, and without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in str(rows).splitlines()[1:])
