"""Runs of pipelines: what is read, how it becomes visible, and what is left to look at."""

from omnigraph.pipelines.running.run import run

__all__ = ["run"]
