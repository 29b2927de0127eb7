"""Directories of clusters for tests: two graphs with queries, policies and a provider, and edits of each."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.cluster.declaration import CONFIG_FILE
from omnigraph.cluster.ledger.place import STATE, ClusterPlace
from omnigraph.cluster.session import ClusterSession
from omnigraph.runtime import Runtime

PEOPLE = "node Person { slug: String @key  name: String }\n"
AGED = "node Person { slug: String @key  name: String  age: I32? }\n"
RENUMBERED = "node Person { slug: I32 @key  name: String }\n"
BOOKS = "node Book { slug: String @key  title: String }\n"
FIND = "query find($slug: String) { match { $p: Person { slug: $slug } } return { $p.name } }\n"
LIST = "query list() { match { $b: Book } return { $b.title } }\n"
AGES = "query find($slug: String) { match { $p: Person { slug: $slug } } return { $p.age } }\n"
POLICY = """\
version: 1
groups:
  editors: [act-mira]
rules:
  - id: editors-read
    allow:
      actors: { group: editors }
      actions: [read]
"""


@dataclass
class ClusterDirectory:
    """A directory with ``cluster.yaml``, and the storage root that it names."""

    path: Path
    root: str | None = None
    options: dict[str, str] | None = None
    has_lock: bool = True
    graphs: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    providers: dict[str, str] = field(default_factory=dict)
    name: str = "atlas"

    def file(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def graph(self, graph_id: str, schema: str, query: str | None = None, more: str = "") -> None:
        """Declare a graph; ``more`` are further lines of its section."""
        self.file(f"{graph_id}.pg", schema)
        lines = [f"schema: {graph_id}.pg"]
        if query is not None:
            self.file(f"{graph_id}/queries.gq", query)
            lines.append(f"queries: {graph_id}/")
        self.graphs[graph_id] = "\n".join([*lines, *filter(None, [more])])
        self.write()

    def policy(self, name: str, applies_to: str, text: str = POLICY) -> None:
        """Declare a policy."""
        self.file(f"{name}.yaml", text)
        self.policies[name] = f"file: {name}.yaml\napplies_to: [{applies_to}]"
        self.write()

    def provider(self, name: str, profile: str = "kind: mock") -> None:
        """Declare an embedding provider."""
        self.providers[name] = profile
        self.write()

    def drop_graph(self, graph_id: str) -> None:
        """Declare a graph no longer."""
        del self.graphs[graph_id]
        self.write()

    def write(self) -> None:
        """Write ``cluster.yaml``."""
        lines = ["version: 1", f"metadata: {{ name: {self.name} }}"]
        if self.root is not None:
            lines.append(f"storage: {self.root}")
        lines.append(f"state: {{ backend: cluster, lock: {str(self.has_lock).lower()} }}")
        if self.providers:
            lines += ["providers:", "  embedding:", *_section(self.providers, 4)]
        lines += ["graphs:", *_section(self.graphs, 2)] if self.graphs else ["graphs: {}"]
        if self.policies:
            lines += ["policies:", *_section(self.policies, 2)]
        self.file(CONFIG_FILE, "\n".join(lines) + "\n")

    def session(self, runtime: Runtime | None = None) -> ClusterSession:
        """Return the commands on the cluster, as another process would have them."""
        return ClusterSession(str(self.path), options=self.options, runtime=runtime)

    def place(self) -> ClusterPlace:
        """Return the storage root."""
        return ClusterPlace(str(self.path) if self.root is None else self.root, self.options)

    def state(self) -> dict:
        """Return the ledger as JSON."""
        return json.loads(self.place().objects.get(STATE))

    def edit_state(self, edit) -> None:
        """Change the ledger by hand."""
        document = self.state()
        edit(document)
        self.place().objects.put(STATE, json.dumps(document).encode())


def _section(parts: dict[str, str], indent: int) -> list[str]:
    return [textwrap.indent(f"{name}:\n" + textwrap.indent(text, "  "), " " * indent) for name, text in parts.items()]


def small(path: Path, **given) -> ClusterDirectory:
    """One graph with a query."""
    found = ClusterDirectory(path, **given)
    found.graph("crm", PEOPLE, FIND)
    return found


def whole(path: Path, **given) -> ClusterDirectory:
    """Two graphs, a provider that one of them uses, and a policy for each and for the cluster."""
    found = ClusterDirectory(path, **given)
    found.provider("vec")
    found.graph("books", BOOKS, LIST)
    found.graph("crm", PEOPLE, FIND, "embedding_provider: vec")
    found.policy("crm-acl", "crm")
    found.policy("books-acl", "books")
    return found


def codes(report) -> list[str]:
    """Return the codes of all findings of a report."""
    return [finding.code for finding in report.findings.items]


def dispositions(changes) -> dict[str, str]:
    """Return what becomes of each change, with its reason."""
    return {
        change.resource: change.disposition.value + ("" if change.reason is None else f"/{change.reason}")
        for change in changes
    }
