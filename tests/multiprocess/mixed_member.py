"""One process of a mixed run: what it has done, what it must therefore find, and the journal of both."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.errors import Effect, OmnigraphError
from omnigraph.graph.graph import Graph
from tests.multiprocess.journal import Journal, read_journal
from tests.multiprocess.mixed_content import Change, Content

MAIN = "main"
# Everybody may be told that others kept a branch busy for too long.
_BUSY = "write.busy"
# A state that is not the newest any more may be reclaimed under whoever still reads it.
_GONE = "history.gone"
# Whoever asks a server may be told that it is not there, or that nobody knows what became of a write.
LOST = frozenset({"server.unreachable", "server.timeout", "server.outcome_unknown"})
_MOVED = ("write.conflict", "write.swept", "read_set.changed")
ALLOWED: dict[str, frozenset[str]] = {
    deed: frozenset({_BUSY, *codes})
    for deed, codes in {
        "append": (),
        "upsert": (),
        "update": (),
        "batch": (),
        "delete": (),
        "look": (_GONE,),
        "search": (_GONE,),
        "look_back": (_GONE,),
        "look_at_tag": (),
        "hold": (_GONE,),
        "export": (_GONE,),
        "export_files": (_GONE,),
        "diff": (_GONE,),
        "poll": (_GONE, "changes.gap"),
        "fork": (_GONE,),
        "branch_write": (),
        "branch_look": (_GONE,),
        "merge": (*_MOVED, "merge.conflicts"),
        "unbranch": ("branch.in_use",),
        "revert": (*_MOVED, _GONE, "merge.conflicts"),
        "tag": (_GONE,),
        "untag": (),
        "optimize": (),
        "cleanup": (),
        "status": (),
        "settle": (),
        "tidy": ("branch.in_use",),
        "come_back": (),
    }.items()
}
_STATES = 24


@dataclass(slots=True)
class OwnBranch:
    """A branch that this process made: what of its own it holds, and the changes that main does not have yet."""

    content: Content
    ahead: list[Change] = field(default_factory=list)


@dataclass(slots=True)
class OwnCommit:
    """A commit on main that this process made, and what would undo it."""

    actor: str
    commit: str
    inverse: list[Change]


@dataclass(slots=True)
class Held:
    """A read that was begun, what it must give in the end, and after how many deeds it goes on."""

    finish: Callable[[], Content]
    meant: Content
    due: int


class Member:
    """The memory of one process; one that was killed gets it back from its journal.

    ``asks_server``: it asks a server that may be killed. ``has_lost_answers`` says that this has just happened.
    """

    def __init__(self, number: int, folder: Path, journal: Path, seed: int, *, asks_server: bool = False) -> None:
        self.number = number
        self.asks_server = asks_server
        self.has_lost_answers = False
        self.name = f"p{number}"
        self.folder = folder
        self.main = Content()
        self.states: list[tuple[str, Content]] = []
        self.commits: list[OwnCommit] = []
        self.branches: dict[str, OwnBranch] = {}
        self.tags: dict[str, Content] = {}
        self.held: list[Held] = []
        self.feed: tuple[str, Content] | None = None
        self.serial = 0
        events = read_journal(journal)
        self.deeds = sum(event["event"] in {"ack", "did", "refused"} for event in events)
        self.unanswered = self._remember(events)
        self.random = random.Random(f"{seed}-{number}-{len(events)}")  # noqa: S311 - dice that can be thrown again
        self._journal = Journal(journal)

    @property
    def prefix(self) -> str:
        """What the ids of this process begin with."""
        return f"{self.name}-"

    def note(self, event: str, **fields: Any) -> None:
        """Write an event down."""
        self._journal.write(event, **fields)

    def check(self, deed: str, meant: Content, real: Content) -> None:
        """Write down where what was found is not what it must be."""
        for difference in meant.differences(real.of(self.prefix)):
            self.note("finding", text=f"{deed} found something else {difference}")

    @contextmanager
    def attempt(self, deed: str) -> Iterator[None]:
        """Do something that changes no row; errors that it may meet are counted, others are findings."""
        try:
            yield
        except OmnigraphError as error:
            self._met(deed, error)
        else:
            self.note("did", deed=deed)

    def write(
        self,
        deed: str,
        call: Callable[[str], Any],
        *,
        branch: str = MAIN,
        changes: Iterable[Change] = (),
        reverts: str | None = None,
    ) -> bool:
        """Announce a write under an actor that nobody else has, make it, and learn how it ended."""
        self.serial += 1
        about = {
            "actor": f"{self.name}.{self.serial}",
            "deed": deed,
            "branch": branch,
            "changes": [change.to_json() for change in changes],
            "reverts": reverts,
        }
        self.note("about", **about)
        try:
            commit = call(about["actor"]).commit
        except OmnigraphError as error:
            if self._met(deed, error, actor=about["actor"]):
                self.unanswered.append(about)
            return False
        chosen = None if commit is None else str(commit.id)
        self.note("ack", actor=about["actor"], commit=chosen, deed=deed)
        self._learn(about, chosen)
        return True

    def resolve(self, graph: Graph) -> None:
        """Find out what became of writes whose answer never came, oldest first."""
        while self.unanswered:
            about = self.unanswered[0]
            found = list(graph.log(actor=about["actor"], limit=2))
            commit = str(found[0].id) if found else None
            self.unanswered.pop(0)
            self.note("resolved", actor=about["actor"], commit=commit)
            if commit is not None:
                self._learn(about, commit)
        # What was written to find this out came later, and its state was noted without it.
        self.states = []

    def forget_names(self) -> None:
        """Forget branches, tags and reads under way: nobody knows what became of them."""
        self.branches, self.tags, self.held, self.feed = {}, {}, [], None
        self.has_lost_answers = False

    def _met(self, deed: str, error: OmnigraphError, actor: str | None = None) -> bool:
        """Judge an error; True if it leaves open whether a write happened."""
        if self.asks_server and error.code in LOST:
            self.has_lost_answers = True
            if error.effect is Effect.UNKNOWN:
                self.note("lost", deed=deed, code=error.code, actor=actor)
                return True
            self.note("refused", deed=deed, code=error.code, actor=actor, effect=error.effect.value)
            return False
        self.note("refused", deed=deed, code=error.code, actor=actor, effect=error.effect.value)
        if error.code not in ALLOWED[deed]:
            self.note("finding", text=f"{deed} met an error that it must not meet: {error.to_json()}")
        elif error.effect is not Effect.NONE:
            self.note("finding", text=f"{deed} was refused and says that it has an effect: {error.to_json()}")
        return False

    def _learn(self, about: dict[str, Any], commit: str | None) -> None:
        changes = [Change.from_json(item).of(self.prefix) for item in about["changes"]]
        if about["branch"] != MAIN:
            own = self.branches.get(about["branch"])
            for change in changes if own is not None else ():
                own.content.apply(change)
                own.ahead.append(change)
            return
        if about["reverts"] is not None:
            changes = next(item.inverse for item in self.commits if item.actor == about["reverts"])
        inverse = [self.main.apply(change) for change in changes][::-1]
        if commit is not None:
            self.commits.append(OwnCommit(about["actor"], commit, inverse))
            self.states = [*self.states[-_STATES:], (commit, self.main.copy())]

    def _remember(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Go through an earlier life; return the writes that it did not see the end of."""
        open_: dict[str, dict[str, Any]] = {}
        for event in events:
            match event["event"]:
                case "about":
                    open_[event["actor"]] = event
                    # What it numbered since and did not write down is skipped.
                    self.serial = int(event["actor"].partition(".")[2]) + 10
                case "ack" | "resolved":
                    about = open_.pop(event["actor"])
                    if event["event"] == "ack" or event["commit"] is not None:
                        self._learn(about, event["commit"])
                    if event["event"] == "resolved":
                        self.states = []
                case "refused" if event["actor"] is not None:
                    del open_[event["actor"]]
        return list(open_.values())
