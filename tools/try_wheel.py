"""Installs the wheel of a folder into empty environments and uses it there: ``python tools/try_wheel.py dist``.

First without extras: the size, the help, a graph that is made, filled and asked. Then each extra in an environment of
its own, so that none lives on what another brought, with one real call. The local embedding model is left out: it
brings gigabytes, and ``make test-embedding`` installs and asks it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEOPLE = ROOT / "examples" / "people"
# What a plain installation may take on disk. Lance, Arrow and NumPy, without which no graph can be read, take 453.
MOST_MB = 600
NAMES = "query names() { match { $p: Person } return { $p.name as name } order { name } }"
LEFT_OUT = {"bench", "dev", "docs", "embedding-local"}

MAKE_GRAPH = f"""
import omnigraph
graph = omnigraph.init("staff.omni", {str(PEOPLE / "schema.pg")!r})
graph.load({str(PEOPLE / "staff.jsonl")!r}, mode="append")
"""
# What is done with each extra: a program in its environment that ends with 0.
CALLS = {
    "algorithms": f"{MAKE_GRAPH}\nassert len(list(graph.algorithms.pagerank('Knows').rows())) > 1",
    "all": f"import cedarpy, fastapi, httpx, httpx2, igraph, mcp, pyspark, rapidfuzz, scipy\n{MAKE_GRAPH}",
    "aws": """
import os
os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_DEFAULT_REGION="nowhere-1")
from omnigraph.errors import IdentityConfigError
from omnigraph.server.access.identity import Identities
try:
    Identities.from_environment({"OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET": "none"})
except IdentityConfigError as problem:
    assert "not installed" not in str(problem), problem
else:
    raise AssertionError("nobody has given credentials")
""",
    "client": """
import omnigraph
from omnigraph.errors import OmnigraphError
try:
    omnigraph.open("http://127.0.0.1:9/graphs/staff").query("query q() { match { $p: Person } return { $p.name } }")
except OmnigraphError as problem:
    assert problem.row.code == "server.unreachable", problem
else:
    raise AssertionError("nobody listens there")
""",
    "embedding": """
import json, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
import omnigraph
from omnigraph.engine.embedding import Secret
class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        data = [{"index": at, "embedding": [3.0, 4.0]} for at, _ in enumerate(texts)]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": data}).encode())
server = HTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
settings = omnigraph.EmbeddingSettings(base_url=address, api_key=Secret("k"), model="m")
schema = 'node Note { slug: String @key  body: String  vec: Vector(2) @embed("body") }'
with omnigraph.init("notes.omni", schema, embedding=settings) as graph:
    graph.mutate('query add() { insert Note { slug: "a", body: "hello" } }')
    (row,) = graph.query("query v() { match { $n: Note } return { $n.vec } }").rows()
    assert [round(part, 4) for part in row["n.vec"]] == [0.6, 0.8], row
""",
    "mcp": f"""{MAKE_GRAPH}
