"""Work on a table that any process can do, and what becomes of it in one commit."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import InternalError, TableMissingError, TableMovedError
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.staging import (
    BuiltIndex,
    IndexBuild,
    stage_change,
    stage_steps,
    stage_undo,
    stage_written,
    stage_written_whole,
)
from omnigraph.store.staging.compaction import number_compacted, plan_compaction
from omnigraph.store.staging.indexes import segments_of
from omnigraph.store.tables.pinned import Search
from omnigraph.store.tables.portable import (
    TableTicket,
    build_segment,
    carried_fragments,
    fragment_rows,
    fragment_sizes,
    index_work,
    merge_segments,
    read_fragments,
    run_compaction_task,
    shrink_fragment,
    write_fragments_for,
)

BY_ID = IndexBuild(column="id", kind="btree", name="id_btree")
BY_TEXT = IndexBuild(column="text", kind="fulltext", name="text_words")
BY_VECTOR = IndexBuild(column="vec", kind="vector", name="vec_near")


def sent(thing):
    """What another process gets of it."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


def ticket_of(bench, pin):
    """A ticket after its trip to another process."""
    return sent(TableTicket(storage=bench.storage, pin=pin))


def write_beside(bench, pin, *ids, n=0, **options):
    """Upload rows as an executor does and stage them on ``pin``."""
    fragments = write_fragments_for(ticket_of(bench, pin), bench.rows(*ids, n=n), **options)
    return stage_written(bench.open(pin), fragments, **bench.origin)


def test_a_ticket_travels_with_its_credentials_and_never_shows_them(local):
    options = {"secret_access_key": "hush"}
    ticket = TableTicket(storage=Storage.open("s3://b/p", options), pin=local.at(3))
    copy = sent(ticket)
    assert copy == ticket
    assert copy.storage.options == options
    assert "hush" not in repr(copy)


def test_rows_uploaded_elsewhere_land_in_one_commit(bench):
    first = bench.commit(write_beside(bench, bench.create(), "a", "b", n=1))
    second = bench.commit(write_beside(bench, first, "c", "d", "e", n=2, max_rows=2))
    assert bench.content(second) == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2}
    assert bench.content(first) == {"a": 1, "b": 1}
    assert [rows for _, rows in fragment_sizes(bench.open(second))] == [2, 2, 1]


def test_uploads_for_one_version_cannot_both_land(local):
    pin = local.create("a")
    one, two = write_beside(local, pin, "b"), write_beside(local, pin, "c")
    local.commit(one)
    with pytest.raises(TableMovedError):
        local.commit(two)


def test_rows_that_landed_and_were_undone_can_land_again(local):
    pin = local.create("a")
    fragments = write_fragments_for(ticket_of(local, pin), local.rows("b", "c", n=5))
    landed = local.commit(stage_written(local.open(pin), fragments, **local.origin))
    undone = local.commit(stage_undo(local.open(pin), local.open(landed), **local.origin))
    again = local.commit(stage_written(local.open(undone), fragments, **local.origin))
    assert local.content(again) == {"a": 0, "b": 5, "c": 5}
    assert len(set(local.row_ids(again).values())) == 3
    assert local.open(again).lookup(["b", "c"], ("n",))["n"].to_pylist() == [5, 5]


def test_an_upload_of_no_rows_is_no_commit(local):
    pin = local.create("a")
    assert write_fragments_for(ticket_of(local, pin), iter(local.rows().to_batches())) == []
    assert stage_written(local.open(pin), [], **local.origin) is None


def test_what_the_rows_themselves_fail_with_comes_out_of_an_upload(local):
    pin = local.create("a")

    def failing():
        yield from local.rows("b").to_batches()
        raise InternalError("half way")

    with pytest.raises(InternalError, match=r"^half way$"):
        write_fragments_for(ticket_of(local, pin), failing())


def test_an_overwrite_holds_exactly_what_was_uploaded(local):
    pin = local.create("a", "b")
    fragments = write_fragments_for(ticket_of(local, pin), local.rows("c", n=9))
    assert sum(map(fragment_rows, fragments)) == 1
    whole = local.commit(stage_written_whole(local.open(pin), fragments, **local.origin))
    assert local.content(whole) == {"c": 9}
    nothing = local.commit(stage_written_whole(local.open(whole), [], **local.origin))
    assert local.content(nothing) == {}


