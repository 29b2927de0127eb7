"""The server of warm processes stays out of what tests look at, and tells each client how its own process ended."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.process import clean_environment
from tests.warm import WarmProcess, fresh_folder, run_warm, server_address, warm_command

pytestmark = pytest.mark.more


def start(tmp_path, program, out):
    script = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
    script.write_text(program)
    given = {"cwd": tmp_path, "env": clean_environment(), "out": out.fileno(), "err": sys.__stderr__.fileno()}
    return WarmProcess("tests.warm.script", [str(script)], **given)


def test_the_server_stays_out_of_a_place_for_temporary_files_that_belongs_to_one_test(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = fresh_folder()
    folder.rmdir()
    assert not folder.is_relative_to(tmp_path)


def test_processes_that_run_at_once_end_each_in_its_own_way(tmp_path):
    with (tmp_path / "out").open("wb") as out:
        waiting = start(tmp_path, "import signal\nprint('waits', flush=True)\nsignal.pause()\n", out)
        ended = [start(tmp_path, f"print({code})\nraise SystemExit({code})\n", out) for code in range(1, 6)]
        assert [process.wait(300) for process in ended] == [1, 2, 3, 4, 5]
        while b"waits" not in (tmp_path / "out").read_bytes():
            assert waiting.poll() is None
            time.sleep(0.01)
        waiting.kill()
        assert waiting.wait(300) == -signal.SIGKILL
    assert sorted((tmp_path / "out").read_text().split()) == ["1", "2", "3", "4", "5", "waits"]


def test_a_client_that_goes_away_stops_nobody(tmp_path):
    for said in (b"", b"0000000100", b"0000000100{"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server_address())
            client.sendall(said)
    finished = run_warm("json.tool", ["--help"], cwd=Path(tmp_path), env=clean_environment())
    assert finished.returncode == 0
    assert finished.stdout.startswith(b"usage")


def test_a_process_that_a_shell_has_started_ends_with_its_client(tmp_path):
    script = tmp_path / "waits.py"
    script.write_text("import signal\nprint('waits', flush=True)\nsignal.pause()\n")
    command = f'{warm_command("tests.warm.script")} "{script}"'
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"waits\n"
        client.terminate()
        # The process has the other end of the pipe, which closes with it.
        assert client.stdout.read() == b""
