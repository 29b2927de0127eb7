"""The codes of findings about clusters: what each means for good, how much it matters, and which exit code it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from omnigraph.catalog.migration.codes import Severity
from omnigraph.errors import Kind
from omnigraph.records import record


@record
class FindingCode:
    """One row of the table: what findings of a code mean unless one says otherwise of itself.

    ``kind`` is what the finding means for whoever runs a command; it gives the exit code.
    """

    code: str
    severity: Severity = Severity.ERROR
    kind: Kind = Kind.INVALID


CONFIG_CODES = (
    "config_dir_not_found",
    "cluster_config_read_error",
    "invalid_cluster_yaml",
    "duplicate_yaml_key",
    "future_phase_field",
    "removed_streaming_declaration",
    "unsupported_cluster_config_version",
    "empty_metadata_name",
    "unsupported_state_backend",
    "invalid_storage_root",
    "storage_root_invalid",
    "invalid_resource_id",
    "schema_file_missing",
    "schema_parse_error",
    "schema_catalog_error",
    "query_dir_unreadable",
    "query_dir_empty",
    "query_file_missing",
    "query_parse_error",
    "query_key_mismatch",
    "duplicate_query_name",
    "query_typecheck_error",
    "query_typecheck_skipped",
    "policy_file_missing",
    "policy_invalid",
    "policy_missing_applies_to",
    "policy_mixed_binding_kinds",
    "duplicate_policy_binding",
    "dangling_graph_reference",
    "wrong_kind_reference",
    "dangling_embedding_provider_reference",
    "invalid_embedding_provider",
    "embedding_api_key_inline",
    "embedding_api_key_required",
    "invalid_external_blob_base",
    "invalid_external_blob_policy",
    "external_blob_ingress_default_deny",
)
"""About the directory of a cluster."""

STATE_CODES = (
    "state_missing",
    "state_already_exists",
    "state_read_error",
    "state_write_error",
    "state_cas_mismatch",
    "invalid_state_json",
    "unsupported_state_version",
    "conflicting_graph_manifest_observation",
    "state_lock_disabled",
    "state_lock_held",
    "state_lock_error",
    "state_lock_missing",
    "state_lock_id_mismatch",
    "state_lock_read_error",
    "invalid_state_lock",
    "unsupported_state_lock_version",
)
"""About the ledger and its lock."""

PLAN_CODES = (
    "schema_preview_unavailable",
    "approval_stale",
    "approval_not_required",
    "approval_read_error",
    "invalid_approval_artifact",
    "unsupported_approval_version",
    "approval_write_error",
    "apply_approval_invariant_violation",
    "apply_unsupported_change",
    "apply_dependency_blocked",
    "resource_content_changed",
    "resource_payload_write_error",
    "graph_create_failed",
    "graph_create_skipped",
    "schema_apply_failed",
    "schema_apply_skipped",
    "graph_delete_failed",
    "graph_delete_skipped",
    "graph_delete_export_in_progress",
)
"""About plans, approvals and what is applied."""

RECOVERY_CODES = (
    "cluster_recovery_pending",
    "cluster_recovery_rolled_forward",
    "graph_create_incomplete",
    "graph_delete_incomplete",
    "recovery_sidecar_read_error",
    "invalid_recovery_sidecar",
    "unsupported_recovery_sidecar_version",
    "recovery_sidecar_write_error",
    "recovery_sidecar_cleanup_failed",
    "catalog_payload_missing",
    "catalog_payload_mismatch",
    "catalog_payload_read_error",
    "graph_observation_error",
    "external_blob_policy_digest_mismatch",
    "graph_not_applied",
)
"""About recovery, and what is stored of queries and policies."""

SERVING_CODES = (
    "cluster_recovery_unattributed",
    "cluster_state_missing",
    "catalog_payload_digest_mismatch",
    "policy_bindings_missing",
    "embedding_profile_missing",
    "embedding_profile_digest_mismatch",
    "cluster_empty",
    "cluster_no_healthy_graphs",
    "embedding_api_key_unset",
)
"""About what a server boots from. Those that it shares with other commands stand above."""

_WARNINGS = frozenset(
    {
        "query_dir_empty",
        "query_typecheck_skipped",
        "external_blob_ingress_default_deny",
        "state_lock_disabled",
        "schema_preview_unavailable",
        "approval_stale",
        "approval_read_error",
        "invalid_approval_artifact",
        "unsupported_approval_version",
        "apply_unsupported_change",
        "apply_dependency_blocked",
        "graph_create_skipped",
        "schema_apply_skipped",
        "graph_delete_skipped",
        "cluster_recovery_pending",
        "cluster_recovery_rolled_forward",
        "graph_delete_incomplete",
        "recovery_sidecar_read_error",
        "invalid_recovery_sidecar",
        "unsupported_recovery_sidecar_version",
        "recovery_sidecar_cleanup_failed",
        "catalog_payload_mismatch",
    }
)

_KINDS: Mapping[str, Kind] = {
    "config_dir_not_found": Kind.NOT_FOUND,
    "schema_file_missing": Kind.NOT_FOUND,
    "query_file_missing": Kind.NOT_FOUND,
    "policy_file_missing": Kind.NOT_FOUND,
    "state_missing": Kind.NOT_FOUND,
    "cluster_state_missing": Kind.NOT_FOUND,
    "state_lock_missing": Kind.NOT_FOUND,
    "graph_not_applied": Kind.NOT_FOUND,
    "state_already_exists": Kind.CONFLICT,
    "state_cas_mismatch": Kind.CONFLICT,
    "state_lock_held": Kind.CONFLICT,
    "state_lock_id_mismatch": Kind.PRECONDITION,
    "resource_content_changed": Kind.CONFLICT,
    "graph_delete_export_in_progress": Kind.CONFLICT,
    **dict.fromkeys(
        (
            "state_read_error",
            "state_write_error",
            "state_lock_error",
            "state_lock_read_error",
            "approval_write_error",
            "resource_payload_write_error",
            "recovery_sidecar_read_error",
            "recovery_sidecar_write_error",
            "catalog_payload_read_error",
            "graph_create_failed",
            "schema_apply_failed",
            "graph_delete_failed",
            "graph_create_incomplete",
            "graph_observation_error",
            "cluster_recovery_pending",
            "cluster_no_healthy_graphs",
        ),
        Kind.UNAVAILABLE,
    ),
    **dict.fromkeys(
        ("unsupported_state_version", "unsupported_state_lock_version", "unsupported_recovery_sidecar_version"),
        Kind.UNSUPPORTED,
    ),
    **dict.fromkeys(
        (
            "invalid_state_json",
            "conflicting_graph_manifest_observation",
            "invalid_state_lock",
            "apply_approval_invariant_violation",
            "invalid_recovery_sidecar",
            "cluster_recovery_unattributed",
            "catalog_payload_missing",
            "catalog_payload_mismatch",
            "catalog_payload_digest_mismatch",
            "external_blob_policy_digest_mismatch",
            "policy_bindings_missing",
            "embedding_profile_missing",
            "embedding_profile_digest_mismatch",
        ),
        Kind.INTEGRITY,
    ),
}


def _rows() -> Iterator[FindingCode]:
    for code in (*CONFIG_CODES, *STATE_CODES, *PLAN_CODES, *RECOVERY_CODES, *SERVING_CODES):
        severity = Severity.WARNING if code in _WARNINGS else Severity.ERROR
        yield FindingCode(code=code, severity=severity, kind=_KINDS.get(code, Kind.INVALID))


CODES: Mapping[str, FindingCode] = MappingProxyType({row.code: row for row in _rows()})
"""Every code there is, by its name."""
