"""Where agents write: a fresh branch of their own unless they name one, what people agree to, how it is reviewed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import msgspec

from omnigraph.errors import (
    BranchExistsError,
    ConsentError,
    ConsentStaleError,
    Effect,
    OmnigraphError,
    PreconditionFailedError,
)
from omnigraph.errors.agents import Consent
from omnigraph.mcp.tool import Arguments, Question, Step, ToolCall
from omnigraph.operations.history import CreateBranchRequest, DeleteBranchRequest
from omnigraph.operations.reads import ResolveRefRequest
from omnigraph.policy import Action
from omnigraph.policy.own import own_branches
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.values import BranchName, CommitId

_Done = TypeVar("_Done")
# Who writes where nobody is known by a name.
NOBODY = "agent"
_NAME_DIGITS = 8
# How much of a write a person is shown.
_MOST_SHOWN = 2_000

BranchToWrite = Annotated[
    str | None,
    msgspec.Meta(description="An existing branch to write to. Left out, a fresh branch is created for this write."),
]
IdempotencyKey = Annotated[
    Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern="^[ -~]*$")] | None,
    msgspec.Meta(description="A text of your choice: the same call sent again under it changes the graph once."),
]


class Write(Arguments, kw_only=True, frozen=True):
    """What every tool takes that changes rows."""

    branch: BranchToWrite = None
    base: Annotated[
        str | None, msgspec.Meta(description="Where a fresh branch begins; the branch of the server, usually main.")
    ] = None
    workspace: Annotated[
        str | None,
        msgspec.Meta(description="The last part of the name of a fresh branch; chosen for you if not given."),
    ] = None
    message: Annotated[str | None, msgspec.Meta(description="What the commit says.")] = None
    expected_head: Annotated[
        str | None, msgspec.Meta(description="Change nothing unless the branch is at this commit.")
    ] = None
    idempotency_key: IdempotencyKey = None


@record
class Place:
    """Where a write goes: the branch, where it began if it is fresh, and the commit at which this call made it.

    ``expected_head`` is the commit that the branch must be at.
    """

    branch: str
    base: str | None
    made_at: CommitId | None = None
    expected_head: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether this call made the branch."""
        return self.made_at is not None


def write_somewhere(call: ToolCall, given: Write, verb: str, write: Callable[[Place], _Done]) -> tuple[Place, _Done]:
    """Do a write on the branch that it names, or else on a fresh one, which goes again if nothing was written.

    Raises:
        ConsentError: the branch is protected, and nobody agreed.
        ConsentStaleError: the branch has moved since a person agreed.
        OmnigraphError: the branch cannot be made, or the write fails.
    """
    place = _place(call, given, verb)
    agreed = agreed_heads(call, place.branch, call.graph.guarded, given.expected_head)
    place = replace(place, expected_head=given.expected_head if agreed is None else agreed["target"])
    try:
        with upon_agreed(call):
            return place, write(place)
    except OmnigraphError as error:
        if place.made_at is not None and error.effect is Effect.NONE:
            # Only if nothing can have been written, by this call or by another one that goes by the same name.
            # Whatever keeps it from going: an empty branch harms nobody.
            with suppress(OmnigraphError):
                found = call.execute(ResolveRefRequest(ref=place.branch, branch=place.branch))
                if found.commit.id == place.made_at:
                    call.execute(DeleteBranchRequest(name=place.branch))
        raise


def ask_about_write(call: ToolCall, given: Write, what: str, content: object) -> Question | None:
    """Return what a person is asked about a write to a protected branch.

    Args:
        call: the call.
        given: its arguments.
        what: what it does, as the question begins.
        content: what is written, to be shown.

    Raises:
        PolicyDeniedError: the caller may not write there, whoever agrees.
        BranchMissingError: there is no such branch.
    """
    branch = None if given.branch is None else str(BranchName.parse(given.branch))
    if branch is None or branch not in call.graph.guarded:
        return None
    call.graph.require(Action.CHANGE, branch=branch)
    head = str(call.execute(ResolveRefRequest(ref=branch, branch=branch)).commit.id)
    shown = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}… and {len(shown) - _MOST_SHOWN:,} more characters"
    actor = "an agent" if call.graph.actor is None else f"'{call.graph.actor}'"
    return Question(text=f"{what} branch '{branch}' for {actor}?\n{shown}", heads={"target": head})


def agreed_heads(
    call: ToolCall, branch: str, among: Collection[str], expected: str | None, names: Collection[str] = ("target",)
) -> Mapping[str, str] | None:
    """Return the heads that a person agreed to; None for a branch that is none of those that need it.

    Args:
        call: the call.
        branch: what is written to, or merged into.
        among: the branches that need consent.
        expected: the commit that the call expects there.
        names: the branches that the consent has to be about.

    Raises:
        ConsentError: nobody agreed.
        ConsentStaleError: they agreed to something else.
    """
    if str(BranchName.parse(branch)) not in among:
        return None
    about = Consent(question=f"change branch '{branch}'")
    if call.agreed is None:
        raise ConsentError(f"a person has to agree to a change of branch '{branch}'", details=about)
    if not call.agreed.keys() >= set(names) or (expected or call.agreed["target"]) != call.agreed["target"]:
        raise ConsentStaleError(f"a person agreed to another state of branch '{branch}'", details=about)
    return call.agreed


@contextmanager
def upon_agreed(call: ToolCall) -> Iterator[None]:
    """Tell of a branch that is not at the commit that a person agreed to.

    Raises:
        ConsentStaleError: a branch has moved.
    """
    try:
        yield
    except PreconditionFailedError as error:
        if call.agreed is None:
            raise
        details = Consent(question="change a protected branch")
        raise ConsentStaleError(f"{error.message}, which the consent is about", details=details) from error


def _place(call: ToolCall, given: Write, verb: str) -> Place:
    if given.branch is not None:
        return Place(branch=str(BranchName.parse(given.branch)), base=None)
    base = call.branch_of(given.base)
    prefix = own_branches(call.graph.actor or NOBODY)
    name = prefix + (given.workspace.strip() if given.workspace is not None else _fresh_name(verb, given))
    try:
        made = call.execute(CreateBranchRequest(name=name, source=base))
    except BranchExistsError:
        if given.idempotency_key is None:
            raise
        # The call was sent before; its write is found by the key.
        return Place(branch=name, base=base)
    return Place(branch=name, base=base, made_at=made.head.id)


def _fresh_name(verb: str, given: Write) -> str:
    if given.idempotency_key is not None:
        digest = hashlib.blake2b(given.idempotency_key.encode(), digest_size=_NAME_DIGITS // 2)
        return f"{verb}-{digest.hexdigest()}"
    return f"{verb}-{str(Runtime.system().ids.ulid()).lower()[-_NAME_DIGITS:]}"


def review_steps(place: Place, protected: frozenset[str]) -> tuple[Step, ...]:
    """Return how what was written is looked at, and brought to where the branch began."""
    if place.base is None:
        return ()
    ends: Mapping[str, Any] = {"source": place.branch, "target": place.base}
    asks = ", which a person is asked about" if place.base in protected else ""
    return (
        Step(tool="diff", arguments={"before": place.base, "after": place.branch}, why="see every change"),
        Step(tool="merge_preview", arguments=dict(ends), why="see what a merge would do, and conflicts"),
        Step(tool="merge", arguments=dict(ends), why=f"bring it into {place.base}{asks}"),
    )
