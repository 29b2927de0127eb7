"""The algorithms that run on Spark, by name. What each takes and gives is what the one in process takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from omnigraph.spark.algorithms.components import (
    connected_components,
    k_core,
    label_propagation,
    strongly_connected_components,
)
from omnigraph.spark.algorithms.embeddings import fast_rp
from omnigraph.spark.algorithms.found import Iterate
from omnigraph.spark.algorithms.paths import shortest_paths
from omnigraph.spark.algorithms.ranking import betweenness, degree, pagerank
from omnigraph.spark.algorithms.structure import clustering_coefficient, node_similarity, triangle_count

ON_SPARK: Mapping[str, Iterate] = MappingProxyType(
    {
        "betweenness": betweenness,
        "clustering_coefficient": clustering_coefficient,
        "connected_components": connected_components,
        "degree": degree,
        "fast_rp": fast_rp,
        "k_core": k_core,
        "label_propagation": label_propagation,
        "node_similarity": node_similarity,
        "pagerank": pagerank,
        "shortest_paths": shortest_paths,
        "strongly_connected_components": strongly_connected_components,
        "triangle_count": triangle_count,
    }
)
IN_PROCESS_ONLY: Mapping[str, str] = MappingProxyType(
    {"louvain": "which communities it finds follows from the order in which one process visits nodes"}
)
