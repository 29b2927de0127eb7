"""The verdict on a mixed run: history replayed with what the journals say each commit meant, against what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import omnigraph
from tests.auditor import Auditor, Evidence
from tests.multiprocess.fleet import Fleet
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import read_journal
from tests.multiprocess.mixed_content import KNOWS, PERSON, SHARED, Change, Content, read_tables
from tests.multiprocess.verdict import Verdict

# What those who set the graph up and look at it afterwards write, and commits that change no row.
_HARNESS = {"seed": Change(put=dict.fromkeys(SHARED, 0)), "next": Change(put={SHARED[0]: 0})}
_IDLE = {"init", "recovery", "optimize", "ensure_indices"}
_ENDS = {KNOWS: PERSON}


@dataclass(slots=True)
class _Word:
    """Everything the journals say."""

    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    acknowledged: dict[str, str | None] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    findings: list[str] = field(default_factory=list)
    deeds: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    given_back: int = 0

    def take(self, name: str, event: dict[str, Any]) -> None:
        match event["event"]:
            case "about":
                self.about[event["actor"]] = event
            case "ack":
                self.acknowledged[event["actor"]] = event["commit"]
                self.deeds[event["deed"]] += 1
            case "did":
                self.deeds[event["deed"]] += 1
            case "refused":
                self.codes[f"{event['deed']}:{event['code']}"] += 1
                if event["actor"] is not None and event["effect"] == "none":
                    self.refused.add(event["actor"])
            case "lost":
                self.codes[f"{event['deed']}:{event['code']}"] += 1
            case "cleaned":
                self.given_back += event["bytes"]
            case "finding":
                self.findings.append(f"{name}: {event['text']}")
            case "error":
                self.findings.append(f"{name}: {event['trace']}")


def judge_mixed(ground: Ground, fleet: Fleet, seconds: float) -> Verdict:
    """Open the graph and write to it once, as the next user would, and compare it with the journals."""
    word = _Word()
    for path in sorted(ground.path(".").glob("member-*.jsonl")):
        for event in read_journal(path):
            word.take(path.stem, event)
    findings = [*fleet.failures, *word.findings, *_next_user(ground)]
    auditor = Auditor(ground.root, ground.options, edges=_ENDS)
    main = auditor.run().get("main")
    findings += auditor.findings
    if main is not None:
        findings += _replay(word, main)
        findings += _promises(word, main)
    return Verdict(
        findings=tuple(findings),
        figures={
            "seconds": round(seconds, 1),
            "deeds": sum(word.deeds.values()),
            "by_kind": dict(sorted(word.deeds.items())),
            "refused": dict(sorted(word.codes.items())),
            "kills": fleet.kills,
            "unanswered": len(word.about.keys() - word.acknowledged.keys() - word.refused),
            "commits": len(main.commits) if main else 0,
            "given_back_bytes": word.given_back,
            "recoveries": dict(Counter(row["recovery_kind"] for row in auditor.audit_rows())),
        },
    )


def _next_user(ground: Ground) -> Iterator[str]:
    text = "query u($n: String) { update Person set { value: 0 } where name = $n }"
    with omnigraph.open(ground.root, storage_options=ground.options, settings=ground.txn_settings) as graph:
        graph.mutate(text, {"n": SHARED[0]}, actor="next")
    with omnigraph.open(ground.root, storage_options=ground.options, mode="read_only") as graph:
        status = graph.status(storage=True)
    if status.pending:
        yield f"writes are pending although nobody writes: {status.pending}"
    if status.dead_bytes is None or any(table.skipped for table in status.tables):
        yield f"the graph needs a repair: {status.tables}"


def _replay(word: _Word, main: Evidence) -> Iterator[str]:
    """Do what every commit of main meant; yield where the graph differs."""
    content, inverses = Content(), {}
    # Writes that a server publishes together share a version; what it holds is the work of all of them.
    last = {commit["manifest_version"]: commit["id"] for commit in main.commits}
    for commit in main.commits:
        actor = commit["actor"]
        if actor in inverses:
            yield f"a write is in history twice actor={actor} commit={commit['id']}"
        if commit["operation"] in _IDLE:
            changes = []
        elif actor in _HARNESS:
            changes = [_HARNESS[actor]]
        elif actor not in word.about:
            yield f"history holds a commit that nobody made commit={commit['id']} actor={actor}"
            continue
        else:
            about = word.about[actor]
            changes = [Change.from_json(item) for item in about["changes"]]
            if about["reverts"] is not None:
                changes = inverses[about["reverts"]]
        undo = [content.apply(change) for change in changes][::-1]
        if actor in word.about:
            inverses[actor] = undo
        is_whole = last[commit["manifest_version"]] == commit["id"]
        counted = main.row_counts.get(commit["manifest_version"]) if is_whole else None
        meant = {PERSON: len(content.nodes), KNOWS: len(content.edges)}
        if counted is not None and counted != meant:
            yield f"a version counts other rows version={commit['manifest_version']} real={counted} meant={meant}"
    for difference in content.differences(read_tables(main.tables)):
        yield f"main holds something else {difference}"


def _promises(word: _Word, main: Evidence) -> Iterator[str]:
    """Yield promises that history does not keep; commits on branches that are gone cannot be looked up any more."""
    commits = {commit["actor"]: commit["id"] for commit in main.commits}
    for actor, commit in word.acknowledged.items():
        if word.about[actor]["branch"] == "main" and commits.get(actor) != commit:
            yield f"an acknowledged commit is elsewhere actor={actor} said={commit} is={commits.get(actor)}"
    for actor in sorted(word.refused & commits.keys()):
        yield f"a refused write is in history actor={actor}"
