"""Handlers of the requests that run graph algorithms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from omnigraph.engine.algorithms import AlgorithmCall
from omnigraph.engine.algorithms import run_algorithm as run_on_state
from omnigraph.engine.algorithms import write_algorithm as write_on_branch
from omnigraph.engine.algorithms.writing import repeated_write
from omnigraph.engine.query.options import QueryOptions
from omnigraph.operations.local.writes import commit_id, for_newest_schema, unless_repeated
from omnigraph.txn.transaction import OnConflict
from omnigraph.values import BranchName, check_choice, check_instance, check_whole

if TYPE_CHECKING:
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.engine.results import Result
    from omnigraph.operations.algorithms import RunAlgorithmRequest, WriteAlgorithmRequest
    from omnigraph.operations.request import Attachments


def run_algorithm(graph: OpenGraph, request: RunAlgorithmRequest, attached: Attachments) -> Result:
    """Run an algorithm on one pinned state.

    Raises:
        UsageError, ValueFormatError: there is no such algorithm, or an argument does not fit.
        OmnigraphError: whatever :func:`omnigraph.engine.algorithms.run_algorithm` does.
    """
    call = algorithm_call(request, attached)
    return run_on_state(graph.reads, call, request.branch, request.at, graph.runtime.clock)


def write_algorithm(graph: OpenGraph, request: WriteAlgorithmRequest, attached: Attachments) -> Result:
    """Run an algorithm, and write what it finds as one commit.

    Raises:
        UsageError, ValueFormatError: there is no such algorithm, or an argument does not fit.
        OmnigraphError: whatever :func:`omnigraph.engine.algorithms.write_algorithm` does.
    """
    call = algorithm_call(request, attached)
    check_choice("on_conflict", request.on_conflict, get_args(OnConflict))
    check_whole("max_affected", request.max_affected, optional=True)

    def run() -> Result:
        branch_writer, newest = graph.store.current(BranchName.parse(request.branch))
        branch_writer.refuse_repeated(newest, request.actor)
        schema = newest.state.schema
        return write_on_branch(
            branch_writer,
            graph.catalogs.get(schema),
            call,
            request.write,
            memory=graph.reads.memory,
            actor=request.actor,
            message=request.message,
            expected_head=commit_id(request.expected_head),
            on_conflict=request.on_conflict,
            schema_hash=schema.hash,
            max_affected=request.max_affected,
        )

    def write() -> Result:
        return for_newest_schema(run, lambda: request.on_conflict == "rerun")

    return unless_repeated(graph, request.branch, write, repeated_write)


def algorithm_call(request: RunAlgorithmRequest | WriteAlgorithmRequest, attached: Attachments) -> AlgorithmCall:
    """Return the call that a request asks for, whichever engine runs it.

    Raises:
        UsageError, ValueFormatError: there is no such algorithm, or an argument does not fit.
    """
    check_instance("options", request.options, QueryOptions)
    options = request.options or QueryOptions()
    if attached.cancel is not None:
        options = replace(options, cancel=attached.cancel)
    return AlgorithmCall.of(request.algorithm, request.edges, request.params, options, request.limit)
