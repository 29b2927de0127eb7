"""What is stored about a cluster: read strictly, replaced only by who has read it last, understood by people."""

import json
import os

import msgspec
import pytest

from omnigraph.cluster.digests import file_digest
from omnigraph.cluster.ledger.approvals import Approval, ApprovalBinding, ApprovalStore, select_approval
from omnigraph.cluster.ledger.draft import LedgerDraft, check_composites
from omnigraph.cluster.ledger.lock import LockFile
from omnigraph.cluster.ledger.payloads import Payload, PayloadState, PayloadStore
from omnigraph.cluster.ledger.place import LOCK, STATE
from omnigraph.cluster.ledger.sidecars import Sidecar, SidecarStore
from omnigraph.cluster.ledger.state import (
    EMPTY,
    GraphObservation,
    LedgerFile,
    ResourceStatus,
    StoredBase,
    StoredBlobPolicy,
    StoredLedger,
    StoredProfile,
    StoredResource,
    content_id,
)
from omnigraph.errors import ClusterStateError
from omnigraph.testing.s3 import FOREVER, Fault

DIGEST = "ab" * 32
LEDGER = {
    "version": 1,
    "state_revision": 3,
    "applied_revision": {
        "config_digest": DIGEST,
        "resources": {
            "schema.g": {"digest": DIGEST},
            "query.g.q": {"digest": DIGEST},
            "policy.p": {"digest": DIGEST, "applies_to": ["graph.g"]},
            "provider.embedding.d": {
                "digest": DIGEST,
                "embedding_profile": {"kind": "gemini", "model": "m", "api_key": "${X}"},
            },
            "graph.g": {
                "digest": DIGEST,
                "embedding_provider": "provider.embedding.d",
                "external_blob_policy": {"mode": "allow", "bases": [{"uri": "s3://b/", "scope": "server_safe"}]},
            },
        },
    },
    "resource_statuses": {"graph.g": {"status": "applied", "conditions": [], "message": "m"}},
    "approval_records": {},
    "recovery_records": {
        "01ARZ3NDEKTSV4RRFFQ69G5FAV": {
            "kind": "schema_apply",
            "graph_id": "g",
            "outcome": "rolled_forward",
            "recovered_at": "2026-01-31T10:00:00.000Z",
            "actor": "act-mira",
        }
    },
    "observations": {
        "graph.g": {
            "kind": "graph",
            "address": "graph.g",
            "graph_uri": "s3://b/graphs/g.omni",
            "observed_at": "2026-01-31T10:00:00.000Z",
            "exists": True,
            "graph_manifest_version": 3,
            "schema_digest": DIGEST,
            "desired_schema_digest": DIGEST,
            "schema_matches_desired": True,
            "error": None,
        },
        "graph.old": {
            "kind": "tombstone",
            "deleted_at": "2026-01-31T10:00:00.000Z",
            "approval_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "actor": "act-mira",
        },
    },
}


def _put(place, document, key=STATE):
    place.objects.put(key, document if isinstance(document, bytes) else json.dumps(document).encode())


def _refusal(run):
    with pytest.raises(ClusterStateError) as caught:
        run()
    return caught.value.details.finding


def test_a_ledger_that_does_not_exist_is_empty(place):
    stored = LedgerFile(place).read()
    assert (stored.exists, stored.cas, stored.state) == (False, None, EMPTY)


def test_the_documented_ledger_is_read_and_written_as_it_is(place):
    _put(place, LEDGER)
    stored = LedgerFile(place).read()
    assert stored.state.resources["graph.g"] == StoredResource(
        digest=DIGEST,
        embedding_provider="provider.embedding.d",
        external_blob_policy=StoredBlobPolicy(mode="allow", bases=(StoredBase(uri="s3://b/", scope="server_safe"),)),
    )
    assert stored.state.resources["provider.embedding.d"].embedding_profile == StoredProfile(
        kind="gemini", model="m", api_key="${X}"
    )
    assert isinstance(stored.state.observations["graph.g"], GraphObservation)
    LedgerFile(place).write(stored.state, stored)
    assert json.loads(place.objects.get(STATE)) == LEDGER


