"""The process that dies in the middle of a write with an idempotency key: ``python -m tests.crash.keyed_child``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from omnigraph.runtime import CallContext, Runtime, calling
from omnigraph.store.location import Storage
from omnigraph.txn.publish.kinds import WriteKind
from tests.crash.child import Job, main
from tests.txn_graph import PERSON, authority_of, node_rows, open_graph

CALL = CallContext(request_id="first", idempotency_key="order-17", payload_digest="one person")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeyedJob(Job):
    """A crash of a keyed write."""

    module: ClassVar[str] = "tests.crash.keyed_child"

    def run(self, runtime: Runtime) -> None:
        """Do the work of the job."""
        send(Storage.open(self.root, self.options), CALL, runtime=runtime)


def send(storage, call, **kwargs):
    """Insert a person with an id of its own, as every attempt of a client does that lost the answer."""
    with open_graph(storage, **kwargs) as graph, calling(call):
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows([txn.commit_id]), has_fresh_ids=True)
        txn.receipt = lambda: {"inserted": 1}
        return branch_writer.commit(txn)


if __name__ == "__main__":
    main(KeyedJob)
