"""What the model's world consists of: storage as it is after each atomic step, and where every process stands.

Everything is a nested tuple of small values, so that a state can be hashed and two ways into it are seen to be one.
Versions count from one; version ``n`` of a table or of the manifest is entry ``n - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

# Of a writer: (name, attempt). Of an undo: (actor, base, versions it was staged on). Unique where it matters.
Uuid = tuple[Any, ...]
# A row is a power of eight, so that content is a number in which a row that was applied twice shows as such.
ROW_BASE = 8


class Bug(Enum):
    """A mistake that can be planted in the protocol."""

    BLIND_PUBLISH = "the publish is a put upon whatever is newest, not a compare-and-swap"
    SHARED_CLAIM = "a claim or a takeover succeeds although there is one"
    LOOSE_COMMIT = "a table commit is rebased onto a head that has moved, and nobody compares the version"
    LOOSE_UNDO = "an undo lands upon a head that has moved, and nobody compares the version"
    UNDO_EVERYTHING = "recovery undoes every table of the plan, moved or not"
    UNUSED_VERSION = "recovery of a plan that moved nothing drops the claim without using its version up"
    PARTIAL_FORWARD = "recovery rolls forward when some tables landed"
    STAGED_BASE_UNDO = "an undo brings back what the plan was staged on instead of what is pinned"
    ABANDONED_UNDO = "recovery that loses the claim of its own undo looks again and leaves that claim behind"
    DROPPED_UNDO = "recovery that loses the claim of its own undo deletes that claim and looks again"
    EARLY_RELEASE = "the writer deletes its sidecar before it publishes"
    UNRECORDED_SWEEP = "a cleanup removes files without having recorded that it will"
    UNCHECKED_SWEEP = "a write that is made again keeps files that a cleanup may have removed"
    LATE_LIST = "a cleanup removes what nothing names at the end, not only what lay there when it began"
    # Of offers.
    UNVERIFIED = "a holder does not look under its claim whether the offers that it carries are still there"
    RERUN_UNPROVEN = "an owner decides again without having withdrawn its offer"
    REUSED_NAME = "the offer of what was decided again takes the name of the one before"
    REPEATED = "a holder takes an offer without a look whether its commit is in the history"
    UNSEEN = "an owner publishes by itself without a look whether its commit is in the history"
    NONE_UNPROVEN = "an owner that gives up deletes its offer and calls that a proof"
    LOOK_BEFORE_DELETE = "a withdrawal looks at the claim before it deletes the offer"
    FAILED_UNSEEN = "a write that has failed is withdrawn without a look whether it was published before"
    SINGLE_LOOK = "a withdrawal that finds no claim does not look at the newest version again"
    FOREIGN_CLAIM_PROVES = "a withdrawal that finds the claim of a plan without the write looks no further"
    STALE_GROUP = "a holder that rebases takes the offers that it took before without checking them again"
    DROPPED_EARLY = "a holder deletes the offers before it publishes them"
    ACKED_UNSYNCED = "an owner that finds its commit acknowledges it whether or not it is on the disk"
    OWN_DELETION = "an owner that has deleted its offer itself takes its absence for a sign of the holder"
    OTHER_SCHEMA = "a holder takes an offer that was decided under another schema"
    MOVED_ROWS = "a holder takes an offer whose rows have moved"
    FAILED_GROUP = "a group fails as a whole for one offer that does not hold"
    NEVER_LISTS = "a writer that has waited publishes alone"
    LAST_COMMIT = "recovery knows a published plan by the last of its commits alone"
    EMPTY_GROUP = "a holder takes offers along in a plan without a table to tell whether they were looked at"
    TRUSTED_LATE = "an owner takes the absence of its offer for a sign of the holder when others may take it for gone"
    BLIND_RETRY = "the deletion that took a claim back and was not answered is sent again, whoever has claimed since"
    WHOLE_TABLE = "a change of a whole table takes offers along, whose rows then stand in its place"
    UNFENCED = "the offer whose put was not answered is withdrawn by a deletion alone"


class Move(NamedTuple):
    """A staged table commit: strict, so it may only make version ``before + 1``."""

    table: int
    before: int
    content: int


class Offer(NamedTuple):
    """What an offer holds: which decision of its owner, and upon which version. A fence keeps its name taken."""

    owner: str
    decision: int
    base: int
    is_fence: bool = False


class Member(NamedTuple):
    """One write of a group. ``offer`` is the name of the offer that it was taken from, empty for the writer's own."""

    owner: str
    decision: int
    base: int
    offer: Uuid = ()


