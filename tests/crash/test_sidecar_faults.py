"""What happens when the sidecar itself cannot be written, read, understood or deleted."""

import json
import logging

import pytest

from omnigraph.errors import (
    Effect,
    OmnigraphError,
    SidecarCorruptError,
    StorageDeniedError,
    StorageFault,
    StorageUnavailableError,
)
from omnigraph.store.control import ControlObjects
from omnigraph.testing.s3 import FOREVER, Fault
from omnigraph.values import BranchName
from tests.crash.checks import assert_sound, recovery_kinds
from tests.crash.later import later_world
from tests.crash.torn import IMPATIENT, fill, sidecars, tear
from tests.txn_graph import (
    PERSON,
    TEAM,
    authority_of,
    history,
    init_graph,
    insert,
    node_rows,
    open_graph,
    read_ids,
)

pytestmark = pytest.mark.more


@pytest.fixture
def remote(clean_s3_endpoint):
    endpoint = clean_s3_endpoint
    storage = init_graph(endpoint.fresh_prefix(), endpoint.storage_options_without_retries)
    fill(storage)
    return storage


@pytest.fixture
def storage_with_retries(clean_s3_endpoint):
    storage = init_graph(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options)
    fill(storage)
    return storage


@pytest.fixture
def local(tmp_path):
    storage = init_graph(tmp_path / "g")
    fill(storage)
    return storage


@pytest.fixture(params=["local", "remote"])
def storage(request):
    return request.getfixturevalue(request.param)


def _failing(*_args, **_kwargs):
    raise StorageUnavailableError("the disk is gone", details=StorageFault(doing="test", location="", reason="gone"))


def _assert_unharmed(storage, graph):
    """The write left nothing, and the next one does not notice it."""
    assert read_ids(graph, PERSON) == ["a"]
    assert sidecars(storage) == ()
    assert_sound(storage)
    assert len(history(graph)) == 3
    insert(graph, PERSON, node_rows(["b"]))
    assert read_ids(graph, PERSON) == ["a", "b"]
    assert recovery_kinds(storage) == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["error", "drop"])
def test_a_claim_that_cannot_be_put_fails_the_write_and_nothing_else(remote, clean_s3_endpoint, when, action):
    with open_graph(remote, settings=IMPATIENT) as graph:
        fault = Fault(action=action, when=when, operation="PUT", object_class="sidecar", times=FOREVER)
        clean_s3_endpoint.add_fault(fault)
        with pytest.raises(StorageUnavailableError) as caught:
            insert(graph, PERSON, node_rows(["x"]))
        clean_s3_endpoint.clear_faults()
        assert caught.value.effect is Effect.NONE
        _assert_unharmed(remote, graph)


def test_a_claim_that_is_forbidden_fails_the_write_and_nothing_else(remote, clean_s3_endpoint):
    with open_graph(remote, settings=IMPATIENT) as graph:
        clean_s3_endpoint.add_fault(Fault(action="error", status=403, object_class="sidecar", times=FOREVER))
        with pytest.raises(StorageDeniedError):
            insert(graph, PERSON, node_rows(["x"]))
        clean_s3_endpoint.clear_faults()
        # Not even looking was allowed, so this handle ends the claim that may exist before it writes again.
        insert(graph, PERSON, node_rows(["b"]))
        assert read_ids(graph, PERSON) == ["a", "b"]
    assert_sound(remote)


def test_a_folder_that_cannot_be_made_fails_the_write_and_nothing_else(local):
    folder = local.path("__recovery")
    for left in folder.iterdir():
        left.rmdir()
    folder.rmdir()
    with open_graph(local, settings=IMPATIENT) as graph:
        folder.write_text("in the way")
        with pytest.raises(OmnigraphError) as caught:
            insert(graph, PERSON, node_rows(["x"]))
        folder.unlink()
        assert caught.value.effect in {Effect.NONE, Effect.STAGED}
        insert(graph, PERSON, node_rows(["b"]))
        assert read_ids(graph, PERSON) == ["a", "b"]
    assert_sound(local)


def _assert_release_is_made_up_for(storage, caplog):
    assert "could not delete the sidecar" in caplog.text
    assert len(sidecars(storage)) == 1
    with open_graph(storage, mode="read_only") as graph:
        assert read_ids(graph, PERSON) == ["a", "b"]
    assert len(sidecars(storage)) == 1
    with open_graph(storage, runtime=later_world()) as graph:
        assert read_ids(graph, PERSON) == ["a", "b"]
        assert history(graph)[0].actor == "ann"
    assert _audit_kinds(storage) == ["RolledForward"]
    assert_sound(storage)


