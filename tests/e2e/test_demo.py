"""The tour of the languages and the benchmark run to their end and show what they promise."""

from __future__ import annotations

import subprocess
import sys

import httpx2
import pytest

from tests.e2e.process import ROOT, Outcome, clean_environment, omnigraph


def run_script(path: str, **environment: str) -> Outcome:
    finished = subprocess.run(
        [sys.executable, str(ROOT / path)],
        cwd=ROOT,
        env=clean_environment(**environment),
        capture_output=True,
        timeout=500,
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


@pytest.mark.more
@pytest.mark.parametrize(
    ("script", "promises"),
    [
        ("examples/demo.py", ("after it:         senior", "{'within_three_hops': 19}")),
        ("examples/crm/story.py", ("run again: nothing", "crm: published", "2 of 2 checks passed")),
    ],
)
def test_the_scripts_of_the_demo_run_from_start_to_end(script, promises):
    """As users do: in a process, and a session of Spark, of its own."""
    shown = run_script(script, PYTHONPATH=str(ROOT / "src"))
    assert (shown.code, shown.err) == (0, "")
    for promised in promises:
        assert promised in shown.out, promised


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


def test_example_graph_is_served_and_what_it_says_to_try_works():
    command = [sys.executable, str(ROOT / "examples/serve.py"), "--bind", "127.0.0.1:0"]
    environment = clean_environment(PYTHONPATH=str(ROOT / "src"))
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().split()[5].removeprefix("http://").partition("/")[0]
            text = "query names() { match { $p: Person } return { $p.name } }"
            asked = omnigraph("query", "--server", f"http://{address}", "--graph", "people", "-e", text, cwd=ROOT)
            assert "Mira" in asked.out
            called = httpx2.post(
                f"http://{address}/graphs/people/queries/colleagues", json={"params": {"slug": "mira"}}
            )
            assert called.json()["query_name"] == "colleagues"
        finally:
            serving.terminate()
        assert serving.wait() == 0
