"""A graph that is broken while rows are loaded, and what it must be like afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.auditor import audit
from tests.load_contract import export_of
from tests.load_graph import load_files, load_lines, make_graph
from tests.session_graph import open_session

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32?  @key(src, dst) }\n"
# Of its 200 people 50 are stored already.
ROWS = 200 + 199


class Domain:
    """A graph with some rows, a file to merge into it, and what the embedded engine makes of the two."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.root, self.file = folder / "graph", folder / "rows.jsonl"
        self.file.write_text(_lines(range(50, 250), age=2))
        with make_graph(self.root, SCHEMA) as graph:
            load_lines(graph, folder / "seed.jsonl", _lines(range(100), age=1), "append")
        shutil.copytree(self.root, folder / "other")
        with open_session(folder / "other") as other:
            self.before = export_of(other)
            load_files(other, [str(self.file)], "merge")
            self.after = export_of(other)

    def found(self):
        """Return all rows, of a graph that the auditor finds nothing wrong with."""
        with open_session(self.root) as graph:
            rows = export_of(graph)
        assert audit(str(self.root), {"edge:Knows": "node:Person"}) == []
        return rows


def _lines(numbers: range, age: int) -> str:
    people = [{"type": "Person", "data": {"name": f"p{n:04}", "age": age}} for n in numbers]
    knows = [
        {"edge": "Knows", "from": f"p{n:04}", "to": f"p{n + 1:04}", "data": {"since": 2000 + age}} for n in numbers[:-1]
    ]
    return "".join(json.dumps(row) + "\n" for row in [*people, *knows])