def _audit_kinds(storage):
    with open_graph(storage) as graph:
        return [row["recovery_kind"] for row in authority_of(graph).services.audit.rows()]


@pytest.mark.parametrize("action", ["error", "drop"])
def test_a_release_that_fails_is_a_warning_and_the_next_open_makes_up_for_it(remote, clean_s3_endpoint, action, caplog):
    with caplog.at_level(logging.WARNING), open_graph(remote) as graph:
        clean_s3_endpoint.add_fault(
            Fault(action=action, operation="POST_DELETE", object_class="sidecar", times=FOREVER)
        )
        assert insert(graph, PERSON, node_rows(["b"]), actor="ann").commit is not None
    clean_s3_endpoint.clear_faults()
    _assert_release_is_made_up_for(remote, caplog)


def test_a_release_that_fails_on_disk_is_a_warning_too(local, caplog, monkeypatch):
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING), open_graph(local) as graph:
        patched.setattr(ControlObjects, "delete", _failing)
        assert insert(graph, PERSON, node_rows(["b"]), actor="ann").commit is not None
        graph.close()
    _assert_release_is_made_up_for(local, caplog)


def test_a_release_that_failed_once_is_repeated_with_the_next_write(remote, clean_s3_endpoint, caplog):
    with caplog.at_level(logging.WARNING), open_graph(remote) as graph:
        clean_s3_endpoint.add_fault(Fault(action="error", operation="POST_DELETE", object_class="sidecar"))
        insert(graph, PERSON, node_rows(["b"]))
        insert(graph, PERSON, node_rows(["c"]))
    assert "could not delete the sidecar" in caplog.text
    assert_sound(remote)


@pytest.mark.parametrize("operation", ["LIST", "GET"])
def test_an_open_that_cannot_look_for_sidecars_fails_loudly(remote, clean_s3_endpoint, operation):
    tear(remote)
    fault = Fault(action="error", operation=operation, object_class="sidecar", times=FOREVER)
    clean_s3_endpoint.add_fault(fault)
    with pytest.raises(StorageUnavailableError):
        open_graph(remote, runtime=later_world())
    with open_graph(remote, mode="read_only") as graph:
        assert read_ids(graph, PERSON) == ["a"]
    clean_s3_endpoint.clear_faults()
    with open_graph(remote, runtime=later_world()) as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
    assert_sound(remote)


@pytest.mark.parametrize("method", ["list_keys", "get"])
def test_an_open_that_cannot_look_for_sidecars_on_disk_fails_loudly(local, monkeypatch, method):
    tear(local)
    with monkeypatch.context() as patched:
        patched.setattr(ControlObjects, method, _failing)
        with pytest.raises(StorageUnavailableError):
            open_graph(local, runtime=later_world())
        with open_graph(local, mode="read_only") as graph:
            assert read_ids(graph, PERSON) == ["a"]


def test_a_writer_that_cannot_read_the_claim_in_its_way_fails_loudly(remote, clean_s3_endpoint):
    with open_graph(remote, settings=IMPATIENT) as graph:
        tear(remote)
        clean_s3_endpoint.add_fault(Fault(action="error", operation="GET", object_class="sidecar", times=FOREVER))
        with pytest.raises(StorageUnavailableError) as caught:
            insert(graph, PERSON, node_rows(["x"]))
        assert caught.value.effect in {Effect.NONE, Effect.UNKNOWN}
        assert read_ids(graph, PERSON) == ["a"]


def test_a_claim_that_is_released_while_it_is_read_is_no_claim(storage_with_retries, clean_s3_endpoint):
    tear(storage_with_retries)
    with open_graph(storage_with_retries, mode="read_only") as graph:
        claims = graph.open_branches.branch_writer(BranchName("main")).services.claims
        (version,) = claims.pending_versions()
        clean_s3_endpoint.add_fault(Fault(action="cut", operation="GET", object_class="sidecar"))
        clean_s3_endpoint.add_fault(Fault(action="error", status=404, operation="GET", object_class="sidecar", nth=2))
        assert claims.read(version) is None
        assert claims.read(version) is not None