def test_a_ledger_with_only_what_it_must_have_is_read(place):
    _put(place, {"version": 1, "applied_revision": {}})
    assert LedgerFile(place).read().state == EMPTY


def test_the_content_id_is_the_hash_of_the_text(place):
    _put(place, LEDGER)
    stored = LedgerFile(place).read()
    assert stored.cas == content_id(place.objects.get(STATE)) == f"sha256:{file_digest(place.objects.get(STATE))}"


def _members(document, path=()):
    """Every place of a document where a member could be that nobody knows."""
    if isinstance(document, dict):
        yield path
        for name, value in document.items():
            yield from _members(value, (*path, name))
    if isinstance(document, list):
        for number, value in enumerate(document):
            yield from _members(value, (*path, number))


# Maps by address or id take any name.
_MAPS = {(), ("applied_revision", "resources"), ("resource_statuses",), ("approval_records",), ("recovery_records",)}
_PLACES = [path for path in _members(LEDGER) if path == () or path not in {*_MAPS, ("observations",)}]


@pytest.mark.parametrize("path", _PLACES, ids=lambda path: ".".join(map(str, path)) or "top")
def test_a_member_that_nobody_knows_is_refused_wherever_it_is(local_place, path):
    document = json.loads(json.dumps(LEDGER))
    inner = document
    for part in path:
        inner = inner[part]
    inner["surprise"] = 1
    _put(local_place, document)
    assert _refusal(LedgerFile(local_place).read) == "invalid_state_json"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"version": 1}',
        b'{"version": "1", "applied_revision": {}}',
        b'{"version": 1, "version": 1, "applied_revision": {}}',
        b'{"version": 1, "applied_revision": {}, "state_revision": NaN}',
        b'{"version": 1, "applied_revision": {"resources": {"graph.g": {}}}}',
        b'{"version": 1, "applied_revision": {}, "resource_statuses": {"graph.g": {"status": "fine"}}}',
        b"[" * 100_000,
    ],
    ids=range(11),
)
def test_what_is_no_ledger_is_refused(local_place, text):
    _put(local_place, text)
    assert _refusal(LedgerFile(local_place).read) == "invalid_state_json"


@pytest.mark.parametrize(
    "address", ["query.crm", "query.", "policy.", "graph.", "graph.../x", "query.a.b/../c", "schema.a.b", "provider.x"]
)
def test_an_address_that_leads_elsewhere_is_refused(local_place, address):
    _put(local_place, {"version": 1, "applied_revision": {"resources": {address: {"digest": DIGEST}}}})
    assert _refusal(LedgerFile(local_place).read) == "invalid_state_json"


def test_a_digest_that_leads_elsewhere_is_refused_and_a_kind_of_later_versions_is_not(local_place):
    _put(local_place, {"version": 1, "applied_revision": {"resources": {"policy.p": {"digest": "../x"}}}})
    assert _refusal(LedgerFile(local_place).read) == "invalid_state_json"
    _put(local_place, {"version": 1, "applied_revision": {"resources": {"pipeline.p.q.r": {"digest": DIGEST}}}})
    assert list(LedgerFile(local_place).read().state.resources) == ["pipeline.p.q.r"]


def test_a_sidecar_of_a_graph_elsewhere_is_refused(local_place, findings):
    store = SidecarStore(local_place)
    store.write(_sidecar(local_place, graph_id="../../home"))
    assert store.read_all(findings) == ()
    assert [item.code for item in findings.items] == ["invalid_recovery_sidecar"]


def test_a_ledger_of_another_version_is_not_touched(local_place):
    _put(local_place, {"version": 2, "of": "tomorrow"})
    assert _refusal(LedgerFile(local_place).read) == "unsupported_state_version"


def _observed(**versions):
    document = json.loads(json.dumps(LEDGER))
    observation = document["observations"]["graph.g"]
    del observation["graph_manifest_version"]
    observation.update(versions)
    return document


@pytest.mark.parametrize("versions", [{"manifest_version": 5}, {"manifest_version": 5, "graph_manifest_version": 5}])
def test_an_observation_with_the_old_name_of_its_version_is_read(local_place, versions):
    _put(local_place, _observed(**versions))
    assert LedgerFile(local_place).read().state.observations["graph.g"].graph_manifest_version == 5


