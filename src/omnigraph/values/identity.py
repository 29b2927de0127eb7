"""Ids that name things across renames, processes and machines, one type each so that they cannot be mixed up."""

from __future__ import annotations

from typing import NewType

TypeId = NewType("TypeId", int)
PropertyId = NewType("PropertyId", int)
IncarnationId = NewType("IncarnationId", int)
CommitId = NewType("CommitId", str)
OperationId = NewType("OperationId", str)
EntityId = NewType("EntityId", str)
