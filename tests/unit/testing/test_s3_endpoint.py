"""The counting S3 endpoint, asked by the clients that the engine uses: obstore and Lance."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store
from tests.cost.hops import fewest_hops

from omnigraph.errors import InternalError, UsageError, ValueFormatError
from omnigraph.testing.s3 import S3Endpoint, measure, measurement, serial_hops

pytestmark = pytest.mark.more

ROWS = pa.table({"id": ["a", "b"], "v": [1, 2]})

RACER = """
import json, sys, obstore
from obstore.store import S3Store
bucket, options, prefix = json.loads(sys.argv[1])
store = S3Store(bucket, config=options)
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(25):
    try:
        obstore.put(store, f"{prefix}/{number}", b"mine", mode="create")
    except obstore.exceptions.AlreadyExistsError:
        continue
    won.append(number)
print(json.dumps(won))
"""

ORPHANER = """
import os, signal, sys
from omnigraph.testing.s3 import S3Endpoint
endpoint = S3Endpoint().__enter__()
print(endpoint.url, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def put(store, key, body=b"body", mode="overwrite"):
    obstore.put(store, key, body, mode=mode, use_multipart=False)


def run_together(count, work):
    """Run ``work(number)`` in threads that begin at the same moment."""
    barrier = threading.Barrier(count)

    def begin(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def most_at_once(calls):
    """How many of the calls were in service at the same moment."""
    edges = sorted([(call.started_s, 1) for call in calls] + [(call.ended_s, -1) for call in calls])
    most = busy = 0
    for _, step in edges:
        busy += step
        most = max(most, busy)
    return most


def test_an_object_comes_back_as_it_was_put(store, prefix):
    key = f"{prefix}/a b/ü+%41&.txt"
    put(store, key, b"hello")
    assert bytes(obstore.get(store, key).bytes()) == b"hello"
    assert bytes(obstore.get_range(store, key, start=1, end=3)) == b"el"
    assert obstore.head(store, key)["size"] == 5
    assert [entry["path"] for entry in obstore.list(store, prefix=prefix).collect()] == [key]
    obstore.delete(store, key)
    with pytest.raises(FileNotFoundError):
        obstore.get(store, key)


def test_a_large_object_goes_up_in_parts(endpoint, store, prefix):
    body = bytes(range(256)) * 50_000
    with measure(endpoint) as cost:
        obstore.put(store, f"{prefix}/large", body, chunk_size=6 << 20)
    assert cost.by_operation == {"POST_CREATE_UPLOAD": 1, "PUT_PART": 3, "POST_COMPLETE_UPLOAD": 1}
    assert cost.bytes_in >= len(body)
    assert bytes(obstore.get(store, f"{prefix}/large").bytes()) == body
    assert [entry["size"] for entry in obstore.list(store, prefix=prefix).collect()] == [len(body)]


def test_a_large_object_in_parts_does_not_replace_another_when_asked_not_to(store, prefix):
    put(store, f"{prefix}/large", b"first")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, f"{prefix}/large", b"x" * (11 << 20), mode="create", chunk_size=6 << 20)
    assert bytes(obstore.get(store, f"{prefix}/large").bytes()) == b"first"


def test_many_objects_are_deleted_with_one_call(endpoint, store, prefix):
    keys = [f"{prefix}/_transactions/{number}&.txn" for number in range(20)]
    for key in keys:
        put(store, key)
    with measure(endpoint) as cost:
        obstore.delete(store, keys)
    assert cost.by_kind == {("POST_DELETE", "table_txn"): 1}
    assert cost.calls[0].key == keys[0]
    assert obstore.list(store, prefix=prefix).collect() == []


def test_sixteen_threads_race_for_a_key_and_one_wins(endpoint, store, prefix):
    def attempt(number):
        try:
            put(store, f"{prefix}/claim", f"{number}".encode(), mode="create")
        except AlreadyExistsError:
            return None
        return number

    endpoint.set_latency_ms(5)
    winners = [number for number in run_together(16, attempt) if number is not None]
    assert len(winners) == 1
    assert bytes(obstore.get(store, f"{prefix}/claim").bytes()) == f"{winners[0]}".encode()
    statuses = sorted(call.status for call in endpoint.calls() if call.operation == "PUT")
    assert statuses == [200] + [412] * 15


def test_four_processes_race_for_many_keys_and_each_key_is_won_once(endpoint, prefix):
    argument = json.dumps([endpoint.bucket, endpoint.storage_options, prefix])
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, argument], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 4
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [number for racer in racers for number in json.loads(racer.communicate(timeout=300)[0])]
    assert sorted(won) == list(range(25))
    statuses = [call.status for call in endpoint.calls() if call.operation == "PUT"]
    assert (statuses.count(200), statuses.count(412)) == (25, 75)


