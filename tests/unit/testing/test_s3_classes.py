"""The class of an object is read from its key, wherever the graph lies in the bucket."""

import pytest

from omnigraph.testing.s3 import classify_key


@pytest.mark.parametrize("root", ["data/team a/g/"])
@pytest.mark.parametrize(
    ("key", "object_class"),
    [
        ("__manifest/_versions/18446744073709551614.manifest", "manifest_version"),
        ("__manifest/_versions/", "manifest_version"),
        ("__manifest/tree/draft/_versions/3.manifest", "manifest_version"),
        ("__manifest/_transactions/0-a.txn", "manifest_txn"),
        ("__manifest/data/a.lance", "manifest_data"),
        ("__manifest/tree/feature/x/data/a.lance", "manifest_data"),
        ("__manifest/_refs/branches/draft.json", "ref"),
        ("nodes/01J/_versions/1.manifest", "table_version"),
        ("edges/01J/tree/b/_versions", "table_version"),
        ("edges/01J/_transactions/1-a.txn", "table_txn"),
        ("nodes/01J/data/a.lance", "table_data"),
        ("nodes/01J/data/", "table_data"),
        ("nodes/01J/data/a/0.blob", "table_data"),
        ("nodes/01J/_deletions/0-1-2.arrow", "table_deletion"),
        ("nodes/01J/_indices/u/page_data.lance", "table_index"),
        ("nodes/01J/_refs/tags/t.json", "ref"),
        ("__recovery/main~1/7.json", "sidecar"),
        ("__recovery", "sidecar"),
        ("_graph_commit_recoveries.lance/_versions/1.manifest", "audit"),
        ("_graph_commit_recoveries.lance/data/a.lance", "audit"),
        ("notes.txt", "other"),
        ("my__recovery/x", "other"),
    ],
)
def test_a_key_is_classified_by_where_it_lies(root, key, object_class):
    assert classify_key(root + key) == object_class
