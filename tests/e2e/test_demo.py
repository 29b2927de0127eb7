"""The tour of the languages and the benchmark run to their end and show what they promise."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.process import ROOT, Outcome, clean_environment, omnigraph


def run_script(path: str, **environment: str) -> Outcome:
    finished = subprocess.run(
        [sys.executable, str(ROOT / path)],
        cwd=ROOT,
        env=clean_environment(**environment),
        capture_output=True,
        timeout=300,
        check=False,
    )
    return Outcome(code=finished.returncode, out=finished.stdout.decode(), err=finished.stderr.decode())


def test_languages_show_catalog_plans_mistake_migration_and_timings():
    shown = run_script("examples/languages.py")
    assert (shown.code, shown.err) == (0, "")
    for promised in (
        "node Person",
        "Person -> Team",
        "0 errors, 0 warnings",
        "expand $me -Knows{2,3}-> $far: Person",
        "mutation forget($slug: String)",
        "broken.gq:3:17: type error: T6",
        "^^^^",
        "did you mean 'name'?",
        "rename node type Person to Member",
        "supported: yes, 11 steps",
        "the same from the cache",
    ):
        assert promised in shown.out, promised


def test_languages_work_where_the_terminal_knows_ascii_only():
    shown = run_script("examples/languages.py", PYTHONIOENCODING="ascii")
    assert (shown.code, shown.err) == (0, "")


def test_benchmark_prints_figures_beside_their_targets():
    """What it measures is no matter for a test; that it measures is."""
    shown = run_script("bench/lang.py", OMNIGRAPH_BENCH_LESS="10")
    assert (shown.code, shown.err) == (0, "")
    assert "cores" in shown.out
    assert "<= 3.0 ms" in shown.out
    assert "<= 0.05 ms" in shown.out
    assert "lines per second" in shown.out


def test_examples_are_in_canonical_form():
    files = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("examples/**/*.[pg][gq]"))]
    assert len(files) >= 3
    assert omnigraph("fmt", "--check", *files, cwd=ROOT).code == 0
