"""The verdict on a run: what the journals say against what the graph holds, down to the last row.

History tells the order in which commits took effect, the journals tell what each of them meant. Replayed together
they give the exact content that the graph must have after every single version.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.auditor import Auditor, Evidence
from tests.multiprocess.fleet import Fleet
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import read_journal
from tests.txn_graph import open_graph

_NOT_OURS = {"init", "recovery"}

_Tables = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is wrong with a run, and its figures."""

    findings: tuple[str, ...]
    figures: dict[str, Any]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.figures.items())


@dataclass(slots=True)
class _Word:
    """Everything the journals say."""

    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    findings: list[str] = field(default_factory=list)
    looks: int = 0
    states: int = 0

    def take(self, name: str, event: dict[str, Any]) -> None:
        match event["event"]:
            case "about":
                self.about[event["commit"]] = event
            case "ack":
                self.acknowledged[event["commit"]] = event["version"]
            case "refused":
                self.refused.add(event["commit"])
            case "unknown":
                self.unknown.add(event["commit"])
            case "finding":
                self.findings.append(f"{name}: {event['text']}")
            case "error":
                self.findings.append(f"{name}: {event['trace']}")
            case "close" if "looks" in event:
                self.looks += event["looks"]
                self.states += event["states"]


def judge(ground: Ground, fleet: Fleet, seconds: float) -> Verdict:
    """Open the graph once, as the next user would, and compare it with the journals."""
    word = _read_word(ground)
    findings = [*fleet.failures, *word.findings]
    open_graph(ground.storage, settings=ground.txn_settings).close()
    auditor = Auditor(ground.root, ground.options)
    main = auditor.run().get("main")
    findings += auditor.findings
    audit_rows = auditor.audit_rows()
    ground.path("recoveries.json").write_text(json.dumps(audit_rows, indent=1), encoding="utf-8")
    lineage: set[str] = set()
    if main is not None:
        lineage = {commit["id"] for commit in main.commits}
        findings += _replay(word, main)
        findings += _promises(word, main)
        findings += _recoveries(word, audit_rows, lineage)
    if not word.looks and fleet.readers:
        findings.append("the readers saw nothing")
    open_ends = word.about.keys() - word.acknowledged.keys() - word.refused
    return Verdict(
        findings=tuple(findings),
        figures={
            "commits": len(word.acknowledged) - 1,
            "seconds": round(seconds, 1),
            "per_second": round((len(word.acknowledged) - 1) / seconds, 1),
            "refused": len(word.refused),
            "kills": fleet.kills,
            "stops": fleet.stops,
            "unanswered": len(open_ends),
            "unanswered_landed": len(open_ends & lineage),
            "unknown": len(word.unknown),
            "recovery_commits": sum(commit["operation"] == "recovery" for commit in main.commits) if main else 0,
            "audit": dict(Counter(_kind_of(row, word) for row in audit_rows)),
            "looks": word.looks,
            "states_seen": word.states,
            "manifest_version": main.version if main else 0,
        },
    )


def _kind_of(row: dict[str, Any], word: _Word) -> str:
    """Tell recoveries of writers that were gone from those that a living writer did for itself, or of recoverers."""
    meant = next((commit for commit, meant in word.about.items() if meant["operation"] == row["operation_id"]), None)
    if meant is None:
        whose = "recoverer"
    else:
        whose = "answered" if meant in word.acknowledged.keys() | word.refused else "unanswered"
    return f"{row['recovery_kind']}/{whose}"


def _read_word(ground: Ground) -> _Word:
    word = _Word()
    for path in sorted(ground.path(".").glob("*.jsonl")):
        for event in read_journal(path):
            word.take(path.stem, event)
    return word


def _replay(word: _Word, main: Evidence) -> Iterator[str]:
    """Apply what every commit of history meant; yield where the graph differs."""
    tables: _Tables = {key: {} for key in main.tables}
    # Writes that are published together share a version; what it holds is the work of all of them.
    last = {commit["manifest_version"]: commit["id"] for commit in main.commits}
    for commit in main.commits:
        meant = word.about.get(commit["id"])
        if meant is not None:
            yield from _apply(meant, tables)
        elif commit["operation"] not in _NOT_OURS:
            yield f"history holds a commit that nobody made commit={commit['id']}"
        if last[commit["manifest_version"]] != commit["id"]:
            continue
        counted = main.row_counts.get(commit["manifest_version"], {})
        for table_key, rows_by_id in tables.items():
            if counted.get(table_key) != len(rows_by_id):
                yield (
                    f"a version counts other rows version={commit['manifest_version']} table={table_key}"
                    f" manifest={counted.get(table_key)} meant={len(rows_by_id)}"
                )
    for table_key, rows_by_id in tables.items():
        real = {row["id"]: row for row in main.tables[table_key]}
        for name in sorted(real.keys() | rows_by_id.keys()):
            if real.get(name) != rows_by_id.get(name):
                yield f"a row differs table={table_key} real={real.get(name)} meant={rows_by_id.get(name)}"


def _apply(meant: dict[str, Any], tables: _Tables) -> Iterator[str]:
    for table_key, rows in meant["rows"].items():
        for row in rows:
            if meant["kind"] != "upsert" and row["id"] in tables[table_key]:
                yield f"two commits inserted one id table={table_key} id={row['id']}"
            tables[table_key][row["id"]] = row


def _promises(word: _Word, main: Evidence) -> Iterator[str]:
    """Yield promises that history does not keep."""
    versions = {commit["id"]: commit["manifest_version"] for commit in main.commits}
    for commit_id, version in word.acknowledged.items():
        if versions.get(commit_id) != version:
            yield f"an acknowledged commit is elsewhere commit={commit_id} said={version} is={versions.get(commit_id)}"
    for commit_id in sorted(word.refused & versions.keys()):
        yield f"a refused commit is in history commit={commit_id}"


def _recoveries(word: _Word, rows: list[dict[str, Any]], lineage: set[str]) -> Iterator[str]:
    """Yield audit rows that do not fit what is known of the write they are about."""
    by_operation = {meant["operation"]: commit for commit, meant in word.about.items()}
    for row in rows:
        commit = by_operation.get(row["operation_id"])
        if commit is None:
            if row["writer_kind"] != "recovery":
                yield f"a recovery of an operation that nobody began operation={row['operation_id']}"
        elif row["recovery_kind"] == "RolledForward" and not {row["commit_id"], commit} <= lineage:
            # The row tells the last commit of the version, which may be one that was offered.
            yield f"rolled forward, but the commit is not there operation={row['operation_id']} commit={commit}"
