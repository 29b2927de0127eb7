"""The order of steps, for any steps: each comes after its inputs, and what has no order has a circle."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import PipelineInvalidError
from omnigraph.pipelines.model import Declaration, Place, SourceStep, ViewStep
from omnigraph.pipelines.order import ordered_steps
from omnigraph.pipelines.sql import flaw_of, names_in, tables_in

HERE = Place(file="p", line=1)


@st.composite
def pipelines(draw: st.DrawFn, *, has_circles: bool) -> Declaration:
    """Some sources and views; without circles a view has inputs that stand before it in a hidden order."""
    count = draw(st.integers(1, 8))
    names = draw(st.permutations([f"s{number}" for number in range(count)]))
    views = []
    for at, name in enumerate(names[1:], 1):
        known = names if has_circles else names[:at]
        inputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))
        views.append(ViewStep(name=name, place=HERE, inputs=tuple(inputs)))
    source = SourceStep(name=names[0], place=HERE, format="csv", paths=("a",))
    return Declaration(name="p", place=HERE, sources=(source,), views=tuple(draw(st.permutations(views))))


@given(pipelines(has_circles=False))
def test_each_step_comes_after_its_inputs(declaration: Declaration) -> None:
    found = ordered_steps(declaration)
    assert sorted(step.name for step in found) == sorted(step.name for step in declaration)
    places = {step.name: number for number, step in enumerate(found)}
    for step in declaration.views:
        assert all(places[name] < places[step.name] for name in step.inputs)
    assert ordered_steps(declaration) == found


@given(pipelines(has_circles=True))
def test_steps_without_an_order_have_a_circle_that_is_told(declaration: Declaration) -> None:
    left = {step.name: set(step.inputs) for step in declaration.views}
    while free := [name for name, inputs in left.items() if not inputs & left.keys()]:
        for name in free:
            del left[name]
    if not left:
        assert len(ordered_steps(declaration)) == len([*declaration])
        return
    with pytest.raises(PipelineInvalidError) as caught:
        ordered_steps(declaration)
    for item in caught.value.details.items:
        path = item.message.removeprefix("steps need each other: ").split(" → ")
        assert path[0] == path[-1]
        steps = {step.name: step for step in declaration.views}
        assert all(before in steps[after].inputs for before, after in pairwise(path))


@given(st.text(alphabet="ab`'\"(),.;-/* \nFROMJOINWITHASselect", max_size=60))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert isinstance(flaw_of(text), str | None)
    assert {name.lower() for name in tables_in(text)} <= names_in(text)
