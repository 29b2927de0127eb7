"""The guide to the query language, on a page that fits a context."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 8 << 10
"""So long the page may be: some two thousand tokens."""

GUIDE_TEXT = Path(__file__).with_name("guide.txt").read_text(encoding="utf-8")