def test_lance_operations_are_counted_per_object_class(endpoint):
    uri, options = f"{endpoint.fresh_prefix()}/nodes/t", endpoint.storage_options
    with measure(endpoint) as create:
        lance.write_dataset(ROWS, uri, storage_options=options)
    assert create.by_kind == {
        ("LIST", "table_version"): 2,
        ("PUT", "table_data"): 1,
        ("PUT", "table_txn"): 1,
        ("PUT", "table_version"): 1,
    }
    with measure(endpoint) as open_latest:
        dataset = lance.dataset(uri, storage_options=options)
    assert open_latest.by_kind == {("LIST", "table_version"): 1, ("GET", "table_version"): 1}
    with measure(endpoint) as append:
        lance.write_dataset(ROWS, dataset, mode="append")
    assert append.by_class == {"table_version": 2, "table_data": 1, "table_txn": 1}
    assert append.total == 4
    assert lance.dataset(uri, storage_options=options).count_rows() == 4


def test_the_manifest_of_a_graph_is_counted_apart_from_its_tables(endpoint):
    uri, options = f"{endpoint.fresh_prefix()}/__manifest", endpoint.storage_options
    with measure(endpoint) as cost:
        dataset = lance.write_dataset(ROWS, uri, storage_options=options)
        dataset.create_branch("draft")
    assert cost.by_class.keys() == {"manifest_version", "manifest_txn", "manifest_data", "ref"}
    assert "manifest_version: " in repr(cost)


def test_a_measurement_may_lie_inside_another(endpoint, store, prefix):
    with measure(endpoint) as outer:
        put(store, f"{prefix}/1")
        with measure(endpoint) as inner:
            put(store, f"{prefix}/2")
    assert ([call.key for call in inner.calls], outer.total) == ([f"{prefix}/2"], 2)


def test_a_call_records_what_it_moved_and_when(endpoint, store, prefix):
    put(store, f"{prefix}/a", b"12345")
    obstore.get(store, f"{prefix}/a").bytes()
    wrote, read = endpoint.calls()
    assert (wrote.method, wrote.operation, wrote.status, wrote.bytes_in, wrote.bytes_out) == ("PUT", "PUT", 200, 5, 0)
    assert (read.method, read.operation, read.status, read.bytes_in, read.bytes_out) == ("GET", "GET", 200, 0, 5)
    assert wrote.started_s < wrote.ended_s <= read.started_s < read.ended_s
    assert (read.sequence, wrote.fault, read.object_class) == (wrote.sequence + 1, None, "other")


def test_a_reset_forgets_calls_and_counts_go_by_operation_and_class(endpoint, store, prefix):
    put(store, f"{prefix}/__recovery/main~1/1.json")
    put(store, f"{prefix}/x")
    assert (endpoint.count(), endpoint.count(operation="PUT"), endpoint.count(operation="GET")) == (2, 2, 0)
    assert endpoint.count(object_class="sidecar") == endpoint.count(operation="PUT", object_class="other") == 1
    endpoint.reset_calls()
    assert endpoint.calls() == ()


def test_a_call_in_service_during_a_reset_is_not_reported_after_it(endpoint, store, prefix):
    endpoint.set_latency_ms(200)
    before = endpoint.last_sequence()
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(put, store, f"{prefix}/slow")
        while endpoint.last_sequence() == before:
            pass
        endpoint.reset_calls()
        pending.result()
    assert endpoint.calls(wait_idle=True) == ()


@pytest.mark.parametrize("length", [1, 6])
def test_the_log_shows_the_length_of_a_chain(endpoint, store, prefix, length):
    put(store, f"{prefix}/a")

    def chain():
        for _ in range(length):
            obstore.get(store, f"{prefix}/a")

    assert fewest_hops(endpoint, chain, length) == length


def test_calls_side_by_side_are_one_hop(endpoint, store, prefix):
    put(store, f"{prefix}/a")
    assert fewest_hops(endpoint, lambda: run_together(8, lambda _: obstore.get(store, f"{prefix}/a")), 1) == 1


def test_an_append_of_lance_is_four_hops(endpoint):
    dataset = lance.write_dataset(ROWS, f"{endpoint.fresh_prefix()}/t", storage_options=endpoint.storage_options)
    assert fewest_hops(endpoint, lambda: lance.write_dataset(ROWS, dataset, mode="append"), 4) == 4


