"""Native branches of a dataset: creating them safely, and removing them without reading all the others.

Lance creates a branch in two steps, first its tree of versions, then the ref that names it. A crash in between
leaves a tree without a ref, which Lance can neither use nor remove.
"""

from __future__ import annotations

from urllib.parse import quote

from lance import LanceDataset

from omnigraph.errors import AlreadyExistsError, Effect, TableRef
from omnigraph.runtime import Counters
from omnigraph.store.control import ControlObjects
from omnigraph.store.handles import Handles, apart
from omnigraph.store.metering import metered
from omnigraph.store.pins import TablePin
from omnigraph.store.translate import Fault, fault_of, translating

# Opening the source, the branch's transaction and manifest, looking at the source twice more, and the ref: each of
# these calls waits for the one before it.
_CREATE_STAGES = 7


class Branches:
    """The branches of a graph's datasets.

    Two creators of one name at the same moment are told apart only when the first has written its ref. Whoever
    creates a branch must therefore hold a claim on its name, or use a name that nobody else can come up with.
    """

    def __init__(self, handles: Handles, control: ControlObjects) -> None:
        self._handles = handles
        self._control = control

    def create(self, source: TablePin, new_branch: str, counters: Counters) -> LanceDataset:
        """Create ``new_branch`` at a pinned version and return its handle, which stands at the same version number.

        Raises:
            AlreadyExistsError: a branch of that name is there.
        """
        handle = self._handles.open(source, counters)
        target = TablePin(location=source.location, branch=new_branch, version=source.version)
        outcome = self._try_create(handle, target, counters)
        if outcome is Fault.BRANCH_TREE_EXISTS and not self.exists(source.location, new_branch, counters):
            self._control.delete_prefix(_tree(source.location, new_branch), counters)
            outcome = self._try_create(handle, target, counters)
        if isinstance(outcome, LanceDataset):
            return self._handles.remember(target, outcome)
        if outcome is Fault.EXISTS:
            # A ref without a tree: Lance has written the missing tree before it met the ref, so the branch is whole.
            return self._handles.open(target, counters)
        raise AlreadyExistsError(
            f"the branch exists already location={source.location} branch={new_branch}",
            details=TableRef(location=source.location, branch=new_branch),
        )

    def exists(self, location: str, branch: str, counters: Counters) -> bool:
        """Whether a ref of that name exists; one call."""
        return self._control.exists(branch_ref_file(location, branch), counters)

    def delete(self, location: str, branch: str, counters: Counters) -> None:
        """Remove the ref, and with it the branch, then its files; harmless when either is gone.

        Lance's own delete reads every branch to find children. Callers know from the manifest that there are none.
        """
        self._control.delete(branch_ref_file(location, branch), counters)
        self._handles.forget(location, branch)
        self._control.delete_prefix(_tree(location, branch), counters)

    def _try_create(self, handle: LanceDataset, target: TablePin, counters: Counters) -> LanceDataset | Fault:
        # The listing that opens the new tree is missing from the statistics of the handle.
        counters.add_calls("lance.read")
        counters.add_serial_stages()
        with (
            translating("create a branch", target.location, effect=Effect.UNKNOWN),
            metered(handle, counters, at_most=_CREATE_STAGES),
        ):
            try:
                return apart(handle).create_branch(
                    str(target.branch), target.version, storage_options=self._handles.options or None
                )
            except (OSError, ValueError) as error:
                fault = fault_of(error)
                if fault not in {Fault.EXISTS, Fault.BRANCH_TREE_EXISTS, Fault.CONFLICT}:
                    raise
                return fault


def branch_ref_file(location: str, branch: str) -> str:
    """Return where Lance keeps the ref of a branch, below the graph's root."""
    return f"{location}/_refs/branches/{quote(branch, safe='')}.json"


def _tree(location: str, branch: str) -> str:
    return f"{location}/tree/{branch}"
