"""From tables to a schema: which are nodes and which edges, what their keys are, and the text that says so."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.infer.columns import guess_type, texts_of
from omnigraph.engine.infer.tables import SampledColumn, SampledTable
from omnigraph.lang.pg import format_schema, parse_schema
from omnigraph.lang.pg.builder import RESERVED_ON_EDGES
from omnigraph.records import record
from omnigraph.values.counts import counted
from omnigraph.values.visible import make_visible

_ENDS = (("from", "to"), ("src", "dst"), ("source", "target"), ("from_id", "to_id"), ("source_id", "target_id"))
_KEY_NAMES = ("slug", "key", "id", "code", "uuid", "guid", "name")
_KEYABLE = frozenset({Scalar.STRING, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
_PROPERTY = re.compile(r"[a-z_][A-Za-z0-9_]*", re.ASCII)
_TYPE = re.compile(r"[A-Z][A-Za-z0-9_]*", re.ASCII)


@record
class ProposedProperty:
    """A property, the column that it holds, and the reasons for its type; ``kind`` is None if it was left out."""

    name: str
    column: str
    kind: PropertyType | None
    is_key: bool
    notes: tuple[str, ...]


@record
class ProposedType:
    """A type; an edge has the types of its ends and the columns that hold them."""

    name: str
    origin: str
    rows: int
    properties: tuple[ProposedProperty, ...]
    notes: tuple[str, ...]
    ends: tuple[str, str] | None = None
    end_columns: tuple[str, str] | None = None
    has_pair_key: bool = False


@record
class SchemaProposal:
    """A schema that fits some data: ``text`` with a comment for each guess, and ``types``, the same as data."""

    text: str
    types: tuple[ProposedType, ...] = field(repr=False)
    catalog: Catalog = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        nodes, edges = len(self.catalog.nodes), len(self.catalog.edges)
        return f"<SchemaProposal: {counted(nodes, 'node type')}, {counted(edges, 'edge type')}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"

    def to_json(self) -> dict[str, Any]:
        """Return the text and what it was made of."""
        return {"schema": self.text, "types": [_type_json(one) for one in self.types]}


def propose_schema(tables: Sequence[SampledTable]) -> SchemaProposal:
    """Propose a schema for tables; it compiles, and the tables can be loaded with it."""
    joined = _joined(tables)
    nodes: list[_Node] = []
    waiting: list[tuple[SampledTable, tuple[str, str]]] = []
    for table in joined:
        ends = _end_columns(table)
        if ends is not None:
            waiting.append((table, ends))
        elif table.kind != "edge":
            nodes.append(_Node.of(table, _free_name(_type_name(table.name), {node.name for node in nodes})))
    edges: list[ProposedType] = []
    for table, columns in waiting:
        found = _edge(table, columns, nodes, {edge.name.lower() for edge in edges})
        if found is None:
            nodes.append(_Node.of(table, _free_name(_type_name(table.name), {node.name for node in nodes})))
        else:
            edges.append(found)
    types = (*(node.proposed(nodes) for node in nodes), *edges)
    text = format_schema(parse_schema("\n".join(_lines(types))))
    return SchemaProposal(text=text, types=types, catalog=compile_schema(parse_schema(text)))


def _joined(tables: Iterable[SampledTable]) -> list[SampledTable]:
    """Return one table per name: files of the load format may spread the rows of a type."""
    found: dict[tuple[str | None, str], SampledTable] = {}
    for table in tables:
        place = (table.kind, table.name)
        first = found.get(place)
        found[place] = table if first is None else _both(first, table)
    return list(found.values())


def _both(first: SampledTable, second: SampledTable) -> SampledTable:
    by_name = {column.name: column for column in second.columns}
    names = dict.fromkeys([*(column.name for column in first.columns), *by_name])
    ours = {column.name: column for column in first.columns}
    columns = []
    for name in names:
        left, right = ours.get(name), by_name.get(name)
        known = left or right
        if known is None:
            continue
        values = [
            *(left.values if left else [None] * first.rows),
            *(right.values if right else [None] * second.rows),
        ]
        columns.append(replace(known, values=values))
    return SampledTable(
        name=first.name,
        origin=f"{first.origin} and {second.origin}",
        columns=tuple(columns),
        rows=first.rows + second.rows,
        is_whole=first.is_whole and second.is_whole,
        kind=first.kind,
    )


def _end_columns(table: SampledTable) -> tuple[str, str] | None:
    names = {column.name.lower(): column.name for column in table.columns}
    if table.kind == "node":
        return None
    return next(((names[one], names[other]) for one, other in _ENDS if one in names and other in names), None)


@record
class _Node:
    """A table of nodes, and the ids that its rows would have."""

    table: SampledTable
    name: str
    key: str | None
    ids: frozenset[str]
    has_ids: bool

    @classmethod
    def of(cls, table: SampledTable, name: str) -> _Node:
        given = next((column for column in table.columns if column.name == "id"), None)
        keys = [column for column in _by_name(table, name) if _can_be_key(column)]
        if given is not None and _holds_texts(given) and _are_unique(given):
            # The load takes the column as it is: the ids of entities, which a key may give as well.
            same = next((one for one in keys if one is not given and texts_of(one) == texts_of(given)), None)
            key = None if same is None else same.name
            return cls(table=table, name=name, key=key, ids=frozenset(texts_of(given) or ()), has_ids=True)
        ids = frozenset(texts_of(keys[0]) or ()) if keys else frozenset[str]()
        return cls(table=table, name=name, key=keys[0].name if keys else None, ids=ids, has_ids=False)

    def proposed(self, nodes: Sequence[_Node]) -> ProposedType:
        """Return the type."""
        columns = [column for column in self.table.columns if not (self.has_ids and column.name == "id")]
        properties = _properties(self.name, columns, self.key, self._others(nodes))
        notes = [_looked_at(self.table), _how_to_load(self.table, self.name, properties)]
        if self.has_ids and self.key is None:
            notes.append("no key: column id has the ids of the entities")
        elif self.key is None:
            notes.append("no key: no column with the name of an id has unique values")
        return ProposedType(
            name=self.name,
            origin=self.table.origin,
            rows=self.table.rows,
            properties=properties,
            notes=tuple(note for note in notes if note),
        )

    def _others(self, nodes: Sequence[_Node]) -> list[_Node]:
        return [node for node in nodes if node is not self and node.ids]


def _by_name(table: SampledTable, type_name: str) -> list[SampledColumn]:
    """Return the columns whose names are those of keys, the most telling first."""
    own = type_name.lower()
    wanted = [f"{own}_id", f"{own}id", f"{own}_code", f"{own}_key", *_KEY_NAMES]
    singular = own.removesuffix("s")
    wanted += [f"{singular}_id", f"{singular}id", f"{singular}_code", f"{singular}_key"]
    by_name = {column.name.lower(): column for column in table.columns}
    return [by_name[name] for name in wanted if name in by_name]


def _can_be_key(column: SampledColumn) -> bool:
    kind = guess_type(column).kind
    if kind is None or kind.is_list or kind.scalar not in _KEYABLE or kind.enum_values is not None:
        return False
    return _are_unique(column) and all(text for text in texts_of(column) or ())


def _holds_texts(column: SampledColumn) -> bool:
    return column.written == "text" or all(isinstance(value, str) for value in column.values)


def _are_unique(column: SampledColumn) -> bool:
    texts = texts_of(column)
    return texts is not None and len(set(texts)) == len(texts)


def _edge(
    table: SampledTable, columns: tuple[str, str], nodes: Sequence[_Node], taken: set[str]
) -> ProposedType | None:
    by_name = {column.name: column for column in table.columns}
    found = [_end_type(by_name[name], nodes) for name in columns]
    if table.kind == "edge" and nodes:
        # The input says that they are edges, so that an end which is none of the ids needs some type.
        likely = next((end[0] for end in found if end is not None), nodes[0].name)
        found = [
            end or (likely, f"{name}: no value is an id in these files, so {likely} is a guess")
            for name, end in zip(columns, found, strict=True)
        ]
    if found[0] is None or found[1] is None:
        return None
    name = _type_name(table.name)
    name = next(one for one in _numbered(name) if one.lower() not in taken)
    rest = [column for column in table.columns if column.name not in columns and column.name != "id"]
    properties = _properties(name, rest, None, (), is_edge=True)
    pairs = list(zip(by_name[columns[0]].values, by_name[columns[1]].values, strict=True))
    has_pair_key = len(pairs) > 1 and len(set(pairs)) == len(pairs) and "id" not in by_name
    in_file = (by_name[columns[0]].in_file, by_name[columns[1]].in_file)
    mapped = _how_to_load(table, name, properties, ends=in_file)
    return ProposedType(
        name=name,
        origin=table.origin,
        rows=table.rows,
        properties=properties,
        notes=tuple(note for note in (_looked_at(table), mapped, found[0][1], found[1][1]) if note),
        ends=(found[0][0], found[1][0]),
        end_columns=in_file,
        has_pair_key=has_pair_key,
    )


def _end_type(column: SampledColumn, nodes: Sequence[_Node]) -> tuple[str, str] | None:
    """Return the node type that the values of an end are ids of, and why."""
    values = {str(value) for value in column.values if value is not None}
    counts = [(len(values & node.ids), node.name) for node in nodes]
    if not counts or not values:
        return None
    best, name = max(counts, key=lambda one: one[0])
    if not best:
        return None
    rivals = [other for count, other in counts if count == best and other != name]
    also = f", as they are of {', '.join(rivals)}" if rivals else ""
    return name, f"{column.name}: {best} of {len(values)} different values are ids of {name}{also}"


def _properties(
    owner: str, columns: Sequence[SampledColumn], key: str | None, others: Sequence[_Node], *, is_edge: bool = False
) -> tuple[ProposedProperty, ...]:
    taken: set[str] = set()
    found = []
    for column in columns:
        guess = guess_type(column)
        name = next(
            one
            for one in _numbered(_property_name(column.name, owner))
            if one not in taken and not (is_edge and one in {"from", "to"})
        )
        taken.add(name)
        notes = [guess.why]
        if column.name == key:
            count = len(column.values)
            notes.insert(0, "the key: its name" + (f", and all {count} values differ" if count > 1 else ""))
        elif guess.kind is not None:
            notes += _reference(column, others)
        found.append(
            ProposedProperty(
                name=name,
                column=column.in_file,
                kind=guess.kind,
                is_key=column.name == key,
                notes=tuple(note for note in notes if note),
            )
        )
    return tuple(found)


def _reference(column: SampledColumn, others: Sequence[_Node]) -> list[str]:
    values = {str(value) for value in column.values if isinstance(value, str | int) and not isinstance(value, bool)}
    known = [node.name for node in others if len(values) > 1 and values <= node.ids]
    return [f"every value is an id of {known[0]}: consider an edge instead of this property"] if known else []


def _type_name(text: str) -> str:
    """Return a name of a type that reads like ``text``.

    >>> _type_name("order items"), _type_name("2024")
    ('OrderItems', 'T2024')
    """
    bare = text.partition(":")[2] or text
    if _TYPE.fullmatch(bare):
        return bare
    words = re.findall(r"[A-Za-z0-9]+", bare)
    name = "".join(word[0].upper() + word[1:] for word in words) or "Row"
    return name if name[0].isalpha() else f"T{name}"


def _property_name(text: str, owner: str) -> str:
    """Return a name of a property that reads like ``text``, and is none of the system's.

    >>> _property_name("First Name", "Person"), _property_name("id", "Person")
    ('first_name', 'person_id')
    """
    if text in RESERVED_ON_EDGES:
        return f"{owner[0].lower()}{owner[1:]}_{text.lstrip('_')}"
    if _PROPERTY.fullmatch(text):
        return text
    name = "_".join(re.findall(r"[A-Za-z0-9]+", text)).lower() or "column"
    name = name if _PROPERTY.fullmatch(name) else f"_{name}"
    return f"{owner.lower()}_{name}" if name in RESERVED_ON_EDGES else name


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _free_name(name: str, taken: set[str]) -> str:
    return next(one for one in _numbered(name) if one not in taken)


def _looked_at(table: SampledTable) -> str:
    rows = counted(table.rows, "row", "rows")
    return f"{table.origin}: {rows}" if table.is_whole else f"{table.origin}: the first {rows}"


def _how_to_load(
    table: SampledTable, name: str, properties: Sequence[ProposedProperty], ends: tuple[str, str] | None = None
) -> str:
    if table.kind is not None or table.origin == table.name:
        return ""
    mapped = {prop.name: prop.column for prop in properties if prop.kind is not None and prop.name != prop.column}
    if ends is not None and {ends[0], ends[1]} not in ({"from", "to"}, {"src", "dst"}):
        mapped |= {"from": ends[0], "to": ends[1]}
    words = [f"--table {name}={table.origin}"] if table.name != name or mapped else []
    words += [f"--column '{name}.{prop}={column}'" for prop, column in mapped.items()]
    return f"load it with {' '.join(words)}" if words else ""


def _lines(types: Sequence[ProposedType]) -> Iterator[str]:
    yield "// Proposed from data. A comment explains every guess; change what is wrong."
    for one in types:
        yield ""
        yield from (f"// {_comment(note)}" for note in one.notes)
        ends = "" if one.ends is None else f": {one.ends[0]} -> {one.ends[1]}"
        yield f"{'node' if one.ends is None else 'edge'} {one.name}{ends} {{"
        for prop in one.properties:
            why = f" // {_comment('; '.join(prop.notes))}" if prop.notes else ""
            if prop.kind is None:
                yield f"    // {_comment(prop.column)} is left out:{why.removeprefix(' //')}"
            else:
                yield f"    {prop.name}: {prop.kind}{' @key' if prop.is_key else ''}{why}"
        if one.has_pair_key:
            yield f"    @key(src, dst) // no two of {counted(one.rows, 'row', 'rows')} join the same two entities"
        yield "}"


def _comment(text: str) -> str:
    return make_visible(text)


def _type_json(one: ProposedType) -> dict[str, Any]:
    ends: Mapping[str, Any] = {} if one.ends is None else {"from": one.ends[0], "to": one.ends[1]}
    return {
        "kind": "node" if one.ends is None else "edge",
        "name": one.name,
        **ends,
        "source": one.origin,
        "rows": one.rows,
        "notes": list(one.notes),
        "properties": [
            {
                "name": prop.name,
                "column": prop.column,
                "type": None if prop.kind is None else str(prop.kind),
                "key": prop.is_key,
                "notes": list(prop.notes),
            }
            for prop in one.properties
        ],
    }
