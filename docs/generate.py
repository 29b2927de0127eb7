# ruff: noqa: INP001 - a script, not a package
"""Writes the generated pages of the documentation from the tables in the code.

Run it from anywhere: ``python docs/generate.py``. A guard test fails when a page is out of date.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

import omnigraph
from omnigraph.catalog.constraints import _MAX_STEPS, MAX_PATTERN_SIZE
from omnigraph.catalog.lint import LINT_CODES
from omnigraph.catalog.migration import FAMILIES, PLAN_RULES, STEP_CODES
from omnigraph.catalog.rules import RULES as SCHEMA_RULES
from omnigraph.engine.algorithms import ALGORITHMS
from omnigraph.engine.external_blobs import ExternalBlobs
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.reading.csv import _MOST_RECORD_BYTES
from omnigraph.engine.load.reading.parquet import _LEAST_ROW_BYTES
from omnigraph.engine.load.sources.source import _UNPACKED_BYTES, _UNPACKED_TIMES
from omnigraph.engine.query.functions.moments import _LONGEST_MS
from omnigraph.engine.query.limits import _COLUMN_BYTES
from omnigraph.engine.query.options import MAX_ENTITIES
from omnigraph.engine.results.drawing import MAX_DRAWN, Box, Link, Picture, draw_svg
from omnigraph.engine.rows.cells import MAX_PROBLEMS
from omnigraph.errors import BY_CODE, Kind, OmnigraphError
from omnigraph.errors.history import MAX_CONFLICTS
from omnigraph.history.diff.parts import DEFAULT_MEMORY_BYTES
from omnigraph.history.feed import tokens
from omnigraph.history.proposals.checks import _MOST_BYTES, _MOST_CHECKS
from omnigraph.history.proposals.proposing import _MOST_TEXT, _MOST_TITLE
from omnigraph.ir.check.scope import RULES as TYPE_RULES
from omnigraph.ir.functions import FUNCTIONS
from omnigraph.ir.lint import CODES as QUERY_LINT_CODES
from omnigraph.lang.gq.build_clauses import _MAX_HOPS
from omnigraph.lang.gq.build_expressions import _MAX_DEPTH, _MAX_INTEGER
from omnigraph.lang.gq.builder import _MAX_LIMIT
from omnigraph.lang.pg.builder import MAX_CARDINALITY, MAX_INTEGER, MAX_VECTOR_DIMENSION
from omnigraph.lang.source import MAX_NESTING, MAX_SOURCE_BYTES
from omnigraph.operations.local.proposals import _MOST_APPROVALS
from omnigraph.server.openapi import BASE_LEVEL, FULL_LEVEL, build_document, document_file
from omnigraph.server.transport.connections import HEAD_BYTES, TARGET_BYTES
from omnigraph.spark.algorithms.catalogue import IN_PROCESS_ONLY, ON_SPARK
from omnigraph.spark.rules.change import RuleSettings
from omnigraph.store.location import _MAX_PART_BYTES, _MAX_PATH_BYTES
from omnigraph.txn.manifest.requests import MAX_KEYS
from omnigraph.txn.settings import TxnSettings
from omnigraph.values.names import MAX_NAME_BYTES

ERRORS_PAGE = Path(__file__).parent / "user" / "errors.md"
FUNCTIONS_PAGE = Path(__file__).parent / "user" / "functions.md"
SECURITY_PAGE = Path(__file__).parent / "user" / "security.md"
GRAPH_PICTURE = Path(__file__).parent / "images" / "graph.svg"
DIFF_PICTURE = Path(__file__).parent / "images" / "diff.svg"
_HARBOUR = Path(__file__).parents[1] / "examples" / "harbour"
HISTORY_PAGE = Path(__file__).parent / "user" / "history.md"
LIMITS_PAGE = Path(__file__).parent / "user" / "limits.md"
ALGORITHMS_PAGE = Path(__file__).parent / "user" / "algorithms.md"
_OPERATIONS = Path(__file__).parents[1] / "tests" / "cost" / "operations.toml"
_LIMITS = Path(__file__).parent / "limits.table"
_PERMISSIONS = Path(__file__).parents[1] / "tests" / "guards" / "permissions.toml"

_KINDS: Mapping[Kind, str] = {
    Kind.INTERNAL: "a bug in omnigraph; report it",
    Kind.INVALID: "fix the text, the arguments or the data",
    Kind.CONFLICT: "another writer was first; read the current state and decide again",
    Kind.PRECONDITION: "the branch head is not the commit you expected",
    Kind.NOT_FOUND: "check the name",
    Kind.UNAUTHENTICATED: "log in, or check the credentials",
    Kind.DENIED: "check permissions and policy",
    Kind.GONE: "this part of history was reclaimed",
    Kind.TOO_LARGE: "make the request smaller, or raise the limit",
    Kind.BUSY: "wait and try again",
    Kind.UNAVAILABLE: "storage or recovery is blocking the request; try again later",
    Kind.DEPENDENCY: "an external service failed",
    Kind.INDETERMINATE: "it may have succeeded; check before trying again",
    Kind.UNSUPPORTED: "not supported in this version",
    Kind.INTEGRITY: "stored data contradicts itself; stop writing",
}


def errors_page() -> str:
    """Return the text of ``docs/user/errors.md``."""
    return "\n".join(_errors_lines()) + "\n"


def main() -> None:
    """Write every generated page."""
    for page, text in PAGES.items():
        page.parent.mkdir(exist_ok=True)
        page.write_text(text(), encoding="utf-8")
        sys.stdout.write(f"wrote {page.name}\n")


def functions_page() -> str:
    """Return the page of the functions of the query language."""
    return "\n".join(_functions_lines()) + "\n"


# The end of a part of a page that is generated.
_END = "<!-- End of what is generated. -->"


def page_with(page: Path, lines: Callable[[], Iterator[str]]) -> str:
    """Return a page whose generated part is made again; ``page`` has one, between two marks."""
    before, begin, rest = page.read_text(encoding="utf-8").partition("<!-- Generated by docs/generate.py")
    note, _, written = rest.partition("\n")
    _, end, after = written.partition(_END)
    return f"{before}{begin}{note}\n\n" + "\n".join(lines()).strip("\n") + f"\n\n{end}{after}"


def _cost_lines() -> Iterator[str]:
    """Yield what operations cost, as a test measures it."""
    operations = tomllib.loads(_OPERATIONS.read_text(encoding="utf-8"))["operation"]
    rows = ((one["what"], str(one["calls"]), str(one["hops"])) for one in operations)
    yield from _table(("operation", "calls to the store", "of which one after the other"), rows)


def _algorithm_lines() -> Iterator[str]:
    """Yield where the algorithms run."""
    everywhere = ", ".join(f"`{name}`" for name in ALGORITHMS if name in ON_SPARK)
    alone = (f"`{name}`: {IN_PROCESS_ONLY[name]}" for name in ALGORITHMS if name not in ON_SPARK)
    yield from _table(
        ("runs", "algorithms"), (("in one process and on Spark", everywhere), ("in one process only", "; ".join(alone)))
    )


def _size(size: int) -> str:
    """Return a number of bytes in the largest unit that divides it."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size % (1 << shift) == 0:
            return f"{size >> shift:,} {unit}"
    return f"{size:,} bytes"


