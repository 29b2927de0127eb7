"""Which ``@embed`` vectors do not fit their texts any more, told by what the commits of a branch have changed.

A vector is stale when it is missing though its text is there, or when its text was changed by a commit that left the
vector alone. So the states of the branch are compared one after the other, from the state that the last complete run
has seen; each comparison reads the rows that the two states do not share. A text that is what it was when the vector
was made is not stale, whatever it was in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.embedding.rewrite import StaleRows, Target
from omnigraph.engine.equality import columns_equal
from omnigraph.engine.versions import SupportsHistory
from omnigraph.errors import CommitMissingError, HistoryGoneError
from omnigraph.history.diff.selection import Selection, select_differing
from omnigraph.records import record
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.table import Table
from omnigraph.txn.manifest.rows import AcceptedSchema, Commit
from omnigraph.txn.snapshot import GraphSnapshot

RUN_MARK = "omnigraph.embed"
"""The name under which a branch remembers the last complete run: the position of the state that it has seen."""


@record
class StaleVectors:
    """What was found: rows by property, the position of the state, and what could not be told."""

    rows: tuple[StaleRows, ...]
    position: int
    warnings: tuple[str, ...] = ()


def find_stale(
    history: SupportsHistory,
    snapshot: GraphSnapshot,
    catalog_of: Callable[[AcceptedSchema], Catalog],
    targets: Sequence[Target],
    *,
    every: bool = False,
) -> StaleVectors:
    """Return the rows of a state whose vectors are stale; with ``every``, all that have a text."""
    line = history.line_of(snapshot)
    newest = line.position_of(snapshot.state.head.commit)
    position = len(line) - 1 if newest is None else newest
    warnings: tuple[str, ...] = ()
    outdated: dict[str, set[str]] = {}
    if not every:
        since = snapshot.state.batches.get(RUN_MARK, 0)
        states, warnings = _states(history, snapshot, [line.at(at) for at in range(min(since, position), position)])
        walk = [(state, catalog_of(state.state.schema)) for state in (*states, snapshot)]
        for target in targets:
            outdated[target.field] = set(_outdated(target, walk))
    with snapshot.reading():
        rows = tuple(_rows(snapshot, target, outdated.get(target.field, set()), every=every) for target in targets)
    return StaleVectors(rows=rows, position=position, warnings=warnings)


def _states(
    history: SupportsHistory, snapshot: GraphSnapshot, commits: Sequence[Commit]
) -> tuple[list[GraphSnapshot], tuple[str, ...]]:
    """Return the states that commits made, oldest first, as far back as cleanup has left them."""
    states: list[GraphSnapshot] = []
    head = snapshot.state.head
    last: tuple[str, int] | None = None
    for number in range(len(commits) - 1, -1, -1):
        commit = commits[number]
        place = (str(commit.branch), commit.manifest_version)
        if place == last or place == (str(head.branch), snapshot.state.version):
            continue
        last = place
        try:
            is_gone = commit.branch == head.branch and commit.manifest_version < head.retention_floor
            state = None if is_gone else history.snapshot_of(commit)
        except (HistoryGoneError, CommitMissingError):
            state = None
        if state is None:
            oldest = states[-1].state.head.commit if states else head.commit
            warning = f"texts that changed before commit {oldest} cannot be identified: cleanup has removed the states"
            return states[::-1], (warning,)
        states.append(state)
    return states[::-1], ()


def _outdated(target: Target, walk: Sequence[tuple[GraphSnapshot, Catalog]]) -> Iterator[str]:
    """Yield the ids of rows whose text changed and whose vector did not, since the first of the states."""
    # The text that the vector of a row was made of, for rows that have another one.
    made_of: dict[str, str | None] = {}
    for (before, old), (after, new) in pairwise(walk):
        sides = [_side(before, old, target), _side(after, new, target)]
        if sides[0] is None or sides[1] is None:
            continue
        (first, first_names), (second, second_names) = sides[0], sides[1]
        if first.pin == second.pin and first_names == second_names:
            continue
        with before.reading(), after.reading():
            lost, gained = select_differing(first, second)
            if lost is not None and gained is not None and lost.row_count:
                _step(made_of, _read(lost, first_names), _read(gained, second_names))
    yield from made_of


def _side(snapshot: GraphSnapshot, catalog: Catalog, target: Target) -> tuple[Table, list[str]] | None:
    """Return the table of a target in a state, and what its columns are called there; None when it has none."""
    same = {target.node.id, *target.node.aliases}
    node = next((one for one in catalog.nodes.values() if not same.isdisjoint((one.id, *one.aliases))), None)
    names = [] if node is None else _names(node, target)
    if node is None or len(names) < 2 or snapshot.state.table(node.table_key) is None:
        return None
    return snapshot.table(node.table_key), names


def _names(node: NodeType, target: Target) -> list[str]:
    wanted = [target.node.get(target.source), target.prop]
    return [prop.name for one in wanted if one is not None for prop in node.properties if prop.continues(one)]


def _read(rows: Selection, names: Sequence[str]) -> pa.Table:
    return rows.read([KEY, *names]).rename_columns([KEY, "text", "vector"])


def _step(made_of: dict[str, str | None], old: pa.Table, new: pa.Table) -> None:
    """Take over what one step has changed."""
    places = one_array(pc.index_in(one_array(new.column(KEY)), value_set=one_array(old.column(KEY))))
    for name in new.column(KEY).filter(places.is_null()).to_pylist():
        made_of.pop(name, None)
    both = places.is_valid()
    new, old = new.filter(both), old.take(places.filter(both))
    same_text = columns_equal(old.column("text"), new.column("text"))
    same_vector = columns_equal(old.column("vector"), new.column("vector"))
    for at in np.flatnonzero(~(same_text & same_vector)).tolist():
        name = new.column(KEY)[at].as_py()
        if not same_vector[at]:
            made_of.pop(name, None)
            continue
        text = made_of.setdefault(name, old.column("text")[at].as_py())
        if text == new.column("text")[at].as_py():
            del made_of[name]


def _rows(snapshot: GraphSnapshot, target: Target, outdated: set[str], *, every: bool) -> StaleRows:
    ids, texts, cleared = [], [], []
    among = pa.array(sorted(outdated), pa.string())
    for batch in snapshot.table(target.node.table_key).scan([KEY, target.source, target.prop.name]):
        keys, text, vector = (batch.column(at) for at in range(3))
        is_outdated = pc.is_in(keys, value_set=among)
        is_chosen = pa.array(np.ones(len(keys), dtype=np.bool_)) if every else pc.or_(vector.is_null(), is_outdated)
        wanted = pc.and_(is_chosen, text.is_valid())
        ids.append(keys.filter(wanted))
        texts.append(text.filter(wanted))
        if target.prop.type.nullable:
            cleared.append(keys.filter(pc.and_(pc.and_(is_outdated, text.is_null()), vector.is_valid())))
    return StaleRows(target=target, ids=_joined(ids), texts=_joined(texts), cleared=_joined(cleared))


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([part.cast(pa.string()) for part in parts]) if parts else pa.array([], pa.string())
