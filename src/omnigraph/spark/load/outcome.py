"""What all parts of the input add up to: rows per type, problems in the order of the input, rows that break a rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.load.problems import ProblemList
from omnigraph.errors import Violation, Violations
from omnigraph.errors.details import details_from_json
from omnigraph.records import record
from omnigraph.spark.keys import KeysFile, Places
from omnigraph.spark.load.written import PartType, ProblemFile, RowsFile, WrittenPart
from omnigraph.store.scratch import ScratchPlace


@record
class LoadedType:
    """All that was read of one type, in the order of the input."""

    owner: NodeType | EdgeType
    rows: int
    has_fresh_ids: bool
    keys: tuple[KeysFile, ...]
    fragments: tuple[str, ...]
    aside: tuple[RowsFile, ...]


@record
class Outcome:
    """What tasks made of the input; made by :meth:`of`.

    Args:
        scratch: where their files are.
        parts: what they told, in the order of the input.
        places: what row numbers stand for.
        types: the types that have rows, by table key.
    """

    scratch: ScratchPlace
    parts: tuple[WrittenPart, ...]
    places: Places
    types: Mapping[str, LoadedType]

    @classmethod
    def of(cls, catalog: Catalog, scratch: ScratchPlace, parts: Iterable[WrittenPart], places: Places) -> Outcome:
        """Add up parts, whatever their order."""
        ordered = tuple(sorted(parts, key=lambda part: part.number))
        found: dict[str, list[PartType]] = {}
        for part in ordered:
            for item in part.types:
                found.setdefault(item.table_key, []).append(item)
        types = {key: _loaded(catalog, key, items) for key, items in sorted(found.items())}
        return cls(scratch=scratch, parts=ordered, places=places, types=types)

    def report(self, problems: ProblemList) -> None:
        """Hand over the rows that cannot be read or do not fit their type."""
        for part in self.parts:
            for file in part.problems:
                problems.add_counted(file.count, partial(self._read, file, self._offset(part)))

    def broken_rows(self, limit: int) -> Violations:
        """Return the rows that break a rule by themselves, the first ``limit`` of them described."""
        files = list(self._broken_files())
        items: list[Violation] = []
        for file, offset in files:
            if len(items) >= limit:
                break
            items += self._read(file, offset)
        return Violations(items=tuple(items[:limit]), total=sum(file.count for file, _ in files))

    def every_broken_row(self) -> Iterator[Violation]:
        """Return all rows that break a rule by themselves: nodes before edges, type by type, rule by rule."""
        for file, offset in self._broken_files():
            yield from self._read(file, offset)

    def _broken_files(self) -> Iterable[tuple[ProblemFile, int]]:
        found = [(part, broken) for part in self.parts for broken in part.broken]
        # Within a rule parts stay in the order of the input.
        found.sort(key=lambda item: (_judged(item[1].table_key), item[1].place))
        for part, broken in found:
            yield broken.file, self._offset(part)

    def _offset(self, part: WrittenPart) -> int:
        return self.places.offsets[part.source_number] if self.places.offsets else 0

    def _read(self, file: ProblemFile, offset: int) -> Iterator[Violation]:
        for line in (self.scratch.get(file.name) or b"").splitlines():
            violation = cast("Violation", details_from_json(Violation, msgspec.json.decode(line)))
            yield replace(violation, line=violation.line + offset) if offset and violation.line else violation


def _loaded(catalog: Catalog, key: str, items: Sequence[PartType]) -> LoadedType:
    kind, _, name = key.partition(":")
    return LoadedType(
        owner=catalog.nodes[name] if kind == "node" else catalog.edges[name],
        rows=sum(item.rows for item in items),
        has_fresh_ids=all(item.has_fresh_ids for item in items),
        keys=tuple(file for item in items for file in item.keys),
        fragments=tuple(fragment for item in items for fragment in item.fragments),
        aside=tuple(file for item in items for file in item.aside),
    )


def _judged(table_key: str) -> tuple[bool, bytes]:
    kind, _, name = table_key.partition(":")
    return kind == "edge", name.encode()
