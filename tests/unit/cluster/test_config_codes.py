"""Every code about the directory of a cluster: what provokes it, where it points, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.cluster.directory import CONFIG, GRAPH_POLICY, QUERIES, SERVER_POLICY, write_directory

from omnigraph.catalog.migration.codes import Severity
from omnigraph.cluster.codes import CODES, CONFIG_CODES
from omnigraph.cluster.config.reading import read_cluster
from omnigraph.cluster.config.validation import validate_cluster


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files that differ from the valid directory, and the finding that they must lead to."""

    code: str
    path: str
    message: str
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    more: tuple[str, ...] = ()


def config(old: str, new: str) -> dict[str, str | bytes | None]:
    """The config with one text replaced."""
    assert old in CONFIG
    return {"cluster.yaml": CONFIG.replace(old, new, 1)}


def blobs(listed: str) -> dict[str, str | bytes | None]:
    return config("    embedding_provider: vec\n", f"    external_blobs:\n      allow:\n{listed}")


SECOND = "  ops: { file: ops.yaml, applies_to: [cluster] }\n"
CASES = [
    Case(
        code="cluster_config_read_error",
        path="cluster.yaml",
        message="it was not found",
        files={"cluster.yaml": None},
    ),
    Case(
        code="cluster_config_read_error",
        path="cluster.yaml",
        message="it is a directory",
        files={"cluster.yaml": None, "cluster.yaml/file": ""},
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:1",
        message="not valid YAML",
        files={"cluster.yaml": "version: [1"},
    ),
    Case(code="invalid_cluster_yaml", path="cluster.yaml:1", message="the config is empty", files={"cluster.yaml": ""}),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:1",
        message="the config must be a mapping, not a list",
        files={"cluster.yaml": "- version: 1\n"},
        more=("invalid_cluster_yaml",),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:1",
        message="unknown key 'grphs'; did you mean 'graphs'?",
        files={"cluster.yaml": "grphs: {}\nversion: 1\n"},
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:8",
        message="unknown key 'graphs.crm.scheme'; did you mean 'schema'?",
        files=config("    schema: crm.pg\n", "    scheme: crm.pg\n"),
        more=("invalid_cluster_yaml", "query_typecheck_skipped"),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:12",
        message="unknown key 'policies.acl.applies'",
        files=config("applies_to: [crm]", "applies: 1, applies_to: [crm]"),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:12",
        message="policies.acl.applies_to must be a list of texts, not text",
        files=config("applies_to: [crm]", "applies_to: crm"),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:2",
        message="metadata must be a mapping, not a number",
        files=config("metadata: { name: atlas }", "metadata: 7"),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:3",
        message="state.lock must be true or false, not text",
        files=config("providers:", "state: { lock: 'no' }\nproviders:"),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:4",
        message="unknown key 'providers.chat'; known names: embedding",
        files=config("  embedding:\n", "  chat: {}\n  embedding:\n"),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:1",
        message="version is missing; begin with `version: 1`",
        files=config("version: 1\n", ""),
    ),
    Case(
        code="invalid_cluster_yaml",
        path="cluster.yaml:7",
        message="graphs.crm is empty",
        files={"cluster.yaml": CONFIG.partition("    schema")[0]},
    ),
    Case(
        code="duplicate_yaml_key",
        path="cluster.yaml:3",
        message="key 'version' occurs twice",
        files=config("providers:", "version: 1\nproviders:"),
    ),
    Case(
        code="future_phase_field",
        path="cluster.yaml:2",
        message="'pipelines' is reserved for a later version; remove it",
        files=config("metadata:", "pipelines: {}\nmetadata:"),
    ),
    Case(
        code="removed_streaming_declaration",
        path="cluster.yaml:8",
        message="graphs.crm.streaming is not supported any more; remove it",
        files=config("    schema:", "    streaming: { kafka: x }\n    schema:"),
    ),
    Case(
        code="unsupported_cluster_config_version",
        path="cluster.yaml:1",
        message="version 2 is not supported; expected 1",
        files=config("version: 1", "version: 2"),
    ),
    Case(
        code="unsupported_cluster_config_version",
        path="cluster.yaml:1",
        message="version True is not supported; expected 1",
        files=config("version: 1", "version: true"),
    ),
    Case(
        code="empty_metadata_name",
        path="cluster.yaml:2",
        message="metadata.name is empty; set it or leave it out",
        files=config("name: atlas", "name: ' '"),
    ),
    Case(
        code="unsupported_state_backend",
        path="cluster.yaml:3",
        message="state.backend is not supported; it can only be 'cluster'",
        files=config("providers:", "state: { backend: local }\nproviders:"),
    ),
    Case(
        code="invalid_storage_root",
        path="cluster.yaml:3",
        message="storage is not the address of a storage root",
        files=config("providers:", "storage: '  '\nproviders:"),
    ),
    Case(
        code="invalid_storage_root",
        path="cluster.yaml:3",
        message="storage is empty; leave it out or name a storage root",
        files=config("providers:", "storage:\nproviders:"),
    ),
    Case(
        code="storage_root_invalid",
        path="cluster.yaml:3",
        message="storage: not a valid graph location; expected a path or s3://bucket/prefix",
        files=config("providers:", "storage: s3:///atlas\nproviders:"),
    ),
    Case(
        code="storage_root_invalid",
        path="cluster.yaml:3",
        message="expected a path or s3://bucket/prefix",
        files=config("providers:", "storage: ftp://host/atlas\nproviders:"),
    ),
    Case(
        code="invalid_resource_id",
        path="cluster.yaml:7",
        message="'1crm' is not a valid name: expected a letter or '_', then letters, digits, '_' and '-'",
        files=config("  crm:\n", "  1crm: {}\n  crm:\n"),
    ),
    Case(
        code="invalid_resource_id",
        path="cluster.yaml:12",
        message="'a.b' is not a valid name",
        files=config("  acl:", "  a.b:"),
    ),
    Case(
        code="invalid_resource_id",
        path="cluster.yaml:5",
        message="'my vec' is not a valid name",
        files=config("    vec:", "    my vec:"),
        more=("dangling_embedding_provider_reference",),
    ),
    Case(
        code="schema_file_missing",
        path="cluster.yaml:8",
        message="cannot read schema 'crm.pg' of graph 'crm': it was not found",
        files={"crm.pg": None},
        more=("query_typecheck_skipped",),
    ),
    Case(
        code="schema_parse_error",
        path="crm.pg:2",
        message="syntax error: unexpected 'String'; expected ':'",
        files={"crm.pg": "node Person {\n    slug String\n}\n"},
        more=("query_typecheck_skipped",),
    ),
    Case(
        code="schema_parse_error",
        path="crm.pg:1",
        message="source is not valid UTF-8",
        files={"crm.pg": b"\xff\xfe"},
        more=("query_typecheck_skipped",),
    ),
    Case(
        code="schema_catalog_error",
        path="crm.pg:3",
        message="edge Knows has unknown target type 'Nobody'",
        files={"crm.pg": "node Person { slug: String @key }\n\nedge Knows: Person -> Nobody\n"},
        more=("query_typecheck_skipped",),
    ),
    Case(
        code="query_dir_unreadable",
        path="cluster.yaml:9",
        message="cannot read 'missing/': it was not found",
        files=config("queries: gq/", "queries: missing/"),
    ),
    Case(
        code="query_dir_empty",
        path="cluster.yaml:9",
        message="directory 'gq/' has no .gq files",
        files={"gq/people.gq": None, "gq/readme.md": ""},
    ),
    Case(
        code="query_file_missing",
        path="cluster.yaml:9",
        message="cannot read 'gq/other.gq': it was not found",
        files=config("queries: gq/", "queries: [gq/people.gq, gq/other.gq]"),
    ),
    Case(
        code="query_parse_error",
        path="gq/broken.gq:2",
        message="syntax error: unexpected '{'; expected a name",
        files={"gq/broken.gq": "// broken\nquery { }\n"},
    ),
    Case(
        code="query_key_mismatch",
        path="cluster.yaml:11",
        message="query 'other' was not found in gq/people.gq",
        files=config(
            "queries: gq/", "queries:\n      one: { file: gq/people.gq }\n      other: { file: gq/people.gq }"
        ),
    ),
    Case(
        code="duplicate_query_name",
        path="gq/second.gq:1",
        message="query 'one' is declared already, in gq/people.gq:1",
        files={"gq/second.gq": QUERIES.splitlines()[0] + "\n"},
    ),
    Case(
        code="query_typecheck_error",
        path="gq/wrong.gq:1",
        message="type error: T6: type 'Person' has no property 'age'",
        files={"gq/wrong.gq": "query wrong() { match { $p: Person } return { $p.age } }\n"},
    ),
    Case(
        code="query_typecheck_skipped",
        path="cluster.yaml:9",
        message="2 queries of graph 'crm' not checked: its schema cannot be used",
        files={"crm.pg": "node"},
        more=("schema_parse_error",),
    ),
    Case(
        code="policy_file_missing",
        path="cluster.yaml:12",
        message="cannot read 'acl.yaml' of policy 'acl': it was not found",
        files={"acl.yaml": None},
    ),
    Case(
        code="policy_invalid",
        path="acl.yaml:1",
        message="version is not a whole number from 1 to 1",
        files={"acl.yaml": GRAPH_POLICY.replace("version: 1", "version: 3")},
    ),
    Case(
        code="policy_invalid",
        path="ops.yaml:5",
        message="a server bundle cannot grant 'read'",
        files={"ops.yaml": GRAPH_POLICY},
    ),
    Case(
        code="policy_invalid",
        path="acl.yaml:2",
        message="kind is 'server', but the bundle is bound to a graph",
        files={"acl.yaml": SERVER_POLICY},
    ),
    Case(
        code="policy_missing_applies_to",
        path="cluster.yaml:12",
        message="policy 'acl' has no applies_to: name graphs, or cluster",
        files=config("applies_to: [crm]", "applies_to: []"),
    ),
    Case(
        code="policy_mixed_binding_kinds",
        path="cluster.yaml:12",
        message="policy 'acl' applies to the cluster and to graphs; use a bundle for each",
        files=config("applies_to: [crm]", "applies_to: [crm, cluster]"),
    ),
    Case(
        code="duplicate_policy_binding",
        path="cluster.yaml:13",
        message="policies 'acl' and 'two' both apply to graph 'crm'",
        files=config(SECOND, f"  two: {{ file: acl.yaml, applies_to: [graph.crm] }}\n{SECOND}"),
    ),
    Case(
        code="duplicate_policy_binding",
        path="cluster.yaml:14",
        message="policies 'ops' and 'more' both apply to the cluster",
        files=config(SECOND, f"{SECOND}  more: {{ file: ops.yaml, applies_to: [cluster] }}\n"),
    ),
    Case(
        code="dangling_graph_reference",
        path="cluster.yaml:12",
        message="policy 'acl' applies to graph 'sales', which is not declared",
        files=config("applies_to: [crm]", "applies_to: [crm, sales]"),
    ),
    Case(
        code="wrong_kind_reference",
        path="cluster.yaml:12",
        message="policy 'acl' applies to 'policy.ops', which is not a graph",
        files=config("applies_to: [crm]", "applies_to: [policy.ops]"),
    ),
    Case(
        code="wrong_kind_reference",
        path="cluster.yaml:10",
        message="graph 'crm' names 'policy.ops', which is not an embedding provider",
        files=config("embedding_provider: vec", "embedding_provider: policy.ops"),
    ),
    Case(
        code="dangling_embedding_provider_reference",
        path="cluster.yaml:10",
        message="graph 'crm' names embedding provider 'other', which is not declared",
        files=config("embedding_provider: vec", "embedding_provider: other"),
    ),
    Case(
        code="invalid_embedding_provider",
        path="cluster.yaml:5",
        message="provider 'vec' has the unknown kind 'acme'",
        files=config("kind: openai", "kind: acme"),
    ),
    Case(
        code="invalid_embedding_provider",
        path="cluster.yaml:5",
        message="provider 'vec': the address of the embedding provider must be http:// or https://",
        files=config("kind: openai", "kind: openai, base_url: ftp://embed.test"),
    ),
    Case(
        code="invalid_embedding_provider",
        path="cluster.yaml:5",
        message="provider 'vec' has kind and provider, which mean the same",
        files=config("kind: openai", "kind: openai, provider: openai"),
    ),
    Case(
        code="embedding_api_key_inline",
        path="cluster.yaml:5",
        message="api_key of provider 'vec' must name a variable, as ${NAME}; keys do not belong in the config",
        files=config('"${VEC_KEY}"', "sk-very-secret"),
    ),
    Case(
        code="embedding_api_key_required",
        path="cluster.yaml:5",
        message="provider 'vec' needs an api_key: name the variable that holds it, as ${NAME}",
        files=config(', api_key: "${VEC_KEY}"', ""),
    ),
    Case(
        code="invalid_external_blob_base",
        path="cluster.yaml:12",
        message="'s3://files/a?…' is not a base of external blobs: it has a query",
        files=blobs("        - { base: 's3://files/a?x=1', scope: server_safe }\n"),
    ),
    Case(
        code="invalid_external_blob_base",
        path="cluster.yaml:12",
        message="it is not a folder that exists",
        files=blobs("        - { base: file:///not/there, scope: embedded_only }\n"),
    ),
    Case(
        code="invalid_external_blob_policy",
        path="cluster.yaml:13",
        message="it overlaps with 's3://files/'",
        files=blobs(
            "        - { base: s3://files, scope: server_safe }\n"
            "        - { base: s3://files/a/, scope: server_safe }\n"
        ),
    ),
    Case(
        code="invalid_external_blob_policy",
        path="cluster.yaml:12",
        message="base 's3://files/' needs a scope: server_safe or embedded_only",
        files=blobs("        - { base: s3://files, scope: everywhere }\n"),
    ),
    Case(
        code="invalid_external_blob_policy",
        path="cluster.yaml:12",
        message="base 'file:///tmp/' is a local folder, which can only be embedded_only",
        files=blobs("        - { base: file:///tmp, scope: server_safe }\n"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.code}-{number}" for number, case in enumerate(CASES)])
def test_finding_has_its_code_its_line_and_a_plain_message(tmp_path: Path, case: Case):
    findings = read_cluster(str(write_directory(tmp_path, case.files))).findings
    (found,) = [one for one in findings.items if one.code == case.code and case.message in one.message][:1] or [None]
    assert found is not None, findings.items
    assert found.path == case.path
    assert found.severity is CODES[case.code].severity
    assert sorted(one.code for one in findings.items) == sorted((case.code, *case.more))


def test_directory_that_is_missing_is_told(tmp_path: Path):
    reading = read_cluster(str(tmp_path / "nowhere"))
    (found,) = reading.findings.items
    assert (found.code, found.path) == ("config_dir_not_found", str(tmp_path / "nowhere"))
    assert reading.declaration is None


def test_graph_without_external_blobs_is_pointed_out(tmp_path: Path):
    (found,) = validate_cluster(str(write_directory(tmp_path))).findings.items
    assert (found.code, found.path, found.severity) == (
        "external_blob_ingress_default_deny",
        "graph.crm",
        Severity.WARNING,
    )


def test_every_code_about_the_directory_has_a_case():
    provoked = {case.code for case in CASES} | {"config_dir_not_found", "external_blob_ingress_default_deny"}
    assert provoked == set(CONFIG_CODES)


def test_all_mistakes_are_told_at_once(tmp_path: Path):
    changed = {
        "cluster.yaml": CONFIG.replace("version: 1", "version: 9").replace("[crm]", "[sales]"),
        "crm.pg": None,
        "ops.yaml": "version: 1\n",
    }
    findings = read_cluster(str(write_directory(tmp_path, changed))).findings
    assert [one.code for one in findings.items] == [
        "unsupported_cluster_config_version",
        "schema_file_missing",
        "query_typecheck_skipped",
        "dangling_graph_reference",
        "policy_invalid",
    ]


def test_no_finding_repeats_a_key(tmp_path: Path):
    changed = config('{ kind: openai, model: small, api_key: "${VEC_KEY}" }', "sk-very-secret")
    text = str(read_cluster(str(write_directory(tmp_path, changed))).findings.items)
    assert "sk-very" not in text
