"""The algorithms that there are: what each takes, what it gives, and what of it can be written as a property."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from omnigraph.engine.algorithms.communities import label_propagation, louvain
from omnigraph.engine.algorithms.components import connected_components, k_core, strongly_connected_components
from omnigraph.engine.algorithms.embeddings import fast_rp
from omnigraph.engine.algorithms.found import Found
from omnigraph.engine.algorithms.paths import shortest_paths
from omnigraph.engine.algorithms.projection import DIRECTIONS, Projection
from omnigraph.engine.algorithms.ranking import betweenness, degree, pagerank
from omnigraph.engine.algorithms.structure import clustering_coefficient, node_similarity, triangle_count
from omnigraph.engine.query.limits import Limits
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.values import check_choice, check_flag, check_number, check_text, check_whole, meant, unfit
from omnigraph.values.checks import LARGEST

Run = Callable[[Projection, Mapping[str, Any], Limits], Found]
# What an edge may weigh.
WeightRule = Literal["finite", "not negative", "positive"]
Kind = Literal["whole number", "number", "vector"]

_MOST_DIMENSIONS = 4096


@record
class Parameter:
    """A parameter: its default, what it means in one line, and what refuses a value that does not fit."""

    name: str
    default: Any
    summary: str
    check: Callable[[Any], Any]
    is_required: bool = False


@record
class Algorithm:
    """An algorithm.

    Args:
        name: what it is called by.
        summary: what it finds, in one line.
        run: does it.
        parameters: what it can be told beside the edges.
        columns: what its rows hold, for people; the exact columns follow from the parameters.
        column: which of them can be written as a property; None if its rows are not about single nodes.
        kind: what that column holds; a weighted one holds numbers in any case if ``weight_makes_numbers``.
        weights: what the property that weighs edges may hold; None if it takes none.
        weight_makes_numbers: whether whole numbers become any numbers with weights.
        libraries: what has to be installed.
    """

    name: str
    summary: str
    run: Run
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...]
    column: str | None = None
    kind: Kind = "number"
    weights: WeightRule | None = None
    weight_makes_numbers: bool = False

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a value for every parameter.

        Raises:
            UsageError: there is no such parameter, one is missing, or a value does not fit.
            ValueFormatError: a text cannot be encoded.
        """
        known = {one.name: one for one in self.parameters}
        for name in given:
            if name not in known:
                details = BadValue(what="parameter", value=str(name), expected=", ".join(known) or "none")
                raise UsageError(
                    f"{self.name} has no parameter '{name}'",
                    details=details,
                    hint=meant(name, known) or f"its parameters: {', '.join(known) or 'none'}",
                )
        values = {}
        for name, one in known.items():
            if one.is_required and given.get(name) is None:
                details = BadValue(what="parameter", value="nothing", expected=name)
                raise UsageError(f"{self.name} needs '{name}': {one.summary}", details=details)
            values[name] = one.check(given.get(name, one.default))
        return values

    def kind_of(self, params: Mapping[str, Any]) -> Kind:
        """Return what the column that can be written holds."""
        return "number" if self.weight_makes_numbers and params.get("weight") is not None else self.kind


def _whole(name: str, default: int | None, summary: str, *, least: int = 1, most: int | None = None) -> Parameter:
    def check(value: Any) -> Any:
        check_whole(name, value, least=least, most=LARGEST if most is None else most, optional=default is None)
        return value

    return Parameter(name=name, default=default, summary=summary, check=check)


def _number(name: str, default: float, summary: str, *, least: float = 0.0, most: float) -> Parameter:
    def check(value: Any) -> float:
        check_number(name, value, least=least, most=most)
        return float(value)

    return Parameter(name=name, default=default, summary=summary, check=check)


def _direction(default: str) -> Parameter:
    def check(value: Any) -> Any:
        check_choice("direction", value, DIRECTIONS)
        return value

    summary = "the direction in which edges are followed: out, in or both"
    return Parameter(name="direction", default=default, summary=summary, check=check)


def _flag(name: str, summary: str) -> Parameter:
    def check(value: Any) -> Any:
        check_flag(name, value)
        return value

    return Parameter(name=name, default=False, summary=summary, check=check)


def _check_weight(value: Any) -> Any:
    if value is not None:
        check_text("weight", value)
    return value


def _check_sources(value: Any) -> Any:
    if value is None or isinstance(value, Mapping | list | tuple | set | frozenset):
        return value
    if isinstance(value, str):
        return [value]
    raise unfit("sources", value, "nodes: ids, Type:id, or pairs of type and id")


