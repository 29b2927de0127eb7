"""The components of the OpenAPI document, member by member.

A line is ``name: type`` for a member that is always there, ``name?: type`` for one that may be left out. Types are
``string``, ``bool``, ``int`` (a count), ``u32``, ``u64``, ``i64``, ``number``, ``object``, ``any``, the name of a
component or of an enumeration, ``[]`` behind any of them for a list, and ``|null`` where null stands for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

ENUMERATIONS: Mapping[str, tuple[str, ...]] = {
    "EntityKindOutput": ("node", "edge"),
    "BlobEntityKind": ("node", "edge"),
    "LoadMode": ("overwrite", "append", "merge"),
    "BranchMergeOutcome": ("already_up_to_date", "fast_forward", "merged"),
    "ChangeOpOutput": ("insert", "update", "delete"),
    "ParamKind": ("string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list"),
    "MergeConflictKindOutput": (
        "divergent_insert",
        "divergent_update",
        "delete_vs_update",
        "orphan_edge",
        "unique_violation",
        "cardinality_violation",
        "value_constraint_violation",
    ),
    "ChangeDiffRefusalReason": ("parentless_commit", "schema_boundary", "unknown"),
    "ErrorCode": (
        "unauthorized",
        "forbidden",
        "bad_request",
        "not_found",
        "method_not_allowed",
        "conflict",
        "too_many_requests",
        "internal",
    ),
}

BASE: Mapping[str, str] = {
    "QueryRequest": "query: string; name?: string|null; params?: any; branch?: string|null; snapshot?: string|null",
    "ReadRequest": (
        "query_source: string; query_name?: string|null; params?: any; branch?: string|null; snapshot?: string|null"
    ),
    "ChangeRequest": "query: string; name?: string|null; params?: any; branch?: string|null",
    "InvokeStoredQueryRequest": (
        "params?: any; branch?: string|null; snapshot?: string|null; expect_mutation?: bool|null"
    ),
    "IngestRequest": "data: string; branch?: string|null; from?: string|null; mode?: LoadMode|null",
    "ExportRequest": "branch?: string|null; type_names?: string[]|null",
    "BranchCreateRequest": "name: string; from?: string|null",
    "BranchMergeRequest": "source: string; target?: string|null; delete_branch?: bool|null",
    "SchemaApplyRequest": "schema_source: string; allow_data_loss?: bool|null",
    "ChangeBaselineRequest": (
        "branch?: string|null; kind?: EntityKindOutput[]|null; type?: string[]|null; op?: ChangeOpOutput[]|null"
    ),
    "HealthOutput": "status: string; version: string; internal_schema_version: u32; source_version?: string",
    "GraphListResponse": "graphs: GraphInfo[]",
    "GraphInfo": "graph_id: string; uri: string",
    "SnapshotOutput": (
        "graph_branch: string; graph_manifest_version: u64; internal_schema_version: u32; "
        "datasets: SnapshotDatasetOutput[]"
    ),
    "SnapshotDatasetOutput": (
        "entity_kind: EntityKindOutput; type_name: string; dataset_path: string; published_dataset_version: u64; "
        "native_dataset_branch: string|null; entity_count: u64"
    ),
    "ReadTargetOutput": "branch: string|null; snapshot: string|null",
    "ReadOutput": (
        "query_name: string; target: ReadTargetOutput; row_count: int; columns?: string[]; rows: any; "
        "graph_commit_id?: string"
    ),
    "LegacyReadOutput": ("query_name: string; target: ReadTargetOutput; row_count: int; columns?: string[]; rows: any"),
    "ChangeOutput": (
        "branch: string; query_name: string; affected_nodes: int; affected_edges: int; actor_id: string|null; "
        "commit: CommitOutput|null"
    ),
    "CommitOutput": (
        "graph_commit_id: string; graph_branch: string|null; graph_manifest_version: u64; "
        "parent_commit_id: string|null; merged_parent_commit_id: string|null; actor_id: string|null; created_at: i64"
    ),
    "CommitListOutput": "commits: CommitOutput[]",
    "GraphBatchDeclarationOutput": "name: string; entities_loaded: int",
    "GraphBatchLoadOutput": (
        "branch: string; base_branch: string|null; branch_created: bool; mode: LoadMode; "
        "nodes: GraphBatchDeclarationOutput[]; edges: GraphBatchDeclarationOutput[]; total_entities: int; "
        "actor_id: string|null; commit: CommitOutput|null"
    ),
    "IngestOutput": (
        "uri: string; branch: string; base_branch: string|null; branch_created: bool; mode: LoadMode; "
        "nodes: GraphBatchDeclarationOutput[]; edges: GraphBatchDeclarationOutput[]; total_entities: int; "
        "actor_id: string|null; commit: CommitOutput|null"
    ),
    "BranchListOutput": "branches: string[]",
    "BranchCreateOutput": "uri: string; from: string; name: string; actor_id: string|null",
    "BranchDeleteOutput": "uri: string; name: string; actor_id: string|null",
    "BranchMergeOutput": (
        "source: string; target: string; outcome: BranchMergeOutcome; actor_id: string|null; branch_deleted?: bool; "
        "branch_delete_error?: string"
    ),
    "SchemaOutput": "schema_source: string",
    "SchemaApplyOutput": (
        "uri: string; supported: bool; applied: bool; step_count: int; graph_manifest_version: u64; steps: any[]"
    ),
    "QueriesCatalogOutput": "queries: QueryCatalogEntry[]",
    "QueryCatalogEntry": (
        "name: string; tool_name: string; description?: string; instruction?: string; mutation: bool; "
        "params: ParamDescriptor[]"
    ),
    "ParamDescriptor": "name: string; kind: ParamKind; item_kind?: ParamKind; vector_dim?: u32; nullable: bool",
    "ChangeCauseOutput": (
        "graph_commit_id: string; parent_commit_id?: string; merged_parent_commit_id?: string; "
        "authored_branch: string; actor_id?: string; authored_at: i64"
    ),
    "ChangeTypeOutput": "id: string; name: string",
    "ChangeEndpointsOutput": "from: string; to: string",
    "ChangeImageOutput": "properties: any; endpoints?: ChangeEndpointsOutput",
    "EntityChangeOutput": (
        "kind: EntityKindOutput; type: ChangeTypeOutput; id: string; op: ChangeOpOutput; "
        "before?: ChangeImageOutput; after?: ChangeImageOutput"
    ),
    "CommitChangesOutput": "cause: ChangeCauseOutput; changes: EntityChangeOutput[]; next_page_token?: string",
    "ChangeBlockOutput": "cause: ChangeCauseOutput; changes: EntityChangeOutput[]",
    "ChangeFeedOutput": ("blocks: ChangeBlockOutput[]; next_page_token?: string; cursor?: string; caught_up?: bool"),
    "ChangeBaselineRecord": "baseline: ChangeBaselineOutput",
    "ChangeBaselineOutput": "snapshot_commit_id: string; resume_cursor: string",
    "ErrorOutput": (
        "error: string; code?: ErrorCode; merge_conflicts?: MergeConflictOutput[]; "
        "published_dataset_version_conflict?: PublishedDatasetVersionConflictOutput; "
        "read_set_conflict?: ReadSetConflictOutput; key_conflict?: KeyConflictOutput; "
        "resource_limit?: ResourceLimitOutput; blob_range?: BlobRangeOutput; "
        "external_blob_source?: ExternalBlobSourceOutput; recovery_required?: RecoveryRequiredOutput; "
        "precondition_failure?: PreconditionFailureOutput; change_feed_gap?: ChangeFeedGapOutput; "
        "change_diff_refusal?: ChangeDiffRefusalOutput"
    ),
    "ChangeErrorOutput": (
        "error: string; code?: ErrorCode; resource_limit?: ResourceLimitOutput; "
        "recovery_required?: RecoveryRequiredOutput; change_feed_gap?: ChangeFeedGapOutput; "
        "change_diff_refusal?: ChangeDiffRefusalOutput"
    ),
    "MergeConflictOutput": (
        "entity_kind: EntityKindOutput; type_name: string; entity_id: string|null; kind: MergeConflictKindOutput; "
        "message: string"
    ),
    "PublishedDatasetVersionConflictOutput": (
        "entity_kind: EntityKindOutput; type_name: string; expected_published_dataset_version: u64; "
        "actual_published_dataset_version: u64"
    ),
    "ReadSetConflictOutput": "member: string; expected: string|null; actual: string|null",
    "KeyConflictOutput": "entity_kind: EntityKindOutput; type_name: string; entity_id?: string",
    "ResourceLimitOutput": "resource: string; limit: u64; actual: u64",
    "BlobRangeOutput": "start: u64; end: u64; length: u64",
    "ExternalBlobSourceOutput": "uri: string; reason: string",
    "RecoveryRequiredOutput": "operation_id: string",
    "PreconditionFailureOutput": "expected: string; actual?: string",
    "ChangeFeedGapOutput": "cursor?: string; first_unreadable_commit_id: string",
    "ChangeDiffRefusalOutput": "reason: ChangeDiffRefusalReason; graph_commit_id: string; type_name?: string",
}

ADDED: Mapping[str, str] = {
    "ExplainRequest": (
        "query: string; name?: string|null; params?: any; branch?: string|null; snapshot?: string|null; "
        "analyze?: bool|null"
    ),
    "RevertRequest": (
        "branch?: string|null; resolve?: string|null; decisions?: object[]|null; message?: string|null; "
        "expected_head?: string|null"
    ),
    "TagCreateRequest": "name: string; at?: string|null; message?: string|null",
    "OptimizeRequest": "branch?: string|null; types?: string[]|null",
    "CleanupRequest": "keep?: int|null; older_than_seconds?: number|null; confirm?: bool|null",
    "MigrateRequest": "preview?: bool|null; message?: string|null",
    "TagOutput": (
        "name: string; graph_commit_id: string; graph_branch: string|null; graph_manifest_version: u64; "
        "created_at: i64; actor_id: string|null; message: string|null"
    ),
    "TagListOutput": "tags: TagOutput[]; damaged?: object[]",
    "DiffOutput": (
        "from_graph_commit_id: string; to_graph_commit_id: string; changes?: EntityChangeOutput[]; summary?: object; "
        "next_page_token?: string"
    ),
}

# Members that the additions give to components of the base.
EXTENDED: Mapping[str, str] = {
    "ErrorOutput": "request_id?: string; diagnostic?: object",
    "ChangeErrorOutput": "request_id?: string",
    "BranchMergeRequest": (
        "dry_run?: bool|null; resolve?: string|null; decisions?: object[]|null; message?: string|null; "
        "expected_head?: string|null; expected_source_head?: string|null"
    ),
    "GraphInfo": "state?: string; reason?: string",
    "BranchListOutput": "details?: object[]; damaged?: object[]",
    "CommitListOutput": "next_cursor?: string",
}
