"""Debug runs compare what is held in memory of a version with what its tables hold, as soon as it is made.

``OMNIGRAPH_CHECK_MEMORY=1`` switches it on. Every check reads whole tables. It works on copies, so that nothing that
is made on first use exists sooner than it would without the check.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.query.topology.segments import SOURCE, TARGET
from omnigraph.errors import InternalError
from omnigraph.ir.model import Direction
from omnigraph.store.tables.pinned import KEY, ROW_ID

if TYPE_CHECKING:
    from omnigraph.engine.query.search.index import TextIndex
    from omnigraph.engine.query.topology.image import TableImage
    from omnigraph.engine.query.topology.layers import LayeredEdges
    from omnigraph.engine.query.topology.node_numbers import NodeNumbers

Numbers = npt.NDArray[Any]

_DIRECTIONS: tuple[Direction, ...] = ("out", "in", "both")
# So few at a time that no table of all of them is made.
_AT_ONCE = 2


def check_image(image: TableImage) -> None:
    """Compare the row ids and the codes of an image with its table."""
    probe = copy(image)
    stored = probe.table.read([ROW_ID]).column(ROW_ID).to_numpy().astype(np.uint64)
    codes = np.arange(len(stored))
    _expect(probe, "rows", probe.row_count, len(stored))
    for few in _parts(codes):
        _expect(probe, "row ids by code", probe.row_ids_of(few), stored[few])
        _expect(probe, "codes by row id", probe.codes_of(stored[few]), few)
    _expect(probe, "row ids", probe.row_ids, stored)
    _expect(probe, "codes", probe.codes_of(stored), codes)
    _expect(probe, "row ids by code", probe.row_ids_of(codes), stored)
    if probe.table.datasets.storage.is_local and KEY in probe.table.schema.names:
        _check_keys(probe, stored)


def check_column(image: TableImage, name: str, values: pa.ChunkedArray) -> None:
    """Compare a column in memory with the table."""
    stored = image.table.read([name]).column(name)
    # As texts, since not-a-number is unlike itself.
    _expect(image, f"column '{name}'", *([repr(value) for value in one.to_pylist()] for one in (values, stored)))


def check_layers(layers: LayeredEdges) -> None:
    """Compare the numbers of nodes, and the edges on every way that leads along them, with the tables."""
    for numbers in (layers.sources, layers.targets):
        _check_numbers(_probe_numbers(numbers))
    stored = _stored(layers)
    is_same = layers.sources.image.pin == layers.targets.image.pin
    for direction in _DIRECTIONS if is_same else _DIRECTIONS[:2]:
        expected = _walked(stored, direction)
        near, far = _sides(layers, direction)
        for walk in (_steps, _adjacency, _overlaid):
            what = f"{walk.__name__[1:]} {direction} from {near.image.pin} to {far.image.pin}"
            try:
                found = walk(_probe(layers), direction)
            except (IndexError, ValueError) as error:
                # Arrays that do not go together.
                _expect(layers.edges, what, repr(error), expected)
            else:
                _expect(layers.edges, what, found, expected)


def check_texts(index: TextIndex, texts: pa.ChunkedArray) -> None:
    """Compare the index of a version with one that is made of its texts, by code, and nothing else."""
    plain = type(index).build(texts, lambda _: None)
    for name in ("row_count", "text_count", "term_count"):
        _expect(index, name, getattr(index, name), getattr(plain, name))
    terms = {term for one in (index, plain) for part in one.parts for term in part.postings.terms.to_pylist()}
    for term in sorted(term.decode() for term in terms):
        _expect(index, f"rows with '{term}'", index.matches(term), plain.matches(term))
        _expect(index, f"scores of '{term}'", _scores(index, term), _scores(plain, term))


def _check_keys(image: TableImage, stored: Numbers) -> None:
    ids = image.table.read([KEY]).column(KEY)
    known = image.table.all_key_candidates(pa.concat_arrays([pa.array([], ids.type), *ids.chunks]))
    if known is not None:
        wanted, row_ids = known
        pairs = set(zip(wanted.tolist(), row_ids.tolist(), strict=True))
        _expect(image, "keys", [pair for pair in enumerate(stored.tolist()) if pair not in pairs], [])


def _check_numbers(numbers: NodeNumbers) -> None:
    image = numbers.image
    stored = image.row_ids
    for few in _parts(np.arange(len(stored))):
        of_few = numbers.of(stored[few])
        _expect(image, "row ids by number", copy(numbers).row_ids(of_few), stored[few])
    mine = numbers.of(stored)
    _expect(image, "numbers that stand twice", len(np.unique(mine)), len(mine))
    _expect(image, "numbers out of bounds", mine[(mine < 0) | (mine >= numbers.count)], [])
    _expect(image, "numbers of deleted nodes", np.intersect1d(mine, numbers.deleted), [])
    _expect(image, "codes by number", numbers.codes[mine], np.arange(len(stored)))
    others = np.setdiff1d(np.arange(numbers.count), mine)
    _expect(image, "codes of numbers without a node", numbers.codes[others], np.full(len(others), -1))


def _probe(layers: LayeredEdges) -> LayeredEdges:
    """Return the same version with nothing in it that is made on first use."""
    probe = copy(layers)
    for name in ("_overlaid_out", "_overlaid_in", "_added", "_added_out", "_added_in", "_edge_codes"):
        probe.__dict__.pop(name, None)
    probe.edges = copy(layers.edges)
    probe.sources = _probe_numbers(layers.sources)
    probe.targets = probe.sources if layers.targets is layers.sources else _probe_numbers(layers.targets)
    probe.segments = {key: segment.copied() for key, segment in layers.segments.items()}
    return probe


def _probe_numbers(numbers: NodeNumbers) -> NodeNumbers:
    probe = copy(numbers)
    probe.image = copy(numbers.image)
    return probe


def _sides(layers: LayeredEdges, direction: Direction) -> tuple[NodeNumbers, NodeNumbers]:
    return (layers.targets, layers.sources) if direction == "in" else (layers.sources, layers.targets)


def _stored(layers: LayeredEdges) -> list[tuple[int, int, int]]:
    """Return the edges whose ends are there as the tables hold them, by row id: source, target, edge."""
    near, far = (_row_ids_by_id(numbers.image) for numbers in (layers.sources, layers.targets))
    rows = layers.edges.table.read([SOURCE, TARGET, ROW_ID])
    every = zip(*(rows.column(name).to_pylist() for name in (SOURCE, TARGET, ROW_ID)), strict=True)
    return [(near[source], far[target], edge) for source, target, edge in every if source in near and target in far]


def _row_ids_by_id(image: TableImage) -> dict[str, int]:
    rows = image.table.read([KEY, ROW_ID])
    return dict(zip(rows.column(KEY).to_pylist(), rows.column(ROW_ID).to_pylist(), strict=True))


def _walked(stored: list[tuple[int, int, int]], direction: Direction) -> list[tuple[int, ...]]:
    back = [(target, source, edge) for source, target, edge in stored]
    return sorted({"out": stored, "in": back, "both": {*stored, *back}}[direction])


def _steps(layers: LayeredEdges, direction: Direction) -> list[tuple[int, ...]]:
    near, _ = _sides(layers, direction)
    found: list[tuple[int, ...]] = []
    for few in _parts(near.image.row_ids):
        step = layers.step(direction, np.sort(few), lambda _: None)
        found += zip(step.sources.tolist(), step.targets.tolist(), step.edges.tolist(), strict=True)
    return sorted(found)


def _overlaid(layers: LayeredEdges, direction: Direction) -> list[tuple[int, ...]]:
    near, far = _sides(layers, direction)
    found: list[tuple[int, ...]] = []
    if direction == "both":
        return _steps(layers, direction)
    links = layers.overlaid(direction)
    for few in _parts(near.image.row_ids):
        rows, targets, edges = links.entries(near.of(few))
        triples = few[rows], far.row_ids(targets), layers.edges.row_ids[edges]
        found += zip(*(part.tolist() for part in triples), strict=True)
    return sorted(found)


def _adjacency(layers: LayeredEdges, direction: Direction) -> list[tuple[int, ...]]:
    near, far = _sides(layers, direction)
    made = layers.adjacency(direction, lambda _: None)
    nodes = np.repeat(np.arange(made.node_count), np.diff(made.offsets))
    triples = near.image.row_ids[nodes], far.image.row_ids[made.targets], layers.edges.row_ids[made.edges]
    return sorted(zip(*(part.tolist() for part in triples), strict=True))


def _scores(index: TextIndex, term: str) -> list[tuple[int, float]]:
    codes, scores = index.scores(term)
    return list(zip(codes.tolist(), scores.tolist(), strict=True))


def _parts(values: Numbers) -> Iterable[Numbers]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _expect(of: object, what: str, found: object, expected: object) -> None:
    one, other = (value.tolist() if isinstance(value, np.ndarray) else value for value in (found, expected))
    if one != other:
        if isinstance(one, list) and isinstance(other, list):
            lacking, extra = [x for x in other if x not in one][:4], [x for x in one if x not in other][:4]
            problem = f"{lacking} are missing, {extra} are there instead"
        else:
            problem = f"{one} instead of {other}"
        raise InternalError(f"{of} in memory differs from its table: {what}: {problem}")
