"""The verdict on a run of many writers: history replayed with what the journals say each commit meant."""

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
from tests.multiprocess.many_content import COUNTERS, ENDS, SHARED, Content, explains, read_tables, seeded
from tests.multiprocess.verdict import Verdict

# Commits that change no row, and what those who set the graph up write.
_IDLE = {"init", "recovery", "optimize", "ensure_indices"}
_SEED, _NEXT = "seed", "next"
# Of so many of the newest commits each row is compared with what its author meant.
_FEED_COMMITS = 1000
# Of what a graph counts, what only describes the moment.
_NOT_COUNTED = {"cache_bytes", "mapped_bytes", "writes_waiting", "projection_bytes", "projection_coverage"}


@dataclass(slots=True)
class _Word:
    """Everything the journals say."""

    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    findings: list[str] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    looks: int = 0

    def take(self, name: str, event: dict[str, Any]) -> None:
        match event["event"]:
            case "about":
                if event["actor"] in self.about:
                    self.findings.append(f"{name}: two writes have one actor={event['actor']}")
                self.about[event["actor"]] = event
            case "ack":
                self.acknowledged[event["actor"]] = event["commit"]
            case "refused":
                self.refused.add(event["actor"])
                self.codes[f"{event['kind']}:{event['code']}"] += 1
            case "unknown":
                self.unknown.add(event["actor"])
                self.codes[event["code"]] += 1
            case "counts":
                self.counts[event["pid"]] = event["counts"]
            case "look":
                self.looks += 1
            case "finding":
                self.findings.append(f"{name}: {event['text']}")
            case "error":
                self.findings.append(f"{name}: {event['trace']}")

    def counted(self) -> dict[str, int]:
        """Return what the graphs of all processes counted together; of a killed one, what it last wrote down."""
        total: Counter[str] = Counter()
        for counts in self.counts.values():
            total.update({name: int(count) for name, count in counts.items() if name not in _NOT_COUNTED})
        return dict(sorted(total.items()))


def judge_many(ground: Ground, fleet: Fleet, seconds: float) -> Verdict:
    """Open the graph and write to it once, as the next user would, and compare it with the journals."""
    word = _Word()
    for path in sorted(ground.path(".").glob("worker-*.jsonl")):
        for event in read_journal(path):
            word.take(path.stem, event)
    findings = [*fleet.failures, *word.findings, *_next_user(ground)]
    auditor = Auditor(ground.root, ground.options, edges=ENDS)
    main = auditor.run().get("main")
    findings += auditor.findings
    if main is not None:
        findings += _replay(word, main)
        findings += _promises(word, main)
        findings += _authors(ground, word, main)
    if not word.looks:
        findings.append("nobody looked")
    commits = main.commits if main else []
    lineage = {commit["actor"] for commit in commits}
    groups = Counter(commit["manifest_version"] for commit in commits)
    unanswered = word.about.keys() - word.acknowledged.keys() - word.refused - word.unknown
    return Verdict(
        findings=tuple(findings),
        figures={
            "commits": len(word.acknowledged),
            "seconds": round(seconds, 1),
            "per_second": round(len(word.acknowledged) / seconds, 1),
            "kills": fleet.kills,
            "stops": fleet.stops,
            "looks": word.looks,
            "refused": dict(sorted(word.codes.items())),
            "unanswered": len(unanswered),
            "unanswered_landed": len(unanswered & lineage),
            "unknown": len(word.unknown),
            "unknown_landed": len(word.unknown & lineage),
            "versions": len(groups),
            "largest_group": max(groups.values(), default=0),
            "counted": word.counted(),
            "recoveries": dict(Counter(row["recovery_kind"] for row in auditor.audit_rows())),
        },
    )


def _next_user(ground: Ground) -> Iterator[str]:
    text = "query change($n: String) { update Person set { value: 0 } where name = $n }"
    with omnigraph.open(ground.root, storage_options=ground.options or None, settings=ground.txn_settings) as graph:
        graph.mutate(text, {"n": SHARED[0]}, actor=_NEXT)
    with omnigraph.open(ground.root, storage_options=ground.options or None, mode="read_only") as graph:
        status = graph.status(storage=True)
    if status.pending:
        yield f"writes are pending although nobody writes: {status.pending}"
    if status.dead_bytes is None or any(table.skipped for table in status.tables):
        yield f"the graph needs a repair: {status.tables}"


def _replay(word: _Word, main: Evidence) -> Iterator[str]:
    """Do what every commit meant; yield where the graph differs."""
    content = Content()
    seen: set[str] = set()
    # Writes that are published together share a version; what it holds is the work of all of them.
    last = {commit["manifest_version"]: commit["id"] for commit in main.commits}
    for commit in main.commits:
        actor = commit["actor"]
        if commit["operation"] in _IDLE:
            pass
        elif actor == _SEED:
            content = seeded()
        elif actor == _NEXT:
            content.apply({"put": {SHARED[0]: ("shared", 0)}})
        elif actor not in word.about:
            yield f"history holds a commit that nobody made commit={commit['id']} actor={actor}"
        elif actor in seen:
            yield f"a write is in history twice actor={actor} commit={commit['id']}"
        else:
            seen.add(actor)
            content.apply(word.about[actor]["change"])
        counted = main.row_counts.get(commit["manifest_version"])
        if counted is not None and last[commit["manifest_version"]] == commit["id"] and counted != content.sizes():
            yield (
                f"a version counts other rows version={commit['manifest_version']} real={counted}"
                f" meant={content.sizes()}"
            )
    for difference in content.differences(read_tables(main.tables)):
        yield f"main holds something else {difference}"


def _authors(ground: Ground, word: _Word, main: Evidence) -> Iterator[str]:
    """Yield rows that the change feed ascribes to a commit which cannot have written them."""
    start = main.commits[max(0, len(main.commits) - _FEED_COMMITS)]["id"]
    with omnigraph.open(ground.root, storage_options=ground.options or None, mode="read_only") as graph:
        for batch in graph.feed(f"after:{start}"):
            for block in batch.blocks:
                commit = block.cause.commit
                about = word.about.get(commit.actor or "")
                for change in block.changes if about is not None else ():
                    before, after = (None if one is None else one.properties for one in (change.before, change.after))
                    if about is not None and not explains(about["change"], change.type.name, before, after):
                        yield f"a row has another author commit={commit.id} actor={commit.actor} row={change.to_json()}"


def _promises(word: _Word, main: Evidence) -> Iterator[str]:
    """Yield promises that history does not keep."""
    commits = {commit["actor"]: commit["id"] for commit in main.commits}
    for actor, commit in word.acknowledged.items():
        if commits.get(actor) != commit:
            yield f"an acknowledged commit is elsewhere actor={actor} said={commit} is={commits.get(actor)}"
    for actor in sorted(word.refused & commits.keys()):
        yield f"a refused write is in history actor={actor}"
    counted = Counter(
        about["change"]["count"]
        for actor, about in word.about.items()
        if "count" in about["change"] and actor in commits
    )
    real = read_tables(main.tables).counters
    for name in COUNTERS:
        if real.get(name) != counted[name]:
            yield f"a counter is wrong name={name} real={real.get(name)} commits={counted[name]}"
