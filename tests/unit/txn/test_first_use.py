"""Threads that are the first to read a plan, a sign of life or a schema, all at once, in a process of their own."""

import subprocess
import sys

import pytest

_MEET = """
import sys, threading
from omnigraph.catalog import assign_identities, compile_schema
from omnigraph.catalog.codec import catalog_from_json, catalog_to_json
from omnigraph.errors import OmnigraphError
from omnigraph.lang.pg import parse_schema
from omnigraph.txn.claims.store import _read_sign
from omnigraph.txn.publish.plan import PLAN, PLAN_FORMAT
from omnigraph.txn.stored_json import encode_json, seal

pin = {"location": "x", "branch": None, "version": 1}
commit = {
    "before": pin, "after": pin, "kind": "x", "uuid": "x", "operation_id": "x", "transaction": {}, "row_count": 1,
    "files": ["x"],
}
writer = {"host": "x", "pid": 1, "started": "x"}
plan = seal(encode_json({
    "format": PLAN_FORMAT, "operation_id": "x", "kind": "x", "actor": "x", "branch": "x", "incarnation": "x",
    "base_version": 1, "base_commit": "x", "epoch": 1, "schema_hash": "x",
    "actions": [{"kind": "x", "table_key": "x", "commit": commit}], "change": {"commits": []}, "read_set": ["x"],
    "publish_uuid": "x", "writer": writer, "created_at_ms": 1,
}))
sign = seal(encode_json({"writer": writer, "at_ms": 1, "turn_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}))
tree = parse_schema(b"node A { k: String @key  n: I32?  @range(n, 0..9) } edge E: A -> A { w: F64? @index }", "s")
schema = catalog_to_json(assign_identities(compile_schema(tree), "01ARZ3NDEKTSV4RRFFQ69G5FAV"))
reads = {
    "plan": lambda: PLAN.decode(plan, "k"),
    "sign": lambda: _read_sign("k", sign, 1, turn=0),
    "schema": lambda: catalog_from_json(schema),
}
together = threading.Barrier(16)

def read():
    together.wait()
    try:
        reads[sys.argv[1]]()
    except OmnigraphError:
        pass

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=read) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
_IS_READY = """
import msgspec
from omnigraph.store.staging.codec import StagedUpdate
from omnigraph.txn.branches.refs import BranchRecord
from omnigraph.txn.branches.tags import Tag
from omnigraph.txn.claims.store import SignOfLife
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.plan import PublishPlan

class Unmet(msgspec.Struct):
    part: int

def is_ready(shape):
    shape.__annotations__ = dict.fromkeys(shape.__struct_fields__, "Unknown")
    try:
        msgspec.json.Decoder(shape)
    except NameError:
        return False
    return True

assert not is_ready(Unmet)
assert all(is_ready(shape) for shape in (StagedUpdate, BranchRecord, Tag, SignOfLife, Commit, PublishPlan))
"""


@pytest.mark.parametrize("what", ["plan", "sign", "schema"])
def test_threads_that_read_for_the_first_time_together_do_not_bring_the_process_down(what):
    ended = subprocess.run([sys.executable, "-c", _MEET, what], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_shapes_are_taken_apart_before_any_thread_needs_them():
    ended = subprocess.run([sys.executable, "-c", _IS_READY], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
