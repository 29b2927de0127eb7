"""What a fresh interpreter holds after it has run something: a real one, in which nothing is imported yet."""

from __future__ import annotations

import json
import subprocess
import sys


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter holds after running ``code``."""
    report = f"import sys, json\n{code}\nsys.stderr.write(chr(10) + json.dumps(sorted(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", report], capture_output=True, timeout=300, check=True)
    return set(json.loads(finished.stderr.decode().splitlines()[-1]))


def packages_after(code: str) -> set[str]:
    """The top-level modules among them."""
    return {name.split(".")[0] for name in modules_after(code)}


def command(*arguments: str) -> str:
    """The code that runs a command and goes on after it."""
    return "\n".join(
        [
            "import contextlib",
            "from omnigraph.cli.main import main",
            f"with contextlib.suppress(SystemExit): main({list(arguments)!r})",
        ]
    )
