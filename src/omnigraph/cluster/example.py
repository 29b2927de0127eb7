"""A first directory of a cluster for people to change: it validates, and says what everything in it is for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from omnigraph.cluster.declaration import CONFIG_FILE
from omnigraph.errors import BadValue, FileAccessError

_CONFIG = """\
# What this cluster consists of. `omnigraph cluster plan` shows what would change,
# `omnigraph cluster apply` makes it so. Servers serve what was applied last.
version: 1
metadata:
  name: example

# Where graphs and ledger live; this directory if left out.
# storage: s3://bucket/prefix

# While a command changes the cluster, others wait for the lock.
state:
  backend: cluster
  lock: true

# Who computes vectors. A key never stands here: name the variable that holds it.
# providers:
#   embedding:
#     vectors:
#       kind: openai
#       api_key: ${OPENAI_API_KEY}

graphs:
  people:
    schema: people.pg
    # A directory of .gq files, a file, a list of both, or names with their files.
    queries: queries/
    # embedding_provider: vectors
    # external_blobs:
    #   allow:
    #     - { base: s3://bucket/files/, scope: server_safe }

# Who may do what: a bundle applies to graphs, or to the cluster as a whole.
policies:
  people:
    file: policies/people.yaml
    applies_to: [people]
  cluster:
    file: policies/cluster.yaml
    applies_to: [cluster]
"""

_SCHEMA = """\
// The types of the graph. Change them here and apply: rows that exist are migrated.
node Person {
    slug: String @key
    name: String
}

node Team {
    slug: String @key
    title: String?
}

edge WorksIn: Person -> Team {
    since: Date?
}
"""

_QUERIES = """\
// Stored queries are invoked by name: POST /graphs/people/queries/find_person
query find_person($slug: String) @description("One person by slug.") {
    match { $p: Person { slug: $slug } }
    return { $p.slug, $p.name }
}

query team_members($team: String) @description("Who works in a team.") {
    match {
        $t: Team { slug: $team }
        $p worksIn $t
    }
    return { $p.slug, $p.name }
    order { $p.slug }
}

query add_person($slug: String, $name: String) @description("Adds a person.") {
    insert Person { slug: $slug, name: $name }
}
"""

_POLICY = """\
# Rules permit; what no rule permits is denied. Actors are those that tokens stand for.
version: 1
groups:
  readers: [act-mira, act-jon]
  editors: [act-mira]
protected_branches: [main]
rules:
  - id: readers-read
    allow:
      actors: { group: readers }
      actions: [read]
      branch_scope: any
  - id: readers-invoke
    allow:
      actors: { group: readers }
      actions: [invoke_query]
  - id: editors-change
    allow:
      actors: { group: editors }
      actions: [change]
      branch_scope: any
"""

_CLUSTER_POLICY = """\
# Who may list the graphs of a server.
version: 1
kind: server
groups:
  operators: [act-mira]
rules:
  - id: operators-list
    allow:
      actors: { group: operators }
      actions: [graph_list]
"""

FILES: Mapping[str, str] = MappingProxyType(
    {
        CONFIG_FILE: _CONFIG,
        "people.pg": _SCHEMA,
        "queries/people.gq": _QUERIES,
        "policies/people.yaml": _POLICY,
        "policies/cluster.yaml": _CLUSTER_POLICY,
    }
)
"""The files of the example by their paths."""


def write_example(directory: str) -> tuple[str, ...]:
    """Write the example into a directory, which is made if need be, and return the files.

    Raises:
        FileAccessError: one of the files exists already, so that none was written; or the directory cannot be written.
    """
    root = Path(directory)
    paths = {root / name: text for name, text in FILES.items()}
    try:
        for path in paths:
            if path.exists():
                details = BadValue(what="file", value=str(path), expected="a file that does not exist")
                hint = "name another directory with --config, or delete the file"
                raise FileAccessError(f"file '{path}' exists already", details=details, hint=hint)
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="") as stream:
                stream.write(text)
    except OSError as problem:
        why = (problem.strerror or "unwritable").lower()
        details = BadValue(what="directory", value=directory, expected="a directory that can be written")
        raise FileAccessError(f"cannot write into '{directory}': {why}", details=details) from problem
    return tuple(map(str, paths))
