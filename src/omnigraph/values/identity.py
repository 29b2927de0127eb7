"""Ids that name things across renames, processes and machines, one type each so that they cannot be mixed up."""

from __future__ import annotations

from typing import NewType

from omnigraph.values.ulid import Ulid

TypeId = NewType("TypeId", int)
PropertyId = NewType("PropertyId", int)
IncarnationId = NewType("IncarnationId", int)
CommitId = NewType("CommitId", Ulid)
OperationId = NewType("OperationId", Ulid)
EntityId = NewType("EntityId", str)