def _limit_lines() -> Iterator[str]:
    """Yield what is limited, to what, and the error of whoever exceeds it: a table with the numbers of the code."""
    settings = TxnSettings()
    numbers = {
        "target": _size(TARGET_BYTES),
        "head": _size(HEAD_BYTES),
        "source": _size(MAX_SOURCE_BYTES),
        "source_bytes": MAX_SOURCE_BYTES,
        "nesting": MAX_NESTING,
        "dimension": MAX_VECTOR_DIMENSION,
        "pattern": MAX_PATTERN_SIZE,
        "match_bits": _MAX_STEPS.bit_length() - 1,
        "match_20": _MAX_STEPS / 20 / 1e6,
        "match_least": _MAX_STEPS / MAX_PATTERN_SIZE / 1e3,
        "card_bits": MAX_CARDINALITY.bit_length(),
        "schema_bits": MAX_INTEGER.bit_length(),
        "query_bits": _MAX_INTEGER.bit_length() + 1,
        "hop_bits": _MAX_HOPS.bit_length(),
        "depth": _MAX_DEPTH,
        "years": _LONGEST_MS // (366 * 86_400_000),
        "name": MAX_NAME_BYTES,
        "line": _size(LoadSettings().max_line_bytes),
        "csv": _size(_MOST_RECORD_BYTES + 1),
        "unpacked": _size(_UNPACKED_BYTES),
        "unpacked_times": _UNPACKED_TIMES,
        "parquet_row": _LEAST_ROW_BYTES,
        "problems": MAX_PROBLEMS,
        "task_rows": RuleSettings().bucket_rows,
        "column": _size(_COLUMN_BYTES + 1),
        "path_part": _MAX_PART_BYTES,
        "path": _MAX_PATH_BYTES,
        "merge": _size(DEFAULT_MEMORY_BYTES),
        "title": _MOST_TITLE,
        "comment": _MOST_TEXT,
        "checks": _MOST_CHECKS,
        "check_text": _size(_MOST_BYTES),
        "approvals": _MOST_APPROVALS,
        "changes": tokens.DEFAULT_CHANGES,
        "batch": _size(tokens.DEFAULT_BYTES),
        "commits": tokens.DEFAULT_COMMITS,
        "most_changes": tokens.MAX_CHANGES,
        "most_batch": _size(tokens.MAX_BYTES),
        "most_commits": tokens.MAX_COMMITS,
        "wait": settings.claim_wait_s,
        "grace": settings.grace_s,
        "network": MAX_ENTITIES,
        "drawn": MAX_DRAWN,
        "drawn_edges": 2 * MAX_DRAWN,
        "external": _size(ExternalBlobs(bases=()).max_bytes),
        "key_days": settings.key_s / 86_400,
        "keys": MAX_KEYS,
        "conflicts": MAX_CONFLICTS,
        "limit_bits": _MAX_LIMIT.bit_length(),
    }
    yield from ("| what | limit | error |", "|---|---|---|")
    yield from _LIMITS.read_text(encoding="utf-8").format(**numbers).splitlines()