def test_an_observation_with_two_versions_is_refused(local_place):
    _put(local_place, _observed(manifest_version=5, graph_manifest_version=6))
    assert _refusal(LedgerFile(local_place).read) == "conflicting_graph_manifest_observation"


def test_of_two_who_have_read_the_same_ledger_one_writes(place):
    file = LedgerFile(place)
    _put(place, LEDGER)
    first, second = file.read(), file.read()
    file.write(msgspec.structs.replace(first.state, state_revision=4), first)
    changed = msgspec.structs.replace(second.state, state_revision=4, resource_statuses={})
    assert _refusal(lambda: file.write(changed, second)) == "state_cas_mismatch"
    assert file.read().state.state_revision == 4
    assert file.read().state.resource_statuses


def test_of_two_who_found_no_ledger_one_writes(place):
    file = LedgerFile(place)
    first, second = file.read(), file.read()
    file.write(EMPTY, first)
    assert _refusal(lambda: file.write(EMPTY, second)) == "state_cas_mismatch"


def test_what_a_write_returns_is_what_is_read_next(place):
    written = LedgerFile(place).write(EMPTY, LedgerFile(place).read())
    stored = LedgerFile(place).read()
    assert (written.state, written.cas) == (stored.state, stored.cas)


def test_what_storage_does_not_give_or_take_is_an_error_of_its_own(clean_s3_endpoint, s3_place, findings):
    file, lock, sidecars = LedgerFile(s3_place), LockFile(s3_place), SidecarStore(s3_place)
    approvals, payloads = ApprovalStore(s3_place), PayloadStore(s3_place)
    payload = Payload(address="query.g.q", digest=DIGEST)
    clean_s3_endpoint.add_fault(Fault(action="error", times=FOREVER))
    assert _refusal(file.read) == "state_read_error"
    assert _refusal(lambda: file.write(EMPTY, StoredLedger())) == "state_write_error"
    assert _refusal(lock.read) == "state_lock_read_error"
    assert _refusal(lambda: lock.held("plan", findings, is_enabled=True).__enter__()) == "state_lock_error"
    assert _refusal(lambda: sidecars.write(_sidecar(s3_place))) == "recovery_sidecar_write_error"
    assert _refusal(lambda: approvals.write(_approval())) == "approval_write_error"
    assert _refusal(lambda: payloads.look(payload)) == "catalog_payload_read_error"
    sidecars.remove(_sidecar(s3_place), findings)
    sidecars.read_all(findings)
    approvals.read_all(findings)
    codes = [item.code for item in findings.items]
    assert codes == ["recovery_sidecar_cleanup_failed", "recovery_sidecar_read_error", "approval_read_error"]


def _graph_draft(stored):
    draft = LedgerDraft(stored)
    draft.resources["schema.g"] = StoredResource(digest=DIGEST)
    draft.resources["query.g.q"] = StoredResource(digest=DIGEST)
    draft.set_graph("g")
    return draft


def test_every_write_counts_the_revision_up_and_the_same_state_is_none(place):
    file = LedgerFile(place)
    stored = file.read()
    state = _graph_draft(stored).finish()
    assert state.state_revision == 1
    file.write(state, stored)
    stored = file.read()
    draft = LedgerDraft(stored)
    assert draft.finish() is None
    draft.set_status("graph.g", "drifted", "graph_missing", message="it is gone")
    assert draft.finish().state_revision == 2
    assert draft.finish().resource_statuses["graph.g"] == ResourceStatus(
        status="drifted", conditions=("graph_missing",), message="it is gone"
    )


def test_the_digest_of_a_graph_follows_from_its_parts(local_place):
    file = LedgerFile(local_place)
    draft = _graph_draft(file.read())
    state = draft.finish()
    check_composites(state, file.path)
    for address, resource in (
        ("schema.g", StoredResource(digest="cd" * 32)),
        ("query.g.q", StoredResource(digest="cd" * 32)),
        ("query.g.other", StoredResource(digest=DIGEST)),
        ("graph.g", msgspec.structs.replace(state.resources["graph.g"], embedding_provider="provider.embedding.d")),
    ):
        edited = dict(state.resources) | {address: resource}
        revision = msgspec.structs.replace(state.applied_revision, resources=edited)
        changed = msgspec.structs.replace(state, applied_revision=revision)
        assert _refusal(lambda: check_composites(changed, file.path)) == "external_blob_policy_digest_mismatch"  # noqa: B023 - called at once


