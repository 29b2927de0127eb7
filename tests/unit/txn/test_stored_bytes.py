"""What lies on storage is written exactly like this: other versions of this program read it, and recovery runs it."""

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import msgspec
import pyarrow as pa
import pytest

from omnigraph.errors import ManifestCorruptError, SidecarCorruptError
from omnigraph.runtime import Runtime
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.store.staging import StagedCommit
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.branches.refs import REF, BranchRecord
from omnigraph.txn.branches.tags import TAG as TAG_CODEC
from omnigraph.txn.branches.tags import Tag
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.claims.store import ClaimStore
from omnigraph.txn.manifest.codec import (
    decode_commits,
    decode_schema,
    decode_state,
    encode_commits,
    encode_schema,
    encode_state,
    manifest_schema,
)
from omnigraph.txn.manifest.merged import RECORD, MergedCommit, record_of
from omnigraph.txn.manifest.rows import (
    AcceptedSchema,
    BatchMark,
    BranchHead,
    Commit,
    FloorChange,
    ManifestChange,
    ManifestState,
    RequestMark,
    TableEntry,
    TableRename,
    Tombstone,
    freeze_tables,
)
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import PLAN, ActionKind, PublishPlan, TableAction
from omnigraph.txn.recovery import audit
from omnigraph.txn.recovery.audit import AuditRow
from omnigraph.txn.recovery.classify import Observation, TableClass
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import BranchName, CommitId, OperationId, TagName, Ulid

GOLDEN = Path(__file__).parent / "golden"
ID_1, ID_2 = (CommitId(Ulid("01ARZ3NDEKTSV4RRFFQ69G5FA" + end)) for end in "VW")
OPERATION = OperationId(Ulid("01ARZ3NDEKTSV4RRFFQ69G5FAX"))
MAIN_INCARNATION = BranchIncarnation(name=BranchName("main"), incarnation="main", lance_branch=None)
DRAFT_LINE = BranchIncarnation(name=BranchName("team/draft"), incarnation="01abc", lance_branch="team/draft.01abc")
PIN = TablePin(location="nodes/1", branch=None, version=3)
FORKED = TablePin(location="nodes/2", branch="team/draft.01abc.x", version=4)
SCHEMA = AcceptedSchema(source='node A { name: String? } // "é"', compiled='{"a":1}', hash="abc")
WRITER = WriterIdentity(host="h/b/pid:[1]", pid=7, started="42")
FIRST = Commit(
    id=ID_1,
    parent=None,
    actor="Zoë",
    created_at_ms=1469922850259,
    manifest_version=1,
    operation="init",
    branch=BranchName("main"),
    merged_parent=None,
    message=None,
    published_at_ms=1469922850260,
    touched=(),
    batch=None,
)
SECOND = Commit(
    id=ID_2,
    parent=ID_1,
    actor=None,
    created_at_ms=1,
    manifest_version=2,
    operation="branch_merge",
    branch=BranchName("team/draft"),
    merged_parent=ID_1,
    message='say "hi"\n',
    published_at_ms=2,
    touched=("edge:Knows", "node:A"),
    batch=BatchMark(app="stream", number=9),
)
ENTRY = TableEntry(table_key="node:A", object_id="t1", pin=PIN, row_count=5)
STONE = Tombstone(table_key="node:B", object_id="t2", pin=FORKED, dropped_by=ID_2, dropped_at_ms=77)
STAGED = StagedCommit(
    before=PIN,
    after=TablePin(location="nodes/1", branch=None, version=4),
    kind="upsert",
    uuid="u-1",
    operation_id=OPERATION,
    transaction={"op": "update", "removed": [1], "updated": [], "new": [{"id": 0}], "preserving": [], "mode": None},
    row_count=6,
    files=("nodes/1/data/x.lance",),
)
ACTIONS = (
    TableAction(kind=ActionKind.UPSERT, table_key="node:A", commit=STAGED),
    TableAction(kind=ActionKind.TOMBSTONE, table_key="node:B", commit=None),
)
FULL_CHANGE = ManifestChange(
    commits=(FIRST, SECOND),
    put_tables=(ENTRY,),
    drop_tables=(STONE,),
    rename_tables=(TableRename(old_key="node:C", new_key="node:D"),),
    schema=SCHEMA,
    raise_epoch=True,
    floor=FloorChange(floor=3, swept=4, forgotten=("t9",)),
)


