"""Parse tables that are made ahead: working them out of a grammar takes longer than a short command runs.

``python -m omnigraph.lang.tables`` writes them beside each grammar. Tables of another grammar or of another version of
the parser's library are passed over, and made on the spot.
"""

from __future__ import annotations

import json
import pkgutil
from pathlib import Path
from typing import Any

import lark
from lark import Lark, Token, Transformer

_GRAMMAR = "grammar.lark"
_TABLES = "grammar.json"
_LANGUAGES = ("pg", "gq")


def open_parser(package: str, builder: Transformer[Token, Any]) -> Lark:
    """Return the parser of the grammar that a package holds."""
    grammar = (pkgutil.get_data(package, _GRAMMAR) or b"").decode()
    # The builder runs inside the parser, bottom up: no whole Lark tree is made, and nothing recurses.
    try:
        made = json.loads(pkgutil.get_data(package, _TABLES) or b"", object_hook=_with_numbers)
    except (FileNotFoundError, ValueError):
        return build_parser(grammar, builder)
    if (made["lark"], made["grammar"]) != (lark.__version__, grammar):
        return build_parser(grammar, builder)
    load: Any = Lark._load_from_dict  # noqa: SLF001 - what the parsers that Lark generates call
    parser: Lark = load(made["data"], made["memo"], transformer=builder)
    return parser


def build_parser(grammar: str, builder: Transformer[Token, Any] | None = None) -> Lark:
    """Return the parser of a grammar, its tables worked out."""
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=builder)


def make_tables(grammar: str) -> str:
    """Return what :func:`open_parser` reads instead of working it out."""
    from lark.grammar import Rule  # noqa: PLC0415 - for those who make tables
    from lark.lexer import TerminalDef  # noqa: PLC0415 - see above

    data, memo = build_parser(grammar).memo_serialize([TerminalDef, Rule])
    made = {"lark": lark.__version__, "grammar": grammar, "data": data, "memo": memo}
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False) + "\n"


def _with_numbers(found: dict[str, Any]) -> dict[Any, Any]:
    """Give states, tokens and rules back the numbers that JSON can only spell."""
    return {int(key): value for key, value in found.items()} if next(iter(found), "").isdecimal() else found


def main() -> None:
    """Write the tables of both languages."""
    for language in _LANGUAGES:
        folder = Path(__file__).parent / language
        tables = make_tables((folder / _GRAMMAR).read_text(encoding="utf-8"))
        (folder / _TABLES).write_text(tables, encoding="utf-8")


if __name__ == "__main__":
    main()