class Plan(NamedTuple):
    """What a sidecar holds."""

    actor: str
    uuid: Uuid
    base: int
    moves: tuple[Move, ...]
    swept: int = 0
    members: tuple[Member, ...] = ()

    @property
    def target(self) -> int:
        return self.base + 1

    @property
    def commit_id(self) -> Uuid:
        return commit_id(self.uuid)

    @property
    def carried(self) -> tuple[Uuid, ...]:
        """The names of the offers that are published with it."""
        return tuple(member.offer for member in self.members if member.offer)


class TableVersion(NamedTuple):
    uuid: Uuid
    content: int


class ManifestVersion(NamedTuple):
    uuid: Uuid
    parent: int
    pins: tuple[int, ...]
    swept: int = 0
    members: tuple[Member, ...] = ()

    @property
    def commits(self) -> tuple[Uuid, ...]:
        """The commits that it has brought: those of a group, or its own."""
        return tuple((member.owner,) for member in self.members) or (commit_id(self.uuid),)


class Seen(NamedTuple):
    """One table as a recoverer saw it."""

    table: int
    pin: int
    head: int
    landed: bool


class Frame(NamedTuple):
    """A recovery under way. A process that ends another's claim to get at its own work has two of them."""

    at: str
    plan: Plan
    base: int = 0
    seen: tuple[Seen, ...] = ()
    undo: Plan | None = None
    todo: tuple[Move, ...] = ()
    failed: bool = False
    forward: bool = False
    lost: int = 0


class Proc(NamedTuple):
    """A process. ``releasing`` are the claims it deletes behind its acknowledgements.

    Beside a cleanup a writer remembers with which attempt it uploaded its files and upon which version, and a cleanup
    which files it has listed. Where writes are offered, ``first`` is the version that a writer has decided on,
    ``decision`` how often, ``base`` the one it looked at last, ``offer`` the name of the offer that it has made,
    ``taken`` what it took from others, and ``dropping`` the offers that it deletes behind its acknowledgement.
    """

    name: str
    at: str
    attempt: int = 0
    first: int = 0
    plan: Plan | None = None
    todo: tuple[Move, ...] = ()
    failed: Literal["", "moved", "storage"] = ""
    frames: tuple[Frame, ...] = ()
    turn: int = 0
    releasing: tuple[int, ...] = ()
    outcome: Literal["", "acked", "none", "unknown"] = ""
    staged: tuple[int, int] = (0, 0)
    listed: tuple[Uuid, ...] = ()
    decision: int = 0
    base: int = 0
    offer: Uuid = ()
    is_unsure: bool = False
    has_deleted: bool = False
    ending: Literal["", "none", "again"] = ""
    taken: tuple[Member, ...] = ()
    sweeping: tuple[Uuid, ...] = ()
    dropping: tuple[Uuid, ...] = ()
    lay: tuple[Uuid, ...] = ()