def graph_picture() -> str:
    """Return the drawing of a part of the example graph: who sails the boats of one harbour."""
    with tempfile.TemporaryDirectory() as folder, _harbour(folder) as graph:
        return graph.query("""
            query crews() {
                match { $s: Sailor  $s crews $b  $b mooredIn $h  $h.code = "vik" }
                return { $s, $s.rank, $b, $b.name, $h, $h.name }
                order { $b.name, $s.name }
            }
        """).to_svg()


def diff_picture() -> str:
    """Return the drawing of what a branch of the example graph changes: every changed entity, and the ends of edges."""
    with tempfile.TemporaryDirectory() as folder, _harbour(folder) as graph:
        branch = graph.create_branch("season")
        branch.mutate("""
            query season() {
                update Sailor set { rank: "skipper" } where slug = "bo"
                insert Sailor { slug: "gro", name: "Gro Dahl", rank: "cadet" }
                insert Crews { from: "gro", to: "NOR-1", role: "bow" }
                delete Sailor where slug = "eli"
                update Boat set { name: "Comet II" } where sail = "GBR-12"
            }
        """)
        edges = graph.schema.catalog.edges
        boxes: dict[tuple[str, str], Box] = {}
        ends: list[tuple[tuple[str, str], tuple[str, str], str]] = []
        for change in branch.diff("main"):
            now = change.after or change.before
            values = change.to_json()
            if change.kind == "node":
                before, after = (values.get(state, {}).get("properties", {}) for state in ("before", "after"))
                told = (f"{name}: {before[name]} → {after[name]}" for name in change.changed)
                boxes[change.type.name, change.id] = Box(
                    title=f"{change.type.name} {change.id}", kind=_DONE[change.op], lines=tuple(told)
                )
            elif now is not None and now.endpoints is not None:
                edge, points = edges[change.type.name], now.endpoints
                source, target = (edge.from_type, points.source), (edge.to_type, points.target)
                ends.append((source, target, f"{_MARKS[change.op]} {edge.name}"))
        for source, target, _ in ends:
            for name, key in (source, target):
                boxes.setdefault((name, key), Box(title=f"{name} {key}", kind="unchanged"))
        # Colours follow the order in which the kinds of boxes first appear.
        order = sorted(boxes, key=lambda key: ("unchanged", *_DONE.values()).index(boxes[key].kind))
        links = (
            Link(source=order.index(source), target=order.index(target), label=label) for source, target, label in ends
        )
        title = "What the branch season changes"
        return draw_svg(Picture(title=title, boxes=tuple(boxes[key] for key in order), links=tuple(links)))


