"""What an algorithm found, written as a property of its nodes: one commit, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import FLOATS, INTEGERS, NodeType, PropertyDef
from omnigraph.engine.algorithms.found import Found
from omnigraph.engine.algorithms.projection import Projection
from omnigraph.engine.algorithms.run import AlgorithmCall, AlgorithmState, compute, table_of
from omnigraph.engine.comparison import one_array
from omnigraph.engine.constraints import check_change
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.query.context import ReadMemory
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.engine.results.info import WrittenProperty
from omnigraph.engine.view import GraphView
from omnigraph.errors import (
    AffectedLimitError,
    AlgorithmInputError,
    BadValue,
    LimitExceeded,
    SchemaMovedError,
    UsageError,
)
from omnigraph.records import record
from omnigraph.runtime import counting, current_call, smallest
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.transaction import CommitView, OnConflict, WriteTxn
from omnigraph.values import CommitId, check_text, meant
from omnigraph.values.counts import counted

Mask = npt.NDArray[np.bool_]


def write_algorithm(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
    branch_writer: BranchWriter,
    catalog: Catalog,
    call: AlgorithmCall,
    write: str,
    *,
    memory: ReadMemory,
    actor: str | None = None,
    message: str | None = None,
    expected_head: CommitId | None = None,
    on_conflict: OnConflict = "rerun",
    schema_hash: str | None = None,
    max_affected: int | None = None,
) -> Result:
    """Run an algorithm on the newest state of a branch, and write what it found as a property of the nodes.

    Only nodes whose value changes are written. If another writer changes rows that it was computed from before it is
    published, it is run again on the newer state; the rows returned are those of the run that was published.

    Args:
        branch_writer: the branch to write to.
        catalog: the schema of that branch.
        call: the algorithm.
        write: the property, which every node type must have; ``Person.score`` writes it for one type alone.
        memory: what reads of the graph share.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        on_conflict: ``refuse`` raises instead when rows that it was computed from have changed.
        schema_hash: the hash of the accepted schema that ``catalog`` is; a branch with another one is refused.
        max_affected: how many nodes may change; with more it fails and changes nothing.

    Raises:
        AlgorithmInputError: a type has no such property, or its type does not hold what the algorithm finds.
        AffectedLimitError: more nodes would change than may.
        ConstraintViolationError: the graph would break a rule of its schema.
        OmnigraphError: whatever running it raises, and what any commit does.
    """
    targets = target_properties(catalog, call, write)
    runtime = branch_writer.services.runtime
    started_s = runtime.clock.monotonic_s()
    txn = branch_writer.begin(WriteKind.MUTATE, actor=actor, message=message, expected_head=expected_head)
    found_hash = txn.snapshot.state.schema.hash
    if schema_hash is not None and found_hash != schema_hash:
        details = BadValue(what="schema", value=found_hash, expected=schema_hash)
        raise SchemaMovedError("the accepted schema changed while the algorithm was being prepared", details=details)
    writing = _Writing(
        catalog=catalog, call=call, targets=targets, memory=memory, max_affected=max_affected, writer=branch_writer
    )
    writing.decide(txn)
    if on_conflict == "rerun":
        txn.decide = writing.decide
    txn.receipt = lambda: {"algorithm": call.algorithm.name, "property": write, **writing.counts}
    base = str(txn.snapshot.state.head.commit)
    done = branch_writer.commit(txn)
    branch = str(branch_writer.services.line.name)
    commit_id = None if done.commit is None else str(done.commit.id)
    info = ReadInfo(
        query_name=call.algorithm.name,
        branch=branch,
        commit_id=base if txn.reruns == 0 else str(txn.snapshot.state.head.commit),
        elapsed_s=runtime.clock.monotonic_s() - started_s,
        warnings=writing.warnings,
        written=WrittenProperty(property=write, commit_id=commit_id, **writing.counts),
    )
    return Result(writing.rows.schema, writing.rows, info, txn.counters)


def repeated_write(commit: Commit, receipt: Mapping[str, Any]) -> Result:
    """Return what a repeated request is told: commit and counts of the first; its rows are not kept."""
    schema = pa.schema([("type", pa.string()), ("id", pa.string())])
    counts = {name: int(receipt.get(name, 0)) for name in ("updated", "unchanged")}
    info = ReadInfo(
        query_name=str(receipt.get("algorithm", "")),
        branch=commit.branch,
        commit_id=str(commit.id),
        warnings=("this request was executed before; its rows are not stored",),
        written=WrittenProperty(property=str(receipt.get("property", "")), commit_id=str(commit.id), **counts),
    )
    return Result(schema, schema.empty_table(), info)


def target_properties(catalog: Catalog, call: AlgorithmCall, write: str) -> dict[str, PropertyDef]:
    """Return the property to write by node type; raises before anything is read.

    Raises:
        AlgorithmInputError: a type has no such property, or its type does not hold what the algorithm finds.
        UsageError: what it finds is not about single nodes.
        TypeMissingError: the schema has no such edge type.
    """
    check_text("write", write)
    if call.algorithm.column is None or call.params.get("target") is not None or call.params.get("each"):
        details = BadValue(what="write", value=write, expected="nothing")
        raise UsageError(f"rows of this {call.algorithm.name} are not about single nodes", details=details)
    types = sorted({name for edge in call.edge_types(catalog) for name in (edge.from_type, edge.to_type)})
    owner, dot, name = write.rpartition(".")
    if dot and owner not in types:
        details = BadValue(what="write", value=write, expected=" or ".join(f"{one}.{name}" for one in types))
        raise AlgorithmInputError(f"'{owner}' is not a node type at the ends of these edges", details=details)
    return {one: _target(catalog.nodes[one], call, name) for one in types if not dot or one == owner}


def _target(node: NodeType, call: AlgorithmCall, name: str) -> PropertyDef:
    kind, prop = call.algorithm.kind_of(call.params), node.get(name)
    wanted = {"whole number": "I64", "number": "F64", "vector": f"Vector({call.params.get('dimension')})"}[kind]
    if prop is None:
        near = meant(name, [one.name for one in node.properties])
        details = BadValue(what="write", value=name, expected=f"a property of {node.name} of type {wanted}?")
        raise AlgorithmInputError(
            f"node type '{node.name}' has no property '{name}' to write to",
            details=details,
            hint=f"{'' if near is None else f'{near} else '}add the line `{name}: {wanted}?` to node {node.name} of the"
            " schema and apply it",
        )
    fits = {
        "whole number": prop.type.scalar in INTEGERS | FLOATS,
        "number": prop.type.scalar in FLOATS,
        "vector": prop.type.is_vector and prop.type.dimension == call.params.get("dimension"),
    }[kind]
    if not fits or prop.type.is_list or name in (node.key or ()):
        why = "is part of the key" if name in (node.key or ()) else f"is {prop.type}, and {wanted}? is needed"
        details = BadValue(what="write", value=str(prop.type), expected=f"{wanted}?")
        raise AlgorithmInputError(f"property '{name}' of '{node.name}' {why}", details=details)
    return prop


@record(frozen=False)
class _Writing:
    """A run on the state of a transaction; ``rows``, ``counts`` and ``warnings`` are those of the last one."""

    catalog: Catalog
    call: AlgorithmCall
    targets: Mapping[str, PropertyDef]
    memory: ReadMemory
    max_affected: int | None
    writer: BranchWriter
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    counts: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def decide(self, txn: WriteTxn) -> None:
        """Run the algorithm on the state of a transaction, and add the nodes that change to it."""
        clock = self.writer.services.runtime.clock
        limits = Limits(self.call.options, clock, "algorithm")
        state = AlgorithmState(tables=txn.snapshot, catalog=self.catalog, memory=self.memory)
        edges = self.call.edge_types(self.catalog)
        for edge in edges:
            for table_key in (edge.table_key, f"node:{edge.from_type}", f"node:{edge.to_type}"):
                txn.read_table(table_key)
        staging = MutationStaging(txn, self.catalog)
        with counting(txn.counters), txn.snapshot.reading():
            graph, found = compute(state, self.call, limits)
            self.rows, self.warnings = table_of(graph, found, self.call.limit), found.warnings
            limits.check_rows(self.rows.num_rows)
            updated = unchanged = 0
            for node, ids, values in self._values(graph, found):
                is_changed = self._put(txn, staging, node, ids, values)
                updated += int(is_changed.sum())
                unchanged += len(ids) - int(is_changed.sum())
            self.counts = {"updated": updated, "unchanged": unchanged}
            self._check_affected(updated)
            change = staging.net_change()

        def check(view: CommitView) -> None:
            check_change(change, GraphView.of_commit(view, self.catalog))

        if not change.is_empty:
            txn.add_check(check)

    def _values(self, graph: Projection, found: Found) -> Iterator[tuple[NodeType, pa.Array, pa.Array]]:
        """Yield the ids of each type with the value of each node; null for nodes that have none."""
        places = np.full(graph.node_count, -1, dtype=np.int64)
        places[found.nodes] = np.arange(len(found.nodes))
        column = found.columns[str(self.call.algorithm.column)]
        for number, (name, ids) in enumerate(zip(graph.nodes.types, graph.nodes.ids, strict=True)):
            if name in self.targets:
                start, stop = graph.nodes.starts[number : number + 2]
                mine = places[start:stop]
                values = column.take(pa.array(mine, pa.int64(), mask=mine < 0))
                yield self.catalog.nodes[name], ids, self._fitted(name, ids, values)

    def _fitted(self, type_name: str, ids: pa.Array, values: pa.Array) -> pa.Array:
        prop = self.targets[type_name]
        of = arrow_schema(self.catalog.nodes[type_name]).field(prop.name).type
        if values.null_count and not prop.type.nullable:
            first = ids[int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])].as_py()
            details = BadValue(what="write", value=str(prop.type), expected=f"{prop.type}?")
            raise AlgorithmInputError(
                f"{type_name} '{first}' has no {self.call.algorithm.column}, and '{prop.name}' must have a value",
                details=details,
                hint=f"make it `{prop.name}: {prop.type}?` in the schema",
            )
        try:
            return one_array(pa.chunked_array([values.cast(of, safe=not pa.types.is_floating(of))]))
        except pa.ArrowInvalid as problem:
            details = BadValue(what="write", value=str(prop.type), expected="a wider type")
            raise AlgorithmInputError(
                f"a value of {self.call.algorithm.name} does not fit property '{prop.name}' of '{type_name}'",
                details=details,
            ) from problem

    def _put(self, txn: WriteTxn, staging: MutationStaging, node: NodeType, ids: pa.Array, values: pa.Array) -> Mask:
        """Add the nodes whose value changes to what is staged, and return which these are."""
        name = self.targets[node.name].name
        stored = GraphView(txn.snapshot, self.catalog).all_rows(node.table_key, [KEY, name])
        places = one_array(pc.index_in(ids, value_set=one_array(stored.column(KEY))))
        is_changed = ~_equal(one_array(stored.column(name)).take(places), values)
        if is_changed.any():
            chosen = pa.array(is_changed)
            changed, given = ids.filter(chosen), values.filter(chosen)
            schema = arrow_schema(node)
            rows = staging.rows_with_ids(node, changed, schema.names)
            order = pc.index_in(rows.column(KEY), value_set=changed)
            rows = rows.set_column(
                rows.schema.get_field_index(name), rows.schema.field(name), given.take(one_array(order))
            )
            staging.pending(node).put(rows.select(schema.names))
        return is_changed

    def _check_affected(self, count: int) -> None:
        most = smallest(self.max_affected, current_call().max_affected)
        if most is not None and count > most:
            details = LimitExceeded(resource="affected entities", limit=most, actual=count)
            raise AffectedLimitError(
                f"{counted(count, 'entity', 'entities')} would change, and at most {most} may", details=details
            )


def _equal(old: pa.Array, new: pa.Array) -> Mask:
    """Return in which rows two columns of one type hold the same; null is the same as null."""
    null_old, null_new = (one.is_null().to_numpy(zero_copy_only=False) for one in (old, new))
    if pa.types.is_fixed_size_list(old.type):
        width = old.type.list_size
        same = np.zeros(len(old), dtype=np.bool_)
        both = ~null_old & ~null_new
        some = [one.filter(pa.array(both)).flatten().to_numpy(zero_copy_only=False) for one in (old, new)]
        same[both] = (some[0] == some[1]).reshape(-1, width).all(axis=1)
    else:
        same = pc.fill_null(pc.equal(old, new), fill_value=False).to_numpy(zero_copy_only=False)
    return np.asarray(same | (null_old & null_new), dtype=np.bool_)