class State(NamedTuple):
    """One moment. ``flights`` are requests whose answer was lost and that may still take effect.

    ``files`` tells for each plan the upload that it names, ``removed`` the uploads that are gone; both stay empty
    without a cleanup. ``puts`` are offers, and ``deletes`` deletions of claims, under way whose answer was lost;
    ``synced`` is the last version that a power cut leaves.
    """

    manifest: tuple[ManifestVersion, ...]
    tables: tuple[tuple[TableVersion, ...], ...]
    claims: tuple[tuple[int, Plan], ...]
    turns: tuple[tuple[int, tuple[int, str]], ...]
    flights: tuple[tuple[Plan, Move | None], ...]
    undone: tuple[Uuid, ...]
    procs: tuple[Proc, ...]
    crashes: int
    takeovers: int
    lost_answers: int
    files: tuple[tuple[Uuid, Uuid], ...] = ()
    removed: tuple[Uuid, ...] = ()
    offers: tuple[tuple[Uuid, Offer], ...] = ()
    puts: tuple[tuple[Uuid, Offer], ...] = ()
    deletes: tuple[int, ...] = ()
    synced: int = 0
    power_cuts: int = 0
    sweeps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One write. An insert is staged again when its tables have moved; an update is refused.

    Where writes are offered, a ``rerun`` is an update that is decided again, a ``restless`` write is decided again for
    reasons that nobody else can see, ``schema`` changes the schema, and ``whole`` replaces its tables: it is decided
    again when they have moved, and does not add up with rows. ``offers``: it puts an offer before it tries
    for itself. ``groups``: it takes the offers of others along. ``deadline``: it may give up while it waits.
    """

    name: str
    tables: tuple[int, ...]
    kind: Literal["insert", "update", "rerun", "restless", "schema", "whole"] = "insert"
    offers: bool = False
    groups: bool = False
    deadline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Who runs and how much may go wrong.

    ``crashes``, ``takeovers`` and ``lost_answers`` are budgets of the whole run. ``honest``: only a holder that is
    gone is presumed dead; otherwise anybody may be, at any moment. ``attempts`` bounds how often a write is staged,
    ``rounds`` how often a recovery looks again after it lost: two recoverers of one plan can take turns for ever in
    being faster on one table each. ``losing``: whose answers may be lost. ``power_cuts``: of everything that is not
    synced nothing is left. ``sweeps``: of offers whose owners live and are taken for gone, when their time is over.
    ``lively``: the bounds are wide enough that every insert without a deadline gets through when nothing goes wrong.
    ``attentive``: whoever has waited has to take every offer along that lay there.
    """

    name: str
    writers: tuple[Writer, ...]
    recoverers: int = 1
    cleaners: int = 0
    crashes: int = 1
    takeovers: int = 1
    attempts: int = 2
    rounds: int = 2
    lost_answers: int = 0
    honest: bool = False
    losing: Literal["any", "offer", "take_back"] = "any"
    power_cuts: int = 0
    sweeps: int = 0
    lively: bool = False
    attentive: bool = False
    bugs: frozenset[Bug] = frozenset()

    @property
    def has_offers(self) -> bool:
        return any(writer.offers or writer.groups for writer in self.writers)

    def writer(self, name: str) -> Writer | None:
        return next((writer for writer in self.writers if writer.name == name), None)

    def is_cleaner(self, name: str) -> bool:
        return self.cleaners > 0 and name.startswith("C") and name[1:].isdigit()

    def row(self, name: str) -> int:
        names = [writer.name for writer in self.writers]
        return int(ROW_BASE ** names.index(name))

    def initial(self) -> State:
        writers = tuple(Proc(name=writer.name, at="load") for writer in self.writers)
        cleaners = tuple(Proc(name=f"C{number + 1}", at="list") for number in range(self.cleaners))
        recoverers = tuple(Proc(name=f"R{number + 1}", at="idle") for number in range(self.recoverers))
        return State(
            manifest=(ManifestVersion(("init",), 0, (1, 1)),),
            tables=((TableVersion(("init",), 0),), (TableVersion(("init",), 0),)),
            claims=(),
            turns=(),
            flights=(),
            undone=(),
            procs=writers + cleaners + recoverers,
            crashes=self.crashes,
            takeovers=self.takeovers,
            lost_answers=self.lost_answers,
            synced=1 if self.power_cuts else 0,
            power_cuts=self.power_cuts,
            sweeps=self.sweeps,
        )


def commit_id(uuid: Uuid) -> Uuid:
    """Attempts of one write share the id of their commit; each undo has its own."""
    return uuid[:1] if len(uuid) == 2 else uuid


def lookup(pairs: tuple[tuple[Any, Any], ...], key: Any) -> Any:
    """Return the value of ``key`` in a sorted tuple of pairs, or None."""
    for found, value in pairs:
        if found == key:
            return value
    return None


def insert(pairs: tuple[tuple[Any, Any], ...], key: Any, value: Any) -> tuple[tuple[Any, Any], ...]:
    """Return ``pairs`` with ``key`` set."""
    return tuple(sorted([*((found, old) for found, old in pairs if found != key), (key, value)], key=_key))


def remove(pairs: tuple[tuple[Any, Any], ...], key: Any) -> tuple[tuple[Any, Any], ...]:
    """Return ``pairs`` without ``key``."""
    return tuple(pair for pair in pairs if pair[0] != key)


def _key(pair: tuple[Any, Any]) -> Any:
    return pair[0]