def test_a_graph_whose_schema_is_lost_is_left_to_a_refresh(local_place):
    file = LedgerFile(local_place)
    state = _graph_draft(file.read()).finish()
    resources = {name: found for name, found in state.resources.items() if name != "schema.g"}
    revision = msgspec.structs.replace(state.applied_revision, resources=resources)
    check_composites(msgspec.structs.replace(state, applied_revision=revision), file.path)


def test_one_command_at_a_time_holds_the_lock(place, findings):
    lock = LockFile(place)
    with lock.held("apply", findings, is_enabled=True) as held:
        found = lock.read()
        assert (found.lock_id, found.operation, found.pid) == (held.lock_id, "apply", os.getpid())
        assert set(json.loads(place.objects.get(LOCK))) == {"version", "lock_id", "operation", "created_at", "pid"}
        with pytest.raises(ClusterStateError, match=f"force-unlock {held.lock_id}") as caught:
            lock.held("plan", findings, is_enabled=True).__enter__()
        assert caught.value.details.finding == "state_lock_held"
    assert lock.read() is None
    assert findings.items == ()


def test_a_command_that_fails_gives_the_lock_back(place, findings):
    lock = LockFile(place)
    with pytest.raises(ZeroDivisionError), lock.held("apply", findings, is_enabled=True):
        raise ZeroDivisionError
    assert lock.read() is None


def test_a_lock_that_was_taken_over_is_left_to_its_holder(place, findings):
    lock = LockFile(place)
    with lock.held("apply", findings, is_enabled=True) as held:
        lock.remove(held.lock_id)
        other = lock.held("apply", findings, is_enabled=True)
        taken = other.__enter__()
    assert lock.read() == taken
    other.__exit__(None, None, None)
    assert lock.read() is None


def test_without_locking_nothing_is_written_and_a_warning_says_so(local_place, findings):
    with LockFile(local_place).held("apply", findings, is_enabled=False):
        assert not local_place.storage.path().exists()
    assert [item.code for item in findings.items] == ["state_lock_disabled"]


def test_a_command_that_writes_nothing_leaves_nothing_behind(local_place, findings):
    local_place.storage.path().mkdir()
    with LockFile(local_place).held("plan", findings, is_enabled=True):
        pass
    assert list(local_place.storage.path().iterdir()) == []


def test_a_lock_is_removed_only_by_its_exact_id(place, findings):
    lock = LockFile(place)
    assert _refusal(lambda: lock.remove("01ARZ3NDEKTSV4RRFFQ69G5FAV")) == "state_lock_missing"
    held = lock.held("apply", findings, is_enabled=True)
    taken = held.__enter__()
    assert _refusal(lambda: lock.remove(taken.lock_id[:-1])) == "state_lock_id_mismatch"
    assert _refusal(lambda: lock.remove("")) == "state_lock_id_mismatch"
    assert lock.remove(taken.lock_id) == taken
    assert lock.read() is None


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"version": 1, "lock_id": "x"}, "invalid_state_lock"),
        (
            {"version": 1, "lock_id": "x", "operation": "a", "created_at": "", "pid": 1, "host": "h"},
            "invalid_state_lock",
        ),
        ({"version": 2}, "unsupported_state_lock_version"),
    ],
)
def test_a_lock_that_cannot_be_understood_is_refused_and_still_locks(local_place, findings, document, code):
    _put(local_place, document, LOCK)
    lock = LockFile(local_place)
    assert _refusal(lock.read) == code
    assert _refusal(lambda: lock.remove("x")) == code
    assert _refusal(lambda: lock.held("plan", findings, is_enabled=True).__enter__()) == "state_lock_held"