_DONE: Mapping[str, str] = {"update": "updated", "insert": "inserted", "delete": "deleted"}
_MARKS: Mapping[str, str] = {"update": "~", "insert": "+", "delete": "-"}


def _harbour(folder: str) -> omnigraph.Graph:
    """Open a new graph with the example of the sailing club."""
    graph = omnigraph.init(Path(folder) / "harbour.omni", _HARBOUR / "schema.pg")
    graph.load(_HARBOUR / "club.jsonl")
    return graph


def _permission_lines() -> Iterator[str]:
    permissions = tomllib.loads(_PERMISSIONS.read_text(encoding="utf-8"))["permission"]
    for action in dict.fromkeys(name for one in permissions for name in one["needs"]):
        yield ""
        yield f"### `{action}`"
        yield ""
        alone = [one for one in permissions if one["needs"] == [action]]
        shows = [one["what"] for one in alone if one["shows_rows"]]
        others = [one["what"] for one in alone if not one["shows_rows"]]
        more: dict[str, list[str]] = {}
        for one in permissions:
            if action in one["needs"] and len(one["needs"]) > 1:
                besides = " and ".join(f"`{name}`" for name in one["needs"] if name != action)
                more.setdefault(besides, []).append(one["what"])
        if not alone:
            yield "- Alone it allows nothing."
        if shows:
            yield f"- Alone it lets rows out: {'; '.join(shows)}."
        if others:
            yield f"- Alone it allows, without showing a row: {'; '.join(others)}."
        for besides, what in more.items():
            yield f"- Only with {besides}: {'; '.join(what)}."
    yield ""


def _functions_lines() -> Iterator[str]:
    yield "<!-- Generated by docs/generate.py from the code. Do not edit. -->"
    yield ""
    yield "# Functions of the query language"
    yield ""
    yield "A function stands wherever a value does, in reads and in mutations. NULL in gives NULL out, except where the"
    yield "table says otherwise. Aggregates, operators and searches are described in"
    yield "[the reference](query-reference.md)."
    yield ""
    rows = ((f"`{one.signature}`", one.about, f"`{one.example}`") for one in FUNCTIONS.values())
    yield from _table(("function", "value", "this is true"), rows)


def _errors_lines() -> Iterator[str]:
    yield "<!-- Generated by docs/generate.py from the code. Do not edit. -->"
    yield ""
    yield "# Errors and codes"
    yield ""
    yield "Every error has a stable `code`, a `kind`, a message, typed `details` and often a `hint`. It says"
    yield "whether a retry can help (`retry`) and what the failed operation left behind (`effect`). Codes, kinds,"
    yield "rules and lint codes never change their meaning; messages may change."
    yield from _section("Kinds", ("kind", "exit code", "HTTP status", "what to do"), _kind_rows())
    yield from _section("Error codes", ("code", "meaning", "kind", "retry", "effect", "class"), _error_rows())
    yield from _tree()
    yield from _section("Schema check rules", ("rule", "what must hold"), _rule_rows(SCHEMA_RULES))
    yield from _note("Found in `details.rule` of a `schema.check` error.")
    yield from _section("Query check rules", ("code", "what must hold"), _rule_rows(TYPE_RULES))
    yield from _note("Found in `details.rule` of a `query.type` error; empty for a violation without a code.")
    yield from _section("Schema lint codes", ("code", "severity", "meaning"), _lint_rows())
    yield from _section("Query lint codes", ("code", "meaning"), _rule_rows(QUERY_LINT_CODES))
    yield from _section("Migration step codes", ("code", "tier", "meaning", "emitted"), _step_rows())
    yield from _note("The two letters in the middle of a code name its family:")
    yield ""
    yield from _table(("family", "about"), ((f"`{family}`", about) for family, about in FAMILIES.items()))
    yield from _section("Rename hint rules", ("rule", "what went wrong"), _rule_rows(PLAN_RULES))
    yield from _note("Found in `details.rule` of a `schema.plan` error.")


