"""The part of the auditor that looks at proposals; like the rest of it, it shares no code with the engine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_EVENT_KEY = re.compile(r"__proposals/([1-9][0-9]*)/([1-9][0-9]*)\.json")
_MARK_KEY = re.compile(r"__proposals/open/([1-9][0-9]*)\.json")
_OTHER_KEYS = {"__proposals/recent"}
_EVENT_KEYS = {"format", "proposal", "number", "identity", "at_ms", "actor", "what", "checksum"}
_WHAT_KEYS = {
    "opened": {"title", "description", "source", "target", "texts", "checks", "required_approvals"},
    "commented": {"text", "type_key", "entity_id"},
    "approved": {"head"},
    "merging": {"commit", "version", "source_head", "target_head", "checks", "approved_by"},
    "merged": {"commit"},
    "closed": {"reason"},
}

Lines = Mapping[str, tuple[str | None, Sequence[dict[str, Any]]]]
"""Of each branch by name: its line of the manifest, None for main, and its commits."""


def proposal_findings(keys: Collection[str], read: Callable[[str], bytes], lines: Lines) -> Iterator[str]:
    """Yield everything that is wrong with the proposals of a graph.

    Args:
        keys: every object below the folder of proposals.
        read: returns an object.
        lines: the branches that could be read.
    """
    stored: dict[int, set[int]] = {}
    marks = set()
    for key in sorted(keys):
        if event := _EVENT_KEY.fullmatch(key):
            stored.setdefault(int(event[1]), set()).add(int(event[2]))
        elif mark := _MARK_KEY.fullmatch(key):
            marks.add(int(mark[1]))
        elif key not in _OTHER_KEYS:
            yield f"a file of no proposal key={key}"
    yield from (f"a proposal is missing number={number}" for number in _gaps(stored))
    told: dict[int, list[dict[str, Any]]] = {number: [] for number in stored}
    for number, events in stored.items():
        yield from _read(number, events, read, told[number])
        if len(told[number]) == len(events):
            yield from _events(number, told[number])
            yield from _merges(number, told[number], lines)
            kinds = {event["what"]["type"] for event in told[number]}
            if not {"merged", "closed"} & kinds and number not in marks:
                yield f"an open proposal is in no listing number={number}"
    yield from _commits(told, lines)


def _read(
    number: int, events: Collection[int], read: Callable[[str], bytes], told: list[dict[str, Any]]
) -> Iterator[str]:
    """Read the events of a proposal into ``told``; yield those that are missing or say something else."""
    yield from (f"an event is missing proposal={number} event={missing}" for missing in _gaps(events))
    for nth in sorted(events):
        key = f"__proposals/{number}/{nth}.json"
        event, problem = _decoded(read(key), number, nth)
        if event is None:
            yield f"an event cannot be read key={key}: {problem}"
        else:
            told.append(event)


def _gaps(numbers: Collection[int]) -> list[int]:
    return sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))


def _decoded(data: bytes, number: int, nth: int) -> tuple[dict[str, Any] | None, str]:
    body, _, seal = data.rpartition(b',"checksum":"')
    if seal != hashlib.blake2b(body + b"}", digest_size=8).hexdigest().encode() + b'"}':
        return None, "the checksum is wrong"
    event = json.loads(data)
    what = event.get("what", {})
    if event.keys() != _EVENT_KEYS or what.keys() - {"type"} != _WHAT_KEYS.get(what.get("type")):
        return None, "it has other parts"
    if (event["proposal"], event["number"]) != (number, nth) or (what["type"] == "opened") != (nth == 1):
        return None, "it is another event"
    return event, ""


def _events(number: int, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield events that cannot have been written one after the other."""
    for event in events:
        what, where = event["what"], f"proposal={number} event={event['number']}"
        heads = [what[part] for part in ("head", "commit", "source_head", "target_head") if part in what]
        if not all(_ULID.fullmatch(head) for head in heads):
            yield f"an event names no commit {where}"
        if what["type"] == "approved" and event["actor"] in {None, events[0]["actor"]}:
            yield f"an approval by the author {where}"
    if len({event["identity"] for event in events}) != len(events):
        yield f"an event is told twice proposal={number}"


def _merges(number: int, events: Sequence[dict[str, Any]], lines: Lines) -> Iterator[str]:
    """Yield where the events of one proposal contradict the history of its target."""
    where, target = f"proposal={number}", events[0]["what"]["target"]
    begun = {event["what"]["commit"]: event["what"] for event in events if event["what"]["type"] == "merging"}
    done = [event["what"]["commit"] for event in events if event["what"]["type"] == "merged"]
    if len(set(done)) > 1 or not set(done) <= begun.keys():
        yield f"a merge that never began {where} merged={done}"
        return
    lance_branch, commits = lines.get(target["branch"], ("gone", ()))
    if lance_branch is not None and not lance_branch.endswith(f".{target['incarnation']}"):
        return
    landed = {commit["id"]: commit for commit in commits}
    if len(landed.keys() & begun.keys()) > 1:
        yield f"a proposal was merged twice {where}"
    for commit_id in done:
        commit = landed.get(commit_id)
        if commit is None:
            yield f"a merged proposal is not in its target {where} commit={commit_id}"
        elif (commit.get("proposal"), commit["merged_parent"]) != (number, begun[commit_id]["source_head"]):
            yield f"a proposal merged something else {where} commit={commit_id}"


def _commits(told: Mapping[int, Sequence[dict[str, Any]]], lines: Lines) -> Iterator[str]:
    """Yield commits that carry a proposal that knows nothing of them."""
    carried = {
        (commit["id"], commit["proposal"])
        for _, commits in lines.values()
        for commit in commits
        if commit.get("proposal") is not None
    }
    for commit_id, number in sorted(carried):
        begun = {event["what"].get("commit") for event in told.get(number, ()) if event["what"]["type"] == "merging"}
        if commit_id not in begun:
            yield f"a commit carries a proposal that does not know it commit={commit_id} proposal={number}"
