"""The reads of the second edition's corpus, and whether two engines come to the same with one of them."""

from __future__ import annotations

from collections import Counter

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import Runtime
from tests.corpus.test_reads_2 import CASES, SCHEMA, SEED
from tests.query_oracle.agreement import table_rows
from tests.session_graph import add_rows, create_graph, open_session

# What a read that Spark refuses may contain.
NOT_ON_SPARK = {"path", "version", "nearest", "bm25", "rrf"}
READS = [case for case in CASES if not case.id.startswith("refused-")]


def corpus_session(root):
    """Make the graph of the corpus in two commits, so that a table is more than one fragment, and open it."""
    lines = sorted(SEED.splitlines(keepends=True), key=lambda line: '"edge"' in line)
    create_graph(root, SCHEMA, "".join(lines[::2]), runtime=Runtime.seeded(1))
    session = open_session(root, runtime=Runtime.seeded(2))
    add_rows(session, "".join(lines[1::2]))
    return session


def outcome(run):
    """Return the rows of a read as Arrow, or its error."""
    try:
        found = run()
        return found.to_arrow() if hasattr(found, "to_arrow") else found
    except OmnigraphError as error:
        return error


def assert_same(found, expected, *, is_ordered):
    """Two engines give the same rows, or fail with the same code."""
    if isinstance(expected, OmnigraphError):
        assert getattr(found, "code", found) == expected.code
        return
    assert not isinstance(found, OmnigraphError), found
    assert found.schema == expected.schema
    one, two = ([repr(tuple(map(_rounded, row))) for row in table_rows(table)] for table in (found, expected))
    assert one == two if is_ordered else Counter(one) == Counter(two)


def _rounded(value):
    # The last digits of a sum depend on the order in which it is added up.
    return float(f"{value:.9g}") if isinstance(value, float) else value
