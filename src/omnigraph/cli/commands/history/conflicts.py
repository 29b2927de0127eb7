"""Conflicts on the command line: written to a file to be decided, and read back with the decisions.

A file is JSON lines, one row per property in conflict, or CSV if its name ends so. Any JSON document that a command
prints about conflicts can be read, too. Rows are decided by filling in ``resolution``.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.files import read_input, refuse_second_stdin, write_new_file
from omnigraph.cli.options import Resolve
from omnigraph.errors import DecisionProblem, DecisionProblems, MergeConflictsError, MergeDecisionError
from omnigraph.records import record
from omnigraph.values.checks import LARGEST

if TYPE_CHECKING:
    from omnigraph.history.merge import Conflicts

_ROWS = "conflict_rows"
# Cells of CSV that hold JSON texts; the others are plain.
_JSON_CELLS = {"base", "ours", "theirs"}
_CSV = ".csv"
_MOST_BYTES = 1 << 30
_SUGGESTED = "conflicts.jsonl"
_DECODER = json.JSONDecoder()

ResolveWith = Annotated[
    list[str] | None,
    typer.Option(
        "--resolve-with",
        metavar="FILE",
        help=(
            "Resolve conflicts with the decisions in this file, which --conflicts-out wrote; "
            "--resolve decides the rest."
        ),
    ),
]
ConflictsOut = Annotated[
    str | None,
    typer.Option(
        "--conflicts-out",
        metavar="FILE",
        help=(
            "Write the conflicts to this new file, to add decisions there: JSON lines, or CSV if its name ends in .csv."
        ),
    ),
]


@record
class ConflictOptions:
    """How a command decides conflicts, and where it writes those that are left."""

    resolve: Resolve = None
    resolve_with: ResolveWith = None
    conflicts_out: ConflictsOut = None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a request that decides conflicts.

        Raises:
            MergeDecisionError: a file holds something else than decisions.
            FileMissingError, FileAccessError: a file cannot be read, or the one to write exists already.
        """
        if self.conflicts_out is not None:
            # What it holds may have been decided by hand.
            write_new_file(self.conflicts_out, None)
        paths = self.resolve_with or []
        refuse_second_stdin(paths)
        decisions = [row for path in paths for row in read_decisions(path)]
        # A file holds all of them, however many there are.
        most = {} if self.conflicts_out is None else {"max_conflicts": LARGEST}
        return {"resolve": self.resolve, "decisions": decisions, **most}

    def next_step(self, conflicts: Conflicts, command: Sequence[str]) -> str | None:
        """Write conflicts if that is asked for, and say what to run next; None if no decision can settle them."""
        if self.conflicts_out is not None:
            write_new_file(self.conflicts_out, _encoded(conflicts, self.conflicts_out))
        from omnigraph.history.merge.conflicts import DECIDABLE  # noqa: PLC0415 - loaded only for conflicts

        if not any(conflict.kind in DECIDABLE for conflict in conflicts):
            return None
        given = [part for path in self.resolve_with or () for part in ("--resolve-with", path)]
        given += [] if self.resolve is None else ["--resolve", self.resolve]
        run = shlex.join(["omnigraph", *command, *given])
        if self.conflicts_out is None:
            return f"write them to a file to decide them: {run} --conflicts-out {_SUGGESTED}"
        words = "ours, theirs, base or a value"
        out = shlex.quote(self.conflicts_out)
        return f"fill in resolution in {out} ({words}), then run: {run} --resolve-with {out}"

    @contextmanager
    def explaining(self, command: Sequence[str]) -> Iterator[None]:
        """Give a refusal because of conflicts the hint that says what to run next."""
        try:
            yield
        except MergeConflictsError as refused:
            refused.hint = self.next_step(refused.conflicts, command) or refused.hint
            raise


