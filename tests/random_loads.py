"""Random loads, right and wrong ones, for two engines that must end them alike: rows, files, modes and options."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import OmnigraphError
from tests.load_contract import export_of, facts_of, told, without_made_up_ids
from tests.load_graph import export, load_files, make_graph

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    mail: String? @unique
    mood: enum(glad, sad)?
    city: String @default("Rome")
    born: Date?
    marks: [I32]?
    @range(age, 0..150)
    @check(mail, "@")
}
node Team { code: String @key  size: I64 }
node Note { text: String  stars: F64? }
edge Knows: Person -> Person { since: I32?  why: String? }
edge In: Person -> Team { role: String?  @key(src, dst) }
edge Owns: Person -> Note @card(0..2)
"""
MODES = ("append", "merge", "overwrite", "apply")
ENDS = {"Knows": ("Person", "Person"), "In": ("Person", "Team"), "Owns": ("Person", "Note")}
KEYS = {"Person": "name", "Team": "code", "Note": "id"}
_NAMES = {
    "Person": tuple(f"p{number}" for number in range(12)),
    "Team": ("x", "y", "z", "\u00e9", 'quo"te'),
    "Note": tuple(f"n{number}" for number in range(6)),
    "Knows": tuple(f"k{number}" for number in range(8)),
    "Owns": tuple(f"o{number}" for number in range(6)),
}
Row = dict[str, Any]
Stored = Mapping[str, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class RandomLoad:
    """One load: its files, and what it is asked to do with them. ``is_careful`` avoids what would make it fail."""

    mode: str
    files: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    is_careful: bool

    def sources(self, folder: Path) -> list[str]:
        """Return the files as an engine is told of them."""
        return [str(folder / name) for name in self.files]


def stored_ids(graph) -> Stored:
    """Return the ids of everything that a graph holds, by type."""
    found: dict[str, set[str]] = {}
    for row in export(graph):
        found.setdefault(row.get("type") or row["edge"], set()).add(row["data"]["id"])
    return {name: frozenset(ids) for name, ids in found.items()}


def random_load(random: Random, stored: Stored, folder: Path) -> RandomLoad:
    """Write the files of a load; ``stored`` is what the graph holds, so that most of them can succeed."""
    mode = random.choice(MODES)
    is_careful = random.random() < 0.6
    maker = _Rows(random, mode, stored, is_careful=is_careful)
    rows = [row for _ in range(random.randrange(1, 40)) if (row := maker.row()) is not None]
    if not is_careful:
        for _ in range(random.randrange(1, 4)):
            rows.insert(random.randrange(len(rows) + 1), maker.fault())
    if mode == "apply":
        maker.mark(rows)
    if mode == "apply" or random.random() < 0.3:
        random.shuffle(rows)
    files = _write(random, rows, folder)
    options: dict[str, Any] = {}
    if mode == "apply":
        options["on_delete"] = random.choice(("cascade", "cascade", "refuse"))
    if random.random() < 0.4:
        options["limit"] = random.choice((1, 3))
    if random.random() < 0.5:
        options["errors_to"] = True
    return RandomLoad(mode=mode, files=files, options=options, is_careful=is_careful)


class _Rows:
    """Rows of one load, most of which fit each other and the graph."""

    def __init__(self, random: Random, mode: str, stored: Stored, *, is_careful: bool) -> None:
        self._random = random
        self._mode = mode
        self._is_careful = is_careful
        self._stored = stored
        self._there = {name: set(() if mode == "overwrite" else stored.get(name, ())) for name in KEYS}
        self._used: set[tuple[str, str]] = set()
        self._mails = 0
        self._is_readable = random.random() < 0.5

    def row(self) -> Row | None:
        """Return a row; None if none of the kind that was drawn would do."""
        random = self._random
        kind = random.choices((*KEYS, *ENDS), (7, 2, 2, 4, 3, 1))[0]
        return self._node(kind) if kind in KEYS else self._edge(kind)

    def fault(self) -> Any:
        """Return a row that something is wrong with, or text that is none; all those of a load are of one class."""
        random = self._random
        name = random.choice(_NAMES["Person"])
        against_rules = (
            {"type": "Person", "data": {"name": name, "age": 151}},
            {"type": "Person", "data": {"name": name, "mail": "nowhere"}},
            {"type": "Person", "data": {"name": name, "mail": "same@x"}},
            {"type": "Person", "data": {"name": f"{name}-too", "mail": "same@x"}},
            {"edge": "Knows", "from": name, "to": "nobody", "data": {"id": "k1"}},
            {"edge": "Knows", "from": "nobody", "to": "neither", "data": {"id": "lost"}},
            *({"edge": "Owns", "from": name, "to": "n1", "data": {"id": f"more{number}"}} for number in range(3)),
        )
        unreadable = (
            {"type": "Person", "data": {"name": name, "age": "old"}},
            {"type": "Person", "data": {"name": name, "age": 1.5}},
            {"type": "Person", "data": {"name": name, "mood": "bored"}},
            {"type": "Person", "data": {"name": name, "born": "2024-02-30"}},
            {"type": "Person", "data": {"name": name, "marks": [1, "2"]}},
            {"type": "Person", "data": {"name": name, "city": None}},
            {"type": "Person", "data": {"name": name, "agee": 3}},
            {"type": "Person", "data": {"age": 3}},
            {"type": "Person", "data": {"name": None}},
            {"type": "Person", "data": {"name": name, "id": "other"}},
            {"type": "Person", "data": [name]},
            {"type": "Persn", "data": {"name": name}},
            {"type": "Team", "data": {"code": "x"}},
            {"type": "Team", "data": {"code": "x", "size": 1 << 63}},
            {"type": "Note", "data": {"stars": 1}},
            {"edge": "Knows", "from": name, "data": {}},
            {"edge": "In", "from": name, "to": "x", "data": {"role": 3}},
            {"edge": "Likes", "from": name, "to": name},
            {"node": "Person", "data": {"name": name}},
            {"type": "Person", "_op": "remove", "_seq": 1, "data": {"name": name}},
            {"type": "Person", "_op": "patch", "_seq": "soon", "data": {"name": name}},
            {"type": "Person", "_op": "delete", "_seq": 2.5, "data": {"name": name}},
            "{broken",
            '{"type": "Person", "type": "Team", "data": {"name": "p1"}}',
            "[1, 2]",
            "",
        )
        return random.choice(against_rules if self._is_readable else unreadable)

    def mark(self, rows: list[Any]) -> None:
        """Give the rows of a change log operations and sequences."""
        random = self._random
        kinds = {name: random.choice(("number", "instant", "none")) for name in (*KEYS, *ENDS)}
        ends = {row[end] for row in rows if isinstance(row, dict) for end in ("from", "to") if end in row}
        at = list(range(len(rows)))
        if random.random() < 0.5:
            random.shuffle(at)
        for number, row in zip(at, rows, strict=True):
            if not isinstance(row, dict) or "_op" in row:
                continue
            name = row.get("type") or row.get("edge")
            data = row.get("data")
            if random.random() < 0.35 and isinstance(data, dict):
                row["_op"] = random.choice(("delete", "patch", "upsert"))
                if self._is_careful and (
                    self._has_end(row, ends) if row["_op"] == "delete" else name in {"Team", "Note"}
                ):
                    row["_op"] = "upsert"
                if row["_op"] == "delete":
                    self._bare(row)
            match kinds.get(name, "none"):
                case "number":
                    row["_seq"] = number
                case "instant":
                    row["_seq"] = f"2026-03-01T12:{number // 60:02}:{number % 60:02}Z"
            if random.random() < 0.02 and not self._is_careful:
                row["_seq"] = random.choice((7, "2026-03-01"))

    def _has_end(self, row: Row, ends: set[str]) -> bool:
        """Whether an edge of the log needs the node of a row."""
        return "type" in row and row["data"].get(KEYS[row["type"]]) in ends

    def _bare(self, row: Row) -> None:
        key = KEYS.get(row.get("type", ""), "id")
        row["data"] = {key: row["data"][key]} if key in row["data"] else {}

    def _node(self, kind: str) -> Row | None:
        random = self._random
        entity = self._entity(kind)
        if entity is None:
            return None
        self._there[kind].add(entity)
        data: Row = {KEYS[kind]: entity}
        match kind:
            case "Person":
                self._mails += 1
                given = {
                    "age": random.choice((None, 0, 7, 150)),
                    "mail": None if random.random() < 0.5 else f"{entity}.{self._mails}@x",
                    "mood": random.choice((None, "glad", "sad")),
                    "city": random.choice(("Oslo", "Bonn")),
                    "born": random.choice((None, "1990-01-31")),
                    "marks": random.choice((None, [], [1, 2])),
                }
                data |= {name: value for name, value in given.items() if random.random() < 0.5}
            case "Team":
                data |= {"size": random.randrange(-3, 1 << 40)}
            case "Note":
                data |= {"text": random.choice(("", "a\nb", "\u00fc", ",")), "stars": random.choice((None, 0.5, -0.0))}
        return {"type": kind, "data": data}

    def _edge(self, kind: str) -> Row | None:
        random = self._random
        start, end = (sorted(self._there[name]) for name in ENDS[kind])
        if not start or not end:
            return None
        ends = {"from": random.choice(start), "to": random.choice(end)}
        if kind == "In":
            entity = json.dumps([ends["from"], ends["to"]], separators=(",", ":"), ensure_ascii=False)
            if not self._may_take(kind, entity):
                return None
            return {"edge": kind, **ends, "data": {"role": random.choice((None, "a", "b"))}}
        entity = self._entity(kind)
        if entity is None:
            return None
        given = {"since": random.choice((None, 1)), "why": "w"} if kind == "Knows" else {}
        data = {name: value for name, value in given.items() if random.random() < 0.5}
        # Some edges leave their id to be made up; those of a change log need one to be told apart.
        if self._mode == "apply" or random.random() < 0.8:
            data["id"] = entity
        return {"edge": kind, **ends, "data": data}

    def _entity(self, kind: str) -> str | None:
        for _ in range(4):
            entity = self._random.choice(_NAMES[kind])
            if self._may_take(kind, entity):
                return entity
        return None

    def _may_take(self, kind: str, entity: str) -> bool:
        """Whether a row of an entity would not make a careful load fail."""
        is_new = (kind, entity) not in self._used
        self._used.add((kind, entity))
        if not self._is_careful or self._mode == "apply":
            return True
        return is_new and not (self._mode == "append" and entity in self._stored.get(kind, ()))


def _write(random: Random, rows: list[Any], folder: Path) -> tuple[str, ...]:
    """Write rows to one file of lines or two, and some that are whole as a table of their type."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    if random.random() < 0.3:
        kind = random.choice(("Person", "Team", "In"))
        some = [row for row in rows if isinstance(row, dict) and (row.get("type") or row.get("edge")) == kind]
        # A table has scalars, and no members that a type does not have.
        some = [row for row in some if isinstance(row.get("data"), dict) and "marks" not in row["data"]]
        # A cell that is left out is null, which is not what a member that is left out means.
        some = [row for row in some if kind != "Person" or "city" in row["data"]]
        if some and len({type(row.get("_seq")) for row in some}) == 1:
            rows = [row for row in rows if not any(row is one for one in some)]
            files.append(_write_table(random, kind, some, folder))
    cut = random.randrange(len(rows) + 1) if random.random() < 0.3 else len(rows)
    for number, part in enumerate((rows[:cut], rows[cut:])):
        if part or not (files or number):
            lines = [
                row if isinstance(row, str) else json.dumps(row, ensure_ascii=random.random() < 0.5) for row in part
            ]
            name = f"rows{number}.jsonl"
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            files.append(name)
    random.shuffle(files)
    return tuple(files)


def _write_table(random: Random, kind: str, rows: list[Row], folder: Path) -> str:
    flat = [
        {**row["data"], **{name: row[name] for name in ("from", "to", "_op", "_seq") if name in row}} for row in rows
    ]
    names = list(dict.fromkeys(name for row in flat for name in row))
    is_plain = all(len({type(row[name]) for row in flat if row.get(name) is not None}) <= 1 for name in names)
    if is_plain and random.random() < 0.5:
        try:
            table = pa.table({name: [row.get(name) for row in flat] for name in names})
        except (pa.ArrowException, OverflowError):
            pass
        else:
            pq.write_table(table, folder / f"{kind}.parquet")
            return f"{kind}.parquet"
    text = io.StringIO()
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(flat)
    (folder / f"{kind}.csv").write_text(text.getvalue(), encoding="utf-8")
    return f"{kind}.csv"


def compare_loads(seed: int, loads: int, folder: Path, load_there: Callable[..., Any]) -> list[str]:
    """Run random loads on two graphs, here by the embedded load and there by another; return how each ended.

    Both must give the same counts or the same error, with its places, the same file of problems and the same graph.
    """
    random = Random(seed)  # noqa: S311 - a seeded generator is what makes the run repeatable
    folder.mkdir(parents=True, exist_ok=True)
    ends = []
    with make_graph(folder / "here", SCHEMA) as here, make_graph(folder / "there", SCHEMA) as there:
        for number in range(loads):
            asked = random_load(random, stored_ids(here), folder / f"load{number}")
            wanted, found = (
                _outcome(run, graph, asked, folder / f"load{number}", name)
                for run, graph, name in ((load_files, here, "here"), (load_there, there, "there"))
            )
            # Edges whose ids are made up differ between the graphs from then on; they are compared without them.
            assert found == wanted, f"seed {seed}, load {number}: {asked}"
            assert export_of(there) == export_of(here), f"seed {seed}, load {number}: {asked}"
            ends.append(f"{asked.mode} {wanted[0]}")
    return ends


def _outcome(run, graph, asked, folder, name):
    options = dict(asked.options)
    problems = folder / f"{name}.problems"
    if options.get("errors_to"):
        options["errors_to"] = problems
    before = export(graph)
    try:
        done = run(graph, asked.sources(folder), asked.mode, **options)
    except OmnigraphError as error:
        assert export(graph) == before, "a load that failed has changed the graph"
        facts = facts_of(error)
        text = without_made_up_ids(problems.read_text(encoding="utf-8")) if problems.exists() else ""
        if '"*"' in text or "'*'" in json.dumps(facts):
            # Which of several edges with ids of their own graph come first, and into a limit, is a matter of luck.
            return error.code, facts["details"]["total"], sorted(text.splitlines())
        return error.code, facts, text
    return "succeeded", told(done), done.changes
