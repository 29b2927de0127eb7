"""What a directory declares: its resources, its digests, and what depends on what."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.unit.cluster.directory import CONFIG, QUERIES, SCHEMA, write_directory

from omnigraph.cluster.codes import CODES
from omnigraph.cluster.config.reading import read_cluster, read_storage_root
from omnigraph.cluster.config.validation import validate_cluster
from omnigraph.cluster.declaration import BlobPolicy, ClusterDeclaration, EmbeddingProfile
from omnigraph.cluster.example import FILES, write_example
from omnigraph.errors import FileAccessError


def declared(root: Path, **changed: str) -> ClusterDeclaration:
    """What a directory declares with another config."""
    reading = read_cluster(str(write_directory(root, {"cluster.yaml": changed.get("config", CONFIG)})))
    assert reading.findings.items == ()
    assert reading.declaration is not None
    return reading.declaration


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_resources_have_addresses_kinds_files_and_digests(tmp_path: Path):
    found = {one.address: one for one in declared(tmp_path).resources}
    assert {address: (one.kind, one.path) for address, one in found.items()} == {
        "graph.crm": ("graph", None),
        "policy.acl": ("policy", "acl.yaml"),
        "policy.ops": ("policy", "ops.yaml"),
        "provider.embedding.vec": ("embedding_provider", None),
        "query.crm.add": ("query", "gq/people.gq"),
        "query.crm.one": ("query", "gq/people.gq"),
        "schema.crm": ("schema", "crm.pg"),
    }
    # The bytes of the files, so that an edit of a file is an edit of every query in it.
    assert found["schema.crm"].digest == sha(SCHEMA.encode())
    assert found["query.crm.add"].digest == found["query.crm.one"].digest == sha(QUERIES.encode())


def test_digest_of_a_provider_is_that_of_its_compact_profile(tmp_path: Path):
    found = declared(tmp_path).resource_digests["provider.embedding.vec"]
    assert found == sha(b'embedding-provider\0{"kind":"openai","model":"small","api_key":"${VEC_KEY}"}')


def test_digest_of_a_graph_is_that_of_its_parts_between_nuls(tmp_path: Path):
    base = CONFIG.replace(
        "    embedding_provider: vec\n",
        "    embedding_provider: provider.embedding.vec\n"
        "    external_blobs:\n      allow:\n"
        "        - { base: s3://b/z, scope: server_safe }\n        - { base: s3://a/, scope: embedded_only }\n",
    )
    found = declared(tmp_path, config=base).resource_digests
    policy = (
        '{"mode":"allow","bases":[{"uri":"s3://a/","scope":"embedded_only"},{"uri":"s3://b/z/","scope":"server_safe"}]}'
    )
    parts = [
        *("graph", "crm", "schema", found["schema.crm"]),
        *("query", "add", found["query.crm.add"], "query", "one", found["query.crm.one"]),
        *("embedding_provider", "provider.embedding.vec", found["provider.embedding.vec"]),
        *("external_blob_policy", policy),
    ]
    assert found["graph.crm"] == sha("".join(f"{part}\0" for part in parts).encode())


def test_dependencies_say_what_needs_what(tmp_path: Path):
    assert [(one.dependent, one.needed) for one in declared(tmp_path).dependencies] == [
        ("graph.crm", "provider.embedding.vec"),
        ("policy.acl", "graph.crm"),
        ("query.crm.add", "graph.crm"),
        ("query.crm.add", "schema.crm"),
        ("query.crm.one", "graph.crm"),
        ("query.crm.one", "schema.crm"),
        ("schema.crm", "graph.crm"),
    ]


REWRITTEN = [
    pytest.param("# what a cluster is\n" + CONFIG, id="comment"),
    pytest.param(CONFIG.replace("metadata: { name: atlas }", "metadata:\n    name:   'atlas'"), id="block form"),
    pytest.param(
        CONFIG.replace("[crm]", "\n      - crm\n").replace(
            "acl: { file: acl.yaml, applies_to: \n      - crm\n }",
            "acl:\n    file: acl.yaml\n    applies_to:\n      - crm",
        ),
        id="list as lines",
    ),
    pytest.param(
        CONFIG.replace("version: 1\nmetadata: { name: atlas }\n", "metadata: { name: atlas }\nversion: 1\n"), id="order"
    ),
    pytest.param(CONFIG.replace("\n", "\r\n"), id="line ends"),
]


@pytest.mark.parametrize("text", REWRITTEN)
def test_formatting_and_comments_do_not_change_the_digest(tmp_path: Path, text: str):
    first = declared(tmp_path / "first").config_digest
    assert declared(tmp_path / "second", config=text).config_digest == first


CHANGED = [
    pytest.param({"cluster.yaml": CONFIG.replace("atlas", "atlas-2")}, id="name"),
    pytest.param({"cluster.yaml": CONFIG.replace("model: small", "model: large")}, id="provider"),
    pytest.param({"crm.pg": SCHEMA + "\n"}, id="byte of a schema"),
    pytest.param({"gq/people.gq": "// note\n" + QUERIES}, id="comment of a query"),
]


@pytest.mark.parametrize("files", CHANGED)
def test_what_is_declared_changes_the_digest(tmp_path: Path, files: dict[str, str]):
    first = declared(tmp_path / "first").config_digest
    second = read_cluster(str(write_directory(tmp_path / "second", files))).declaration
    assert second is not None
    assert second.config_digest != first


def test_directory_of_the_config_is_the_storage_root_unless_one_is_named(tmp_path: Path):
    assert declared(tmp_path).storage_root == str(tmp_path)
    named = CONFIG.replace("providers:", "storage: s3://acme/atlas/\nproviders:")
    found = declared(tmp_path, config=named)
    assert found.storage_root == "s3://acme/atlas"
    assert found.graphs["crm"].uri == "s3://acme/atlas/graphs/crm.omni"
    relative = CONFIG.replace("providers:", "storage: data\nproviders:")
    assert declared(tmp_path, config=relative).storage_root == str(tmp_path / "data")


def test_storage_root_is_found_whatever_is_wrong_with_the_rest(tmp_path: Path):
    """A server and maintenance go by what was applied, not by what is being edited."""
    reading = read_storage_root(str(write_directory(tmp_path, {"crm.pg": None, "acl.yaml": None})))
    assert reading.findings.items == ()
    assert reading.declaration is not None
    assert reading.declaration.storage_root == str(tmp_path)


def test_queries_come_from_files_directories_and_names(tmp_path: Path):
    one, add = QUERIES.split("\n\n")
    files = {"gq/people.gq": one, "more.gq": add}
    for form, expected in {
        "gq/": {"one": "gq/people.gq"},
        "gq": {"one": "gq/people.gq"},
        "more.gq": {"add": "more.gq"},
        "[more.gq, gq/]": {"one": "gq/people.gq", "add": "more.gq"},
        "{ add: { file: more.gq } }": {"add": "more.gq"},
    }.items():
        text = CONFIG.replace("queries: gq/", f"queries: {form}")
        reading = read_cluster(str(write_directory(tmp_path, {**files, "cluster.yaml": text})))
        assert reading.findings.items == ()
        assert reading.declaration is not None
        queries = reading.declaration.graphs["crm"].queries
        assert {name: query.path for name, query in queries.items()} == expected


def test_keyed_query_leaves_other_declarations_of_its_file_out(tmp_path: Path):
    text = CONFIG.replace("queries: gq/", "queries: { one: { file: gq/people.gq } }")
    assert list(declared(tmp_path, config=text).graphs["crm"].queries) == ["one"]


def test_search_queries_are_checked_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    files = {
        "crm.pg": "node Note { slug: String @key\n    text: String @index\n    vector: Vector(4) @embed(text) }\n",
        "gq/people.gq": "query near($q: String, $since: DateTime) {\n"
        "    match { $n: Note }\n    return { $n.slug }\n    order { nearest($n.vector, $q) }\n    limit 3\n}\n",
    }
    assert read_cluster(str(write_directory(tmp_path, files))).findings.items == ()


def test_profiles_and_blob_policies_come_back_from_json():
    profile = EmbeddingProfile(kind="openai", api_key="${A}")
    assert EmbeddingProfile.from_json(profile.to_json()) == profile
    document = {"mode": "allow", "bases": [{"uri": "s3://a/", "scope": "embedded_only"}]}
    assert BlobPolicy.from_json(document).to_json() == document
    assert BlobPolicy.from_json(None).to_json() is None


def test_example_validates(tmp_path: Path):
    files = write_example(str(tmp_path / "new"))
    assert len(files) == len(FILES)
    found = validate_cluster(str(tmp_path / "new"))
    assert [one.code for one in found.findings.items] == ["external_blob_ingress_default_deny"]
    assert list(found.to_lines()) == ["cluster config valid: 7 resources, 8 dependency edges"]


def test_example_overwrites_nothing(tmp_path: Path):
    (tmp_path / "people.pg").write_text("mine")
    with pytest.raises(FileAccessError, match="exists already"):
        write_example(str(tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == ["people.pg"]
    assert (tmp_path / "people.pg").read_text() == "mine"


def test_exit_code_is_that_of_the_first_error(tmp_path: Path):
    findings = read_cluster(str(write_directory(tmp_path, {"crm.pg": None}))).findings
    assert findings.exit_code == CODES["schema_file_missing"].kind.exit_code == 5
    assert read_cluster(str(write_directory(tmp_path))).findings.exit_code == 0
