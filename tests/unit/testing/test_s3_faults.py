"""Faults hit the calls they name, and only those, before or after the call takes effect."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError

from omnigraph.errors import ValueFormatError
from omnigraph.testing.s3 import FOREVER, Fault, measure

pytestmark = pytest.mark.more

ROWS = pa.table({"id": ["a", "b"], "v": [1, 2]})
BACKOFF = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
MOMENTS = pytest.mark.parametrize("when", ["before", "after"])
STATUS = {"error": 500, "drop": 0}
LOSSES = pytest.mark.parametrize(("action", "status"), STATUS.items())


def put(store, key, mode="overwrite"):
    obstore.put(store, key, b"body", mode=mode, use_multipart=False)


def exists(store, key):
    try:
        obstore.head(store, key)
    except FileNotFoundError:
        return False
    return True


@MOMENTS
@pytest.mark.parametrize("action", STATUS)
def test_a_put_that_fails_has_landed_only_if_it_failed_afterwards(endpoint, blunt_store, prefix, action, when):
    fault = endpoint.add_fault(Fault(action=action, when=when, operation="PUT"))
    with pytest.raises(GenericError):
        put(blunt_store, f"{prefix}/__recovery/1.json", mode="create")
    (call,) = endpoint.calls()
    assert (call.status, call.fault, call.object_class) == (STATUS[action], fault, "sidecar")
    assert exists(blunt_store, f"{prefix}/__recovery/1.json") == (when == "after")


@LOSSES
def test_a_client_that_repeats_its_lost_create_finds_its_own_object(endpoint, store, prefix, action, status):
    endpoint.add_fault(Fault(action=action, when="after", operation="PUT"))
    with pytest.raises(AlreadyExistsError):
        put(store, f"{prefix}/claim", mode="create")
    assert [call.status for call in endpoint.calls()] == [status, 412]


def test_an_answer_that_is_cut_breaks_off_in_its_body_and_the_client_fetches_the_rest(endpoint, store, prefix):
    put(store, f"{prefix}/a")
    endpoint.reset_calls()
    endpoint.add_fault(Fault(action="cut", operation="GET"))
    assert bytes(obstore.get(store, f"{prefix}/a").bytes()) == b"body"
    assert [(call.status, call.bytes_out) for call in endpoint.calls()] == [(200, 2), (206, 2)]


@MOMENTS
def test_a_delay_holds_the_answer_and_the_call_takes_effect(endpoint, store, prefix, when):
    fault = endpoint.add_fault(Fault(action="delay", when=when, delay_ms=80, key="slow$"))
    put(store, f"{prefix}/slow")
    put(store, f"{prefix}/quick")
    slow, quick = endpoint.calls()
    assert (slow.status, slow.fault, quick.fault) == (200, fault, None)
    assert slow.ended_s - slow.started_s >= 0.080 > quick.ended_s - quick.started_s
    assert exists(store, f"{prefix}/slow")


def test_a_call_delayed_before_its_effect_is_overtaken(endpoint, store, blunt_store, prefix):
    endpoint.add_fault(Fault(action="delay", when="before", delay_ms=150, operation="PUT"))
    with pytest.raises(AlreadyExistsError), measure(endpoint) as cost:
        race(
            lambda: put(store, f"{prefix}/claim", mode="create"),
            lambda: put(blunt_store, f"{prefix}/claim", mode="create"),
            endpoint,
        )
    assert [(call.status, call.fault is None) for call in cost.calls] == [(412, False), (200, True)]


def race(first, second, endpoint):
    """Begin ``first``, run ``second`` once the endpoint has taken it up, and return what ``first`` returns."""
    before = endpoint.last_sequence()
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(first)
        while endpoint.last_sequence() == before:
            pass
        second()
        return pending.result()


def test_the_nth_matching_call_is_hit_and_so_are_those_after_it_up_to_times(endpoint, blunt_store, prefix):
    put(blunt_store, f"{prefix}/data/0.lance")
    endpoint.add_fault(Fault(action="error", status=503, object_class="table_data", nth=2, times=2))
    outcomes = []
    for number in range(5):
        put(blunt_store, f"{prefix}/other{number}")
        try:
            put(blunt_store, f"{prefix}/data/{number}.lance")
            outcomes.append("landed")
        except GenericError:
            outcomes.append("failed")
    assert outcomes == ["landed", "failed", "failed", "landed", "landed"]


def test_the_first_of_several_due_faults_wins_and_all_of_them_count(endpoint, blunt_store, prefix):
    first = endpoint.add_fault(Fault(action="error", status=500))
    second = endpoint.add_fault(Fault(action="drop", nth=2))
    for number in range(2):
        with pytest.raises(GenericError):
            put(blunt_store, f"{prefix}/{number}")
    assert [(call.fault, call.status) for call in endpoint.calls()] == [(first, 500), (second, 0)]


def test_a_fault_forever_outlasts_the_repetitions_of_a_client_until_it_is_cleared(endpoint, store, prefix):
    impatient = type(store)(
        endpoint.bucket, config=endpoint.storage_options, retry_config={"max_retries": 2, "backoff": BACKOFF}
    )
    endpoint.add_fault(Fault(action="error", status=503, times=FOREVER))
    with pytest.raises(GenericError):
        put(impatient, f"{prefix}/a")
    assert [call.status for call in endpoint.calls()] == [503] * 3
    endpoint.clear_faults()
    put(impatient, f"{prefix}/a")


def test_a_client_error_is_not_repeated(endpoint, store, prefix):
    endpoint.add_fault(Fault(action="error", status=403, times=FOREVER))
    with pytest.raises(PermissionDeniedError):
        put(store, f"{prefix}/a")
    assert [call.status for call in endpoint.calls()] == [403]


@MOMENTS
@LOSSES
def test_lance_repeats_a_manifest_put_whose_answer_was_lost_and_commits_once(endpoint, action, status, when):
    options = endpoint.storage_options
    dataset = lance.write_dataset(ROWS, f"{endpoint.fresh_prefix()}/t", storage_options=options)
    endpoint.add_fault(Fault(action=action, when=when, operation="PUT", object_class="table_version"))
    with measure(endpoint) as cost:
        committed = lance.write_dataset(ROWS, dataset, mode="append")
    assert (committed.version, committed.count_rows()) == (2, 4)
    statuses = [call.status for call in cost.calls if call.operation == "PUT" and call.object_class == "table_version"]
    assert statuses == [status, 200 if when == "before" else 412]


@LOSSES
def test_without_repetition_a_manifest_put_that_never_landed_fails_the_lance_commit(endpoint, action, status):
    options = endpoint.storage_options_without_retries
    dataset = lance.write_dataset(ROWS, f"{endpoint.fresh_prefix()}/t", storage_options=options)
    endpoint.add_fault(Fault(action=action, when="before", operation="PUT", object_class="table_version"))
    with measure(endpoint) as cost, pytest.raises(OSError, match="_versions"):
        lance.write_dataset(ROWS, dataset, mode="append")
    assert [call.status for call in cost.calls if call.fault] == [status]
    assert cost.by_kind["PUT", "table_version"] == 1
    assert lance.dataset(dataset.uri, storage_options=options).version == 1


@LOSSES
def test_without_repetition_lance_looks_whether_its_lost_manifest_put_landed(endpoint, action, status):
    options = endpoint.storage_options_without_retries
    dataset = lance.write_dataset(ROWS, f"{endpoint.fresh_prefix()}/t", storage_options=options)
    endpoint.add_fault(Fault(action=action, when="after", operation="PUT", object_class="table_version"))
    with measure(endpoint) as cost:
        assert lance.write_dataset(ROWS, dataset, mode="append").version == 2
    assert [call.status for call in cost.calls if call.fault] == [status]
    assert cost.by_kind["PUT", "table_version"] == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"nth": 0},
        {"times": 0},
        {"status": 200},
        {"delay_ms": -1.0},
        {"delay_ms": 5.0},
        {"action": "delay"},
        {"key": "("},
    ],
)
def test_a_fault_that_could_not_do_what_it_says_is_refused(fields):
    with pytest.raises(ValueFormatError, match="fault"):
        Fault(**{"action": "error", **fields})
