"""No file outside of what was uploaded is opened for a caller, whatever a request names and wherever it names it.

Requests are computed from what the operations declare: every field that holds a text, a path, a record or anything,
nested records and requests too. A canary stands for every file of the machine, and the kernel tells whether somebody
opened it.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import stat
import sys
from contextlib import contextmanager

import pytest

import omnigraph
from omnigraph.errors import RemoteUnsupportedError, UsageError
from omnigraph.operations.json_form import request_from_json
from omnigraph.operations.wire import (
    MEDIA_TYPE,
    FrameKind,
    ResponseWriter,
    UploadFolder,
    answer_request,
    encode_frame,
)
from omnigraph.operations.wire.files import MOST_FILES, PlacedFiles
from omnigraph.operations.writes import LoadRequest, SentSource
from tests.hostile_requests import SCHEMA, base, places
from tests.server.process import run_server
from tests.session_graph import RELAXED

WIRE = {"omnigraph-wire": "1", "content-type": "application/json"}
CANARY = "TOP-SECRET-TOKEN-123"
SEED = 39
OPENED = 0x20
# What holds no text and no record can name no place.
_PLAIN = {"int", "bool", "float"}


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    """A file that nobody who asks a server has a right to."""
    place = tmp_path_factory.mktemp("private") / "secret.csv"
    place.write_text(f"name\n{CANARY}\n")
    return place


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server in a process of its own."""
    place = tmp_path_factory.mktemp("places") / "g.omni"
    with omnigraph.init(place, SCHEMA, settings=RELAXED) as graph:
        graph.mutate('query a() { insert Person { name: "ann" } }')
        graph.create_branch("side")
        graph.proposals.open("side", title="more")
    command = ["omnigraph", "serve", str(place), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with run_server(command, place.with_suffix(".log")) as server, server.client() as http:
        yield http


@contextmanager
def kernel_watch(place):
    """Return what tells whether any process, of Python or not, has opened a file."""
    system = ctypes.CDLL(None, use_errno=True)
    watch = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        assert system.inotify_add_watch(watch, os.fsencode(place), OPENED) > 0, os.strerror(ctypes.get_errno())

        def was_opened():
            try:
                return bool(os.read(watch, 4096))
            except BlockingIOError:
                return False

        yield was_opened
    finally:
        os.close(watch)


def forms_of(canary):
    """Return the ways to name a file."""
    climb = "../" * 12 + str(canary).lstrip("/")
    path, uri = str(canary), canary.as_uri()
    texts = [path, f"sent:{path}", f"sent:{climb}", f"sent:0/../{climb}", climb, uri, f"FILE://localhost{path}"]
    source = {"format": "csv", "type_name": "Person"}
    records = [{"$record": "Source", "path": text, **source} for text in texts[:4]]
    records += [{"$record": "SentSource", "file": text, **source} for text in (path, climb, "../secret.csv", "0")]
    records += [
        {"$record": "SentSource", "file": "0", name: path}
        for name in ("path", "mapping", "options", "dialect", "called")
    ]
    load = {"operation": "load", "sources": records[:1]}
    nested = [
        {"$request": load},
        {"$request": {"operation": "call_in_transaction", "transaction": "x", "call": {"$request": load}}},
    ]
    return [*texts, *records, *([one] for one in [*texts[:2], *records]), *nested, {"a": records[0]}, {"name": uri}]


def cases(canary):
    return [
        (place, value)
        for place in places()
        if place.declared.removesuffix(" | None") not in _PLAIN
        for value in forms_of(canary)
    ]


def post(http, document, headers=WIRE):
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    operation = "load" if isinstance(document, bytes) else document["operation"]
    return http.post(f"/graphs/g/operations/{operation}", content=content, headers=headers)


def test_the_watch_sees_who_opens_a_file(canary, tmp_path):
    copy = tmp_path / "copy"
    shutil.copy(canary, copy)
    with kernel_watch(copy) as was_opened:
        assert not was_opened()
        copy.read_bytes()
        assert was_opened()


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.more) for part in range(1, 12))])
def test_no_place_that_a_request_names_is_opened_by_a_server(served, canary, part):
    chosen = cases(canary)
    random.Random(SEED).shuffle(chosen)  # noqa: S311 - the same every time
    # Loads and calls in transactions have the most to do with files.
    chosen.sort(key=lambda case: case[0].operation != "load")
    with kernel_watch(canary) as was_opened:
        for place, value in chosen[part::12]:
            answer = post(served, place.with_value(value))
            assert CANARY not in answer.text, (place, value)
            assert not was_opened(), (place, value)


