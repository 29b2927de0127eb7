"""The auditor: says what is wrong with a graph, looking only at what lies on storage.

It shares no code with the engine. The layout and the row format are spelled out here a second time, so that a
mistake in the engine's own reading of them cannot hide itself.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import lance
import obstore
from obstore.store import LocalStore, S3Store

from tests.auditor_proposals import proposal_findings

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_TYPES = {"table", "table_tombstone", "schema", "graph_commit", "graph_head"}
_COMMIT_KEYS = {
    "id", "parent", "actor", "created_at_ms", "manifest_version", "operation", "branch", "merged_parent", "message",
    "published_at_ms", "touched",
}  # fmt: skip
_HEAD_KEYS = {"graph_id", "incarnation", "commit", "writer_epoch", "floor"}
_RECOVERY_KINDS = {"RolledForward", "RolledBack", "OrphanedBranchDiscarded"}
_AUDIT = "_graph_commit_recoveries.lance"

TEST_GRAPH_EDGES: Mapping[str, str] = {"edge:Knows": "node:Person"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A branch: its name and the Lance branch of the manifest that it is; None for main."""

    name: str
    lance_branch: str | None

    def owns(self, table_branch: str | None) -> bool:
        """Whether a table line is written by this branch alone."""
        if self.lance_branch is None:
            return table_branch is None
        return table_branch is not None and table_branch.startswith(f"{self.lance_branch}.")


@dataclass(slots=True, kw_only=True)
class Evidence:
    """One branch as it was found: commits from oldest to newest, and the rows of every table by table key."""

    line: Line
    version: int
    floor: int = 0
    commits: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    row_counts: dict[int, dict[str, int]] = field(default_factory=dict)


