"""Walks over some edges: those of several types, or those that satisfy a condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.entities import EntityUnion
from omnigraph.engine.query.frame import Frame, Mask, Positions, RowIds, distinct, tagged, untagged
from omnigraph.engine.query.functions.kernels import PATH_TYPE
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.operators.expand import passing_destinations
from omnigraph.engine.query.operators.neighbourhood import Neighbourhood, neighbourhoods
from omnigraph.engine.query.operators.paths import Allows, PathSearch, id_ranks, listed, shortest_paths
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.predicates import read_variables, reads_values
from omnigraph.engine.query.topology import Adjacency, Recurrence, incident_edges, reach, spread
from omnigraph.errors import BadValue, QueryRuntimeError
from omnigraph.ir.model import Apply, Condition, Predicate, Walk, operands_of
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY

# Rows that are walked together.
_WALKED_ROWS = 8192
# Edges whose condition is asked at a time.
_ASKED_EDGES = 1 << 18
_CODE_BYTES = 8
# What has a value, or none, for every argument.
_TOTAL = frozenset({"and", "or", "not", "is_null", "is_not_null", "in", "contains", "starts_with", "ends_with", "list"})
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


@record
class _Network:
    """The edges that a walk may use, those of all types numbered together.

    ``near`` says what the numbers of nodes mean, ``edges`` those of edges. ``is_filtered`` says that all edges satisfy
    the condition.
    """

    near: Neighbourhood
    adjacency: Adjacency
    edges: RowIds
    is_filtered: bool


def walk_rows(context: QueryContext, step: Walk, frames: Iterator[Frame]) -> Iterator[Frame]:
    """Bind the destination to every node that a row's source reaches."""
    whole: _Network | None = None
    for frame in frames:
        for start in range(0, frame.length, _WALKED_ROWS):
            piece = frame.slice(start, start + _WALKED_ROWS)
            context.limits.check()
            network = _network(context, step, piece.ids[step.source]) if whole is None else whole
            whole = network if network.near.is_whole else None
            if step.path is not None:
                yield from _path_rows(context, step, network, piece)
                continue
            rows, found, edges = _reached(context, step, network, piece)
            targets = network.near.target_ids(found)
            kept = passing_destinations(context, step, targets)
            rows, bound = rows[kept], {step.destination: targets[kept]}
            if not len(rows):
                continue
            context.limits.check(_CODE_BYTES * len(rows) * (len(piece.ids) + 3))
            if step.edge_variable is not None and edges is not None:
                bound[step.edge_variable] = network.edges[edges[kept]]
            yield piece.take(rows).binding(bound)


def _network(context: QueryContext, step: Walk, sources: RowIds, *, is_whole: bool = False) -> _Network:
    hops = most_hops(context, step)
    parts = neighbourhoods(context, step.edges, step.direction, sources, hops=hops, is_whole=is_whole)
    adjacency, edges, condition = _joined(context, parts), parts[0].all_edges, step.condition
    if len(parts) > 1:
        edges = np.concatenate([tagged(part.all_edges, number) for number, part in enumerate(parts)])
    is_filtered = condition is None
    if condition is not None and is_about_edges(condition, step.edge_variable) and is_total(condition):
        context.limits.check(_CODE_BYTES * len(edges))
        adjacency = adjacency.restricted(_asked(context, step, Frame(length=len(edges)), edges))
        is_filtered = True
    return _Network(near=parts[0], adjacency=adjacency, edges=edges, is_filtered=is_filtered)


def _joined(context: QueryContext, parts: tuple[Neighbourhood, ...]) -> Adjacency:
    """Return the edges of all parts, each numbered behind those of the parts before it."""
    if len(parts) == 1:
        return parts[0].adjacency
    counts = [part.adjacency.edge_count for part in parts]
    context.limits.check(6 * _CODE_BYTES * sum(counts))
    before = np.cumsum([0, *(len(part.all_edges) for part in parts)])
    each = [part.adjacency for part in parts]
    return Adjacency.of_pairs(
        np.concatenate([np.repeat(np.arange(one.node_count), np.diff(one.offsets)) for one in each]),
        np.concatenate([one.targets.astype(np.int64) for one in each]),
        np.concatenate([one.edges.astype(np.int64) + shift for one, shift in zip(each, before, strict=False)]),
        node_count=each[0].node_count,
        target_count=each[0].target_count,
    )


def is_about_edges(condition: Predicate, edge_variable: str | None) -> bool:
    """Whether the edge is all that the condition of a walk looks at."""
    return read_variables(condition) <= {edge_variable} and not reads_values(condition)