def plan(**parts):
    usual = {
        "operation_id": OPERATION,
        "kind": WriteKind.SCHEMA_APPLY,
        "actor": None,
        "branch": BranchName("main"),
        "incarnation": "main",
        "base_version": 3,
        "base_commit": ID_1,
        "epoch": 0,
        "schema_hash": "abc",
        "actions": (),
        "change": ManifestChange(commits=(FIRST,)),
        "read_set": (),
        "publish_uuid": "p-1",
        "writer": WRITER,
        "created_at_ms": 1469922850261,
    }
    return PublishPlan(**{**usual, **parts})


PLANS = {
    "bare": plan(),
    "full": plan(
        actor="Zoë", branch=BranchName("team/draft"), actions=ACTIONS, change=FULL_CHANGE, read_set=("node:A", "node:B")
    ),
    "cleanup": plan(
        kind=WriteKind.CLEANUP, change=ManifestChange(commits=(), floor=FloorChange(floor=1, swept=2, forgotten=()))
    ),
    "deletion": plan(kind=WriteKind.BRANCH_DELETE, change=ManifestChange(commits=(), drop_tables=(STONE,))),
}

REFS = {
    "ref-of-main": BranchRecord(
        name=DRAFT_LINE.name,
        incarnation="01abc",
        lance_branch="team/draft.01abc",
        parent_name=BranchName("main"),
        parent_incarnation="main",
        parent_lance_branch=None,
        forked_at=ID_1,
        forked_version=4,
        forked_depth=2,
        created_at_ms=99,
        actor="Zoë",
    ),
    "ref-of-branch": BranchRecord(
        name=BranchName("x"),
        incarnation="02",
        lance_branch="x.02",
        parent_name=DRAFT_LINE.name,
        parent_incarnation="01abc",
        parent_lance_branch="team/draft.01abc",
        forked_at=ID_1,
        forked_version=4,
        forked_depth=2,
        created_at_ms=99,
        actor=None,
    ),
}
TAG = Tag(
    name=TagName("v1/é"),
    commit_id=ID_2,
    branch=DRAFT_LINE.name,
    incarnation="01abc",
    lance_branch="team/draft.01abc",
    manifest_version=4,
    created_at_ms=99,
    actor=None,
    message="why",
    identity="01x",
)
STATE = ManifestState(
    version=7,
    graph_id="01ARZ3NDEKTSV4RRFFQ69G5FAZ",
    head=BranchHead(branch=BranchName("team/draft"), incarnation="01abc", commit=ID_2, epoch=2, retention_floor=3),
    tables=freeze_tables([ENTRY]),
    tombstones=(STONE,),
    schema=SCHEMA,
    recent=(FIRST, SECOND),
)
STREAMING = replace(
    STATE,
    head=replace(STATE.head, last_cleanup=5, orphan_floor=4),
    tables=freeze_tables([]),
    tombstones=(),
    recent=(),
    batches=MappingProxyType({"stream": 9, "other": 0}),
)


def golden(name, written):
    """Compare with the file that holds these bytes; lines end in a newline that storage has not."""
    assert written.decode() + "\n" == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def rows_of(table):
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in table.to_pylist()).encode()


@pytest.mark.parametrize("name", PLANS)
def test_a_sidecar_holds_the_plan_and_a_checksum_of_it(name):
    written = PLAN.encode(PLANS[name])
    golden(f"plan-{name}", written)
    assert PLAN.decode(written, "k") == PLANS[name]


def test_a_sign_of_life_says_who_and_when(tmp_path):
    control = ControlObjects(Storage.open(tmp_path))
    claims = ClaimStore(control, MAIN_INCARNATION, Runtime.seeded(1), TxnSettings())
    claims.renew(3, WRITER)
    golden("sign-of-life", (tmp_path / "__recovery" / "main~main" / "3.renewed.json").read_bytes())


@pytest.mark.parametrize("name", REFS)
def test_a_ref_names_a_branch_and_where_it_was_forked(name):
    written = REF.encode(REFS[name])
    golden(name, written)
    assert REF.decode(written, "k") == REFS[name]


def test_a_tag_names_a_commit():
    written = TAG_CODEC.encode(TAG)
    golden("tag", written)
    assert TAG_CODEC.decode(written, "k") == TAG


ENDED = replace(STREAMING, head=replace(STATE.head, is_ended=True), batches=MappingProxyType({}))


