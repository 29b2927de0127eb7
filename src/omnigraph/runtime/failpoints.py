"""Failpoints: named places where a test can make the running program fail, stop or die.

A place is reached with ``failpoints.hit(NAME)``. Names come from one catalogue, so that a misspelt one is an error
and not a test that tests nothing. Switched off, a hit is one attribute look-up and one comparison.

From outside a process the variable ``OMNIGRAPH_FAILPOINTS`` switches them on: ``name=action`` pairs separated by
``;``, an action optionally followed by ``@n`` (only the n-th hit). Actions: ``kill`` (SIGKILL to itself), ``stop``
(SIGSTOP to itself), ``error`` (raise :class:`FailpointError`), ``pause:<file>`` (create ``<file>.reached`` and wait
until ``<file>`` exists).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from omnigraph.errors import BadValue, FailpointError, ValueFormatError

ENVIRONMENT_VARIABLE = "OMNIGRAPH_FAILPOINTS"
_PAUSE_POLL_S = 0.005

Action = Callable[[], None]


class Failpoints:
    """The failpoints of one runtime; any number of them may be on."""

    def __init__(self, catalogue: Iterable[str] = ()) -> None:
        self._catalogue = frozenset(catalogue)
        self._lock = threading.Lock()
        # None while nothing is on, which is what keeps a hit free.
        self._active: dict[str, Action] | None = None

    @classmethod
    def from_environment(cls, catalogue: Iterable[str], environment: Mapping[str, str]) -> Failpoints:
        """Return failpoints with those on that the environment variable asks for.

        Raises:
            ValueFormatError: the variable names an unknown failpoint or action.
        """
        failpoints = cls(catalogue)
        for entry in filter(None, environment.get(ENVIRONMENT_VARIABLE, "").split(";")):
            name, _, action = entry.partition("=")
            failpoints.enable(name.strip(), _parse_action(name.strip(), action.strip()))
        return failpoints

    @property
    def catalogue(self) -> frozenset[str]:
        """Every name that can be hit."""
        return self._catalogue

    def hit(self, name: str) -> None:
        """Reach the place called ``name``; whatever is switched on there happens."""
        active = self._active
        if active is not None:
            action = active.get(name)
            if action is not None:
                action()

    def enable(self, name: str, action: Action) -> None:
        """Run ``action`` whenever ``name`` is hit.

        Raises:
            ValueFormatError: the catalogue does not hold ``name``.
        """
        if name not in self._catalogue:
            details = BadValue(what="failpoint", value=name, expected=", ".join(sorted(self._catalogue)))
            raise ValueFormatError(f"failpoint {name!r} was not found", details=details)
        with self._lock:
            self._active = {**(self._active or {}), name: action}

    def disable(self, name: str) -> None:
        """Switch ``name`` off again; harmless when it was not on."""
        with self._lock:
            rest = {other: action for other, action in (self._active or {}).items() if other != name}
            self._active = rest or None


def fail(name: str) -> Action:
    """Return an action that raises :class:`FailpointError`."""

    def action() -> None:
        raise FailpointError(f"failpoint {name}", details=BadValue(what="failpoint", value=name, expected="off"))

    return action


def on_nth(count: int, action: Action) -> Action:
    """Return an action that acts on the ``count``-th hit only."""
    lock = threading.Lock()
    remaining = count

    def counted() -> None:
        nonlocal remaining
        with lock:
            remaining -= 1
            due = remaining == 0
        if due:
            action()

    return counted


def pause_until(gate: Path) -> Action:
    """Return an action that reports its arrival as ``<gate>.reached`` and waits for ``gate`` to exist."""

    def action() -> None:
        gate.with_name(gate.name + ".reached").touch()
        while not gate.exists():
            time.sleep(_PAUSE_POLL_S)

    return action


def _parse_action(name: str, text: str) -> Action:
    word, separator, nth = text.partition("@")
    if separator and not (nth.isascii() and nth.isdigit() and int(nth) > 0):
        raise _bad_action(text)
    action: Action
    match word:
        case "kill":
            action = _send_self(signal.SIGKILL)
        case "stop":
            action = _send_self(signal.SIGSTOP)
        case "error":
            action = fail(name)
        case _ if word.startswith("pause:"):
            action = pause_until(Path(word.removeprefix("pause:")))
        case _:
            raise _bad_action(text)
    return on_nth(int(nth), action) if separator else action


def _send_self(number: signal.Signals) -> Action:
    def action() -> None:
        # To this thread: what is sent to the process may reach another one first, and this one goes on for a while.
        signal.pthread_kill(threading.get_ident(), number)

    return action


def _bad_action(text: str) -> ValueFormatError:
    expected = "kill, stop, error or pause:<file>, optionally followed by @<n>"
    details = BadValue(what="failpoint action", value=text, expected=expected)
    return ValueFormatError(f"invalid failpoint action {text!r}", details=details)


FAILPOINTS: Mapping[str, str] = MappingProxyType(
    {
        "cluster.apply.before_sidecar": "a graph is about to be made, changed or deleted, and nothing says so",
        "cluster.apply.after_sidecar": "a sidecar says what is about to happen to a graph, nothing has happened",
        "cluster.apply.after_move": "a graph was made, changed or deleted, its sidecar does not say how that ended",
        "cluster.apply.after_note": "a sidecar says how the change of its graph ended, the ledger does not",
        "cluster.apply.after_payload": "the text of one more query or policy is stored, the ledger does not name it",
        "cluster.apply.before_state": "everything of a plan is done, the ledger says nothing of it",
        "cluster.apply.after_state": "the ledger says all that was done, sidecars and approvals say it is to be done",
        "cluster.apply.after_cleanup": "one more sidecar of what the ledger knows is gone",
        "cluster.apply.after_approval": "one more approval says that it was used",
        "engine.apply.after_sequences": "what a change log adds to remembered sequences is written, nothing names it",
        "engine.spool.after_rows": "some rows of a load are put aside, storage knows nothing of them",
        "engine.spool.after_file": "the rows of one more type went to a temporary file, storage knows nothing of them",
        "engine.export.after_file": "one more file of an export is written, no manifest names it",
        "engine.cleanup.after_histories": "a cleanup knows which states there are, and has read none of them",
        "engine.cleanup.after_floor": "a cleanup has recorded what goes, and has removed nothing",
        "engine.cleanup.after_removal": "a cleanup has removed some versions, or some files",
        "engine.migrate.after_line": "one more branch has the newest storage format, others may not have it",
        "history.merge.after_capture": "the states that a merge or a revert starts from are known, nothing is written",
        "history.merge.after_record": "what a merge brings is written down, no commit names it",
        "history.proposal.after_publish": "a proposal is merged, and does not say so yet",
        "spark.load.after_read": "the input of a load on Spark is read, files lie beside tables and nothing names them",
        "spark.load.after_part": "a task of a load on Spark has written the rows of its part, nothing names them",
        "spark.load.after_check": "the rows of a load on Spark keep every rule, nothing names their files",
        "spark.source.after_rows": "the rows of one more partition are written, nothing names their files",
        "spark.source.before_publish": "all partitions of a write are staged, nothing names their files",
        "spark.source.after_publish": "a write is visible, Spark does not know it and scratch files still exist",
        "spark.load.after_write": "all rows of a load on Spark are written, nothing names their files",
        "spark.steps.after_quarantine": "the rejected rows of a run are kept, nothing of the run is visible",
        "spark.steps.before_publish": "all rows of a run are written and its rejected ones kept, nothing names them",
        "spark.steps.after_publish": "a run is visible, with how far it has read, and scratch files still exist",
        "spark.merge.after_write": "all rows of a merge on Spark are written, nothing names their files",
        "store.projection.before_write": "the bytes of a projection are there, its name is not",
        "store.projection.after_write": "a projection is written, whoever built it has not used it",
        "txn.stage.after_table": "one more table is staged, nothing names its files",
        "txn.stage.after_files": "fragments of every table are written, nothing names them",
        "txn.claim.before_put": "the plan is complete, no sidecar exists",
        "txn.claim.after_put": "the sidecar exists, no table has moved",
        "txn.offer.before_put": "a write waits for others, no offer says so",
        "txn.offer.after_put": "an offer exists, its owner waits",
        "txn.offer.before_withdraw": "an offer exists that its owner does not want to be published any more",
        "txn.offer.after_withdraw": "an offer is gone, its owner has not looked whether somebody had taken it",
        "txn.offers.after_list": "a writer knows the offers of others, nothing of them is staged",
        "txn.offers.before_verify": "a plan with writes of others is claimed, their owners may have given up",
        "txn.offers.after_verify": "the offers of a claimed plan are still there, no table has moved",
        "txn.offers.before_delete": "writes of others are published, their offers still exist",
        "txn.offers.after_delete": "writes of others are published and their offers gone, the sidecar still exists",
        "txn.commit.before_tables": "phase B begins",
        "txn.commit.before_table": "one more table is about to move past its pin",
        "txn.commit.after_table": "one more table has moved past its pin",
        "txn.commit.after_tables": "every table has moved, the manifest has not",
        "txn.publish.before_cas": "the next manifest version is uploaded and invisible",
        "txn.publish.after_cas": "the change is visible, the sidecar still exists",
        "txn.release.before_delete": "the write was acknowledged, the sidecar still exists",
        "txn.release.after_delete": "nothing of the write is left but its commit",
        "txn.recover.after_takeover": "a recoverer has its turn and has changed nothing",
        "txn.recover.after_classify": "the tables of an abandoned plan were looked at",
        "txn.recover.after_publish": "an abandoned plan was finished or undone, the audit does not say so yet",
        "txn.recover.after_audit": "the audit has the row, the sidecar still exists",
        "txn.settle.after_keep": "the bytes of a damaged claim are kept elsewhere, the claim is still there",
        "txn.init.before_manifest": "the tables of a graph exist, the graph does not",
        "txn.branch.after_line": "the line of a new branch exists, the branch does not",
        "txn.branch.before_ref": "the state that a new branch starts from is known to stay, the branch does not exist",
        "txn.branch.after_ref": "a branch exists, its creator has not looked yet who was in the way",
        "txn.branch_delete.after_claim": "a branch is claimed for its deletion and exists",
        "txn.branch_delete.before_end": "nothing depends on a branch that is about to end",
        "txn.branch_delete.after_end": "a branch is gone, everything that it owned still lies there",
        "txn.branch_delete.after_reclaim": "a branch and what it owned are gone, the claim still exists",
        "txn.proposal.before_event": "what happened to a proposal is decided, and no event says so",
        "txn.proposal.after_event": "an event of a proposal is stored, what leads listings to it is as it was",
        "txn.tag.after_put": "a tag exists, its creator has not looked yet whether its branch goes",
    }
)