class WalkContext(Protocol):
    """What a walk asks of a run."""

    @property
    def options(self) -> QueryOptions:
        """What the caller asked for."""

    @property
    def limits(self) -> Limits:
        """What may be held, and for how long."""


def most_hops(context: WalkContext, step: Walk) -> int:
    """Return after how many hops a walk ends."""
    # A hop beyond what is allowed tells whether a walk without a bound has come to its end; a second one, whether it
    # has if the first one led back to its start.
    return context.options.max_hops + 2 if step.max_hops is None else step.max_hops


def check_hops(context: WalkContext, step: Walk, hop: int) -> None:
    """Refuse a hop that meets new nodes beyond what the options allow to a walk without a bound.

    Raises:
        QueryRuntimeError: it is such a hop.
    """
    most = context.options.max_hops
    if step.max_hops is None and hop > most:
        details = BadValue(what="hops", value=f"more than {most}", expected=f"at most {most}")
        message = f"a traversal without an upper bound still reaches new nodes after {most} hops: {step}"
        raise QueryRuntimeError(message, details=details, hint="add an upper bound to the traversal, or raise max_hops")


def is_total(condition: Predicate) -> bool:
    """Whether a condition never fails, so that it may be asked of edges that no walk comes to."""
    if not isinstance(condition, Condition):
        return True
    calls = (value for value in operands_of(condition) if isinstance(value, Apply))
    return all(call.function in _TOTAL | _COMPARISONS for call in calls)


def _asked(context: QueryContext, step: Walk, frame: Frame, edges: RowIds) -> Mask:
    """Return which edges satisfy the condition, each for its row of the frame."""
    assert step.condition is not None  # noqa: S101 - asked before
    if step.edge_variable is None:
        return context.mask(frame, step.condition)
    inner = context.within({**context.variables, step.edge_variable: step.edge_tables})
    return inner.mask(frame.binding({step.edge_variable: edges}), step.condition)


def _reached(
    context: QueryContext, step: Walk, network: _Network, piece: Frame
) -> tuple[Positions, Positions, Positions | None]:
    """Return for every node that is reached: the position of its row, itself, and the edge if it is bound."""
    codes = network.near.source_codes(piece.ids[step.source])
    if step.binds_edge:
        return incident_edges(network.adjacency, codes, by_id=False)
    is_same_type = context.catalog.edges[step.edges[0]].is_same_type
    if network.is_filtered:
        rows, found = reach(
            network.adjacency,
            codes,
            step.min_hops,
            most_hops(context, step),
            same_type=is_same_type,
            check=context.limits.check,
            on_new_nodes=partial(check_hops, context, step) if step.max_hops is None else None,
        )
        return rows, found, None

    allows = partial(_allowed, context, step, network, piece)
    walk = ConditionedWalk(step=step, adjacency=network.adjacency, allows=allows, is_same_type=is_same_type)
    return *walk.run(context, codes), None


def _allowed(
    context: QueryContext, step: Walk, network: _Network, piece: Frame, rows: Positions, edges: Positions
) -> Mask:
    if network.is_filtered:
        return np.ones(len(edges), dtype=np.bool_)
    return _asked(context, step, piece.take(rows), network.edges[edges])


def _path_rows(context: QueryContext, step: Walk, network: _Network, piece: Frame) -> Iterator[Frame]:
    """Make a row of every path that is kept."""
    near = network.near
    goals, backward = _goals(context, step, network, piece)
    tables = [context.entities(f"edge:{name}") for name in step.edges]
    names = EntityUnion(tables) if len(tables) > 1 else tables[0]
    starts = piece.ids[step.source]

    def is_wanted(rows: Positions, nodes: Positions) -> Mask:
        targets = near.target_ids(nodes)
        wanted = np.ones(len(rows), dtype=np.bool_) if step.goal is None else piece.ids[step.goal][rows] == targets
        passing = np.zeros(len(rows), dtype=np.bool_)
        passing[passing_destinations(context, step, targets)] = True
        return wanted & passing

    def edge_ranks(edges: Positions) -> Positions:
        row_ids = network.edges[edges]
        numbers, _ = untagged(row_ids)
        by_name = np.argsort(np.argsort(np.array(step.edges)))
        return id_ranks(names.values(row_ids, KEY)) * len(step.edges) + by_name[numbers]

    search = PathSearch(
        adjacency=network.adjacency,
        min_hops=step.min_hops,
        max_hops=most_hops(context, step),
        is_same_type=context.catalog.edges[step.edges[0]].is_same_type,
        keeps_all=step.keeps_all_paths,
        allows=partial(_allowed, context, step, network, piece),
        node_ranks=lambda nodes: id_ranks(near.to_entities.values(near.target_ids(nodes), KEY)),
        edge_ranks=edge_ranks,
        is_wanted=is_wanted,
        check=context.limits.check,
        on_new_nodes=partial(check_hops, context, step),
        goals=goals,
        backward=backward,
        is_capped=step.max_hops is None,
    )
    for found in shortest_paths(search, near.source_codes(starts)):
        if not len(found.rows):
            continue
        nodes = [near.to_entities.values(near.target_ids(column), KEY) for column in found.nodes]
        parts = [
            listed([near.from_entities.values(starts[found.rows], KEY), *nodes]),
            listed([names.values(network.edges[column], KEY) for column in found.edges]),
        ]
        context.limits.check(sum(part.nbytes for part in parts))
        paths = pa.StructArray.from_arrays(parts, fields=list(PATH_TYPE))
        bound = piece.take(found.rows).binding({step.destination: near.target_ids(found.nodes[-1])})
        yield bound.carrying({str(step.path): paths})