import json, subprocess, sys
graph.close()
about = {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "clientInfo": {{"name": "check", "version": "1"}}}}
asked = json.dumps({{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}})
command = [sys.executable, "-m", "omnigraph", "mcp", "staff.omni"]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
    process.stdin.write(asked + "\\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    process.stdin.close()
assert answer["result"]["serverInfo"]["name"] == "omnigraph", answer
""",
    "resolve": """
import numpy as np, pyarrow as pa
from omnigraph.spark.resolution.model import Comparison
from omnigraph.spark.resolution.similarity import measure, prepare
how = Comparison(column="name", method="jaro_winkler")
keys = pa.array(["a", "b"])
alike = measure(how, keys, prepare(how, pa.array(["Jonson", "Johnson"])))
(similarity,) = alike(np.array([0]), np.array([1]))
assert 0.9 < similarity < 1, similarity
""",
    "server": f"""{MAKE_GRAPH}
import subprocess, sys
graph.close()
command = [sys.executable, "-m", "omnigraph", "serve", "staff.omni", "--unauthenticated", "--bind", "127.0.0.1:0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    try:
        address = process.stdout.readline().strip().partition("=")[2]
        asked = omnigraph.open(f"http://{{address}}/graphs/staff").query({NAMES!r})
        assert [row["name"] for row in asked.rows()][0] == "Bo", asked
    finally:
        process.terminate()
""",
    "spark": """
import shutil, omnigraph
from omnigraph.errors import JavaMissingError
from omnigraph.spark import session, stop
try:
    spark = session(master="local[1]", is_short=True)
    assert spark.range(3).count() == 3
    stop(spark)
except JavaMissingError as problem:
    assert shutil.which("java") is None, problem
""",
    "spark,spark-jre": """
import omnigraph
from omnigraph.spark import load_frames, session, stop
spark = session(master="local[1]", is_short=True)
with omnigraph.init("films.omni", "node Film { title: String @key  year: I32 }") as graph:
    load_frames(graph, {"Film": spark.createDataFrame([("Vagabond", 1985)], "title string, year int")}, "append")
    (row,) = graph.query("query f() { match { $f: Film } return { $f.year as year } }").rows()
    assert row["year"] == 1985, row
stop(spark)
""",
    "spark-connect": """
from omnigraph.errors import SparkStartError
from omnigraph.spark import session
try:
    session(remote="sc://127.0.0.1:9")
except SparkStartError as problem:
    print(problem)
else:
    raise AssertionError("nobody listens there")
""",
    "testing": f"""
from omnigraph.testing.s3 import S3Endpoint
import omnigraph
with S3Endpoint() as endpoint:
    place = f"s3://{{endpoint.bucket}}/staff"
    with omnigraph.init(place, {str(PEOPLE / "schema.pg")!r}, storage_options=endpoint.storage_options) as graph:
        assert graph.load({str(PEOPLE / "staff.jsonl")!r}, mode="append")
""",
}


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder without anything of this clone, and return what it printed; end if it fails."""
    kept = ("HOME", "LANG", "SSL_CERT_FILE", "TMPDIR", "JAVA_HOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PATH"] = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def installed(wheel: Path, extras: str, folder: Path) -> Path:
    """Install a wheel with extras into an empty environment, and return the folder of its programs."""
    uv = [sys.executable, "-m", "uv", "--quiet"]
    wanted = f"{wheel}[{extras}]" if extras else str(wheel)
    lock = str(ROOT / "constraints.txt")
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [*uv, "pip", "install", "--python", str(python), "--constraint", lock, wanted]
    # Without asking the index whether anything is new: it may say so of PySpark, which is then built once more.
    if subprocess.run([*command, "--offline"], check=False, capture_output=True).returncode:
        subprocess.run(command, check=True)
    return python.parent


def try_plain(wheel: Path, folder: Path) -> None:
    """Install without extras, measure, and make, fill and ask a graph with the command."""
    programs = installed(wheel, "", folder / "plain")
    tell_size(programs)
    command = str(programs / "omnigraph")
    assert "Usage" in run([command, "--help"], folder)
    run([command, "init", "--schema", str(PEOPLE / "schema.pg"), "staff.omni"], folder)
    run([command, "load", "staff.omni", "--data", str(PEOPLE / "staff.jsonl"), "--mode", "append", "--quiet"], folder)
    told = run([command, "query", "staff.omni", "-e", NAMES, "--format", "csv"], folder)
    assert told.splitlines()[:2] == ["name", "Bo"], told


def tell_size(programs: Path) -> None:
    """Print what an environment takes and its largest parts, and end if that is more than it may."""
    (site,) = programs.parent.glob("lib/python*/site-packages")
    sizes: dict[str, int] = {}
    for path in site.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            name = path.relative_to(site).parts[0].split(".")[0]
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    total = sum(sizes.values()) / 1e6
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:6]
    print(f"without extras: {total:.0f} MB:", ", ".join(f"{name} {size / 1e6:.0f}" for name, size in largest))
    if total > MOST_MB:
        sys.exit(f"that is more than {MOST_MB} MB")


def extras_of(wheel: Path) -> set[str]:
    """Return the extras that a wheel offers."""
    with zipfile.ZipFile(wheel) as archive:
        about = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return set(Parser().parsestr(archive.read(about).decode()).get_all("Provides-Extra", []))


def main() -> int:
    """Try the wheel of the folder that is given, with the extras that are named or all, and return an exit code."""
    folder, *chosen = sys.argv[1:]
    (wheel,) = Path(folder).absolute().glob("*.whl")
    called = {extra for extras in CALLS for extra in extras.split(",")}
    if untried := extras_of(wheel) ^ called ^ LEFT_OUT:
        sys.exit(f"extras that are not tried, or not there: {', '.join(sorted(untried))}")
    with tempfile.TemporaryDirectory() as place:
        try_plain(wheel, Path(place))
        for number, (extras, code) in enumerate((extras, CALLS[extras]) for extras in chosen or CALLS):
            began = time.monotonic()
            at = Path(place) / str(number)
            programs = installed(wheel, extras, at / "env")
            run([str(programs / "python"), "-c", code], at)
            print(f"[{extras}] installed and called in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
