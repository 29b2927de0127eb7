"""Which engine a load of files gets when nobody names one, beside both of them, from a megabyte to a gigabyte of lines.

Every load is a command of its own, as people run it, so that a session of Spark starts with each. A figure above one
says how much longer the chosen engine took than the faster one.

Usage: python bench/engines.py [--megabytes 1 10 100 1000] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich import print as show
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.spark_alone import timed

SCHEMA = "node Post { slug: String @key  title: String  body: String  likes: I64 }"
ENGINES = ("auto", "local", "spark")
_WORDS = "graph table branch commit merge query index reader writer lake river stone paper light".split()  # noqa: SIM905 - reads best as a text


def write_lines(path: Path, size_bytes: int) -> int:
    """Write posts until the file has so many bytes, and return how many there are."""
    written = count = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size_bytes:
            words = [_WORDS[(count * step + step) % len(_WORDS)] for step in range(1, 25)]
            data = {"slug": f"post-{count}", "title": " ".join(words[:4]), "body": " ".join(words), "likes": count}
            written += file.write(json.dumps({"type": "Post", "data": data}) + "\n")
            count += 1
    return count


def measure(megabytes: int, rounds: int, folder: Path) -> dict[str, float]:
    """Return the seconds of each engine for a file of so many megabytes; the fastest of some runs."""
    lines, schema = folder / f"{megabytes}.jsonl", folder / "schema.pg"
    write_lines(lines, megabytes * 1_000_000)
    schema.write_text(SCHEMA, encoding="utf-8")
    found: dict[str, float] = {}
    for _ in range(rounds):
        for engine in ENGINES:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                root = f"{place}/graph"
                _run("init", root, "--schema", str(schema))
                load = ["load", root, "--data", str(lines), "--mode", "append", "--engine", engine]
                took = timed(lambda load=load: _run(*load))  # type: ignore[misc]
            found[engine] = min(took, found.get(engine, took))
    lines.unlink()
    return found


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "omnigraph", *arguments], check=True, capture_output=True)  # noqa: S603 - our own command


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=1, help="take the fastest of so many runs")
    chosen = parser.parse_args()
    table = Table("input", *ENGINES, "auto beside the faster one", "target")
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        for megabytes in chosen.megabytes:
            found = measure(megabytes, chosen.rounds, Path(folder))
            ratio = found["auto"] / min(found["local"], found["spark"])
            table.add_row(f"{megabytes} MB", *(f"{found[name]:.1f} s" for name in ENGINES), f"{ratio:.2f}", "<= 1.1")
    show(table)


if __name__ == "__main__":
    main()
