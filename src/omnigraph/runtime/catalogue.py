"""The one list of failpoint names: ``room.step.moment``, each with what is on storage when it is hit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FAILPOINTS: Mapping[str, str] = MappingProxyType(
    {
        "engine.spool.after_rows": "some rows of a load are put aside, storage knows nothing of them",
        "engine.spool.after_file": "the rows of one more type went to a temporary file, storage knows nothing of them",
        "engine.export.after_file": "one more file of an export is written, no manifest names it",
        "engine.cleanup.after_histories": "a cleanup knows which states there are, and has read none of them",
        "engine.cleanup.after_floor": "a cleanup has recorded what goes, and has removed nothing",
        "engine.cleanup.after_removal": "a cleanup has removed some versions, or some files",
        "history.merge.after_capture": "the states that a merge or a revert starts from are known, nothing is written",
        "spark.load.after_read": "the input of a load on Spark is read, files lie beside tables and nothing names them",
        "spark.load.after_check": "the rows of a load on Spark keep every rule, nothing names their files",
        "spark.source.after_rows": "the rows of one more partition are written, nothing names their files",
        "spark.source.before_publish": "all partitions of a write are staged, nothing names their files",
        "spark.source.after_publish": "a write is visible, Spark does not know it and scratch files still exist",
        "spark.load.after_write": "all rows of a load on Spark are written, nothing names their files",
        "txn.stage.after_table": "one more table is staged, nothing names its files",
        "txn.stage.after_files": "fragments of every table are written, nothing names them",
        "txn.claim.before_put": "the plan is complete, no sidecar exists",
        "txn.claim.after_put": "the sidecar exists, no table has moved",
        "txn.commit.before_tables": "phase B begins",
        "txn.commit.before_table": "one more table is about to move past its pin",
        "txn.commit.after_table": "one more table has moved past its pin",
        "txn.commit.after_tables": "every table has moved, the manifest has not",
        "txn.publish.before_cas": "the next manifest version is uploaded and invisible",
        "txn.publish.after_cas": "the change is visible, the sidecar still exists",
        "txn.release.before_delete": "the write was acknowledged, the sidecar still exists",
        "txn.release.after_delete": "nothing of the write is left but its commit",
        "txn.recover.after_takeover": "a recoverer has its turn and has changed nothing",
        "txn.recover.after_classify": "the tables of an abandoned plan were looked at",
        "txn.recover.after_publish": "an abandoned plan was finished or undone, the audit does not say so yet",
        "txn.recover.after_audit": "the audit has the row, the sidecar still exists",
        "txn.init.before_manifest": "the tables of a graph exist, the graph does not",
        "txn.branch.after_line": "the line of a new branch exists, the branch does not",
        "txn.branch.after_ref": "a branch exists, its creator has not looked yet who was in the way",
        "txn.branch_delete.after_claim": "a branch is claimed for its deletion and exists",
        "txn.branch_delete.before_end": "nothing depends on a branch that is about to end",
        "txn.branch_delete.after_end": "a branch is gone, everything that it owned still lies there",
        "txn.branch_delete.after_reclaim": "a branch and what it owned are gone, the claim still exists",
        "txn.tag.after_put": "a tag exists, its creator has not looked yet whether its branch goes",
    }
)
