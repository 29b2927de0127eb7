"""A small directory of a cluster that is valid, as texts that tests change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SCHEMA = """\
node Person {
    slug: String @key
    name: String
}
"""
QUERIES = """\
query one($slug: String) { match { $p: Person { slug: $slug } } return { $p.name } }

query add($slug: String, $name: String) { insert Person { slug: $slug, name: $name } }
"""
GRAPH_POLICY = """\
version: 1
groups:
  all: [act-mira]
rules:
  - id: read
    allow: { actors: { group: all }, actions: [read], branch_scope: any }
"""
SERVER_POLICY = """\
version: 1
kind: server
groups:
  all: [act-mira]
rules:
  - id: list
    allow: { actors: { group: all }, actions: [graph_list] }
"""
CONFIG = """\
version: 1
metadata: { name: atlas }
providers:
  embedding:
    vec: { kind: openai, model: small, api_key: "${VEC_KEY}" }
graphs:
  crm:
    schema: crm.pg
    queries: gq/
    embedding_provider: vec
policies:
  acl: { file: acl.yaml, applies_to: [crm] }
  ops: { file: ops.yaml, applies_to: [cluster] }
"""
FILES: Mapping[str, str] = {
    "cluster.yaml": CONFIG,
    "crm.pg": SCHEMA,
    "gq/people.gq": QUERIES,
    "acl.yaml": GRAPH_POLICY,
    "ops.yaml": SERVER_POLICY,
}


def write_directory(root: Path, changed: Mapping[str, str | bytes | None] | None = None) -> Path:
    """Write the directory below ``root`` with some of its files changed; None leaves a file out."""
    for name, text in {**FILES, **(changed or {})}.items():
        if text is None:
            continue
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root
