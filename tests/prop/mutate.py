"""Random edits of source texts, the same for the same seed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from random import Random

# Pieces that matter to a lexer: words, numbers, spaces, then single marks.
_PIECE = re.compile(r"[A-Za-z_]+|[0-9]+|\s+|.", re.DOTALL)
_GAPS = (" ", "\n", "\n\n\n", "\r\n", "// c\n", "/* c */", "/* c\n c */", "\t")
_BYTES = (
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\x1b",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x98\x80",
)


def fuzz_rounds(plain: int) -> int:
    """Return how many inputs to try: ten times as many when ``OMNIGRAPH_FUZZ`` is ``long``."""
    return plain * 10 if os.environ.get("OMNIGRAPH_FUZZ") == "long" else plain


def mutate(rng: Random, text: str, vocabulary: Sequence[str]) -> bytes:
    """Return ``text`` after one to six edits; most keep it text of the language, some break its bytes.

    Args:
        rng: the only source of chance.
        text: what to start from.
        vocabulary: tokens of the language, worth inserting anywhere.
    """
    pieces = _PIECE.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        _edit(rng, pieces, vocabulary)
    data = "".join(pieces).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        at = rng.randint(0, len(data))
        data = data[:at] + rng.choice(_BYTES) + data[at + rng.randint(0, 2) :]
    return data


def _edit(rng: Random, pieces: list[str], vocabulary: Sequence[str]) -> None:
    at = rng.randint(0, len(pieces))
    end = min(len(pieces), at + rng.randint(1, 4))
    match rng.randrange(16) // 2:
        case 0:
            del pieces[at:end]
        case 1:
            pieces[at:at] = pieces[at:end]
        case 2:
            other = rng.randint(0, len(pieces))
            moved = pieces[at:end]
            del pieces[at:end]
            pieces[other:other] = moved
        case 3:
            pieces.insert(at, rng.choice(vocabulary))
        case 4:
            pieces[at:end] = [f" {rng.choice(vocabulary)} "]
        case 5:
            pieces.insert(at, chr(rng.randrange(32, 0x250)))
        case 6:
            pieces.insert(at, rng.choice(_GAPS))
        case _:
            del pieces[rng.randint(at, len(pieces)) :]
