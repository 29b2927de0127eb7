"""The catalog: texts of stored queries and policies as they were applied, under names that contain their digests."""

from __future__ import annotations

from enum import Enum, auto

from omnigraph.cluster.digests import file_digest
from omnigraph.cluster.ledger.documents import state_error
from omnigraph.cluster.ledger.place import RESOURCES, ClusterPlace
from omnigraph.errors import OmnigraphError
from omnigraph.records import record

_QUERY, _POLICY = "query.", "policy."


class PayloadState(Enum):
    """What there is of a payload."""

    WHOLE = auto()
    MISSING = auto()
    MISMATCH = auto()


@record
class Payload:
    """The text of a query or a policy: the address of the resource, and the digest that was applied."""

    address: str
    digest: str

    @property
    def key(self) -> str:
        """Where it is stored, below the root of the cluster."""
        if self.address.startswith(_QUERY):
            _, graph_id, name = self.address.split(".", 2)
            return f"{RESOURCES}/query/{graph_id}/{name}/{self.digest}.gq"
        return f"{RESOURCES}/policy/{self.address.removeprefix(_POLICY)}/{self.digest}.yaml"


def has_payload(address: str) -> bool:
    """Whether a resource is stored as a text: a query or a policy.

    >>> has_payload("query.crm.find"), has_payload("policy.acl"), has_payload("schema.crm"), has_payload("query.crm")
    (True, True, False, False)
    """
    return address.startswith(_POLICY) or (address.startswith(_QUERY) and "." in address.removeprefix(_QUERY))


class PayloadStore:
    """The texts of a cluster. They are never deleted: a server may boot from an earlier ledger."""

    def __init__(self, place: ClusterPlace) -> None:
        self._place = place

    def path(self, payload: Payload) -> str:
        """Return how findings name a payload."""
        return self._place.shown(payload.key)

    def read(self, payload: Payload) -> bytes | None:
        """Return what is stored under the name of a payload, None when nothing is.

        Raises:
            ClusterStateError: ``catalog_payload_read_error``.
        """
        try:
            return self._place.objects.get(payload.key)
        except OmnigraphError as problem:
            message = f"cannot read the text of {payload.address}: {problem.message}"
            raise state_error("catalog_payload_read_error", self.path(payload), message) from problem

    def look(self, payload: Payload) -> PayloadState:
        """Tell whether a payload is there and is what its name says.

        Raises:
            ClusterStateError: ``catalog_payload_read_error``.
        """
        data = self.read(payload)
        if data is None:
            return PayloadState.MISSING
        return PayloadState.WHOLE if file_digest(data) == payload.digest else PayloadState.MISMATCH

    def write(self, payload: Payload, data: bytes) -> bool:
        """Store a text unless it is there already; return whether it was not.

        A text that is not what its name says is replaced.

        Raises:
            ClusterStateError: ``resource_payload_write_error``.
        """
        try:
            if self.look(payload) is PayloadState.WHOLE:
                return False
            self._place.objects.put(payload.key, data, sync=True)
        except OmnigraphError as problem:
            message = f"cannot store the text of {payload.address}: {problem.message}"
            raise state_error("resource_payload_write_error", self.path(payload), message) from problem
        return True