def _check_weights(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise unfit("weights", value, "at least one number")
    for one in value:
        check_number("weights", one, least=-1e9, most=1e9)
    return tuple(map(float, value))


def _check_damping(value: Any) -> float:
    check_number("damping", value, most=1.0)
    if value == 1:
        raise unfit("damping", value, "a finite number from 0 and below 1")
    return float(value)


_WEIGHT = Parameter(
    name="weight",
    default=None,
    summary="the property with the weights of edges; each weighs 1 by default",
    check=_check_weight,
)
_SEED = _whole("seed", 0, "chooses among random runs; the same seed gives the same result", least=0)
_ITERATIONS = "maximum number of iterations; a warning is given if they were not enough"

_EVERY = (
    Algorithm(
        name="betweenness",
        summary="The number of shortest paths between other nodes that pass through each node (betweenness).",
        run=betweenness,
        parameters=(
            _WEIGHT,
            _direction("out"),
            _whole("samples", None, "sample this many source nodes and scale up; all nodes by default"),
            _SEED,
            _flag("normalized", "divide by the number of pairs of other nodes"),
        ),
        columns=("type", "id", "score"),
        column="score",
        weights="positive",
    ),
    Algorithm(
        name="clustering_coefficient",
        summary="The share of pairs of neighbours that are linked, for each node.",
        run=clustering_coefficient,
        parameters=(),
        columns=("type", "id", "coefficient"),
        column="coefficient",
    ),
    Algorithm(
        name="connected_components",
        summary="Groups of nodes that edges connect, whatever their direction.",
        run=connected_components,
        parameters=(),
        columns=("type", "id", "component", "size"),
        column="component",
        kind="whole number",
    ),
    Algorithm(
        name="degree",
        summary="The number of edges of each node, or the sum of their weights.",
        run=degree,
        parameters=(_WEIGHT, _direction("both")),
        columns=("type", "id", "degree"),
        column="degree",
        kind="whole number",
        weights="finite",
        weight_makes_numbers=True,
    ),
    Algorithm(
        name="fast_rp",
        summary="Vectors that are close for nodes with similar neighbourhoods (FastRP).",
        run=fast_rp,
        parameters=(
            _whole("dimension", 128, "the dimension of the vectors", most=_MOST_DIMENSIONS),
            Parameter(
                name="weights",
                default=(0.0, 1.0, 1.0),
                summary="the weights of neighbours at distance 1, 2, …",
                check=_check_weights,
            ),
            _number("normalization", 0.0, "the power of its degree that a node is scaled by", least=-10.0, most=10.0),
            _number("self_influence", 0.0, "the weight of a node's own random vector", most=1e9),
            _WEIGHT,
            _direction("both"),
            _SEED,
        ),
        columns=("type", "id", "embedding"),
        column="embedding",
        kind="vector",
        weights="not negative",
    ),
    Algorithm(
        name="k_core",
        summary="The core number of each node: the largest k such that the node is in the k-core.",
        run=k_core,
        parameters=(),
        columns=("type", "id", "core"),
        column="core",
        kind="whole number",
    ),
    Algorithm(
        name="label_propagation",
        summary="Communities by label propagation: each node takes the most frequent label of its neighbours.",
        run=label_propagation,
        parameters=(_WEIGHT, _whole("max_iterations", 20, _ITERATIONS)),
        columns=("type", "id", "community", "size"),
        column="community",
        kind="whole number",
        weights="not negative",
    ),
    Algorithm(
        name="louvain",
        summary="Communities with many edges inside and few between them (Louvain).",
        run=louvain,
        parameters=(_WEIGHT, _number("resolution", 1.0, "higher gives smaller communities", most=1e9), _SEED),
        columns=("type", "id", "community", "size"),
        column="community",
        kind="whole number",
        weights="not negative",
    ),
    Algorithm(
        name="node_similarity",
        summary="Pairs of nodes that share neighbours, by the Jaccard index.",
        run=node_similarity,
        parameters=(
            _whole("top", 10, "maximum number of similar nodes for each node"),
            _number("min_similarity", 0.0, "leave out pairs with a lower similarity", most=1.0),
            _direction("out"),
        ),
        columns=("type", "id", "other_type", "other_id", "similarity"),
    ),
    Algorithm(
        name="pagerank",
        summary="The share of visits of each node in a random walk along edges.",
        run=pagerank,
        parameters=(
            Parameter(
                name="damping",
                default=0.85,
                summary="the probability of following an edge instead of jumping",
                check=_check_damping,
            ),
            Parameter(
                name="sources",
                default=None,
                summary="the targets of jumps: nodes, or nodes with their shares; all nodes by default",
                check=_check_sources,
            ),
            _WEIGHT,
            _direction("out"),
            _number("tolerance", 1e-7, "stop when the sum of the changes of all scores is smaller", most=1.0),
            _whole("max_iterations", 200, _ITERATIONS),
        ),
        columns=("type", "id", "score"),
        column="score",
        weights="not negative",
    ),
    Algorithm(
        name="shortest_paths",
        summary="The shortest path to each node from the nearest source, or to one target.",
        run=shortest_paths,
        parameters=(
            Parameter(
                name="sources",
                default=None,
                summary="the start nodes: ids, Type:id, or pairs of type and id",
                check=_check_sources,
                is_required=True,
            ),
            Parameter(
                name="target",
                default=None,
                summary="a node: return the path to it, step by step",
                check=lambda value: value,
            ),
            _WEIGHT,
            _direction("out"),
            _flag("each", "a path from each source, not from the nearest"),
        ),
        columns=("type", "id", "distance", "source_type", "source_id", "previous_type", "previous_id"),
        column="distance",
        kind="whole number",
        weights="not negative",
        weight_makes_numbers=True,
    ),
    Algorithm(
        name="strongly_connected_components",
        summary="Groups of nodes that can reach each other along the direction of edges.",
        run=strongly_connected_components,
        parameters=(),
        columns=("type", "id", "component", "size"),
        column="component",
        kind="whole number",
    ),
    Algorithm(
        name="triangle_count",
        summary="The number of triangles that each node is part of.",
        run=triangle_count,
        parameters=(),
        columns=("type", "id", "triangles"),
        column="triangles",
        kind="whole number",
    ),
)
ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({one.name: one for one in _EVERY})


def find_algorithm(name: object) -> Algorithm:
    """Return an algorithm by its name.

    Raises:
        UsageError: there is none.
    """
    found = ALGORITHMS.get(name) if isinstance(name, str) else None
    if found is None:
        raise unfit("algorithm", name, " | ".join(ALGORITHMS), meant(name, ALGORITHMS))
    return found
