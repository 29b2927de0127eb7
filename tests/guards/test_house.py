"""The measurements of the source tree work, and nothing imports in circles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.guards.house import find_cycles, read_modules
from tests.guards.layout import ROOT

pytestmark = pytest.mark.more


def test_no_module_imports_itself_by_way_of_others():
    assert find_cycles(read_modules(ROOT / "src")) == []


def test_circle_is_found_also_when_a_function_closes_it(tmp_path: Path):
    """A search that finds nothing would let every tree pass."""
    package = tmp_path / "omnigraph"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from omnigraph.b import x")
    (package / "b.py").write_text("def f():\n    from omnigraph import c")
    (package / "c.py").write_text("import omnigraph.a")
    (package / "d.py").write_text("if TYPE_CHECKING:\n    import omnigraph.e")
    (package / "e.py").write_text("import omnigraph.d")
    (cycle,) = find_cycles(read_modules(tmp_path))
    assert set(cycle) == {"omnigraph.a", "omnigraph.b", "omnigraph.c"}


# Files and functions that one request crosses at most. They may only fall: write the new figures when they do.
# A thread that ends an earlier request adds some functions, so these have a tenth of room.
CROSSED = {
    "insert, command": (150, 900),
    "point query, command": (137, 730),
    "insert, open graph": (98, 530),
    "point query, open graph": (58, 180),
}


def test_requests_cross_no_more_files_and_functions_than_before():
    script = ROOT / "tests" / "guards" / "house.py"
    finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=True)
    rows = {line[:34].strip(): line[34:].split() for line in finished.stdout.splitlines() if line}
    assert int(rows["files"][0]) > 100
    for name, (files, functions) in CROSSED.items():
        assert files * 0.95 <= int(rows[name][0]) <= files, (name, rows[name])
        assert functions * 0.9 <= int(rows[name][1]) <= functions * 1.1, (name, rows[name])