def read_decisions(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, each with its place in it.

    Raises:
        MergeDecisionError: it is neither JSON nor CSV with the right columns.
        FileMissingError, FileAccessError: it cannot be read.
    """
    source = read_input(path, most=_MOST_BYTES)
    if len(source.data) > _MOST_BYTES:
        raise _refusal(source.name, 1, f"it has more than {_MOST_BYTES} bytes")
    try:
        text = source.data.decode()
    except UnicodeDecodeError as problem:
        line = source.data.count(b"\n", 0, problem.start) + 1
        raise _refusal(source.name, line, "invalid UTF-8") from problem
    read = _csv_rows if path.lower().endswith(_CSV) else _json_rows
    yield from read(source.name, text)


def _json_rows(name: str, text: str) -> Iterator[dict[str, Any]]:
    try:
        line, last = 1, 0
        for start, row in _found(text):
            line, last = line + text.count("\n", last, start), start
            if not isinstance(row, dict):
                raise _refusal(name, line, "a decision must be a JSON object")
            yield {**row, "place": f"{name}:{line}"}
    except json.JSONDecodeError as problem:
        raise _refusal(name, problem.lineno, f"invalid JSON: {problem.msg.lower()}") from problem
    except RecursionError as problem:
        raise _refusal(name, 1, "it is nested too deeply") from problem


def _found(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a text and where each starts: of lines, of lists, and of documents that hold such a list."""
    place = _skip(text, 0)
    while place < len(text):
        value, end = _DECODER.raw_decode(text, place)
        if isinstance(value, list):
            yield from _items(text, place)
        elif isinstance(value, dict) and _ROWS in value:
            yield from _items(text, _member(text, place))
        else:
            yield place, value
        place = _skip(text, end)


def _items(text: str, start: int) -> Iterator[tuple[int, Any]]:
    if text[start] != "[":
        raise json.JSONDecodeError(f"'{_ROWS}' must be a list", text, start)
    place = _skip(text, start + 1)
    while text[place] != "]":
        value, end = _DECODER.raw_decode(text, place)
        yield place, value
        place = _skip(text, end)
        place = _skip(text, place + 1) if text[place] == "," else place


def _member(text: str, start: int) -> int:
    """Return where the list of rows starts in a document that has one; the document was read already."""
    place = _skip(text, start + 1)
    while True:
        name, end = _DECODER.raw_decode(text, place)
        place = _skip(text, _skip(text, end) + 1)
        if name == _ROWS:
            return place
        place = _skip(text, _skip(text, _DECODER.raw_decode(text, place)[1]) + 1)


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _csv_rows(name: str, text: str) -> Iterator[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    line = 1
    try:
        for cells in reader:
            first, line = line + 1, reader.line_num
            if None in cells or None in cells.values():
                raise _refusal(name, first, "the row has another number of cells than the header")
            yield {
                **{column: _cell(name, first, column, cell) for column, cell in cells.items()},
                "place": f"{name}:{first}",
            }
    except csv.Error as problem:
        raise _refusal(name, line + 1, f"invalid CSV: {str(problem).lower()}") from problem


def _cell(name: str, line: int, column: str, cell: str) -> Any:
    if not cell:
        return None
    if column in _JSON_CELLS or (column == "resolution" and not cell.isalpha()):
        try:
            return json.loads(cell)
        except ValueError as problem:
            raise _refusal(name, line, f"column '{column}' is not valid JSON") from problem
    return cell


def _encoded(conflicts: Conflicts, path: str) -> str:
    rows = conflicts.to_json()
    if not path.lower().endswith(_CSV):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    text = io.StringIO()
    names = list(rows[0]) if rows else []
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_csv_text(column, row[column]) for column in names])
    return text.getvalue()


def _csv_text(column: str, value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if column in _JSON_CELLS else str(value)


def _refusal(name: str, line: int, message: str) -> MergeDecisionError:
    place = f"{name}:{line}"
    problem = DecisionProblem(message=message, place=place)
    return MergeDecisionError(
        f"{place}: {message}",
        details=DecisionProblems(items=(problem,)),
        hint="pass a file that --conflicts-out wrote, with its resolution column filled in",
    )
