"""The feed of a graph whose rows and schema change at random leads from every state to every later one.

A replica that only ever sees the feed, and applies the schema that an error tells it to, holds the same in the end.
"""

from __future__ import annotations

import copy
import os
import random

import pytest

import omnigraph
from omnigraph.errors import FeedSchemaError
from tests.prop.model_feeds import Model, alive, replay
from tests.session_graph import RELAXED

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SEEDS = range(150) if LONG else range(2)
STEPS = 24 if LONG else 11


@pytest.fixture(params=SEEDS)
def history(request, tmp_path):
    """A graph, what it held after each commit, and what its schema called things before and after it."""
    model = Model(random.Random(request.param))  # noqa: S311 - the same history every time
    with omnigraph.init(tmp_path / "source", model.schema(), settings=RELAXED) as graph:
        first = str(graph.log(limit=1)[0].id)
        states, names = [(first, model.state(), model.names())], {}
        for _ in range(STEPS):
            model.step(graph, tmp_path)
            commit = str(graph.log(limit=1)[0].id)
            if commit != states[-1][0]:
                names[commit] = (states[-1][2], model.names())
                states.append((commit, model.state(), model.names()))
        yield graph, model, states, names


def test_a_feed_leads_from_every_state_to_every_later_one_and_a_replica_follows(history, tmp_path):
    graph, model, states, names = history
    places = {commit: at for at, (commit, _, _) in enumerate(states)}
    chosen = model.random
    for start in chosen.sample(range(len(states)), min(3, len(states))):
        commit, state, _ = states[start]
        token, replayed, count = f"after:{commit}", copy.deepcopy(state), 0
        while True:
            # A feed of its own for every batch: the token is all that goes on, inside a commit too.
            limits = omnigraph.PageLimits(changes=chosen.randint(1, 4), commits=chosen.randint(1, 3))
            batch = next(iter(graph.feed(token, limits=limits)), None)
            if batch is None:
                break
            count += sum(not (at == 0 and batch.begin.part) for at in range(len(batch.blocks)))
            replayed, token = replay(replayed, names, batch.blocks), batch.token
            if not batch.end.part:
                _, expected, called = states[places[str(batch.blocks[-1].cause.commit.id)]]
                assert alive(replayed, called) == alive(expected, called)
        assert count == len(states) - 1 - start
    _assert_replicated(graph, model, states, tmp_path, chosen)


def _assert_replicated(graph, model, states, tmp_path, chosen):
    limits = omnigraph.PageLimits(changes=chosen.randint(1, 5))
    first = graph.at(states[0][0]).schema.source
    with omnigraph.init(tmp_path / "replica", first, settings=RELAXED) as replica:
        while True:
            try:
                replica.apply(graph.feed("beginning", limits=limits))
                break
            except FeedSchemaError as error:
                replica.apply_schema(graph.at(error.details.commit_id).schema.source)
        assert list(replica.baseline()) == list(graph.baseline())
        assert replica.apply(graph.feed("beginning", limits=limits)).commits == 0
        # From its newest difference back to its first state, both schemas are read in one.
        assert {change.op for change in graph.diff(states[0][0])} <= {"insert", "delete", "update"}
