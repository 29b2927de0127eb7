"""Parse tables that are made ahead: working them out of a grammar takes longer than a short command runs.

``python -m omnigraph.lang.tables`` writes them beside each grammar. Tables of another grammar are passed over, and made
on the spot; only then is Lark loaded.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from omnigraph.lang.lalr import Rule, Tables, Terminal

_GRAMMAR = "grammar.lark"
_TABLES = "grammar.json"
_LANGUAGES = ("pg", "gq")
V = TypeVar("V")


def open_tables(package: str) -> Tables:
    """Return the tables of the grammar that a package holds."""
    grammar = (pkgutil.get_data(package, _GRAMMAR) or b"").decode()
    try:
        made = json.loads(pkgutil.get_data(package, _TABLES) or b"")
    except (FileNotFoundError, ValueError):
        made = {}
    if made.get("grammar") != grammar:
        made = json.loads(make_tables(grammar))
    return _read_tables(made)


def make_tables(grammar: str) -> str:
    """Return what :func:`open_tables` reads instead of working it out."""
    from lark import Lark  # noqa: PLC0415 - for those who make tables

    parser: Any = Lark(grammar, parser="lalr", lexer="contextual")
    table = parser.parser.parser._parse_table  # noqa: SLF001 - Lark has no other way to them
    rules = list(parser.rules)
    (start,) = table.start_states.values()
    (end,) = table.end_states.values()
    ids = {state: number for number, state in enumerate(sorted(table.states, key=lambda state: state != start))}
    # What Lark tries first comes first.
    terminals = sorted(
        parser.terminals, key=lambda one: (-one.priority, -one.pattern.max_width, -len(one.pattern.value), one.name)
    )
    names = [terminal.name for terminal in terminals] + ["$END"]
    symbols = names + sorted({rule.origin.name for rule in rules})
    numbers = {name: number for number, name in enumerate(symbols)}
    terminal_sets: dict[tuple[int, ...], int] = {}
    shifts, reductions, gotos = [], [], []
    for state in ids:
        shift: list[int] = []
        goto: list[int] = []
        reduced: dict[int, list[int]] = {}
        for name, (action, target) in sorted(table.states[state].items(), key=lambda entry: numbers[entry[0]]):
            if action.name == "Reduce":
                reduced.setdefault(rules.index(target), []).append(numbers[name])
            else:
                (shift if name in names else goto).extend((numbers[name], ids[target]))
        shifts.append(shift)
        gotos.append(goto)
        reductions.append(
            [
                number
                for rule, before in sorted(reduced.items())
                for number in (rule, terminal_sets.setdefault(tuple(before), len(terminal_sets)))
            ]
        )
    made = {
        "grammar": grammar,
        "terminals": [_terminal(terminal) for terminal in terminals],
        "ignored": list(parser.lexer_conf.ignore),
        "symbols": symbols,
        "rules": [_rule(rule) for rule in rules],
        "terminal_sets": list(terminal_sets),
        "shifts": [_joined(numbers) for numbers in shifts],
        "reductions": [_joined(numbers) for numbers in reductions],
        "gotos": [_joined(numbers) for numbers in gotos],
        "start": ids[start],
        "end": ids[end],
    }
    lines = (
        f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'), ensure_ascii=False)}"
        for key, value in made.items()
    )
    return "{" + ",\n".join(lines) + "}\n"


def _joined(numbers: Sequence[int]) -> str:
    """Return numbers as a text, which costs nothing to read before it is needed."""
    return " ".join(map(str, numbers))


def _terminal(terminal: Any) -> list[Any]:
    pattern = terminal.pattern
    text = pattern.value if pattern.type == "str" else None
    return [terminal.name, pattern.to_regexp(), text, terminal.priority]


def _rule(rule: Any) -> list[Any]:
    """Return what is left of a rule's children: no anonymous tokens, None for what is absent, helpers spliced in."""
    name = rule.origin.name
    # Per symbol of the rule, how many absent optional parts stand before it; and behind the last one.
    flags = rule.options.empty_indices or (False,) * len(rule.expansion)
    absent = [len(part) for part in "".join("1" if flag else "0" for flag in flags).split("0")]
    kept: list[int | None] = []
    for place, symbol in enumerate(rule.expansion):
        kept += [None] * absent[place]
        if symbol.is_term:
            kept += [] if symbol.filter_out else [place]
        else:
            kept.append(~place if symbol.name.startswith("_") else place)
    kept += [None] * absent[-1]
    method = None if name.startswith("_") else rule.alias or name
    return [name, len(rule.expansion), method, kept, bool(rule.options.expand1 and not rule.alias)]


def _read_tables(made: dict[str, Any]) -> Tables:
    symbols = made["symbols"]

    def targets(stored: str) -> dict[str, int]:
        return {symbols[number]: target for number, target in couples(stored)}

    def couples(stored: str) -> list[tuple[int, int]]:
        numbers = map(int, stored.split())
        return list(zip(numbers, numbers, strict=True))

    return Tables(
        grammar=made["grammar"],
        terminals=[Terminal(*terminal) for terminal in made["terminals"]],
        ignored=made["ignored"],
        rules=[Rule(name, size, method, tuple(kept), inline) for name, size, method, kept, inline in made["rules"]],
        terminal_sets=[[symbols[number] for number in numbers] for numbers in made["terminal_sets"]],
        shifts=_OfStates(made["shifts"], targets),
        reductions=_OfStates(made["reductions"], couples),
        gotos=_OfStates(made["gotos"], targets),
        states=len(made["shifts"]),
        start=made["start"],
        end=made["end"],
    )


class _OfStates(dict[int, V]):
    """Something of each state, read when a parser first gets there: a short text visits few states."""

    def __init__(self, stored: Sequence[str], read: Callable[[str], V]) -> None:
        super().__init__()
        self._stored = stored
        self._read = read

    def __missing__(self, state: int) -> V:
        found = self[state] = self._read(self._stored[state])
        return found


def main() -> None:
    """Write the tables of both languages."""
    from pathlib import Path  # noqa: PLC0415 - see above

    for language in _LANGUAGES:
        folder = Path(__file__).parent / language
        tables = make_tables((folder / _GRAMMAR).read_text(encoding="utf-8"))
        (folder / _TABLES).write_text(tables, encoding="utf-8")


if __name__ == "__main__":
    main()