def _damaged(plan):
    """A good plan with one part of it damaged, in every way a part can be."""
    whole = json.dumps(plan).encode()
    yield from (b"", b"null", b"[]", b"7", b"{}", b"not json", whole[: len(whole) // 2], b"\xff\xfe")
    for path in _paths(plan):
        yield _with(plan, path, [{"unexpected": True}])
        yield _without(plan, path)
    for path, value in [
        (("format",), 99),
        (("kind",), "no-such-kind"),
        (("operation_id",), "not a ulid"),
        (("base_version",), 1),
        (("branch",), "another"),
        (("incarnation",), "another"),
        (("change", "commits"), []),
        (("actions", 0, "kind"), "no-such-action"),
    ]:
        yield _with(plan, path, value)


def _paths(node, prefix=()):
    if prefix and prefix[-1] in {"transaction", "files", "read_set"}:
        return
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*prefix, key)
        yield from _paths(value, (*prefix, key))


def _with(plan, path, value):
    copy = json.loads(json.dumps(plan))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(copy).encode()


def _without(plan, path):
    copy = json.loads(json.dumps(plan))
    at = copy
    for key in path[:-1]:
        at = at[key]
    if isinstance(at, list):
        return b"{"
    del at[path[-1]]
    return json.dumps(copy).encode()


def _assert_blocked(storage, key):
    """The graph opens, nothing of the plan is executed, and its branch says why it cannot be written to."""
    with open_graph(storage, runtime=later_world(), settings=IMPATIENT) as graph:
        assert read_ids(graph, PERSON) == ["a"]
        with pytest.raises(SidecarCorruptError) as caught:
            insert(graph, PERSON, node_rows(["x"]))
        assert caught.value.details.what == key
        assert read_ids(graph, PERSON) == ["a"]


def test_a_damaged_sidecar_stops_writing_is_kept_and_stops_no_reader(local):
    with open_graph(local, settings=IMPATIENT) as early:
        tear(local)
        (key,) = sidecars(local)
        control = ControlObjects(local)
        good = control.get(key)
        for bad in _damaged(json.loads(good)):
            control.put(key, bad)
            _assert_blocked(local, key)
            assert control.get(key) == bad
        with pytest.raises(SidecarCorruptError):
            insert(early, PERSON, node_rows(["x"]))
        assert control.get(key) == bad
        with open_graph(local, mode="read_only") as graph:
            assert read_ids(graph, PERSON) == ["a"]
        control.put(key, good)
    with open_graph(local, runtime=later_world()) as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
    assert_sound(local)


def test_a_sidecar_that_was_altered_is_reported_and_never_executed(local):
    """Every byte counts, also where the result is a plan like any other."""
    tear(local)
    (key,) = sidecars(local)
    control = ControlObjects(local)
    good = control.get(key)
    changed = [
        good.replace(b'"actor":"torn"', b'"actor":"tarn"'),
        good.replace(b'"row_count":2', b'"row_count":3'),
        good.replace(b'"format":2', b'"format":1'),
        good.replace(b'"checksum":', b'"checksun":'),
        *(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :] for place in range(0, len(good), 97)),
    ]
    for bad in changed:
        assert bad != good
        control.put(key, bad)
        _assert_blocked(local, key)
        assert control.get(key) == bad
        with open_graph(local, mode="read_only") as graph:
            assert read_ids(graph, PERSON) == ["a"]
    control.put(key, good)
    with open_graph(local, runtime=later_world()) as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
    assert_sound(local)


def test_a_sidecar_of_the_format_before_is_still_executed(local):
    tear(local)
    (key,) = sidecars(local)
    control = ControlObjects(local)
    plan = json.loads(control.get(key))
    del plan["checksum"]
    control.put(key, json.dumps({**plan, "format": 1}).encode())
    with open_graph(local, runtime=later_world()) as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
    assert_sound(local)


def test_a_damaged_sidecar_on_s3_is_refused_alike(remote):
    tear(remote)
    (key,) = sidecars(remote)
    ControlObjects(remote).put(key, b"{")
    _assert_blocked(remote, key)
    assert sidecars(remote) == (key,)
    with open_graph(remote, mode="read_only") as graph:
        assert read_ids(graph, TEAM) == ["t"]


@pytest.mark.parametrize("action", ["error", "drop"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_audit_that_cannot_be_written_keeps_the_sidecar_and_is_written_once_later(
    remote, clean_s3_endpoint, action, when
):
    tear(remote)
    sidecar = sidecars(remote)
    clean_s3_endpoint.add_fault(Fault(action=action, when=when, operation="PUT", object_class="audit", times=FOREVER))
    with pytest.raises(OmnigraphError):
        open_graph(remote, runtime=later_world())
    clean_s3_endpoint.clear_faults()
    assert set(sidecar) <= set(sidecars(remote))
    with open_graph(remote, mode="read_only") as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
    with open_graph(remote, runtime=later_world(hours=2)) as graph:
        assert read_ids(graph, PERSON) == ["a", "torn"]
    assert _audit_kinds(remote) == ["RolledForward"]
    assert_sound(remote)