@pytest.mark.parametrize(("chain", "side_by_side"), [(1, 1), (6, 1), (4, 3)])
def test_the_slope_over_latency_is_the_length_of_a_chain(endpoint, monkeypatch, chain, side_by_side):
    passed_s = [0.0]
    monkeypatch.setattr(measurement, "time", SimpleNamespace(monotonic=lambda: passed_s[0]))

    def run():
        # On top of the latency of each hop there is work, which no latency changes.
        passed_s[0] += chain * endpoint.settings().latency_ms / 1000 + side_by_side * 0.5

    endpoint.set_latency_ms(3)
    assert serial_hops(run, endpoint) == pytest.approx(chain)
    assert endpoint.settings().latency_ms == 3


def test_a_line_needs_two_latencies(endpoint):
    with pytest.raises(ValueFormatError, match="fewer than two"):
        serial_hops(lambda: None, endpoint, latencies_ms=(20, 20))


def test_without_a_cap_calls_wait_side_by_side_and_with_one_they_queue(endpoint, store, prefix):
    put(store, f"{prefix}/a")

    def ask_together():
        run_together(8, lambda _: obstore.get(store, f"{prefix}/a"))

    assert fewest_hops(endpoint, ask_together, 1) == 1
    endpoint.set_concurrency(2)
    assert fewest_hops(endpoint, ask_together, 4) == 4
    with measure(endpoint) as capped:
        ask_together()
    assert capped.total == 8
    assert most_at_once(capped.calls) <= 2


def test_lifting_the_cap_lets_waiting_calls_in(endpoint, store, prefix):
    for latency_ms in (100, 1000, 10_000):
        endpoint.restore_defaults()
        endpoint.set_latency_ms(latency_ms)
        endpoint.set_concurrency(1)
        before = endpoint.last_sequence()
        with ThreadPoolExecutor(4) as pool:
            pending = [pool.submit(put, store, f"{prefix}/{number}") for number in range(4)]
            while endpoint.last_sequence() == before:
                pass
            endpoint.set_concurrency(None)
            for put_call in pending:
                put_call.result()
        assert (endpoint.settings().latency_ms, endpoint.settings().concurrency) == (latency_ms, None)
        # Calls that came late, after the first had ended, tell nothing.
        if most_at_once(endpoint.calls()) > 1:
            break
    assert most_at_once(endpoint.calls()) > 1


@pytest.mark.parametrize(("name", "value"), [("set_latency_ms", -1), ("set_concurrency", 0)])
def test_a_setting_out_of_range_is_refused(endpoint, name, value):
    before = endpoint.settings()
    with pytest.raises(ValueFormatError, match="out of range"):
        getattr(endpoint, name)(value)
    assert endpoint.settings() == before


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("nonsense", "null", 404), ("add_fault", '{"action": "explode"}', 400), ("set_settings", "][", 400)],
)
def test_a_malformed_control_request_changes_nothing(endpoint, path, body, status):
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"))
    connection.request("POST", f"/__control/{path}", body=body)
    assert connection.getresponse().status == status
    connection.close()
    assert endpoint.settings().latency_ms == 0
    assert endpoint.calls() == ()


def test_a_line_that_is_no_request_closes_the_connection_and_harms_nobody_else(endpoint, store, prefix):
    host, _, port = endpoint.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"garbage\r\n\r\n")
        assert connection.recv(100) == b""
    put(store, f"{prefix}/a")
    assert endpoint.count() == 1


def test_stopping_leaves_no_process_and_a_stopped_endpoint_says_so():
    with S3Endpoint(bucket="another-bucket") as endpoint:
        process_id = endpoint.process_id
        put(S3Store(endpoint.bucket, config=endpoint.storage_options), "a")
        assert endpoint.count() == 1
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
    with pytest.raises(UsageError, match="not running"):
        endpoint.calls()
    with pytest.raises(UsageError, match="not running"):
        _ = endpoint.storage_options


def test_an_endpoint_that_cannot_serve_says_so(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(InternalError, match="did not start: status=1"), S3Endpoint():
        pass


def test_a_name_that_no_bucket_can_have_is_refused():
    with pytest.raises(ValueFormatError, match="not a bucket name"):
        S3Endpoint(bucket="No_Such_Name")


def test_an_endpoint_dies_with_its_parent():
    # The endpoint inherits standard error, so that ends only when the parent and the endpoint are both gone.
    orphaner = subprocess.run(
        [sys.executable, "-c", ORPHANER], stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False
    )
    assert orphaner.returncode == -signal.SIGKILL
    host, _, port = orphaner.stdout.decode().strip().removeprefix("http://").partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
