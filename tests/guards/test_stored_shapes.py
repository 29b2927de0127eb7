"""What is stored as JSON has the members that ``stored_shapes.txt`` lists for the newest storage format.

Versions that know the format refuse members that they do not know, or lose them when they write the next state. So
another member needs the next number in ``values/formats.py``, a step in ``txn/manifest/codec.py``, a store of the old
format in ``tests/upgrade`` and a new list here, once a version with the listed ones has been given to anybody.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from omnigraph.txn.branches.refs import BranchRecord
from omnigraph.txn.branches.tags import Tag
from omnigraph.txn.claims.store import SignOfLife
from omnigraph.txn.manifest import codec
from omnigraph.txn.manifest.merged import MergeRecord
from omnigraph.txn.manifest.rows import AcceptedSchema, Commit
from omnigraph.txn.proposals import ProposalEvent
from omnigraph.txn.publish.plan import PLAN_FORMAT, PublishPlan
from omnigraph.values.formats import STORAGE_FORMAT

LISTED = Path(__file__).with_name("stored_shapes.txt")
STORED = (
    codec._HeadMetadata,
    codec._TombstoneMetadata,
    AcceptedSchema,
    Commit,
    PublishPlan,
    SignOfLife,
    BranchRecord,
    Tag,
    MergeRecord,
    ProposalEvent,
)


def _structs(kind, seen) -> Iterator[type]:
    for info in msgspec.inspect.multi_type_info([kind]):
        yield from _within(info, seen)


def _within(info, seen) -> Iterator[type]:
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls not in seen:
            seen.add(info.cls)
            yield info.cls
            for member in info.fields:
                yield from _within(member.type, seen)
        return
    for name in ("types", "item_types"):
        for part in getattr(info, name, ()):
            yield from _within(part, seen)
    for name in ("item_type", "key_type", "value_type"):
        if getattr(info, name, None) is not None:
            yield from _within(getattr(info, name), seen)


def _shapes() -> Iterator[str]:
    yield f"storage format {STORAGE_FORMAT}, plan format {PLAN_FORMAT}"
    seen: set[type] = set()
    found = [struct for kind in STORED for struct in _structs(kind, seen)]
    for struct in sorted(found, key=lambda each: each.__name__):
        yield f"{struct.__name__}: {' '.join(field.encode_name for field in msgspec.structs.fields(struct))}"


def test_stored_records_have_the_members_of_their_format():
    assert "\n".join(_shapes()) + "\n" == LISTED.read_text(encoding="utf-8")
