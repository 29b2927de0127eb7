"""What a graph of a mixed run holds, and what single writes do to it; told once more, without the engine.

Every process owns the nodes whose ids begin with its name and the edges that start at them, so that it knows at any
moment what it must find. A few nodes are everybody's; history alone tells whose value they have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = """
node Person { name: String @key  owner: I64 @index  value: I64  note: String? @index }
edge Knows: Person -> Person { serial: I64 }
"""
PERSON, KNOWS = "node:Person", "edge:Knows"
SHARED = tuple(f"shared-{number}" for number in range(4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a write means: values of nodes, nodes that go with their edges, and edges by serial."""

    put: Mapping[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    link: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    unlink: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the change as a journal keeps it."""
        return {
            "put": dict(self.put),
            "drop": list(self.drop),
            "link": [[serial, *ends] for serial, ends in self.link.items()],
            "unlink": list(self.unlink),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        """Return the change that :meth:`to_json` wrote down."""
        return cls(
            put=data["put"],
            drop=tuple(data["drop"]),
            link={serial: (src, dst) for serial, src, dst in data["link"]},
            unlink=tuple(data["unlink"]),
        )

    def of(self, owner: str) -> Change:
        """Return what of it concerns the rows of one process."""
        return Change(
            put={name: value for name, value in self.put.items() if name.startswith(owner)},
            drop=self.drop,
            link=self.link,
            unlink=self.unlink,
        )


@dataclass(slots=True)
class Content:
    """Nodes by id with their value, edges by serial with their ends."""

    nodes: dict[str, int] = field(default_factory=dict)
    edges: dict[int, tuple[str, str]] = field(default_factory=dict)

    def copy(self) -> Content:
        """Return a content of its own."""
        return Content(dict(self.nodes), dict(self.edges))

    def apply(self, change: Change) -> Change:
        """Do what a change says and return what would undo it."""
        gone = set(change.drop)
        cut = {n: ends for n, ends in self.edges.items() if n in change.unlink or gone & set(ends)}
        before = {name: self.nodes[name] for name in (*change.put, *change.drop) if name in self.nodes}
        fresh = tuple(name for name in change.put if name not in self.nodes)
        linked = tuple(serial for serial in change.link if serial not in self.edges)
        self.edges = {n: ends for n, ends in self.edges.items() if n not in cut} | dict(change.link)
        self.nodes = {n: value for n, value in self.nodes.items() if n not in gone} | dict(change.put)
        return Change(put=before, drop=fresh, link=cut, unlink=linked)

    def of(self, owner: str) -> Content:
        """Return what of it one process owns."""
        return Content(
            {name: value for name, value in self.nodes.items() if name.startswith(owner)},
            {serial: ends for serial, ends in self.edges.items() if ends[0].startswith(owner)},
        )

    def differences(self, real: Content) -> list[str]:
        """Return where ``real`` is something else."""
        found = [
            f"id={name} meant={self.nodes.get(name)} real={real.nodes.get(name)}"
            for name in sorted(self.nodes.keys() | real.nodes.keys())
            if self.nodes.get(name) != real.nodes.get(name)
        ]
        found += [
            f"edge={serial} meant={self.edges.get(serial)} real={real.edges.get(serial)}"
            for serial in sorted(self.edges.keys() | real.edges.keys())
            if self.edges.get(serial) != real.edges.get(serial)
        ]
        return found


def read_lines(data: bytes) -> tuple[Content, int]:
    """Return what exported lines hold, and how many rows they are."""
    content, rows = Content(), 0
    for line in data.splitlines():
        item = json.loads(line)
        rows += 1
        if "type" in item:
            content.nodes[item["data"]["name"]] = item["data"]["value"]
        else:
            content.edges[item["data"]["serial"]] = (item["from"], item["to"])
    return content, rows


def read_tables(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> Content:
    """Return what rows of tables hold."""
    return Content(
        {row["id"]: row["value"] for row in tables[PERSON]},
        {row["serial"]: (row["src"], row["dst"]) for row in tables[KNOWS]},
    )


def to_lines(change: Change, owner_number: int) -> str:
    """Return the nodes and edges that a change puts as a file to load."""
    lines: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": name, "owner": owner, "value": value, "note": f"word{owner} v{value}"}}
        for name, value in change.put.items()
        for owner in (-1 if name in SHARED else owner_number,)
    ]
    lines += [
        {"edge": "Knows", "from": src, "to": dst, "data": {"serial": serial}}
        for serial, (src, dst) in change.link.items()
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)