def merged_elsewhere(bench, pin, rows):
    """Merge rows as executors do: look up, upload with carried row ids, shrink the fragments that lose rows."""
    ticket = ticket_of(bench, pin)
    found = ticket.open().lookup(rows["id"].combine_chunks(), ())
    row_ids = dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))
    known = pa.array([key in row_ids for key in rows["id"].to_pylist()])
    updates, inserts = rows.filter(known), rows.filter(pa.compute.invert(known))
    carried = np.array([row_ids[key] for key in updates["id"].to_pylist()], dtype=np.uint64)
    fragments = carried_fragments(ticket, pa.concat_tables([updates, inserts]), carried)
    addresses = found["_rowaddr"].to_numpy()
    shrunk, removed = [], []
    for owner in np.unique(addresses >> 32).tolist():
        offsets = (addresses[addresses >> 32 == owner] & 0xFFFFFFFF).astype(np.uint32)
        outcome = shrink_fragment(ticket, owner, offsets)
        shrunk += [] if outcome is None else [outcome]
        removed += [owner] if outcome is None else []
    return stage_written(bench.open(pin), fragments, shrunk=shrunk, removed=removed, **bench.origin)


def test_a_merge_made_elsewhere_keeps_row_ids_and_says_which_rows_changed(bench):
    pin = bench.change(bench.create("a", "b", "c"), upserts=("d",))
    before, files = bench.row_ids(pin), set(bench.control.list_keys("nodes"))
    staged = merged_elsewhere(bench, pin, bench.rows("d", "c", "new", "a", n=7))
    # What a commit does not name is not synced either.
    assert set(staged.files) == set(bench.control.list_keys("nodes")) - files
    after = bench.commit(staged)
    assert bench.content(after) == {"a": 7, "b": 0, "c": 7, "d": 7, "new": 7}
    row_ids = bench.row_ids(after)
    assert {key: row_ids[key] for key in before} == before
    assert row_ids["new"] not in before.values()
    meta = bench.open(after).read(["id"], with_row_meta=True).to_pylist()
    changed = {row["id"] for row in meta if row["_row_last_updated_at_version"] == after.version}
    born = {row["id"] for row in meta if row["_row_created_at_version"] == after.version}
    assert (changed, born) == ({"a", "c", "d", "new"}, {"new"})


def test_fragments_stream_with_the_rows_places(local):
    pin = local.change(local.create("a", "b"), upserts=("c",), n=5)
    ticket = ticket_of(local, pin)
    (first, _), (second, _) = fragment_sizes(ticket.open())
    batches = read_fragments(ticket, [second], ["id"], with_row_id=True, with_row_address=True, filter="n = 5")
    rows = pa.Table.from_batches(batches).to_pylist()
    assert rows == [{"id": "c", "_rowid": local.row_ids(pin)["c"], "_rowaddr": second << 32}]
    assert list(read_fragments(ticket, [], None)) == []
    assert sum(batch.num_rows for batch in read_fragments(ticket, [first, second], None, batch_rows=1)) == 3


def test_a_compaction_made_elsewhere_lands_over_an_append_but_not_over_a_change_of_its_rows(local):
    pin = local.create("a", "b")
    for name in ("c", "d"):
        pin = local.change(pin, upserts=(name,))
    ticket, row_ids = ticket_of(local, pin), local.row_ids(pin)
    results = [run_compaction_task(ticket, task) for task in plan_compaction(ticket.open())]
    appended = local.commit(write_beside(local, pin, "late"))
    compacted = land_steps(local, appended, pin, number_compacted(local.open(pin), results))
    assert len(local.open(compacted).fragments) == 2
    assert row_ids.items() <= local.row_ids(compacted).items()
    changed = local.change(local.create("a", "b", location="nodes/2"), upserts=("c",))
    ticket = ticket_of(local, changed)
    results = [run_compaction_task(ticket, task) for task in plan_compaction(ticket.open())]
    newer = local.open(local.change(changed, deletes=("a",)))
    with pytest.raises(TableMovedError):
        stage_steps(newer, local.open(changed), [number_compacted(local.open(changed), results)], **local.origin)


def land_steps(bench, pin, base, *steps):
    """Land steps that were worked out on ``base`` on top of ``pin``."""
    for commit in stage_steps(bench.open(pin), bench.open(base), steps, **bench.origin):
        pin = bench.commit(commit)
    return pin


def built_elsewhere(bench, pin, builds, group_rows=2):
    """Build indexes as executors do."""
    ticket, built = ticket_of(bench, pin), []
    for build in builds:
        work = index_work(bench.open(pin), build, group_rows=group_rows)
        if work is not None:
            segments = [build_segment(ticket, build, group) for group in work.groups]
            if build.kind == "fulltext":
                segments = [merge_segments(ticket, build, segments)]
            built.append(BuiltIndex(build=build, segments=tuple(segments), rebuilds=work.rebuilds))
    return built


