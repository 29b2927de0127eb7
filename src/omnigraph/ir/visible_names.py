"""What the beginning of a query text has named: parameters, variables with their types, aliases, and where it ends.

The text may be unfinished, so its tokens are read, not its tree. What cannot be told from them is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType
from omnigraph.lang.lalr import Token
from omnigraph.records import record

Owner = NodeType | EdgeType | InterfaceType

_BLOCKS = frozenset({"EXISTS", "NOT", "COUNT"})
_MATCHES = frozenset({"MATCH", "OPTIONAL"}) | _BLOCKS
_WRITES = frozenset({"INSERT", "UPSERT", "UPDATE", "DELETE"})
_NOT_EDGES = frozenset({"AND", "OR"})


@record
class Brace:
    """An open brace: what it holds, and of whom."""

    holds: str
    owner: Owner | None = None
    kept: dict[str, Owner] | None = None


@record(frozen=False)
class VisibleNames:
    """What can be used at the end of a text.

    ``owners`` are the types of variables, ``parameters`` and ``values`` say the type in words, ``aliases`` are those
    of rows that are being ordered, ``target`` is the type that a statement writes, ``braces`` are those still open.
    """

    owners: dict[str, Owner] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    aliases: list[str] = field(default_factory=list)
    target: Owner | None = None
    braces: list[Brace] = field(default_factory=list)

    @property
    def holds(self) -> str:
        """What the innermost open brace holds; ``""`` outside a body."""
        return self.braces[-1].holds if self.braces else ""


def read_names(tokens: Sequence[Token], catalog: Catalog) -> VisibleNames:
    """Return what the last declaration of a text has named."""
    start = max((at for at, token in enumerate(tokens) if token.type == "QUERY"), default=0)
    reader = _Reader(tokens[start:], catalog)
    for at in range(len(reader.tokens)):
        reader.read(at)
    return reader.names


class _Reader:
    def __init__(self, tokens: Sequence[Token], catalog: Catalog) -> None:
        self.tokens = tokens
        self.names = VisibleNames()
        self._catalog = catalog
        self._projected: list[str] = []
        # What a stage keeps of its variables: the new name of each.
        self._kept: dict[str, str] = {}
        self._depth = 0
        self._is_stage = False
        self._has_written = False

    def read(self, at: int) -> None:
        kind = self._kind(at)
        if kind == "LBRACE":
            self.names.braces.append(self._opened(at))
        elif kind == "RBRACE" and self.names.braces:
            self._closed(self.names.braces.pop())
        elif kind == "VARIABLE":
            self._variable(at)
        elif kind in {"LPAR", "LPAR_CALL", "RPAR"}:
            self._depth += -1 if kind == "RPAR" else 1
        elif kind in _WRITES:
            self._has_written = True
            self.names.target = self._type(at + 1)
        elif (kind == "MATCH" and self._has_written) or kind == "UNION":
            self.names.owners, self.names.values = {}, {}
            self._has_written = False
        elif kind in {"WITH", "RETURN"}:
            self._projected, self._kept, self._is_stage = [], {}, kind == "WITH"
        elif kind == "AS" and self._kind(at + 1):
            self._projected.append(self.tokens[at + 1])

    def _opened(self, at: int) -> Brace:
        before, kind = self._kind(at - 1), self._kind(at - 2)
        if before in _MATCHES:
            return Brace(holds="match", kept=dict(self.names.owners) if before in _BLOCKS else None)
        if before in {"WITH", "RETURN"} or (before == "DISTINCT" and kind in {"WITH", "RETURN"}):
            return Brace(holds="project")
        if before == "SET":
            name = self.tokens[at - 2]
            return Brace(holds="assign", owner=self._type(at - 2) or self.names.owners.get(name[1:]))
        if before == "TYPE_NAME":
            return Brace(holds="bind" if kind == "COLON" else "assign", owner=self._type(at - 1))
        return Brace(holds={"ORDER": "order", "PER": "order", "RPAR": "body"}.get(before, "hops"))

    def _closed(self, brace: Brace) -> None:
        names = self.names
        if brace.kept is not None:
            names.owners = brace.kept
        if brace.holds == "project":
            names.aliases = self._projected
            if self._is_stage:
                names.owners = {new: names.owners[old] for old, new in self._kept.items() if old in names.owners}
                names.values = dict.fromkeys(self._projected, "value")

    def _variable(self, at: int) -> None:
        name = self.tokens[at][1:]
        holds, before = self.names.holds, self._kind(at - 1)
        if holds == "project" and self._depth == 0 and self._kind(at + 1) != "DOT":
            is_renamed = self._kind(at + 1) == "AS" and bool(self._kind(at + 2))
            self._kept[name] = str(self.tokens[at + 2]) if is_renamed else name
        if not self.names.braces and self._kind(at + 1) == "COLON":
            self.names.parameters[name] = self._written_type(at + 2)
        elif before == "EACH":
            self.names.values[f"${name}"] = "item"
        elif before == "PATH" or (before == "ALL" and self._kind(at - 2) == "PATH"):
            self.names.values[f"${name}"] = "Path"
        elif holds == "match" and self._kind(at + 1) == "COLON" and self._kind(at + 2) == "TYPE_NAME":
            owner = self._type(at + 2)
            if owner is not None:
                self.names.owners[name] = owner
        elif holds == "match":
            self._walk(at)

    def _walk(self, at: int) -> None:
        """Bind the variables of a traversal that begins with the variable at a place, if one does."""
        place, edge_variable = at + 1, None
        if self._kind(place) == "VARIABLE" and self._kind(place + 1) == "COLON":
            edge_variable = self.tokens[place][1:]
            place += 2
        place += self._kind(place) == "LESSTHAN"
        edge = self._edge(place)
        if edge is None:
            return
        place += 1
        while self._kind(place) == "VBAR":
            place += 2
        place += self._kind(place) == "MORETHAN"
        if self._kind(place) == "LBRACE":
            while self._kind(place) not in {"RBRACE", ""}:
                place += 1
            place += 1
        if edge_variable is not None:
            self.names.owners[edge_variable] = edge
        start = self.tokens[at][1:]
        end = self.tokens[place][1:] if self._kind(place) == "VARIABLE" else None
        self._bind_ends(start, end, edge)

    def _bind_ends(self, start: str, end: str | None, edge: EdgeType) -> None:
        owners = self.names.owners
        known_start, known_end = owners.get(start), owners.get(end or "")
        is_inward = (known_start is not None and known_start.name == edge.to_type != edge.from_type) or (
            known_start is None and known_end is not None and known_end.name == edge.from_type != edge.to_type
        )
        ends = (edge.to_type, edge.from_type) if is_inward else (edge.from_type, edge.to_type)
        for name, type_name in zip((start, end), ends, strict=True):
            node = self._catalog.nodes.get(type_name)
            if name is not None and name != "_" and node is not None:
                owners.setdefault(name, node)

    def _edge(self, at: int) -> EdgeType | None:
        if self._kind(at) in {"", "VARIABLE", "COLON", "DOT", *_NOT_EDGES}:
            return None
        return self._catalog.edge(self.tokens[at])

    def _type(self, at: int) -> Owner | None:
        if self._kind(at) != "TYPE_NAME":
            return None
        name, catalog = str(self.tokens[at]), self._catalog
        return catalog.nodes.get(name) or catalog.edges.get(name) or catalog.interfaces.get(name)

    def _written_type(self, at: int) -> str:
        end = at
        while self._kind(end) not in {"COMMA", ""} and not (
            self._kind(end) == "RPAR" and "(" not in "".join(self.tokens[at:end])
        ):
            end += 1
        return "".join(self.tokens[at:end])

    def _kind(self, at: int) -> str:
        return self.tokens[at].type if 0 <= at < len(self.tokens) else ""
