"""Temporary folders: whose are kept, whose are removed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from omnigraph.engine import scratch
from omnigraph.engine.scratch import ScratchFolder, sweep_scratch
from omnigraph.errors import FileAccessError

HOLD = """
import sys
from omnigraph.engine.scratch import ScratchFolder
folder = ScratchFolder.make("load")
(folder.path / "rows").write_bytes(b"rows")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_there_until_it_is_closed_whatever_is_swept():
    first, second = ScratchFolder.make("load"), ScratchFolder.make("load")
    sweep_scratch()
    assert first.path.is_dir()
    first.close()
    assert not first.path.exists()
    assert second.path.is_dir()
    second.close()


def test_a_sweep_spares_a_living_process_and_removes_what_a_killed_one_left(temporary):
    command = [sys.executable, "-c", HOLD]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        path = Path(owner.stdout.readline().strip())
        sweep_scratch()
        assert (path / "rows").exists()
        owner.kill()
        owner.wait()
        sweep_scratch()
    assert list(temporary.iterdir()) == []


def test_a_sweep_touches_nothing_but_folders_of_ours(temporary):
    other = temporary / "elsewhere"
    other.mkdir()
    (temporary / "omnigraph-tmp-link").symlink_to(other)
    (temporary / "omnigraph-tmp-file").write_text("x", encoding="utf-8")
    (temporary / "omnigraph-else").mkdir()
    before = sorted(temporary.iterdir())
    sweep_scratch()
    assert sorted(temporary.iterdir()) == before


def test_a_folder_that_is_swept_before_it_is_held_is_made_again(monkeypatch, temporary):
    real, swept = tempfile.mkdtemp, []

    def make(**options):
        made = real(**options)
        if not swept:
            swept.append(made)
            sweep_scratch()
        return made

    monkeypatch.setattr(scratch.tempfile, "mkdtemp", make)
    folder = ScratchFolder.make("load")
    assert [str(path) for path in temporary.iterdir()] == [str(folder.path)] != swept
    folder.close()


def test_no_room_for_temporary_files_is_a_named_error_and_no_reason_for_a_sweep_to_fail(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    sweep_scratch()
    with pytest.raises(FileAccessError):
        ScratchFolder.make("load")