@pytest.mark.parametrize(("name", "state"), [("state", STATE), ("state-streaming", STREAMING), ("state-ended", ENDED)])
def test_the_rows_of_a_state(name, state):
    written = encode_state(state)
    golden(name, rows_of(written))
    assert decode_state(7, written, SCHEMA) == state


def test_a_merge_record_holds_commits_by_line_and_a_checksum_of_them():
    merged = [MergedCommit(commit=SECOND, line=DRAFT_LINE), MergedCommit(commit=FIRST, line=MAIN_INCARNATION)]
    written = RECORD.encode(record_of(merged, {ID_1}))
    golden("merge-record", written)
    assert list(RECORD.decode(written, "k")) == merged
    with pytest.raises(ManifestCorruptError, match="cannot read merge record 'k'"):
        RECORD.decode(written.replace(b"Zo", b"Xo"), "k")


def test_the_row_of_a_schema():
    written = encode_schema(SCHEMA)
    golden("schema", rows_of(written))
    assert decode_schema(written) == SCHEMA


def test_the_rows_of_lineage():
    written = encode_commits((FIRST, SECOND))
    golden("lineage", rows_of(written))
    assert decode_commits(written) == (FIRST, SECOND)


def test_the_row_of_a_commit_that_a_request_asked_for():
    mark = RequestMark(id="req-é", key="00ff", payload="11", receipt={"query": "add", "nodes": 1})
    commits = tuple(
        msgspec.structs.replace(FIRST, request=request) for request in (mark, RequestMark(id="only-a-name"))
    )
    written = encode_commits(commits)
    golden("lineage-requests", rows_of(written))
    assert decode_commits(written) == commits


def test_the_row_of_a_recovery():
    seen = [
        Observation(table_key="node:A", pin=PIN, klass=TableClass.NO_MOVEMENT, head=3, is_foreign=False),
        Observation(table_key="node:B", pin=FORKED, klass=TableClass.ROLLED_PAST_EXPECTED, head=6, is_foreign=True),
    ]
    row = AuditRow(
        recovery_kind="RolledForward",
        operation_id=OPERATION,
        plan_id="p-1",
        writer_kind="insert",
        branch="main",
        original_actor=None,
        commit_id=ID_1,
        observations=tuple(seen),
        recovered_at_ms=5,
    )
    golden("recovery", json.dumps(audit._to_record(row), ensure_ascii=False).encode())


def _damaged(written):
    whole = json.loads(written)
    whole.pop("checksum", None)
    yield from (b"", b"null", b"[]", b"{", b"\xff\xfe", json.dumps({**whole, "unknown": 1}).encode())
    for part in whole:
        yield json.dumps({name: value for name, value in whole.items() if name != part}).encode()
        yield json.dumps({**whole, part: {"unexpected": True}}).encode()


@pytest.mark.parametrize(
    ("codec", "value", "error"),
    [
        (PLAN, PLANS["full"], SidecarCorruptError),
        (REF, REFS["ref-of-main"], ManifestCorruptError),
        (TAG_CODEC, TAG, ManifestCorruptError),
    ],
)
def test_an_object_of_another_shape_is_corrupt(codec, value, error):
    for bad in _damaged(codec.encode(value)):
        with pytest.raises(error, match=r"cannot read .* 'k'") as caught:
            codec.decode(bad, "k")
        assert caught.value.details.what == "k"


@pytest.mark.parametrize("edit", [{"parent": 7}, {"touched": "node:A"}, {"id": "no ulid"}, {"unknown": 1}])
def test_a_commit_row_of_another_shape_is_corrupt(edit):
    (row,) = encode_commits((FIRST,)).to_pylist()
    row["metadata"] = json.dumps({**json.loads(row["metadata"]), **edit})
    with pytest.raises(ManifestCorruptError):
        decode_commits(pa.Table.from_pylist([row], schema=manifest_schema()))


@pytest.mark.parametrize("edit", [{"location": None}, {"table_version": None}, {"object_type": "unheard of"}])
def test_a_table_row_of_another_shape_is_corrupt(edit):
    rows = [{**row, **edit} if row["object_type"] == "table" else row for row in encode_state(STATE).to_pylist()]
    with pytest.raises(ManifestCorruptError):
        decode_state(7, pa.Table.from_pylist(rows, schema=manifest_schema()), SCHEMA)