def _sidecar(place, **parts):
    return Sidecar(
        schema_version=1,
        operation_id=str(place.runtime.ids.ulid()),
        started_at=place.now(),
        **{"kind": "graph_create", "graph_id": "g", "graph_uri": "u", **parts},
    )


def test_sidecars_are_listed_in_the_order_in_which_they_were_made(place, findings):
    store = SidecarStore(place)
    first, second = _sidecar(place), _sidecar(place, kind="schema_apply", desired_schema_digest=DIGEST)
    store.write(second)
    store.write(first)
    assert store.read_all(findings) == (first, second)
    moved = msgspec.structs.replace(first, expected_manifest_version=1)
    store.write(moved)
    assert store.read_all(findings) == (moved, second)
    store.remove(first, findings)
    store.remove(first, findings)
    assert store.read_all(findings) == (second,)
    assert findings.items == ()


def test_sidecars_that_cannot_be_understood_are_named_and_kept(local_place, findings):
    store = SidecarStore(local_place)
    store.write(_sidecar(local_place))
    _put(local_place, b"{", "__cluster/recoveries/a.json")
    _put(local_place, {"schema_version": 2}, "__cluster/recoveries/b.json")
    assert len(store.read_all(findings)) == 1
    assert [item.code for item in findings.items] == [
        "invalid_recovery_sidecar",
        "unsupported_recovery_sidecar_version",
    ]
    assert not findings.has_errors


def _approval(**parts):
    given = {
        "schema_version": 1,
        "approval_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "resource": "graph.g",
        "operation": "delete",
        "reason": "r",
        "bound_config_digest": "c",
        "bound_before_digest": "b",
        "bound_after_digest": None,
        "approved_by": "act-mira",
        "created_at": "2026-01-31T10:00:00.000Z",
    }
    return Approval(**(given | parts))


BINDING = ApprovalBinding(
    resource="graph.g", operation="delete", config_digest="c", before_digest="b", after_digest=None
)


def test_an_approval_is_stored_with_all_members_and_stays(place, findings):
    store = ApprovalStore(place)
    store.write(_approval())
    assert store.read_all(findings) == (_approval(),)
    raw = json.loads(place.objects.get("__cluster/approvals/01ARZ3NDEKTSV4RRFFQ69G5FAV.json"))
    assert raw["consumed_at"] is None
    assert len(raw) == 12


@pytest.mark.parametrize(
    "parts", [{"bound_config_digest": "x"}, {"bound_before_digest": "x"}, {"bound_after_digest": "x"}]
)
def test_an_approval_counts_only_for_the_digests_that_it_was_given_for(findings, parts):
    assert select_approval([_approval(**parts)], BINDING, lambda _: False, findings) is None
    assert [item.code for item in findings.items] == ["approval_stale"]


def test_an_approval_that_was_used_counts_no_more(findings):
    used = _approval(consumed_at="2026-01-31T10:00:00.000Z")
    assert select_approval([used], BINDING, lambda _: False, findings) is None
    assert select_approval([_approval()], BINDING, lambda _: True, findings) is None
    assert findings.items == ()
    assert select_approval([used, _approval(reason="again")], BINDING, lambda _: False, findings).reason == "again"


@pytest.mark.parametrize(("address", "end"), [("query.g.q", "query/g/q/{}.gq"), ("policy.p", "policy/p/{}.yaml")])
def test_a_payload_is_stored_under_its_digest_and_once(place, address, end):
    store, data = PayloadStore(place), b"text"
    payload = Payload(address=address, digest=file_digest(data))
    assert store.look(payload) is PayloadState.MISSING
    assert store.write(payload, data)
    assert not store.write(payload, data)
    assert store.look(payload) is PayloadState.WHOLE
    assert place.objects.list_keys("__cluster") == (f"__cluster/resources/{end.format(payload.digest)}",)


def test_a_payload_that_was_tampered_with_is_found_and_replaced(place):
    store, data = PayloadStore(place), b"text"
    payload = Payload(address="query.g.q", digest=file_digest(data))
    store.write(payload, data)
    _put(place, b"tampered", payload.key)
    assert store.look(payload) is PayloadState.MISMATCH
    assert store.write(payload, data)
    assert store.read(payload) == data
