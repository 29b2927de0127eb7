"""Random small graphs, the same for the same number; higher numbers give larger ones."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from omnigraph.engine.mutate.values import rows_of
from omnigraph.runtime import Runtime
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.prop.read_schemas import SCHEMA_TEXTS, SCHEMAS, pool
from tests.query_graph import build_indexes
from tests.query_oracle import Graph, Kind, Schema
from tests.session_graph import create_graph, open_session

GRAPH_COUNT = 72
_KEYS = {
    "String": ("a", "b", "c", "d", "e", "f", "B", "ab", "é"),
    "I64": (-2, 0, 1, 2, 9, 10, 11, 100, 2**53 + 1),
    "I32": (-1, 0, 2, 3, 9, 10, 20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGraph:
    """A graph in storage and the same graph in plain dictionaries."""

    schema: Schema
    graph: Graph
    session: object


class GraphShelf:
    """Makes the graphs on demand and keeps them open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[int, StoredGraph] = {}

    def get(self, number: int) -> StoredGraph:
        """Return graph ``number``; every third one is indexed, every third in part."""
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number]

    def close(self) -> None:
        """Close every graph."""
        for stored in self._made.values():
            stored.session.close()

    def _make(self, number: int) -> StoredGraph:
        which = number % len(SCHEMAS)
        schema, rng = SCHEMAS[which], Random(number)  # noqa: S311 - the same graphs for everyone, no secret
        graph = random_graph(rng, schema, size=2 + number // 10)
        root = self._folder / f"graph-{number}"
        shutil.copytree(self._template(which), root)
        session = open_session(root, runtime=Runtime.seeded(number))
        store(session, rng, schema, graph, indexes=("none", "partial", "full")[number // len(SCHEMAS) % 3])
        return StoredGraph(schema=schema, graph=graph, session=session)

    def _template(self, which: int) -> Path:
        root = self._folder / f"template-{which}"
        if not root.exists():
            create_graph(root, SCHEMA_TEXTS[which], runtime=Runtime.seeded(1))
        return root


def random_graph(rng: Random, schema: Schema, size: int) -> Graph:
    """Return a graph with up to ``size`` nodes per type."""
    nodes = {name: _nodes(rng, kinds, size) for name, kinds in schema.nodes.items()}
    edges = {}
    for name, shape in schema.edges.items():
        sources, targets = list(nodes[shape.source]), list(nodes[shape.target])
        count = rng.randint(size, 2 * size) if sources and targets and rng.random() < 0.9 else 0
        edges[name] = {}
        for number in range(count):
            source, target = rng.choice(sources), rng.choice(targets)
            if shape.is_same_type and rng.random() < 0.2:
                target = source
            props = _row(rng, shape.properties)
            chosen = f"{rng.choice('xyz')}{number}"
            if name == "Contains":
                chosen = json.dumps([source, target, props["match"]], separators=(",", ":"), ensure_ascii=False)
            edges[name][chosen] = (source, target, props)
    return Graph(nodes=nodes, edges=edges)


def store(session, rng: Random, schema: Schema, graph: Graph, indexes: str) -> None:
    """Write the graph in two commits, the first with rows that the second replaces or removes."""
    first, second, gone, replaced = {}, {}, {}, set()
    for name in [*schema.nodes, *schema.edges]:
        rows = [_stored(schema, graph, name, chosen) for chosen in _table(graph, name)]
        doomed = [{**row, "id": f"gone-{row['id']}"} for row in rows if rng.random() < 0.3]
        late = [row for row in rows if rng.random() < 0.3]
        early = [row for row in rows if row not in late]
        stale = [_stale(rng, schema.properties(name), row) for row in late if rng.random() < 0.5]
        first[name], second[name], gone[name] = early + stale + doomed, late, [row["id"] for row in doomed]
        replaced |= {(name, row["id"]) for row in late if row not in stale}
    early_version = _commit(session, first, {})
    if indexes == "partial":
        build_indexes(session)
    late_version = _commit(session, second, gone)
    for name in [*schema.nodes, *schema.edges]:
        for chosen in _table(graph, name):
            graph.versions[name, chosen] = late_version if (name, chosen) in replaced else early_version
    if indexes == "full":
        build_indexes(session)


def _commit(session, upserts, deletes) -> str:
    catalog = session.catalog()
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.INSERT)
    for name, rows in upserts.items():
        owner = catalog.nodes.get(name) or catalog.edges[name]
        if rows:
            txn.upsert(owner.table_key, rows_of(owner, rows))
        if deletes.get(name):
            txn.delete(owner.table_key, deletes[name])
    return "" if txn.is_empty else str(branch_writer.commit(txn).commit.id)


def _table(graph: Graph, name: str) -> dict:
    return graph.nodes[name] if name in graph.nodes else graph.edges[name]


def _stored(schema: Schema, graph: Graph, name: str, chosen: str) -> dict:
    if name in schema.nodes:
        return {"id": chosen, **graph.nodes[name][chosen]}
    source, target, props = graph.edges[name][chosen]
    return {"id": chosen, "src": source, "dst": target, **props}


def _stale(rng: Random, kinds: dict[str, Kind], row: dict) -> dict:
    return {**row, **_row(rng, kinds)}


def _nodes(rng: Random, kinds: dict[str, Kind], size: int) -> dict[str, dict]:
    found = {}
    count = 0 if rng.random() < 0.08 else rng.randint((size + 1) // 2, size)
    for number in range(count):
        row = _row(rng, kinds)
        first, kind = next(iter(kinds.items()))
        if first == "text":
            found[f"n{number}"] = row
            continue
        row[first] = rng.choice(_KEYS[kind.scalar])
        key = [row["code"], str(row["size"])] if "dueDate" in kinds else [str(row[first])]
        chosen = key[0] if len(key) == 1 else json.dumps(key, separators=(",", ":"), ensure_ascii=False)
        found[chosen] = row
    return found


def _row(rng: Random, kinds: dict[str, Kind]) -> dict:
    return {name: _value(rng, name, kind) for name, kind in kinds.items()}


def _value(rng: Random, name: str, kind: Kind):
    if kind.is_nullable and rng.random() < 0.2:
        return None
    values = pool(name, kind)
    if kind.dimension is not None:
        return [rng.choice(values) for _ in range(kind.dimension)]
    if kind.is_list:
        return [rng.choice(values) for _ in range(rng.randint(0, 5))]
    return rng.choice(values)
