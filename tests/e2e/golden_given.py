"""The ground that golden cases start from: graphs, each made once and copied for every case, and what stands around."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lance

import omnigraph
from omnigraph.cluster.ledger.place import LOCK
from omnigraph.engine.mutate.values import rows_of
from omnigraph.pipelines.results import CheckReport, RunReport, StepReport
from omnigraph.store.location import Storage
from omnigraph.txn.manifest.rows import RunMark
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.cluster_directory import small, whole
from tests.e2e.golden_case import Ground
from tests.e2e.process import clean_environment
from tests.embedding_server import Reply, serve
from tests.formats import make_format
from tests.session import Session
from tests.session_graph import create_graph, open_session
from tests.warm import WarmProcess

FILES = Path(__file__).with_name("golden") / "files"
SEED = """
{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bob", "nick": "bobby"}}
{"type": "Person", "data": {"name": "Cid", "age": 51, "nick": "el cid"}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "ab", "since": "2020-05-01"}}
{"edge": "Knows", "from": "Ada", "to": "Cid", "data": {"id": "ac"}}
"""
NOTES = "node Note { slug: String @key  text: String  v: Vector(4) @embed(text) }\n"


@contextmanager
def open_ground(name: str, folder: Path) -> Iterator[Ground]:
    """Make what the case needs that begins with ``given name``; the folder must be empty."""
    shutil.copytree(_template(name), folder, dirs_exist_ok=True)
    # Nobody's own settings take part.
    ground = Ground(folder=folder, environment={"OMNIGRAPH_HOME": str(folder / "home")})
    with _AROUND.get(name, nullcontext)(ground):
        yield ground


@functools.cache
def _template(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    _GRAPHS[name](folder)
    return folder


def _nothing(folder: Path) -> None:
    """No graph at all."""
    del folder


def _people(folder: Path) -> None:
    """Three people and whom they know, in the one commit after the first."""
    create_graph(folder / "g", (FILES / "schema.pg").read_text(), SEED)


def _changed(folder: Path) -> None:
    """People, of whom one was changed, one came and one went."""
    _people(folder)
    with open_session(folder / "g") as session:
        _change(session, 'update Person set { age: 37 } where name = "Ada"', actor="zoe")
        _change(session, 'insert Person { name: "Dan", age: 8 }', actor="zoe")
        _change(session, 'delete Person where name = "Cid"', actor="yan")


def _followed(folder: Path) -> None:
    """What the feed of the changed people says, in a file, and an empty graph for people."""
    _changed(folder)
    with omnigraph.open(folder / "g") as graph:
        lines = [
            json.dumps(batch.to_json()) for batch in graph.feed("beginning", limits=omnigraph.PageLimits(changes=6))
        ]
    (folder / "lines.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "later.jsonl").write_text(f"{lines[-1]}\n")
    create_graph(folder / "copy", (FILES / "schema.pg").read_text())
    create_graph(folder / "other", NOTES)


def _branched(folder: Path) -> None:
    """Three branches: draft is ahead of main, rival changed what main changed too, leaf started from draft."""
    _people(folder)
    with open_session(folder / "g") as session:
        session.create_branch("draft")
        session.create_branch("rival")
        _change(session, 'update Person set { nick: "bo" } where name = "Bob"', branch="draft", actor="zoe")
        _change(session, 'update Person set { age: 40 } where name = "Ada"', branch="rival", actor="yan")
        _change(session, 'update Person set { age: 37 } where name = "Ada"', actor="zoe")
        session.create_branch("leaf", "draft")


def _merged(folder: Path) -> None:
    """Two branches that changed different properties of one person were merged, and are gone."""
    _people(folder)
    with open_session(folder / "g") as session:
        session.create_branch("draft")
        session.create_branch("rival")
        for branch, actor, change in (
            ("draft", "zoe", 'update Person set { nick: "countess" } where name = "Ada"'),
            ("rival", "yan", 'update Person set { age: 40 } where name = "Ada"'),
        ):
            text = f"query change() {{ {change} }}"
            session.mutate(text, branch=branch, actor=actor, message=f"as {actor} knows")
        for branch in ("draft", "rival"):
            session.merge(branch, resolve="properties", actor="mia")
            session.delete_branch(branch)


def _ran(folder: Path) -> None:
    """People whom two runs of a pipeline brought; one of its rows is in quarantine."""
    _people(folder)
    step = {"name": "Person", "kind": "node", "type_name": "Person", "inputs": ["staff"]}
    runs = (
        ("01K0000000000000000000RAN1", {"rows_in": 3, "rows_out": 2, "written": 2, "quarantined": 1}),
        ("01K0000000000000000000RAN2", {"rows_in": 1, "rows_out": 1, "written": 1}),
    )
    with open_session(folder / "g") as session:
        writer = session.store.branch_writer(BranchName(MAIN))
        owner = session.catalog().nodes["Person"]
        for number, (run, counts) in enumerate(runs):
            report = RunReport(
                pipeline="people",
                run=run,
                branch=MAIN,
                publish="direct",
                outcome="published",
                started_at_ms=1_767_225_600_000,
                steps=(StepReport(**step, **counts),),
                checks=(CheckReport(name="nobody is older than all", rows=0),),
            )
            txn = writer.begin(WriteKind.LOAD_MERGE, actor="nightly")
            name = f"Eve{number}"
            txn.upsert("node:Person", rows_of(owner, [{"id": name, "name": name, "age": 40 + number, "nick": None}]))
            progress = {"staff": {"by": "column", "column": "updated_at", "value": number}}
            txn.run = RunMark(pipeline="people", run=run, digest="0", progress=progress, report=report.to_json())
            writer.commit(txn)


def _documents(folder: Path) -> None:
    """Documents with a scan: one of eleven bytes, an empty one, and none at all; a file that is not in the graph."""
    schema = "node Doc { name: String @key  title: String?  scan: Blob? }\n"
    (folder / "scans").mkdir()
    (folder / "scans" / "far.bin").write_bytes(b"far away\n")
    with omnigraph.init(folder / "g", schema) as graph:
        graph.load(
            {"Doc": [{"name": "near", "scan": b"0123456789\n"}, {"name": "blank", "scan": b""}, {"name": "none"}]}
        )


def _drifted(folder: Path) -> None:
    """People, of whom another program removed one behind our back."""
    _people(folder)
    lance.dataset(str(_table(folder))).delete("name = 'Bob'")


def _torn(folder: Path) -> None:
    """People, and a projection of them of which only the beginning was written."""
    _people(folder)
    place = next((folder / "g" / "nodes").iterdir()).relative_to(folder / "g")
    projection = folder / "g" / "__projections" / place / "keys..0123abcd-0123456789abcdef.arrays"
    projection.parent.mkdir(parents=True)
    projection.write_bytes(b"OMNIPROJ")


def _outdated(folder: Path) -> None:
    """People with a branch and a tag, of the first storage format."""
    _people(folder)
    storage = Storage.open(str(folder / "g"))
    make_format(storage, "1")
    with omnigraph.open(folder / "g") as graph:
        graph.create_branch("review")
        graph.create_tag("v1")


def _damaged(folder: Path) -> None:
    """People whose rows are lost."""
    _people(folder)
    for file in (_table(folder) / "data").iterdir():
        file.unlink()


def _notes(folder: Path) -> None:
    """No notes yet; a provider has to be asked about each."""
    create_graph(folder / "g", NOTES)


def _drafts(folder: Path) -> None:
    """Three notes without vectors, and a manifest of records that have none either."""
    rows = "".join(f'{{"type": "Note", "data": {{"slug": "{name}", "text": "{name}"}}}}\n' for name in "abc")
    create_graph(folder / "g", NOTES.replace("Vector(4)", "Vector(4)?"), rows)
    (folder / "seed.jsonl").write_text(rows)
    types = {"Note": {"target": "v", "fields": ["text"]}}
    manifest = {"sources": {"raw_seed": "seed.jsonl"}, "embeddings": {"dimension": 4, "types": types}}
    (folder / "seed.yaml").write_text(json.dumps(manifest))


def _points(folder: Path) -> None:
    """Points on a line whose vectors are indexed approximately, and one that came later."""
    with omnigraph.init(str(folder / "g"), "node Point { name: String @key  v: Vector(2) @index(ann) }") as graph:
        graph.load({"Point": [{"name": f"p{at:04}", "v": [at, 0]} for at in range(3000)]})
        graph.optimize()
        graph.load({"Point": [{"name": "late", "v": [7.25, 0]}]}, mode="append")


def _operator(folder: Path) -> None:
    """People, and an operator config that knows where they are."""
    _people(folder)
    (folder / "home").mkdir()
    (folder / "operator.yaml").rename(folder / "home" / "config.yaml")


def _removed(folder: Path) -> None:
    """A cluster of two graphs that was applied; its config has lost one of them since."""
    atlas = whole(folder / "atlas")
    assert atlas.session().import_graphs().is_ok
    assert atlas.session().apply(actor="zoe").is_converged
    atlas.policies.pop("books-acl")
    atlas.drop_graph("books")


def _locked(folder: Path) -> None:
    """Two clusters whose ledgers were locked by commands that are gone."""
    for name in ("atlas", "second"):
        cluster = small(folder / name)
        assert cluster.session().import_graphs().is_ok
        assert cluster.session().apply(actor="zoe").is_converged
        # Cases run on a copy, and an observation holds the address of its graph.
        cluster.edit_state(lambda state: state.update(observations={}))
        place = cluster.place()
        lock = {"version": 1, "lock_id": str(place.runtime.ids.ulid()), "operation": "apply"}
        document = {**lock, "created_at": "2026-01-31T10:00:00.000Z", "pid": 4242}
        place.objects.put(LOCK, json.dumps(document).encode())


_GRAPHS: dict[str, Callable[[Path], None]] = {
    "removed": _removed,
    "locked": _locked,
    "files": _nothing,
    "people": _people,
    "torn": _torn,
    "outdated": _outdated,
    "changed": _changed,
    "followed": _followed,
    "branched": _branched,
    "merged": _merged,
    "ran": _ran,
    "documents": _documents,
    "drifted": _drifted,
    "damaged": _damaged,
    "busy": _drifted,
    "notes": _notes,
    "drafts": _drafts,
    "forbidden": _nothing,
    "stranger": _nothing,
    "points": _points,
    "operator": _operator,
    "served": _nothing,
}


@contextmanager
def _busy_writer(ground: Ground) -> Iterator[None]:
    """A writer that lives, has announced what it will do, and does not go on."""
    gate = ground.folder / "gate"
    environment = clean_environment(OMNIGRAPH_FAILPOINTS=f"txn.claim.after_put=pause:{gate}")
    arguments = ["mutate", "add", "--store", "g", "--query", "writes.gq", "--params", '{"name": "Dan"}']
    with Path(os.devnull).open("wb") as nothing:
        out = nothing.fileno()
        writer = WarmProcess("omnigraph", arguments, cwd=ground.folder, env=environment, out=out, err=out)
        try:
            while not gate.with_name("gate.reached").exists():
                assert writer.poll() is None
                time.sleep(0.01)
            yield
        finally:
            writer.kill()
            writer.wait(300)


@contextmanager
def _refusing_provider(ground: Ground) -> Iterator[None]:
    """A provider of embeddings that does not know our key."""
    answer = Reply(status=401, body=b'{"error": {"message": "no such key"}}')
    with serve(lambda _request: answer) as server:
        ground.environment = {
            **ground.environment,
            "OMNIGRAPH_EMBED_PROVIDER": "openai",
            "OMNIGRAPH_EMBED_BASE_URL": server.url,
            "OPENAI_API_KEY": "sk-of-nobody",
        }
        ground.values["<provider>"] = server.url
        yield


@contextmanager
def _listing_server(ground: Ground) -> Iterator[None]:
    """A server that lists its graphs, and an operator config that knows it."""
    with _Forbidding(("127.0.0.1", 0), _Listing) as server:
        server.answer = json.dumps({"graphs": [{"graph_id": "crm", "uri": "s3://acme/crm"}]}).encode()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        home = ground.folder / "home"
        home.mkdir()
        (home / "config.yaml").write_text(f"servers: {{eu: {{url: '{url}'}}}}\n", encoding="utf-8")
        ground.values["<server>"] = url
        try:
            yield
        finally:
            server.shutdown()


@contextmanager
def _forbidding_store(ground: Ground, code: str) -> Iterator[None]:
    """An object store that forbids everything, for the given reason."""
    with _Forbidding(("127.0.0.1", 0), _Forbidden) as server:
        server.answer = f"<Error><Code>{code}</Code></Error>".encode()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        ground.environment = {
            **ground.environment,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_REGION": "us-east-1",
        }
        ground.values["<store>"] = endpoint
        try:
            yield
        finally:
            server.shutdown()


class _Forbidding(ThreadingHTTPServer):
    daemon_threads = True
    answer: bytes


class _Forbidden(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Forbidding

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(self.server.answer)

    def do_HEAD(self) -> None:
        self.send_response(403)
        self.send_header("content-length", str(len(self.server.answer)))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


class _Listing(_Forbidden):
    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(self.server.answer)))
        self.end_headers()


_AROUND: dict[str, Callable[[Ground], AbstractContextManager[None]]] = {
    "served": _listing_server,
    "busy": _busy_writer,
    "notes": _refusing_provider,
    "forbidden": partial(_forbidding_store, code="AccessDenied"),
    "stranger": partial(_forbidding_store, code="InvalidAccessKeyId"),
}


def _table(folder: Path) -> Path:
    with open_session(folder / "g") as session:
        return folder / "g" / session.snapshot().entry("node:Person").pin.location


def _change(session: Session, text: str, *, actor: str, branch: str = "main") -> None:
    session.mutate(f"query change() {{ {text} }}", branch=branch, actor=actor)
