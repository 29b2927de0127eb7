"""Graphs of another storage format than the newest, made of new ones."""

import json

import pyarrow as pa

from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.txn.manifest.codec import FORMAT_KEY, FormatChain

# What a version serves that only knows the first format.
FORMAT_1 = FormatChain(oldest=1, newest=1)


def rewrite_head(rows, change):
    """Return manifest rows with the head row's metadata changed."""
    records = rows.to_pylist()
    for record in records:
        if record["object_type"] == "graph_head":
            metadata = json.loads(record["metadata"])
            change(metadata)
            record["metadata"] = json.dumps(metadata)
    return pa.Table.from_pylist(records, schema=rows.schema)


def make_format(storage, stamp, line=None, *, removes=()):
    """Turn a graph into one of a made-up format: members of the head row are not there, and another stamp is."""
    datasets = DatasetStore(storage, Runtime.system({}))
    dataset = datasets.open_latest("__manifest", line)
    state = datasets.read(dataset, [0], None)
    older = rewrite_head(state, lambda metadata: [metadata.pop(name) for name in removes])
    fragment = datasets.stage_fragment(dataset, older)
    schema = dataset.schema.with_metadata({FORMAT_KEY: stamp} if stamp is not None else {})
    datasets.replace(dataset, (fragment, *dataset.fragments[1:]), schema, {}, Runtime.system({}).ids.uuid())
