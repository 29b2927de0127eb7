"""What two engines that load the same input must agree on."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from omnigraph.errors import OmnigraphError
from tests.corpus.test_load import without_fresh_ids
from tests.load_graph import export

_ULID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")


def failure_of(run, *arguments, **options):
    """Return the error of a call, ids that were made up left out."""
    with pytest.raises(OmnigraphError) as caught:
        run(*arguments, **options)
    return facts_of(caught.value)


def facts_of(error):
    """Return all that an error says, ids that were made up left out."""
    return json.loads(without_made_up_ids(json.dumps(error.to_json())))


def without_made_up_ids(text):
    """Return a text with a star for every id that was made up."""
    return _ULID.sub("*", text)


def export_of(graph):
    """Return every row, those with an id that was made up in an order of their own."""
    return sorted((without_fresh_ids(row) for row in export(graph)), key=partial(json.dumps, default=str))


def told(result):
    """Return what a load says about itself that both engines must say alike."""
    return result.mode, result.branch, result.nodes_loaded, result.edges_loaded, result.commit is not None, result.total
