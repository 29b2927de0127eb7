"""The classes that responses are made of, by the name they have on the wire.

A name is part of the wire format: it stays when the class moves to another module. What is not listed is never made
from a response, whatever the other side sends. Modules are imported when one of their names is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

_MODULES: Mapping[str, str] = {
    "catalog.migration.codes": "Tier Severity StepCode",
    "catalog.migration.constraint": "DeclaredConstraint",
    "catalog.migration.planner": "MigrationPlan",
    "catalog.migration.resolve": "HintDiagnostic",
    "catalog.migration.steps": (
        "AddType RenameType AddProperty RenameProperty MakeNullable MakeRequired WidenProperty ExtendEnum AddConstraint"
        " DropConstraint ChangeCardinality UpdateTypeMetadata UpdatePropertyMetadata DropType DropProperty"
        " UnsupportedChange"
    ),
    "catalog.model": "PropertyType Scalar AnnotationValue CardinalityRule",
    "engine.embedding.rewrite": "EmbedResult EmbeddedProperty EmbedProgress",
    "engine.export.options": "ExportResult ExportedType ExportProgress",
    "engine.load.options": "LoadResult LoadProgress ChangeCounts",
    "engine.maintenance.cleanup": "CleanupResult CleanedDataset",
    "engine.maintenance.migrate": "MigrateResult MigratedLine",
    "engine.maintenance.optimize": "OptimizeResult OptimizedTable",
    "engine.maintenance.outcomes": "ProjectionOutcome",
    "engine.maintenance.planning": "IndexOutcome",
    "engine.maintenance.repair": "RepairResult RepairedTable DamagedProjection",
    "engine.maintenance.status": "GraphStatus TableStatus IndexStatus ProjectionStatus",
    "engine.mutate.mutation": "MutationResult",
    "engine.query.explain": "Explanation StepTrace",
    "engine.results.entity": "Entity",
    "engine.results.info": "ReadInfo ResultPattern PatternNode PatternEdge PropertyColumn WrittenProperty",
    "engine.results.network": "Network NetworkEdge",
    "engine.schema.apply": "SchemaApplyResult",
    "engine.transaction.graph_transaction": "TransactionResult",
    "errors.details": "Place",
    "errors.history": "MergeConflict",
    "history.diff.change": "EntityChange ChangedType EntityImage Endpoints",
    "history.diff.schemas": "SchemaStep",
    "history.feed.apply": "ApplyResult AppliedFeed",
    "history.feed.batch": "ChangeBlock FeedBatch FeedPlace",
    "history.feed.blocks": "Cause",
    "history.feed.diff_pages": "DiffPage",
    "history.feed.entity_history": "EntityHistory EntityEvent PropertyAuthor",
    "history.feed.reader": "CommitChanges ChangeFeedPage",
    "history.merge.conflicts": "MergeResult MergeOutcome TableCounts MergePreview RevertResult",
    "history.proposals.checks": "CheckReport CheckResult CheckStatus",
    "history.proposals.proposing": "ProposalMerge",
    "history.proposals.record": "ProposalRecord ProposalState ProposalApproval ProposalComment ProposalPage",
    "ir.parameters": "ParameterType",
    "ir.stored_queries": "QueryEntry",
    "operations.reads": "PinnedState FoundState",
    "operations.stored": "QueryFinding QueryReport",
    "operations.transactions": "BegunTransaction",
    "runtime.counters": "Cost",
    "store.tables.pinned": "BlobPart",
    "store.tables.pins": "TablePin",
    "txn.branches.status": "BranchStatus",
    "txn.branches.tags": "Tag",
    "txn.claims.store": "PendingClaim",
    "txn.recovery.pending": "DamagedClaim",
    "txn.manifest.rows": (
        "Commit BatchMark FeedMark RequestMark RunMark WrittenIds TableEntry Tombstone AcceptedSchema BranchHead"
        " ManifestState"
    ),
    "txn.manifest.sequences": "SequenceMark SequenceRun StreamSequences",
    "txn.proposals": "BranchPoint DeclaredCheck",
    "txn.refs": "LogPage",
    "values.damage": "DamagedRecord",
    "values.ids": "Ulid",
    "values.names": "BranchName TagName",
    "values.refs": "BranchRef AncestorRef CommitRef TagRef TimeRef",
}
_MODULE_OF = {name: f"omnigraph.{module}" for module, names in _MODULES.items() for name in names.split()}


def wire_names() -> frozenset[str]:
    """Return the names of all classes that a response may hold."""
    return frozenset(_MODULE_OF)


@cache
def class_named(name: str) -> type[Any] | None:
    """Return the class of a name; None when responses hold none of that name."""
    module = _MODULE_OF.get(name)
    found: type[Any] | None = None if module is None else getattr(import_module(module), name)
    return found


def is_known(cls: type) -> bool:
    """Whether values of a class can be part of a response."""
    return _MODULE_OF.get(cls.__name__) == cls.__module__
