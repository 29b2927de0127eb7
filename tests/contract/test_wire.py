"""Responses over the wire: that of every operation is, where it arrives, what it was where it was made."""

from __future__ import annotations

import dataclasses
import io
import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from types import MappingProxyType

import msgspec
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import EmbeddingSettings
from omnigraph.engine.load import Dialect, LoadSettings, Source
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.errors import (
    BY_CODE,
    InternalError,
    LimitExceeded,
    QueryRowLimitError,
    RemoteUnsupportedError,
    ServerIncompatibleError,
    error_from_json,
)
from omnigraph.history.diff.compare import GraphDiff
from omnigraph.ir.stored_queries import QuerySource, StoredQueries
from omnigraph.operations import (
    algorithms,
    all_operations,
    history,
    maintenance,
    proposals,
    reads,
    stored,
    transactions,
    writes,
)
from omnigraph.operations.json_form import request_from_json, request_to_json
from omnigraph.operations.registry import RegistryBackend
from omnigraph.operations.request import Attachments
from omnigraph.operations.wire import (
    Frame,
    FrameBuffer,
    FrameKind,
    ResponseReader,
    ResponseWriter,
    UploadFolder,
    check_attached,
    encode_frame,
    files_of,
)
from omnigraph.operations.wire.diffs import ReceivedDiff
from omnigraph.operations.wire.files import PlacedFiles
from omnigraph.operations.wire.values import decode_value, encode_value, from_bytes, to_bytes
from omnigraph.operations.wire.vocabulary import class_named, wire_names
from omnigraph.operations.wire.writing import PIECE_BYTES
from omnigraph.txn.manifest.rows import ManifestState
from omnigraph.values.printable import Printable
from tests.contract.graph.json_backend import over_the_wire
from tests.session_graph import RELAXED

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  photo: Blob?  tags: [String]?  worth: F64?
  rank: F64? }
