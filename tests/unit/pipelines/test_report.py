"""What people see of a run: lines on a terminal and a page."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from omnigraph.pipelines.report import history_lines, report_page, run_lines
from omnigraph.pipelines.report.drawing import columns
from omnigraph.pipelines.results import CheckReport, ExpectationReport, RunReport, StepReport

REPORT = RunReport(
    pipeline="crm",
    run="01J0RUN",
    branch="main",
    publish="audit",
    outcome="published",
    digest="abc",
    started_at_ms=1_767_225_600_000,
    seconds=12.34,
    commit="01J0COMMIT",
    steps=(
        StepReport(name="customers", kind="source", rows_in=1500, rows_out=1500, seconds=1.2),
        StepReport(name="grown", kind="view", rows_in=1500, rows_out=1200, inputs=("customers",)),
        StepReport(name="unused", kind="source", is_counted=False),
        StepReport(
            name="person",
            kind="node",
            type_name="Person",
            rows_in=1200,
            rows_out=1190,
            written=1000,
            unchanged=190,
            quarantined=10,
            seconds=3.0,
            inputs=("grown",),
        ),
        StepReport(
            name="works_in", kind="edge", type_name="WorksIn", rows_in=3, deleted=1, written=2, inputs=("person",)
        ),
    ),
    expectations=(
        ExpectationReport(
            step="person",
            name="has_email",
            condition="email IS NOT NULL AND 1 < 2",
            outcome="quarantine",
            rows=1200,
            failed=10,
            samples=({"name": "<script>alert(1)</script>", "email": None},),
        ),
    ),
    checks=(CheckReport(name="every team has somebody", rows=0), CheckReport(name="no loops", rows=2)),
    changes={"Person": {"inserted": 900, "updated": 100}},
    progress={"customers": {"until": "2026-01-01"}},
    quarantine="graph/__quarantine/crm/run=01J0RUN",
)


def test_lines_tell_how_a_run_ended_and_what_became_of_every_row():
    assert list(run_lines(REPORT)) == [
        "crm: published 01J0COMMIT on main (12.3 s)",
        f"├─ source customers  {'1,500 rows':<56}  1.2 s",
        f"├─ view grown        {'1,200 rows of 1,500':<56}  0.0 s",
        f"├─ source unused     {'':<56}  0.0 s",
        "├─ node person       1,200 rows: 1,000 written, 190 unchanged, 10 quarantined  3.0 s",
        "│     quarantine has_email: 10 of 1,200 rows",
        f"└─ edge works_in     {'3 rows: 2 written, 1 deleted':<56}  0.0 s",
        "check every team has somebody: passed",
        "check no loops: failed, 2 rows",
        "changes of Person: 900 inserted, 100 updated",
        "quarantine: graph/__quarantine/crm/run=01J0RUN",
    ]


def test_history_shows_a_line_for_each_run_and_a_plot():
    lines = list(history_lines([REPORT, REPORT]))
    assert len(lines) == 3
    assert lines[0].startswith("01J0RUN  2026-01-01T00:00:00")
    assert "1,002 written, 1 deleted, 10 quarantined  1 of 2 checks passed" in lines[0]
    assert lines[-1] == "rows written: ██"


def test_history_says_nothing_of_checks_where_a_run_told_of_none():
    (line,) = history_lines([replace(REPORT, checks=())])
    assert line.endswith("10 quarantined  12.3 s")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "br", "path", "rect"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_whole_and_refers_to_nothing_outside_itself():
    page = report_page(REPORT)
    tags = _Tags()
    tags.feed(page)
    assert (tags.open, tags.links) == ([], [])
    assert "script" not in tags.seen
    assert tags.seen.count("rect") == 5
    assert tags.seen.count("path") == 3
    assert not re.search(r"https?:|url\(|@import", page)


def test_page_shows_data_as_data():
    page = report_page(REPORT)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "email IS NOT NULL AND 1 &lt; 2" in page
    assert "failed, 2 rows" in page


def test_each_step_stands_right_of_what_it_takes_rows_from():
    assert columns(REPORT.steps) == {"customers": 0, "grown": 1, "unused": 0, "person": 2, "works_in": 3}


def test_report_survives_being_stored():
    assert RunReport.from_json(REPORT.to_json()) == REPORT