def _kind_rows() -> Iterator[tuple[str, ...]]:
    for kind in Kind:
        yield f"`{kind.word}`", str(kind.exit_code), str(kind.http_status), _KINDS[kind]


def _error_rows() -> Iterator[tuple[str, ...]]:
    for _, cls in sorted(BY_CODE.items()):
        row = cls.row
        summary = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
        yield (
            f"`{row.code}`",
            summary,
            f"`{row.kind.word}`",
            f"`{row.retry.value}`",
            f"`{row.effect.value}`",
            f"`{cls.__name__}`",
        )


def _tree() -> Iterator[str]:
    """Draw the inheritance of all classes, built-in bases in brackets."""
    below: dict[type, set[type]] = {}
    for cls in BY_CODE.values():
        for child, parent in pairwise(one for one in cls.__mro__ if issubclass(one, OmnigraphError)):
            below.setdefault(parent, set()).add(child)
    yield from ("", "## Class tree", "", "```text", OmnigraphError.__name__)
    yield from _branches(OmnigraphError, below, "")
    yield "```"
    yield from _note("In brackets: the built-in class that a class also derives from.")


def _branches(parent: type, below: Mapping[type, set[type]], margin: str) -> Iterator[str]:
    children = sorted(below.get(parent, ()), key=lambda child: child.__name__)
    for child in children:
        is_last = child is children[-1]
        also = [base.__name__ for base in child.__bases__ if not issubclass(base, OmnigraphError)]
        yield f"{margin}{'└── ' if is_last else '├── '}{child.__name__}" + (f" ({', '.join(also)})" if also else "")
        yield from _branches(child, below, margin + ("    " if is_last else "│   "))


def _rule_rows(rules: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for rule, meaning in rules.items():
        yield f"`{rule}`", meaning


def _lint_rows() -> Iterator[tuple[str, ...]]:
    for row in LINT_CODES.values():
        yield f"`{row.code}`", row.severity.value, row.meaning


def _step_rows() -> Iterator[tuple[str, ...]]:
    for row in STEP_CODES.values():
        yield f"`{row.code}`", row.tier.value, row.meaning, "yes" if row.emitted else "reserved"


def _section(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield from _table(head, rows)


def _note(text: str) -> Iterator[str]:
    yield ""
    yield text


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        # A bar inside a cell would end it.
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


PAGES: Mapping[Path, Callable[[], str]] = {
    ERRORS_PAGE: errors_page,
    FUNCTIONS_PAGE: functions_page,
    SECURITY_PAGE: partial(page_with, SECURITY_PAGE, _permission_lines),
    HISTORY_PAGE: partial(page_with, HISTORY_PAGE, _cost_lines),
    LIMITS_PAGE: partial(page_with, LIMITS_PAGE, _limit_lines),
    ALGORITHMS_PAGE: partial(page_with, ALGORITHMS_PAGE, _algorithm_lines),
    GRAPH_PICTURE: graph_picture,
    DIFF_PICTURE: diff_picture,
    document_file(BASE_LEVEL): lambda: build_document(BASE_LEVEL),
    document_file(FULL_LEVEL): lambda: build_document(FULL_LEVEL),
}


if __name__ == "__main__":
    main()
