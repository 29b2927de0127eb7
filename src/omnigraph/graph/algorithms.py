"""``Algorithms``: what can be computed of all nodes and edges of a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Literal, TypedDict, Unpack

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.results import Result
from omnigraph.errors import BadValue, UsageError
from omnigraph.graph.arguments.values import attachments_of, data_of
from omnigraph.operations.algorithms import RunAlgorithmRequest, WriteAlgorithmRequest
from omnigraph.operations.request import Backend
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.transaction import OnConflict
from omnigraph.values import unfit

Edges = str | Sequence[str] | None
# An id, ``Type:id``, or a pair of type and id.
Node = str | tuple[str, str]
Direction = Literal["out", "in", "both"]


class Running(TypedDict, total=False):
    """What every algorithm may be told beside its own parameters.

    ``write`` names a property that gets the result, ``score`` for every node type or ``Person.score`` for one;
    ``actor``, ``message``, ``expected_head``, ``on_conflict`` and ``max_affected`` are about that commit, as for a
    mutation. ``limit`` is how many rows to return, the first ones, and ``options`` what it may cost.
    """

    write: str | None
    limit: int | None
    options: QueryOptions | None
    actor: str | None
    message: str | None
    expected_head: str | Commit | None
    on_conflict: OnConflict
    max_affected: int | None


_OF_COMMITS = ("actor", "message", "expected_head", "on_conflict", "max_affected")


class Algorithms:
    """The algorithms on one state. Each returns a result: rows about nodes, highest first or group by group.

    They walk the edge types that ``edges`` names, one or several, or all of them when None, and have a row for each
    node of the types at their ends. Nodes are given as ids, as ``Type:id``, or as pairs of type and id. Results do not
    depend on the order of stored rows; equal values stand by type and id.

    Every method takes what :class:`Running` lists. With ``write`` the result becomes a property, as one commit of the
    branch; nodes whose value is the same already are not written, and ``result.written`` tells what was.

    Every method raises:
        TypeMissingError: the schema has no such edge type.
        AlgorithmInputError: weights, nodes or the property to write are not as the algorithm needs them.
        UsageError: an argument does not fit.
        LibraryMissingError: the extra ``algorithms`` is not installed.
        QueryMemoryError, QueryTimeoutError, QueryRowLimitError, QueryCancelledError: it met a limit.
    """

    def __init__(self, backend: Backend, branch: str, at: str | None) -> None:
        self._backend = backend
        self._branch = branch
        self._at = at

    def __repr__(self) -> str:
        return f"<Algorithms on {self._branch if self._at is None else self._at} in {self._backend.uri!r}>"

    def __str__(self) -> str:
        from omnigraph.engine.algorithms import ALGORITHMS  # noqa: PLC0415 - loaded by who asks what there is

        width = max(map(len, ALGORITHMS))
        return "\n".join(f"{name.ljust(width)}  {one.summary}" for name, one in ALGORITHMS.items())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def degree(
        self, edges: Edges = None, *, direction: Direction = "both", weight: str | None = None, **how: Unpack[Running]
    ) -> Result:
        """Count the edges of each node, or add up what they weigh; a loop counts at both its ends.

        Columns: ``type``, ``id``, ``degree``, the highest first.
        """
        return self.run("degree", edges, {"direction": direction, "weight": weight}, **how)

    def pagerank(
        self,
        edges: Edges = None,
        *,
        damping: float = 0.85,
        sources: Iterable[Node] | Mapping[Any, float] | None = None,
        weight: str | None = None,
        direction: Direction = "out",
        tolerance: float = 1e-7,
        max_iterations: int = 200,
        **how: Unpack[Running],
    ) -> Result:
        """Score nodes by how often a walker comes by who follows edges at random.

        Args:
            edges: the edge types.
            damping: how often an edge is followed; otherwise, and where there is none, the walker jumps.
            sources: where jumps lead, nodes or nodes with their shares (personalised PageRank); anywhere when None.
            weight: a property of edges that says how often one is followed.
            direction: which way edges are followed.
            tolerance: stop when all scores together change by less.
            max_iterations: stop then in any case, with a warning.
            how: see :class:`Running`.

        Columns: ``type``, ``id``, ``score``, the highest first; scores add up to 1.
        """
        params = {
            "damping": damping,
            "sources": _nodes(sources),
            "weight": weight,
            "direction": direction,
            "tolerance": tolerance,
            "max_iterations": max_iterations,
        }
        return self.run("pagerank", edges, params, **how)

    def betweenness(
        self,
        edges: Edges = None,
        *,
        samples: int | None = None,
        seed: int = 0,
        weight: str | None = None,
        direction: Direction = "out",
        normalized: bool = False,
        **how: Unpack[Running],
    ) -> Result:
        """Score nodes by how many shortest paths between others lead through them.

        Exact betweenness looks at all edges once for each node; ``samples`` looks from so many nodes and scales up.
        Weights are lengths of edges, above zero. Columns: ``type``, ``id``, ``score``, the highest first.
        """
        params = {
            "samples": samples,
            "seed": seed,
            "weight": weight,
            "direction": direction,
            "normalized": normalized,
        }
        return self.run("betweenness", edges, params, **how)

    def connected_components(self, edges: Edges = None, **how: Unpack[Running]) -> Result:
        """Group nodes that edges connect, whatever their direction.

        Columns: ``type``, ``id``, ``component``, ``size``; components are numbered by their first node.
        """
        return self.run("connected_components", edges, {}, **how)

    def strongly_connected_components(self, edges: Edges = None, **how: Unpack[Running]) -> Result:
        """Group nodes that lead to each other along the direction of edges; columns as for connected components."""
        return self.run("strongly_connected_components", edges, {}, **how)

    def k_core(self, edges: Edges = None, **how: Unpack[Running]) -> Result:
        """Return for each node the largest k such that it has k neighbours that have k neighbours, and so on.

        Columns: ``type``, ``id``, ``core``, the highest first.
        """
        return self.run("k_core", edges, {}, **how)

    def label_propagation(
        self, edges: Edges = None, *, weight: str | None = None, max_iterations: int = 20, **how: Unpack[Running]
    ) -> Result:
        """Group nodes by letting each take over the label that most of its neighbours have, all at once.

        Columns: ``type``, ``id``, ``community``, ``size``; communities are numbered by their first node.
        """
        return self.run("label_propagation", edges, {"weight": weight, "max_iterations": max_iterations}, **how)

    def louvain(
        self,
        edges: Edges = None,
        *,
        weight: str | None = None,
        resolution: float = 1.0,
        seed: int = 0,
        **how: Unpack[Running],
    ) -> Result:
        """Group nodes so that many edges lie inside of communities and few between them.

        A higher resolution gives smaller communities. Columns as for label propagation.
        """
        return self.run("louvain", edges, {"weight": weight, "resolution": resolution, "seed": seed}, **how)

    def triangle_count(self, edges: Edges = None, **how: Unpack[Running]) -> Result:
        """Count the triangles that each node is a corner of, whatever the direction and the number of edges.

        Columns: ``type``, ``id``, ``triangles``, the highest first.
        """
        return self.run("triangle_count", edges, {}, **how)

    def clustering_coefficient(self, edges: Edges = None, **how: Unpack[Running]) -> Result:
        """Return for each node the share of pairs of its neighbours that are linked themselves.

        Columns: ``type``, ``id``, ``coefficient``, the highest first.
        """
        return self.run("clustering_coefficient", edges, {}, **how)

    def shortest_paths(
        self,
        edges: Edges = None,
        *,
        sources: str | Iterable[Node],
        target: Node | None = None,
        weight: str | None = None,
        direction: Direction = "out",
        each: bool = False,
        **how: Unpack[Running],
    ) -> Result:
        """Find the shortest path to each node from the nearest of the sources.

        Args:
            edges: the edge types.
            sources: where paths begin: an id, or several nodes.
            target: return only the path to this node, step by step; no row if there is none.
            weight: a property that holds the length of an edge, not negative; each is 1 long without it.
            direction: which way edges are walked.
            each: return the paths from each source, not from the nearest alone.
            how: see :class:`Running`.

        Columns: ``type``, ``id``, ``distance``, the source and the node before it, the nearest first; nodes that are
        not reached have no row. With a target: ``step``, ``type``, ``id``, ``distance``.
        """
        params = {
            "sources": [sources] if isinstance(sources, str) else _nodes(sources),
            "target": target,
            "weight": weight,
            "direction": direction,
            "each": each,
        }
        return self.run("shortest_paths", edges, params, **how)

    def node_similarity(
        self,
        edges: Edges = None,
        *,
        top: int = 10,
        min_similarity: float = 0.0,
        direction: Direction = "out",
        **how: Unpack[Running],
    ) -> Result:
        """Find for each node the others that share most of its neighbours, by the Jaccard index.

        Columns: ``type``, ``id``, ``other_type``, ``other_id``, ``similarity``, the highest first, so that ``limit``
        gives the pairs that are most alike. Pairs that share nothing are left out.
        """
        params = {"top": top, "min_similarity": min_similarity, "direction": direction}
        return self.run("node_similarity", edges, params, **how)

    def fast_rp(
        self,
        edges: Edges = None,
        *,
        dimension: int = 128,
        weights: Sequence[float] = (0.0, 1.0, 1.0),
        normalization: float = 0.0,
        self_influence: float = 0.0,
        weight: str | None = None,
        direction: Direction = "both",
        seed: int = 0,
        **how: Unpack[Running],
    ) -> Result:
        """Embed nodes, so that those with alike surroundings have vectors near each other (FastRP).

        Args:
            edges: the edge types.
            dimension: how many numbers a vector has.
            weights: how much neighbours at distance 1, 2, … count.
            normalization: the power of its degree that a node is scaled by; below zero, hubs count less.
            self_influence: how much a node's own random vector counts.
            weight: a property of edges that says how much a neighbour counts.
            direction: which way edges are walked.
            seed: chooses the random vectors, which follow from it, the type and the id of a node alone.
            how: see :class:`Running`.

        Columns: ``type``, ``id``, ``embedding``, by type and id.
        """
        params = {
            "dimension": dimension,
            "weights": weights,
            "normalization": normalization,
            "self_influence": self_influence,
            "weight": weight,
            "direction": direction,
            "seed": seed,
        }
        return self.run("fast_rp", edges, params, **how)

    def run(
        self, algorithm: str, edges: Edges = None, params: Mapping[str, Any] | None = None, **how: Unpack[Running]
    ) -> Result:
        """Run an algorithm by its name, with its parameters as a mapping; those left out have their defaults."""
        options = data_of(how.get("options"))
        write, limit = how.get("write"), how.get("limit")
        unknown = sorted(set(how) - set(Running.__annotations__))
        if unknown:
            raise unfit("argument", unknown[0], ", ".join(sorted(Running.__annotations__)))
        if write is None:
            given = [name for name in _OF_COMMITS if how.get(name) is not None]
            if given:
                details = BadValue(what=given[0], value=str(how.get(given[0])), expected="nothing without write")
                raise UsageError(f"'{given[0]}' needs write: without it nothing is committed", details=details)
            request = RunAlgorithmRequest(
                algorithm=algorithm,
                edges=edges,
                params=params,
                branch=self._branch,
                at=self._at,
                limit=limit,
                options=options,
            )
            return self._backend.execute(request, attachments_of(how.get("options")))
        if self._at is not None:
            details = BadValue(what="write", value=str(write), expected="nothing on an earlier state")
            raise UsageError(
                "an earlier state cannot be written to", details=details, hint="create a branch at it, and run it there"
            )
        head = how.get("expected_head")
        writing = WriteAlgorithmRequest(
            algorithm=algorithm,
            write=write,
            edges=edges,
            params=params,
            branch=self._branch,
            limit=limit,
            options=options,
            actor=how.get("actor"),
            message=how.get("message"),
            expected_head=str(head.id) if isinstance(head, Commit) else head,
            on_conflict=how.get("on_conflict", "rerun"),
            max_affected=how.get("max_affected"),
        )
        return self._backend.execute(writing, attachments_of(how.get("options")))


def _nodes(given: Any) -> Any:
    """Return nodes as a request can hold them; what is none is refused when it is executed."""
    if isinstance(given, Mapping):
        return {":".join(node) if isinstance(node, tuple) else node: share for node, share in given.items()}
    return [*given] if isinstance(given, Iterable) and not isinstance(given, str | bytes) else given