def told(bench, table):
    """Which rows are found by these words."""
    words = ("word1", "word9")
    found = [table.read(["id"], search=Search(full_text=word)) for word in words]
    return {word: sorted(rows["id"].to_pylist()) for word, rows in zip(words, found, strict=True)}


def test_index_segments_built_elsewhere_answer_like_one_index(local):
    pin = local.create("a", "b", n=1)
    pin = local.change(pin, upserts=("c", "d"), n=2)
    pin = local.commit(
        stage_written(
            local.open(pin),
            write_fragments_for(ticket_of(local, pin), local.rows("e", "f", n=3, vec=[1.0, 2.0])),
            **local.origin,
        )
    )
    built = built_elsewhere(local, pin, [BY_ID, BY_TEXT, BY_VECTOR])
    assert [len(index.segments) for index in built] == [3, 1, 1]
    # A row is added and one that the segments hold is rewritten before they land.
    moved = local.change(local.change(pin, upserts=("late",), n=1), upserts=("b",), n=9)
    step = segments_of(local.open(pin), built, built_on=pin.version)
    (staged,) = stage_steps(local.open(moved), local.open(pin), [step], **local.origin)
    assert set(staged.files) < set(local.control.list_keys("nodes"))
    indexed = local.commit(staged)
    table = local.open(indexed)
    segments = {segment.uuid for index in table.indexes() for segment in index.segments}
    assert {file.split("/")[3] for file in staged.files} == segments
    assert sorted(table.lookup(["b", "e", "late"], ())["id"].to_pylist()) == ["b", "e", "late"]
    assert told(local, table) == {"word1": ["a", "late"], "word9": ["b"]}
    nearest = {"column": "vec", "q": [1.0, 2.0], "k": 2}
    near = table.read(["id"], search=Search(nearest=nearest))
    assert sorted(near["id"].to_pylist()) == ["e", "f"]
    with pytest.raises(TableMovedError):
        stage_steps(table, local.open(pin), [step], **local.origin)
    again = built_elsewhere(local, indexed, [BY_ID, BY_TEXT])
    assert [index.rebuilds for index in again] == [False, True]
    whole = local.open(land_steps(local, indexed, indexed, segments_of(table, again, built_on=indexed.version)))
    assert told(local, whole) == {"word1": ["a", "late"], "word9": ["b"]}


def test_scratch_objects_are_shared_by_all_processes_of_a_run_and_leave_with_it(bench):
    rows = pa.table({"n": list(range(1000)), "text": ["word"] * 1000})
    place = ScratchPlace(storage=bench.storage, operation_id="01RUN")
    other = sent(place)
    assert place.write_arrow("keys/Person-0", iter(rows.to_batches(max_chunksize=300))) == 1000
    assert pa.Table.from_batches(other.read_arrow("keys/Person-0")) == rows
    other.put("done", json.dumps({"rows": 1000}).encode())
    assert json.loads(place.get("done")) == {"rows": 1000}
    assert place.names() == ("done", "keys/Person-0")
    place.clear()
    other.clear()
    assert place.names() == ()
    assert place.get("done") is None
    with pytest.raises(TableMissingError):
        list(place.read_arrow("keys/Person-0"))


def test_rows_that_stop_half_way_leave_no_scratch_object_that_looks_whole(local):
    place = ScratchPlace(storage=local.storage, operation_id="01RUN")

    def failing():
        yield from pa.table({"n": [1]}).to_batches()
        raise InternalError("half way")

    with pytest.raises(InternalError, match=r"^half way$"):
        place.write_arrow("half", failing())
    assert place.names() == ()


def test_an_approximate_index_is_one_piece_of_work(local):
    """Pieces that are trained apart have partitions of their own and cannot become one segment."""
    build = IndexBuild(column="vec", kind="ann", name="vec_ann")

    def work_after(pin, prefix, vec):
        rows = local.rows(*(f"{prefix}{at:04}" for at in range(700)), vec=vec)
        table = local.open(local.commit(stage_change(local.open(pin), upserts=rows, **local.origin)))
        return table, index_work(table, build, group_rows=1)

    table, none = work_after(local.create(), "k", None)
    assert none is None, "there are no vectors"
    table, few = work_after(table.pin, "k", [1.0, 2.0])
    assert few is None
    table, huge = work_after(table.pin, "m", [3e38, 4.0])
    assert huge is None
    table, work = work_after(table.pin, "m", [3.0, 4.0])
    assert len(table.fragments) > 1
    assert work is not None
    assert work.groups == (tuple(item.metadata.id for item in table.fragments),)
