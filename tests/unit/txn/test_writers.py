"""Presuming a live writer dead costs it an attempt, so same-host liveness must be exact."""

import os
import subprocess
import sys

import msgspec
from msgspec.structs import replace

from omnigraph.txn.claims.identity import WriterIdentity


def test_this_process_is_alive_and_survives_the_json_form():
    me = WriterIdentity.of_this_process()
    assert me.pid == os.getpid()
    assert not me.is_surely_dead()
    assert msgspec.json.decode(msgspec.json.encode(me), type=WriterIdentity) == me


def test_a_pid_that_belongs_to_somebody_else_means_dead():
    me = WriterIdentity.of_this_process()
    assert replace(me, started="1").is_surely_dead()


def test_a_process_that_ended_is_dead_also_while_it_is_a_zombie():
    program = (
        "import msgspec, sys\n"
        "from omnigraph.txn.claims.identity import WriterIdentity\n"
        "print(msgspec.json.encode(WriterIdentity.of_this_process()).decode(), flush=True)\n"
        "sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    identity = msgspec.json.decode(line, type=WriterIdentity)
    assert not identity.is_surely_dead()
    child.stdin.close()
    # Waited for without reaping: the entry stays in the process table as a zombie.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identity.is_surely_dead()
    child.wait()
    child.stdout.close()
    assert identity.is_surely_dead()


def test_nothing_is_sure_about_another_host():
    elsewhere = replace(WriterIdentity.of_this_process(), host="elsewhere", pid=999_999_999)
    assert not elsewhere.is_surely_dead()


def test_a_process_of_an_earlier_boot_is_dead_when_it_wrote_to_a_disk_of_this_machine():
    me = WriterIdentity.of_this_process()
    name, boot, namespace = me.host.rsplit("/", 2)
    earlier = replace(me, host=f"{name}/another-boot/{namespace}")
    beside = replace(me, host=f"{name}/{boot}/pid:[1]")
    assert earlier.is_surely_dead(is_disk_local=True)
    assert not earlier.is_surely_dead()
    assert not beside.is_surely_dead(is_disk_local=True)
