"""What a run on Spark tells."""

from __future__ import annotations

from omnigraph.runtime import Counters
from omnigraph.spark import SparkLoadResult
from omnigraph.spark.runner import TaskCount, format_bytes, summary_lines


def test_summary_has_the_rows_of_each_type():
    result = SparkLoadResult(
        mode="merge",
        branch="main",
        actor=None,
        nodes_loaded={"Person": 1200},
        edges_loaded={"Knows": 1},
        commit=None,
        manifest_version=3,
        cost=Counters().cost(),
        unchanged={"Person": 1000},
    )
    assert list(summary_lines(result)) == [
        "  Person: 1,200 rows in, 200 written, 0 rejected, 1,000 unchanged",
        "  Knows: 1 row in, 1 written, 0 rejected",
    ]


def test_share_of_no_tasks_is_none():
    assert TaskCount(done=0, total=0).share == 0
    assert TaskCount(done=1, total=4).share == 0.25


def test_bytes_are_rounded_for_people():
    assert [format_bytes(count) for count in (0, 1023, 1024, 5 << 20)] == ["0 B", "1023 B", "1.0 KiB", "5.0 MiB"]