def _goals(
    context: QueryContext, step: Walk, network: _Network, piece: Frame
) -> tuple[Positions | None, tuple[Adjacency, Allows] | None]:
    """Return where the paths of each row end, and the edges seen from there; both only where the goal is bound."""
    # Between two types there is one hop, and nothing to stop; nodes of both are numbered by themselves.
    if step.goal is None or not context.catalog.edges[step.edges[0]].is_same_type:
        return None, None
    ids = piece.ids[step.goal]
    goals = network.near.target_codes(ids)
    if not network.near.is_whole:
        return goals, None
    other = network
    if step.direction != "both":
        turned = replace(step, direction="in" if step.direction == "out" else "out")
        other = _network(context, turned, ids, is_whole=True)
    return goals, (other.adjacency, partial(_allowed, context, step, other, piece))


@record
class ConditionedWalk:
    """A walk whose condition is asked of the edges that it comes to, row by row."""

    step: Walk
    adjacency: Adjacency
    allows: Allows
    is_same_type: bool

    def run(self, context: WalkContext, codes: Positions) -> tuple[Positions, Positions]:
        """Return every node that a row's node reaches, once per row."""
        step, width = self.step, max(1, self.adjacency.target_count)
        min_hops, rows, nodes = step.min_hops, np.arange(len(codes)), codes
        frontier = rows * width + nodes
        visited = frontier if self.is_same_type and min_hops == 1 else np.zeros(0, dtype=np.int64)
        recurrence = Recurrence(frontier)
        emitted = [np.zeros(0, dtype=np.int64)]
        hop, most = 0, most_hops(context, step) if self.is_same_type else 1
        while hop < most and len(rows):
            hop += 1
            loops, frontier = self._followed(context, rows, nodes)
            if hop == min_hops == 1:
                emitted.append(loops)
            if hop > min_hops or min_hops == 1:
                frontier = np.setdiff1d(frontier, visited)
            else:
                hop = recurrence.last_round(hop, frontier, min_hops)
            rows, nodes = frontier // width, frontier % width
            others = frontier[nodes != codes[rows]] if self.is_same_type else frontier
            if len(others):
                check_hops(context, step, hop)
            if hop >= min_hops:
                emitted.append(others)
                visited = np.union1d(visited, frontier)
            context.limits.check(_CODE_BYTES * (4 * len(frontier) + len(visited) + sum(map(len, emitted))))
        keys = distinct(np.concatenate(emitted))
        return keys // width, keys % width

    def _followed(self, context: WalkContext, rows: Positions, nodes: Positions) -> tuple[Positions, Positions]:
        """Return the loops at some nodes, and the nodes one hop ahead, both as keys of row and node."""
        width, offsets = max(1, self.adjacency.target_count), self.adjacency.offsets
        ends = np.cumsum(offsets[nodes + 1] - offsets[nodes])
        loops, ahead = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        begin = 0
        while begin < len(nodes):
            done = int(ends[begin - 1]) if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, done + _ASKED_EDGES, side="right")))
            at_rows, at = spread(offsets, nodes[begin:stop])
            at_rows = at_rows + begin
            context.limits.check(6 * _CODE_BYTES * len(at_rows))
            allowed = self.allows(rows[at_rows], self.adjacency.edges[at].astype(np.int64))
            targets, at_rows = self.adjacency.targets[at][allowed].astype(np.int64), at_rows[allowed]
            keys = rows[at_rows] * width + targets
            is_loop = (targets == nodes[at_rows]) & self.is_same_type
            loops.append(keys[is_loop])
            ahead.append(keys[~is_loop])
            begin = stop
        return np.concatenate(loops), distinct(np.concatenate(ahead))