def test_no_place_that_a_request_names_is_opened_in_the_process_that_executes_it(tmp_path, canary):
    opened, is_watched = [], True

    def hook(event, arguments):
        # A hook stays for the life of the process.
        if is_watched and event == "open" and str(arguments[0]) == str(canary):
            opened.append(arguments)

    sys.addaudithook(hook)
    canary.read_bytes()
    assert opened, "the hook sees nothing"
    opened.clear()
    chosen = [
        case for case in cases(canary) if case[0].operation in {"load", "call_in_transaction", "mutate", "export"}
    ]
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        for place, value in random.Random(SEED).sample(chosen, 700):  # noqa: S311 - the same every time
            folder, answer = UploadFolder(), bytearray()
            try:
                request = request_from_json(place.with_value(value))
                answer_request(graph.backend, request, ResponseWriter(answer.extend), folder)
            except (RemoteUnsupportedError, omnigraph.OmnigraphError):
                pass
            finally:
                folder.close()
            assert CANARY.encode() not in answer
            assert not opened, (place, value)
    is_watched = False


def load_of(names, sources, **more):
    document = {**base("load"), "sources": sources, **more}
    frames = [encode_frame(FrameKind.RECORD, json.dumps(document).encode())]
    for name in names:
        frames.append(encode_frame(FrameKind.FILE, json.dumps({"name": name}).encode()))
        frames.append(encode_frame(FrameKind.BYTES, b'{"type": "Person", "data": {"name": "sent"}}\n'))
        frames.append(encode_frame(FrameKind.END, b"{}"))
    return b"".join(frames)


def sent(name, **more):
    return {"$record": "SentSource", "file": name, "format": "jsonl", **more}


@pytest.mark.parametrize("name", ["/etc/passwd", "../0", "a/../../b", "s3://bucket/key", "file:///etc/passwd", "-"])
def test_a_name_of_a_file_is_no_path(served, name):
    """Whatever it is called, it is that file and no other."""
    headers = {**WIRE, "content-type": MEDIA_TYPE}
    answer = post(served, load_of([name], [sent(name)], mode="merge"), headers)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("names", "source", "status"),
    [
        (["0"], sent("1"), 501),
        ([], sent("0"), 501),
        (["0", "0"], sent("0"), 400),
        ([""], sent(""), 400),
        (["a\nb"], sent("a\nb"), 400),
        (["n" * 256], sent("n" * 256), 400),
    ],
    ids=["another", "none", "twice", "no name", "a line break", "long"],
)
def test_a_source_is_one_file_that_came_with_the_request(served, names, source, status):
    headers = {**WIRE, "content-type": MEDIA_TYPE}
    assert post(served, load_of(names, [source]), headers).status_code == status


@pytest.mark.parametrize("several", [True, False], ids=["files", "sources"])
def test_a_request_has_a_bounded_number_of_files(served, several):
    """An empty file is a few bytes to send, and a file to make, open and remove for the server."""
    headers = {**WIRE, "content-type": MEDIA_TYPE}
    names = [str(number) for number in range(MOST_FILES + 1 if several else 1)]
    sources = [sent("0")] * (1 if several else MOST_FILES + 1)
    answer = post(served, load_of(names, sources, mode="merge"), headers)
    assert answer.status_code == 413, answer.text
    assert answer.json()["resource_limit"] == {
        "resource": "request_files",
        "limit": MOST_FILES,
        "actual": MOST_FILES + 1,
    }


def test_a_deep_request_with_files_is_refused(served):
    headers = {**WIRE, "content-type": MEDIA_TYPE}
    deep = b"[" * 100_000 + b"]" * 100_000
    content = encode_frame(FrameKind.RECORD, b'{"operation": "load", "sources": ' + deep + b"}")
    assert post(served, content, headers).status_code == 400
    named = b'{"name": ' + deep + b"}"
    content = load_of([], [sent("0")]) + encode_frame(FrameKind.FILE, named) + encode_frame(FrameKind.END, b"{}")
    assert post(served, content, headers).status_code == 400


def test_neither_a_link_nor_a_folder_is_taken_for_an_upload(canary):
    folder = UploadFolder()
    try:
        folder.add("0").close()
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        place = folder.find("0")
        place.unlink()
        place.symlink_to(canary)
        request = LoadRequest(sources=[SentSource(file="0", format="csv")])  # type: ignore[list-item]  # as it is received
        with pytest.raises(RemoteUnsupportedError):
            PlacedFiles.of(request, folder)
        (folder.path / "1").symlink_to(canary)
        with pytest.raises(FileExistsError):
            folder.add("next")
        with pytest.raises(UsageError):
            folder.add("0")
    finally:
        folder.close()
    assert canary.read_text().endswith(f"{CANARY}\n")


BLOB = "query add($name: String, $photo: Blob) { insert Person { name: $name, photo: $photo } }"


@pytest.mark.parametrize("address", ["file://{}", "FILE://{}", "http://169.254.169.254/latest", "s3://bucket/key"])
def test_a_blob_that_a_caller_names_by_its_address_is_refused(served, canary, address):
    """Until the operator says which addresses may be read."""
    address = address.format(canary)
    with kernel_watch(canary) as was_opened:
        for form in ("host", "strict", "javascript"):
            document = {
                "operation": "mutate",
                "text": BLOB,
                "params": {"name": "b", "photo": address},
                "params_form": form,
            }
            answer = post(served, document)
            assert (answer.status_code, answer.json()["problem"]["code"]) == (400, "blob.external"), answer.text
        assert not was_opened()