class Auditor:
    """Examines one graph. ``findings`` fills up while it looks; an empty list is a clean bill."""

    def __init__(self, root: str, options: Mapping[str, str] | None = None, *, edges: Mapping[str, str] | None = None):
        self.root = str(root).rstrip("/")
        self.findings: list[str] = []
        self._options = dict(options or {})
        self._edges = TEST_GRAPH_EDGES if edges is None else edges
        # Datasets of one session share a client as long as one of them is held; to make a client takes longer than to
        # read a small table.
        self._session = lance.Session()
        self._held: lance.LanceDataset | None = None

    def run(self) -> dict[str, Evidence]:
        """Look at everything; return what each readable branch holds."""
        found = {}
        for key in self._keys("__recovery"):
            self._report(f"a sidecar is left key={key}")
        for line in self._lines():
            evidence = self._branch(line)
            if evidence is not None:
                found[line.name] = evidence
        self._audit_log(found)
        lines = {name: (evidence.line.lance_branch, evidence.commits) for name, evidence in found.items()}
        self.findings += proposal_findings(self._keys("__proposals"), self._read, lines)
        return found

    def audit_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the recovery log; none when no recovery ever happened."""
        # Its first files are there before its first version.
        if not self._keys(f"{_AUDIT}/_versions"):
            return []
        rows: list[dict[str, Any]] = self._dataset(_AUDIT, None).to_table().to_pylist()
        return rows

    def _report(self, finding: str) -> None:
        self.findings.append(finding)

    def _dataset(self, location: str, branch: str | None, version: int | None = None) -> lance.LanceDataset:
        uri = f"{self.root}/{location}" if branch is None else f"{self.root}/{location}/tree/{branch}"
        found = lance.dataset(uri, version=version, storage_options=self._options or None, session=self._session)
        self._held = found if self._held is None else self._held
        return found

    @cached_property
    def _store(self) -> LocalStore | S3Store:
        if not self.root.startswith("s3://"):
            return LocalStore(self.root)
        bucket, _, prefix = self.root.removeprefix("s3://").partition("/")
        return S3Store(bucket, prefix=prefix or None, config=self._options)

    def _keys(self, prefix: str) -> list[str]:
        return sorted(meta["path"] for meta in obstore.list(self._store, prefix).collect())

    def _read(self, key: str) -> bytes:
        return bytes(obstore.get(self._store, key).bytes())

    def _lines(self) -> Iterator[Line]:
        yield Line(name="main", lance_branch=None)
        keys = set(self._keys("__branches"))
        for key in sorted(keys):
            if not key.endswith(".json") or key.replace(".json", ".gone") in keys:
                continue
            try:
                ref = json.loads(self._read(key))
                yield Line(name=ref["name"], lance_branch=ref["line"])
            except (ValueError, KeyError, TypeError) as error:
                self._report(f"a branch ref cannot be read key={key}: {error!r}")

    def _branch(self, line: Line) -> Evidence | None:
        try:
            newest = self._dataset("__manifest", line.lance_branch)
            rows = newest.to_table().to_pylist()
        except (OSError, ValueError) as error:
            self._report(f"the manifest cannot be read branch={line.name}: {error}")
            return None
        evidence = Evidence(line=line, version=newest.version)
        if b"omnigraph:internal_schema_version" not in (newest.schema.metadata or {}):
            self._report(f"the manifest has no format stamp branch={line.name}")
        by_type = self._sort_rows(line, rows)
        head = self._head(evidence, by_type)
        evidence.commits = self._lineage(line, by_type["graph_commit"], head)
        self._versions(evidence, newest)
        for row in by_type["table"]:
            evidence.tables[row["table_key"]] = self._table(line, row)
        self._ends(evidence)
        return evidence

    def _sort_rows(self, line: Line, rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        by_type: dict[str, list[dict[str, Any]]] = {name: [] for name in _TYPES}
        for row in rows:
            if row["object_type"] not in _TYPES:
                self._report(f"a row of unknown type branch={line.name} type={row['object_type']}")
                continue
            row["metadata"] = self._decoded(line, row)
            by_type[row["object_type"]].append(row)
        for (kind, object_id), count in Counter((row["object_type"], row["object_id"]) for row in rows).items():
            if count > 1:
                self._report(f"a row stands {count} times branch={line.name} {kind}={object_id}")
        keys = Counter(row["table_key"] for row in by_type["table"])
        for table_key, count in keys.items():
            if count > 1:
                self._report(f"a type has {count} tables branch={line.name} table={table_key}")
        schemas = by_type["schema"]
        if len(schemas) != 1 or not {"source", "compiled", "hash"} <= schemas[0]["metadata"].keys():
            self._report(f"there is not exactly one whole schema row branch={line.name} count={len(schemas)}")
        return by_type

    def _decoded(self, line: Line, row: dict[str, Any]) -> dict[str, Any]:
        try:
            decoded = json.loads(row["metadata"] or "{}")
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            self._report(f"metadata is not JSON branch={line.name} object={row['object_id']}")
            return {}
        return decoded

    def _head(self, evidence: Evidence, by_type: dict[str, list[dict[str, Any]]]) -> str | None:
        line, heads = evidence.line, by_type["graph_head"]
        if len(heads) != 1 or not heads[0]["metadata"].keys() >= _HEAD_KEYS:
            self._report(f"there is not exactly one whole head row branch={line.name} count={len(heads)}")
            return None
        head: str = heads[0]["metadata"]["commit"]
        evidence.floor = heads[0]["metadata"]["floor"]
        # Before its first commit a branch still shows the head that it was forked at.
        if line.lance_branch is None and heads[0]["object_id"] != "graph_head:main":
            self._report(f"the head row has another name branch={line.name} object={heads[0]['object_id']}")
        return head

    def _lineage(self, line: Line, rows: list[dict[str, Any]], head: str | None) -> list[dict[str, Any]]:
        """Walk from the head to the first commit; every row must be met once on the way."""
        commits = {}
        for row in rows:
            data = row["metadata"]
            if not data.keys() >= _COMMIT_KEYS or data["id"] != row["object_id"] or not _ULID.fullmatch(data["id"]):
                self._report(f"a commit row is malformed branch={line.name} object={row['object_id']}")
            else:
                commits[data["id"]] = data
        walked: list[dict[str, Any]] = []
        seen = set()
        at = head
        while at is not None and at not in seen:
            if at not in commits:
                self._report(f"a commit of the line is missing branch={line.name} commit={at}")
                break
            seen.add(at)
            walked.append(commits[at])
            at = commits[at]["parent"]
        if at in seen:
            self._report(f"the line of commits is a circle branch={line.name} commit={at}")
        for stray in sorted(commits.keys() - seen):
            self._report(f"a commit is not on the line branch={line.name} commit={stray}")
        walked.reverse()
        versions = [commit["manifest_version"] for commit in walked]
        if versions != sorted(versions):
            self._report(f"commits and versions are in different order branch={line.name}")
        return walked

    def _versions(self, evidence: Evidence, newest: lance.LanceDataset) -> None:
        """Read every version that still exists; each must name the commit that made it and never move a pin back."""
        line = evidence.line
        made_by = {commit["manifest_version"]: commit["id"] for commit in evidence.commits}
        before: dict[tuple[str, str | None], int] = {}
        first = min(ref["version"] for ref in newest.version_refs())
        known_head = None
        for version in range(first, newest.version + 1):
            try:
                rows = self._state_rows(line, version)
                (head,) = (row for row in rows if row["object_type"] == "graph_head")
                commit = json.loads(head["metadata"])["commit"]
            except (OSError, ValueError, KeyError) as error:
                # Below its floor a cleanup leaves what something needs, and nothing else has to be there.
                if version >= evidence.floor:
                    self._report(f"a manifest version cannot be read branch={line.name} version={version}: {error}")
                continue
            # A version that a cleanup made has no commit of its own and shows the one before.
            if made_by.get(version, known_head) != commit and version != first and version >= evidence.floor:
                self._report(f"a version and its commit disagree branch={line.name} version={version} head={commit}")
            known_head = commit
            evidence.row_counts[version] = {
                row["table_key"]: row["row_count"] for row in rows if row["object_type"] == "table"
            }
            for row in rows:
                if row["object_type"] == "table":
                    place = row["location"], row["table_branch"]
                    if row["table_version"] < before.get(place, 0):
                        self._report(f"a pin moved back branch={line.name} version={version} table={row['table_key']}")
                    before[place] = row["table_version"]

    def _state_rows(self, line: Line, version: int) -> list[dict[str, Any]]:
        dataset = self._dataset("__manifest", line.lance_branch, version)
        # The state is the first fragment; the others do not change what a version says about tables.
        rows: list[dict[str, Any]] = dataset.scanner(fragments=dataset.get_fragments()[:1]).to_table().to_pylist()
        return rows

    def _table(self, line: Line, row: dict[str, Any]) -> list[dict[str, Any]]:
        key, branch, version = row["table_key"], row["table_branch"], row["table_version"]
        where = f"branch={line.name} table={key}"
        try:
            rows: list[dict[str, Any]] = self._dataset(row["location"], branch, version).to_table().to_pylist()
            head = self._dataset(row["location"], branch).version
        except (OSError, ValueError) as error:
            self._report(f"a pinned table cannot be read {where} version={version}: {error}")
            return []
        if len(rows) != row["row_count"]:
            self._report(f"the row count is wrong {where} manifest={row['row_count']} real={len(rows)}")
        if line.owns(branch) and head != version:
            self._report(f"the table has drifted {where} pin={version} head={head}")
        for identity, count in Counter(found["id"] for found in rows).items():
            if count > 1:
                self._report(f"an id stands {count} times {where} id={identity}")
        return rows

    def _ends(self, evidence: Evidence) -> None:
        for edge_key, node_key in self._edges.items():
            nodes = {row["id"] for row in evidence.tables.get(node_key, [])}
            for row in evidence.tables.get(edge_key, []):
                for end in ("src", "dst"):
                    if row[end] not in nodes:
                        self._report(
                            f"an edge has no {end} branch={evidence.line.name} edge={row['id']} missing={row[end]}"
                        )

    def _audit_log(self, found: Mapping[str, Evidence]) -> None:
        commits = {commit["id"] for evidence in found.values() for commit in evidence.commits}
        rows = self.audit_rows()
        # A write that is made again is another plan of the same operation, and may be undone once more.
        for (operation_id, plan_id), count in Counter((row["operation_id"], row["plan_id"]) for row in rows).items():
            if count > 1:
                self._report(f"a recovery is recorded {count} times operation={operation_id} plan={plan_id}")
        for row in rows:
            where = f"operation={row['operation_id']}"
            if row["recovery_kind"] not in _RECOVERY_KINDS:
                self._report(f"a recovery of unknown kind {where} kind={row['recovery_kind']}")
            # The head of a branch that is gone is nobody's commit, even when another branch has its name.
            is_of_gone = row["recovery_kind"] == "OrphanedBranchDiscarded" or row["writer_kind"] == "branch_delete"
            if not is_of_gone and row["branch"] in found and row["commit_id"] not in commits:
                self._report(f"a recovery names a commit that no branch has {where} commit={row['commit_id']}")


def audit(
    root: str,
    options: Mapping[str, str] | None = None,
    *,
    present: Mapping[str, Collection[str]] | None = None,
    absent: Mapping[str, Collection[str]] | None = None,
    edges: Mapping[str, str] | None = None,
) -> list[str]:
    """Return everything that is wrong with the graph at ``root``.

    Args:
        root: a path or ``s3://bucket/prefix``.
        options: storage options, as Lance takes them.
        present: ids per table key that main must hold exactly once: rows whose writer was told that they are in.
        absent: ids per table key that main must not hold: rows whose writer was told that they are not.
        edges: for each edge table the node table that both of its ends live in.
    """
    auditor = Auditor(root, options, edges=edges)
    tables = main.tables if (main := auditor.run().get("main")) is not None else {}
    for table_key, ids in (present or {}).items():
        counts = Counter(row["id"] for row in tables.get(table_key, []))
        for identity in sorted(ids):
            if counts[identity] != 1:
                auditor.findings.append(
                    f"an acknowledged row stands {counts[identity]} times table={table_key} id={identity}"
                )
    for table_key, ids in (absent or {}).items():
        for identity in sorted({row["id"] for row in tables.get(table_key, [])} & set(ids)):
            auditor.findings.append(f"a refused row is there table={table_key} id={identity}")
    return auditor.findings
