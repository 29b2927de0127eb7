"""Runs a file as Python does: ``python -m tests.warm.script FILE``."""

import runpy
import sys

runpy.run_path(sys.argv[1], run_name="__main__")