edge Knows: Person -> Person { since: Date? }
"""
ADD = """query add($name: String, $age: I32?) {
  insert Person { name: $name, age: $age, born: date("2000-02-29"), tags: ["a", "b"], worth: 0.5 }
}"""
LINK = "query link($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
AGE = """query age($name: String, $age: I32) {
  match { $p: Person { name: $name } } update $p set { age: $age } return { $p, $p.age, $p.born }
}"""
PAIRS = "query pairs() { match { $p: Person  $p knows $q } return { $p, $p.name, $p.born, $p.tags, $q } }"
CHECK = 'query no_ghosts() { match { $p: Person { name: "ghost" } } return { $p.name } }'


class Story:
    """Requests in an order in which each of them does something, and what was answered."""

    def __init__(self, folder, backend):
        self.folder = folder
        self.backend = backend
        self.answers = {}
        self.requests = {}

    def run(self, request, attached=None):
        """Execute a request, keep what it answered under its operation, and return it."""
        found = self.backend.execute(request, attached or Attachments())
        if isinstance(found, Iterator):
            found = list(found)
        self.answers[request.operation.name] = found
        self.requests[request.operation.name] = request
        return found


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    folder = tmp_path_factory.mktemp("responses")
    graph = omnigraph.init(folder / "g", SCHEMA, settings=RELAXED)
    told = Story(folder, graph.backend)
    tell(told)
    yield told
    graph.close()


STORED = f"""{ADD}
query pairs($older: I32?) @description("Who knows whom") {{
  match {{ $p: Person  $p knows $q }} return {{ $p, $q.name }}
}}
query near($v: Vector(2)) @mcp("expose") {{ match {{ $p: Person }} return {{ $p.name, $v as v }} }}
query odd() {{ match {{ $p: Persn }} return {{ $p.name }} }}"""


def tell_of_stored_queries(story):
    main, queries = story.backend, StoredQueries.parse([QuerySource(name="q.gq", text=STORED)])
    story.backend = RegistryBackend(main, queries)
    assert len(story.run(stored.ListQueriesRequest())) == 4
    report = story.run(stored.ValidateQueriesRequest())
    assert (len(report.breakages), len(report.warnings)) == (1, 1)
    story.run(stored.InvokeReadRequest(name="pairs"))
    story.run(stored.InvokeMutationRequest(name="add", params={"name": "di"}, message="stored"))
    story.backend = main


def tell(story):  # noqa: PLR0915 - one line for each operation
    run = story.run
    (story.folder / "people.jsonl").write_text(
        '{"type": "Person", "data": {"name": "ann", "age": 7, "photo": "base64:AAEC"}}\n'
    )
    people = [str(story.folder / "people.jsonl")]
    first = run(writes.LoadRequest(sources=people, mode="apply", batch=("people", 1), actor="ann", message="first"))
    run(writes.MutateRequest(text=ADD, params={"name": "bo", "age": 8}))
    run(writes.MutateBatchRequest(text=LINK, rows=[{"a": "ann", "b": "bo"}, {"a": "bo", "b": "ann"}]))
    run(reads.QueryRequest(text=PAIRS, options=QueryOptions(mode="indexed")))
    tell_of_stored_queries(story)
    run(algorithms.RunAlgorithmRequest(algorithm="pagerank", edges="Knows", params={"damping": 0.5}))
    run(algorithms.WriteAlgorithmRequest(algorithm="pagerank", edges="Knows", write="rank"))
    run(reads.ExplainRequest(text=PAIRS, run=True))
    run(reads.ResolveRefRequest(ref="main~1"))
    run(reads.ReadStateRequest())
    run(reads.ReadNetworkRequest(limit=100))
    run(reads.ReadEntityRequest(type_name="Person", entity_id="bo"))
    run(reads.ReadBlobRequest(type_name="Person", entity_id="ann", property="photo", start=1, length=2))
    run(reads.PlanSchemaRequest(text=SCHEMA.replace("age: I32?", "age: I64?").replace("worth: F64?", "title: String")))
    run(reads.ExportRequest(to=str(story.folder / "out"), format="parquet"))
    run(reads.ExportStreamRequest(), Attachments(sink=io.BytesIO()))
    begun = run(transactions.BeginTransactionRequest(message="both")).transaction
    story.backend.execute(
        transactions.CallInTransactionRequest(
            transaction=begun, call=writes.MutateRequest(text=ADD, params={"name": "cy"})
        )
    )
    call = writes.MutateRequest(text=AGE, params={"name": "cy", "age": 3})
    run(transactions.CallInTransactionRequest(transaction=begun, call=call))
    run(transactions.DescribeTransactionRequest(transaction=begun))
    run(transactions.CommitTransactionRequest(transaction=begun))
    begun = story.backend.execute(transactions.BeginTransactionRequest()).transaction
    run(transactions.RollbackTransactionRequest(transaction=begun))
    run(history.LogRequest())
    run(history.GetCommitRequest(commit_id=first.commit.id))
    run(history.CommitChangesRequest(commit_id=first.commit.id))
    batch = run(history.FeedRequest(start="beginning"))
    run(history.PollChangesRequest(start="beginning"))
    run(history.BaselineRequest())
    run(history.BlameRequest(type_name="Person", entity_id="ann"))
    run(history.CreateBranchRequest(name="side", actor="mira"))
    story.backend.execute(writes.MutateRequest(text=AGE, params={"name": "ann", "age": 70}, branch="side"))
    story.backend.execute(writes.MutateRequest(text=AGE, params={"name": "ann", "age": 71}))
    run(history.ListBranchesRequest())
    run(history.DiffRequest(before="main", after="side"))
    run(history.DiffPageRequest(before="main", after="side"))
    run(history.PreviewMergeRequest(source="side"))
    opened = run(proposals.OpenProposalRequest(source="side", title="grow", checks=[CHECK], actor="mira")).number
    run(proposals.CommentProposalRequest(number=opened, text="why?", type_name="Person", entity_id="ann", actor="bo"))
    run(proposals.ApproveProposalRequest(number=opened, actor="bo"))
    run(proposals.CheckProposalRequest(number=opened))
    run(proposals.ListProposalsRequest())
    run(proposals.GetProposalRequest(number=opened))
    run(proposals.MergeProposalRequest(number=opened, resolve="theirs", actor="mira"))
    story.backend.execute(writes.MutateRequest(text=AGE, params={"name": "bo", "age": 80}, branch="side"))
    merged = run(history.MergeRequest(source="side", resolve="theirs"))
    run(history.RevertRequest(commit=merged.commit.id))
    second = story.backend.execute(proposals.OpenProposalRequest(source="side", title="again")).number
    run(proposals.CloseProposalRequest(number=second, reason="no", actor="bo"))
    run(history.CreateTagRequest(name="v1", message="one"))
    run(history.ListTagsRequest())
    run(history.DeleteTagRequest(name="v1"))
    story.backend.execute(history.CreateBranchRequest(name="gone"))
    run(history.DeleteBranchRequest(name="gone"))
    with omnigraph.init(story.folder / "copy", SCHEMA, settings=RELAXED) as copy:
        main, story.backend = story.backend, copy.backend
        run(history.ApplyChangesRequest(batches=[batch.to_json()]))
        run(history.AppliedFeedsRequest())
        story.backend = main
    notes, mock = "node Note { slug: String @key  v: Vector(2)? @embed(slug) }", EmbeddingSettings(provider="mock")
    with omnigraph.init(story.folder / "notes", notes, settings=RELAXED, embedding=mock) as copy:
        main, story.backend = story.backend, copy.backend
        story.backend.execute(writes.MutateRequest(text='query n() { insert Note { slug: "a" } }'))
        run(writes.EmbedRequest(message="vectors"))
        story.backend = main
    run(writes.ApplySchemaRequest(text=SCHEMA.replace("age: I32?", "age: I64?")))
    run(maintenance.OptimizeRequest())
    run(maintenance.BuildIndexesRequest())
    run(maintenance.CleanupRequest(keep=1))
    run(maintenance.StatusRequest(storage=True))
    run(maintenance.RepairRequest())
    run(maintenance.MigrateRequest())


def whole(value):
    """Return a value as plain parts with the names of their classes: everything that can be seen of it."""
    if isinstance(value, Result):
        return "Result", value.to_arrow(), whole(value.info), value.cost.total_calls
    if isinstance(value, GraphDiff | ReceivedDiff):
        states = [(side.state.head, side.state.schema) for side in (value.before, value.after)]
        return "Diff", states, list(map(whole, value)), whole(value.stats()), value.to_json()
    if is_dataclass(value):
        return type(value).__name__, {one.name: whole(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, msgspec.Struct):
        return type(value).__name__, {name: whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return "Mapping", [(whole(key), whole(item)) for key, item in value.items()]
    if isinstance(value, tuple | list):
        return type(value).__name__, getattr(value, "total", None), [whole(item) for item in value]
    return type(value).__name__, value


@pytest.mark.parametrize("name", sorted(all_operations()))
def test_the_response_of_an_operation_survives_the_wire(story, name):
    made = story.answers[name]
    if isinstance(made, Result):
        # Only rows that are all here can be compared after they were sent.
        assert made.num_rows
    given = iter(made) if isinstance(made, list) else made
    request = story.requests[name]
    attached = Attachments(sink=io.BytesIO()) if name == "export_stream" else Attachments()
    received = over_the_wire(lambda _: given, request, attached)
    received = list(received) if isinstance(received, Iterator) else received
    assert whole(received) == whole(made)
    if isinstance(made, Printable):
        assert str(received) == str(made)


def test_bytes_of_a_streamed_export_and_its_progress_arrive(story):
    sinks, told = [io.BytesIO(), io.BytesIO()], [[], []]
    request = reads.ExportStreamRequest()
    made = story.backend.execute(request, Attachments(sink=sinks[0], progress=told[0].append))
    attached = Attachments(sink=sinks[1], progress=told[1].append)
    received = over_the_wire(lambda there: story.backend.execute(request, there), request, attached)
    assert sinks[0].getvalue() == sinks[1].getvalue() != b""
    assert told[0] == told[1] != []
    assert received.types == made.types


def test_an_error_behind_the_first_rows_is_raised_where_they_end():
    schema = pa.schema([("n", pa.int64())])
    refused = QueryRowLimitError("too many", details=LimitExceeded(resource="rows", limit=1, actual=2))

    def batches():
        yield pa.record_batch([pa.array([1])], schema=schema)
        raise refused

    made = Result(schema, batches(), ReadInfo(query_name="q", branch="main"))
    received = over_the_wire(lambda _: made, reads.QueryRequest(text="x"))
    rows = received.stream()
    assert next(rows).to_pylist() == [{"n": 1}]
    with pytest.raises(QueryRowLimitError) as found:
        next(rows)
    assert found.value == refused


def test_many_and_wide_rows_are_sent_in_pieces_of_a_bounded_size():
    table = pa.table({"text": ["x" * 1000] * 20_000})
    sizes, pieces = [], []
    writer = ResponseWriter(lambda data: (sizes.append(len(data)), pieces.append(data)))
    writer.answer(Result(table.schema, table, ReadInfo(query_name="q")))
    assert max(sizes) < 2 * PIECE_BYTES
    reader, buffer = ResponseReader(), FrameBuffer()
    for piece in pieces:
        for frame in buffer.feed(piece):
            reader.take(frame)
    assert reader.response().to_arrow().equals(table)


def test_every_error_survives_the_wire_with_its_class_and_details():
    for code, cls in BY_CODE.items():
        details = cls.row.details
        given = {one.name: _any_value(one) for one in fields(details)}
        made = cls("what happened", details=details(**given), hint="do this")
        received = error_from_json(from_bytes(to_bytes(made.to_json())))
        assert (type(received), received.hint, received.retry, received.effect) == (
            cls,
            made.hint,
            made.retry,
            made.effect,
        ), code
        assert received.details == made.details, code


def _any_value(one):
    kind = str(one.type)
    if "None" in kind:
        return None
    if kind.startswith("tuple"):
        return ()
    return {"int": 7, "float": 0.5, "bool": True}.get(kind, "x")


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True], "$": 1, "": ()},
        {("Person", "ann"): {"age": 1}},
        (float("inf"), -float("inf"), 2**80, -(2**80), b"\x00\xff", date(2026, 1, 31)),
        MappingProxyType({"x": frozenset({"a", "b"})}),
        "half a \ud800 pair",
    ],
    ids=["plain", "keys of two parts", "numbers and bytes", "a set", "half a pair"],
)
def test_values_that_json_lacks_survive(value):
    found = decode_value(from_bytes(to_bytes(encode_value(value))))
    assert found == value
    assert whole(found)[0] == ("Mapping" if isinstance(value, Mapping) else type(value).__name__)


def test_what_no_response_holds_is_neither_sent_nor_made():
    with pytest.raises(InternalError, match="type function cannot be part of a response"):
        encode_value((lambda: None,))
    for document in ({"$": "Popen", "args": ["x"]}, {"$": "Commit", "v": 1}, {"$": "Ulid"}, {"$": "int", "v": "x"}):
        with pytest.raises(ServerIncompatibleError, match=document["$"]):
            decode_value(document)


def test_parts_that_a_newer_server_adds_are_left_out():
    assert decode_value({"$": "FeedPlace", "sequence": 4, "colour": "red"}) == class_named("FeedPlace")(sequence=4)


def test_names_on_the_wire_are_classes_of_records_names_and_words():
    for name in wire_names():
        cls = class_named(name)
        assert cls is not None
        assert cls.__name__ == name


def test_whatever_a_state_can_hold_has_a_name_on_the_wire():
    def held(kind):
        for part in (kind, *typing.get_args(kind)):
            if part is not kind:
                yield from held(part)
            elif isinstance(part, type) and (is_dataclass(part) or issubclass(part, msgspec.Struct)):
                yield part

    found, waiting = set(), [ManifestState]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += [one for hint in typing.get_type_hints(kind).values() for one in held(hint)]
    assert {"Commit", "RunMark", "SequenceRun"} <= {kind.__name__ for kind in found} <= wire_names()


def test_bytes_that_are_no_frames_are_told_from_a_server_of_ours():
    with pytest.raises(ServerIncompatibleError, match="are not frames"):
        list(FrameBuffer().feed(b"<!doctype html><html>"))
    with pytest.raises(ServerIncompatibleError, match="not JSON"):
        ResponseReader().take(Frame(kind=FrameKind.RECORD, content=b"{"))
    with pytest.raises(ServerIncompatibleError, match="a piece of no stream"):
        ResponseReader().take(Frame(kind=FrameKind.ROWS, content=b""))
    with pytest.raises(ServerIncompatibleError, match="the end"):
        ResponseReader().response()
    assert encode_frame(FrameKind.WAIT) == b"W\x00\x00\x00\x00"


def test_what_has_no_meaning_elsewhere_is_refused_before_anything_is_sent():
    with pytest.raises(RemoteUnsupportedError, match="optimized by the server"):
        check_attached(maintenance.OptimizeRequest(), Attachments(runner=object()))


def test_what_is_said_of_a_source_arrives_and_its_path_does_not(tmp_path):
    (tmp_path / "a.tsv").write_text("n\tage\n")
    said = Source(path=str(tmp_path / "a.tsv"), type_name="Person", columns={"name": "n"}, dialect=Dialect(trim=True))
    request, files = files_of(writes.LoadRequest(sources=[said], settings=LoadSettings(threads=1)))
    document = json.loads(json.dumps(request_to_json(request)))
    assert not {"path", "mapping", "options"} & set(document["sources"][0])
    folder = UploadFolder()
    try:
        folder.add(files[0].name).close()
        found = PlacedFiles.of(request_from_json(document), folder).request
        (source,) = found.sources
        assert source.path == str(folder.path / "0")
        wanted = dataclasses.replace(said, path=source.path, format="csv", called=said.path)
        assert (source, source.delimiter, source.stem) == (wanted, "\t", "a")
        assert found.settings == LoadSettings(threads=1)
    finally:
        folder.close()
