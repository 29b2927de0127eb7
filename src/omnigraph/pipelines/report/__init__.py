"""A run for people: lines for a terminal, and a page that opens without a network."""

from omnigraph.pipelines.report.lines import history_lines, run_lines, spark_line
from omnigraph.pipelines.report.page import report_page

__all__ = ["history_lines", "report_page", "run_lines", "spark_line"]
