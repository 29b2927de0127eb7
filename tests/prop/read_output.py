"""The return, order and limit of a random read."""

from __future__ import annotations

from dataclasses import dataclass

from tests.prop.choices import Choices
from tests.prop.read_expressions import Givens, is_number, orderable
from tests.prop.read_schemas import is_summable
from tests.query_oracle import Kind, Schema

_LIMITS = (None, None, None, 0, 1, 2, 5, 100)
_LITERALS = ('"x"', "7", "1.5", "true", 'date("2020-01-01")', '["a", "b"]', "now()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property in sight."""

    access: str
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A projection; ``kind`` is None where rows cannot be ordered by it."""

    text: str
    alias: str | None
    kind: Kind | None

    def __str__(self) -> str:
        return self.text if self.alias is None else f"{self.text} as {self.alias}"


def write_output(choices: Choices, schema: Schema, givens: Givens, nodes: dict[str, str], edges: dict[str, str]) -> str:
    """Write the clauses behind a match that binds ``nodes`` and ``edges``."""
    seen = [
        Property(access=f"${variable}.{name}", name=name, kind=kind)
        for variable, type_name in sorted({**nodes, **edges}.items())
        for name, kind in schema.properties(type_name).items()
    ]
    writer = _Output(choices, givens, nodes, seen)
    form = choices.pick(("plain", "plain", "groups", "groups", "ranked"))
    vectors = [item for item in seen if item.kind.dimension is not None and item.access[1:].split(".")[0] in nodes]
    if form == "ranked" and vectors:
        return writer.ranked(vectors)
    return writer.grouped() if form == "groups" else writer.plain()


class _Output:
    def __init__(self, choices: Choices, givens: Givens, nodes: dict[str, str], seen: list[Property]) -> None:
        self._choices = choices
        self._givens = givens
        self._nodes = nodes
        self._seen = seen

    def plain(self) -> str:
        columns = [self._column(index) for index in range(self._choices.number(1, 3))]
        keys = [item.access for item in self._seen if orderable(item.kind)]
        keys.extend(column.alias for column in columns if column.alias is not None and column.kind is not None)
        return self._write(columns, self._order(keys), self._choices.pick(_LIMITS))

    def grouped(self) -> str:
        keys = [self._key(index) for index in range(self._choices.pick((0, 1, 1, 2)))]
        aggregates = [self._aggregate(index) for index in range(self._choices.number(1, 2))]
        columns = self._choices.shuffled([*keys, *aggregates])
        can_order = all(key.kind is not None for key in keys)
        names = [column.alias for column in columns if column.alias is not None]
        names.extend(key.text for key in keys if "." in key.text)
        order = self._order(names) if can_order else ""
        return self._write(columns, order, self._choices.pick(_LIMITS))

    def ranked(self, vectors: list[Property]) -> str:
        ranking = self._ranking(vectors)
        columns = [self._column(index) for index in range(self._choices.number(1, 2))]
        is_rrf, is_shown = ranking.startswith("rrf"), self._choices.coin()
        if is_shown:
            columns.append(Column(text=ranking, alias="score", kind=None))
        key = "score" if is_shown and is_rrf and self._choices.coin() else ranking
        if is_rrf:
            key += self._choices.pick(_WAYS)
        # Whatever stands behind a ranking is ignored.
        others = [item.access for item in self._seen if orderable(item.kind)]
        if others and self._choices.chance(4):
            key += f", {self._choices.pick(others)} desc"
        limit = self._choices.pick((0, 1, 2, 3, 5, 100))
        return self._write(columns, f"order {{ {key} }}", limit)

    def _ranking(self, vectors: list[Property]) -> str:
        first = self._choices.pick(vectors)
        arms = [f"nearest({first.access}, {self._givens.vector(first.kind.dimension or 0)})" for _ in range(2)]
        if self._choices.coin():
            return arms[0]
        match self._choices.number(0, 3):
            case 0:
                k = f", {self._choices.pick((1, 2, 60))}"
            case 1:
                k = f", {self._givens.number(self._choices.pick((1, 7, None)), 'I32')}"
            case _:
                k = ""
        return f"rrf({arms[0]}, {arms[1]}{k})"

    def _column(self, index: int) -> Column:
        alias = f"c{index}" if self._choices.coin() else None
        choice = self._choices.number(0, 9)
        starred = sorted({item.access[1:].split(".")[0] for item in self._seen})
        if choice == 9 and starred:
            return Column(text=f"${self._choices.pick(starred)}.*", alias=None, kind=None)
        if choice == 8:
            text = self._choices.pick(_LITERALS)
            return Column(text=text, alias=alias, kind=None if text.startswith("[") else Kind(scalar="String"))
        if choice == 7 and self._givens.found:
            return self._parameter(alias)
        return self._property(alias, allows_lists=True) if choice > 1 else self._variable(alias)

    def _key(self, index: int) -> Column:
        alias = f"k{index}" if self._choices.coin() else None
        if self._choices.chance(10) and self._givens.found:
            return self._parameter(alias)
        if self._choices.chance(4):
            return self._variable(alias)
        return self._property(alias, allows_lists=self._choices.chance(5))

    def _parameter(self, alias: str | None) -> Column:
        name = self._choices.pick(sorted(self._givens.found))
        kind = self._givens.found[name].kind
        return Column(text=f"${name}", alias=alias, kind=kind if orderable(kind) else None)

    def _variable(self, alias: str | None) -> Column:
        variable = self._choices.pick(sorted(self._nodes))
        return Column(text=f"${variable}", alias=alias, kind=Kind(scalar="String"))

    def _property(self, alias: str | None, *, allows_lists: bool) -> Column:
        fitting = [item for item in self._seen if allows_lists or orderable(item.kind)]
        if not fitting:
            return self._variable(alias)
        item = self._choices.pick(fitting)
        return Column(text=item.access, alias=alias, kind=item.kind if orderable(item.kind) else None)

    def _aggregate(self, index: int) -> Column:
        alias = f"n{index}" if self._choices.number(0, 3) else None
        function = self._choices.pick(("count", "sum", "avg", "min", "max"))
        fitting = [item for item in self._seen if _is_argument(function, item)]
        if function == "count" and self._choices.chance(6):
            return Column(text=f"count({self._choices.pick(_LITERALS)})", alias=alias, kind=Kind(scalar="I64"))
        takes_nodes = function in {"count", "min", "max"}
        if takes_nodes and (not fitting or self._choices.chance(3)):
            argument = f"${self._choices.pick(sorted(self._nodes))}"
        elif fitting:
            argument = self._choices.pick(fitting).access
        else:
            argument = "7"
        return Column(text=f"{function}({argument})", alias=alias, kind=Kind(scalar="I64"))

    def _order(self, keys: list[str]) -> str:
        if not keys or not self._choices.number(0, 2):
            return ""
        chosen = [self._choices.pick(keys) for _ in range(self._choices.number(1, 2))]
        return f"order {{ {', '.join(f'{key}{self._choices.pick(_WAYS)}' for key in chosen)} }}"

    def _write(self, columns: list[Column], order: str, limit: int | None) -> str:
        kept = unlike(list(map(str, columns)))
        parts = [f"return {{ {', '.join(kept)} }}", order, "" if limit is None else f"limit {limit}"]
        return "\n    ".join(filter(None, parts))


def unlike(columns: list[str]) -> list[str]:
    """Return columns without those that would have the name of an earlier one."""
    kept: list[str] = []
    for text in columns:
        variable = text.partition(".")[0]
        others = (f"{variable}.*",) if "." in text and not text.endswith(".*") else ()
        covered = [one for one in kept if text.endswith(".*") and one.startswith(f"{variable}.") and " as " not in one]
        if not covered and not {text, *others} & set(kept):
            kept.append(text)
    return kept


_WAYS = ("", " asc", " desc")


def _is_argument(function: str, item: Property) -> bool:
    if function == "count":
        return True
    if function in {"sum", "avg"}:
        return is_number(item.kind) and is_summable(item.name, item.kind)
    return is_number(item.kind) or (item.kind.scalar == "String" and not item.kind.is_list)
