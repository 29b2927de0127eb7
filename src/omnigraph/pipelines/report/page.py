"""The page of a run: everything that its report tells, in one file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from omnigraph.pipelines.report.drawing import drawing
from omnigraph.pipelines.report.lines import COUNTS, has_counts, outcome_text
from omnigraph.pipelines.results import ExpectationReport, RunReport
from omnigraph.values.temporal import format_datetime

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --good: #18794e; --bad: #c62a2f; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { text-align: left; font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { overflow: auto; background: var(--soft); padding: .6rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .scroll { overflow-x: auto; }
svg { max-width: 100%; height: auto; } svg path { fill: none; stroke: var(--line); stroke-width: 1.5; }
svg rect { fill: var(--soft); stroke: var(--line); } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
svg .name { font-weight: 600; font-size: 13px; } svg .source rect { stroke-dasharray: 5 3; }
svg .node rect, svg .edge rect { stroke: var(--good); stroke-width: 2; }
"""


def report_page(report: RunReport) -> str:
    """Return a run as a page of HTML that refers to nothing outside itself."""
    title = escape(f"{report.pipeline}: {outcome_text(report.outcome)}")
    parts = (
        f"<h1>{title}</h1>",
        _facts(report),
        _section("Steps", f'<div class="scroll">{drawing(report.steps)}</div>{_steps(report)}' if report.steps else ""),
        _section("Expectations", "".join(map(_expectation, report.expectations))),
        _section("Checks", _checks(report)),
        _section("Changes of the graph", _changes(report)),
        _section("Progress of the sources", _progress(report)),
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{''.join(parts)}\n</body>\n</html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<h2>{title}</h2>{content}" if content else ""


def _facts(report: RunReport) -> str:
    is_good = report.outcome in {"published", "proposed", "nothing"}
    told = {
        "Outcome": f'<span class="{"good" if is_good else "bad"}">{escape(outcome_text(report.outcome))}</span>',
        "Run": f"<code>{escape(report.run)}</code>",
        "Commit": "" if report.commit is None else f"<code>{escape(report.commit)}</code>",
        "Branch": f"<code>{escape(report.branch)}</code> ({report.publish})",
        "Left for a look": "" if report.left_branch is None else f"<code>{escape(report.left_branch)}</code>",
        "Proposal": "" if report.proposal is None else str(report.proposal),
        "Started": escape(format_datetime(report.started_at_ms)),
        "Took": f"{report.seconds:.1f} s",
        "Declaration": f"<code>{escape(report.digest)}</code>" if report.digest else "",
        "Quarantine": "" if report.quarantine is None else f"<code>{escape(report.quarantine)}</code>",
    }
    rows = (f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in told.items() if value)
    return f"<table>{''.join(rows)}</table>"


def _steps(report: RunReport) -> str:
    names = ("rows_in", *COUNTS, "stubs", "rows_out")
    used = [name for name in names if any(getattr(step, name) for step in report.steps)]
    head = ["step", "kind", "type", *(name.replace("_", " ") for name in used), "seconds"]
    rows = (
        [
            step.name,
            step.kind,
            step.type_name or "",
            *(f"{getattr(step, name):,}" if has_counts(step) else "" for name in used),
            f"{step.seconds:.2f}",
        ]
        for step in report.steps
    )
    return _table(head, rows, numbers_from=3)


def _expectation(one: ExpectationReport) -> str:
    verdict = '<span class="good">kept</span>' if one.is_kept else '<span class="bad">not kept</span>'
    limit = "" if one.max_ratio is None else f", at most {one.max_ratio:.2%} of the rows"
    return (
        f"<p><strong>{escape(one.step)} · {escape(one.name)}</strong> ({one.outcome}{limit}): {verdict}, "
        f"{one.failed:,} of {one.rows:,}<br><code>{escape(one.condition)}</code></p>{_samples(one.samples)}"
    )


def _checks(report: RunReport) -> str:
    def show(passed: bool, name: str, rows: int) -> str:
        verdict = '<span class="good">passed</span>' if passed else f'<span class="bad">failed, {rows:,} rows</span>'
        return f"<p><strong>{escape(name)}</strong>: {verdict}</p>"

    return "".join(show(one.passed, one.name, one.rows) + _samples(one.samples) for one in report.checks)


def _changes(report: RunReport) -> str:
    names = sorted({name for counts in report.changes.values() for name in counts})
    rows = ([key, *(f"{counts.get(name, 0):,}" for name in names)] for key, counts in report.changes.items())
    return _table(["type", *names], rows, numbers_from=1) if report.changes else ""


def _progress(report: RunReport) -> str:
    if not report.progress:
        return ""
    return f"<pre>{escape(json.dumps(dict(report.progress), indent=2, ensure_ascii=False, default=str))}</pre>"


def _samples(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = (["" if row.get(name) is None else str(row[name]) for name in names] for row in rows)
    return f'<div class="scroll">{_table(names, shown)}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int | None = None) -> str:
    def cell(tag: str, at: int, text: str) -> str:
        kind = ' class="number"' if numbers_from is not None and at >= numbers_from else ""
        return f"<{tag}{kind}>{escape(text)}</{tag}>"

    lines = "".join(
        f"<tr>{''.join(cell(tag, at, text) for at, text in enumerate(row))}</tr>"
        for tag, row in [("th", head), *(("td", row) for row in rows)]
    )
    return f"<table>{lines}</table>"
