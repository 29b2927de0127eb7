"""The task of a write: rows of one partition become fragments and keys files that nothing refers to yet."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.engine.load.embedding import MissingVectors
from omnigraph.records import record
from omnigraph.runtime import Counters, World
from omnigraph.spark.load.reading import read_batches
from omnigraph.spark.load.written import PartWriter, WriteOrders, WrittenPart
from omnigraph.spark.source.sessions import reading_session
from omnigraph.spark.source.write_plan import WritePlan
from omnigraph.store.pins import TablePin
from omnigraph.store.portable import TableTicket
from omnigraph.values import BranchName

MAY_GO = b"nothing names them"


@record
class StagedRows:
    """What a task tells of its partition.

    Args:
        part: what it wrote.
        schema_hash: the schema that the rows were read with.
        read_on: the version of the branch that the task looked at.
        place: where fragments were written to; None when rows were put aside.
        operation_id: the scratch place that they are in.
        leave: the scratch object that says, while it holds ``MAY_GO``, that no commit can name the fragments.
    """

    part: WrittenPart
    schema_hash: str
    read_on: int
    place: TablePin | None
    operation_id: str
    leave: str


def stage_rows(plan: WritePlan, number: int, batches: Iterator[pa.RecordBatch]) -> StagedRows:
    """Read the rows of partition ``number`` and write them beside their table.

    A stream outlives the versions that it began with, so every task looks at the newest state.

    Raises:
        BadRowsError: a column is unknown, missing or of another type.
        SparkUnsupportedError: rows leave a vector to be computed.
    """
    session, counters = reading_session(plan.storage), Counters()
    snapshot = session.snapshot(plan.branch)
    catalog = session.catalog_at(snapshot)
    binding = plan.binding(catalog)
    pin = snapshot.entry(binding.owner.table_key).pin
    # A table that the branch only inherits has no place of its own yet; a merge compares before it writes.
    is_direct = plan.mode != "merge" and session.store.branch_line(BranchName.parse(plan.branch), counters).owns(pin)
    vectors = MissingVectors.find(catalog, session.embedder)
    orders = WriteOrders(
        catalog=catalog,
        scratch=plan.scratch,
        tickets={binding.owner.table_key: TableTicket(storage=plan.storage, pin=pin)} if is_direct else {},
        opened=None if vectors is None else vectors.catalog,
    )
    writer = PartWriter(orders, number=number, source_number=number, source_name=plan.title)
    part = read_batches(orders, binding, writer, batches)
    world = World.system()
    # Another attempt at the same partition has one of its own, which says nothing about these fragments.
    leave = f"leave/{number}-{world.ids.ulid()}"
    if is_direct and part.types:
        plan.scratch.put(leave, MAY_GO)
    world.failpoints.hit("spark.source.after_rows")
    return StagedRows(
        part=part,
        schema_hash=snapshot.state.schema.hash,
        read_on=snapshot.state.version,
        place=pin if is_direct else None,
        operation_id=plan.scratch.operation_id,
        leave=leave,
    )
