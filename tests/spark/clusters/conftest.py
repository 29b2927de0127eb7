"""Clusters take minutes to start and to break, so only ``make spark-clusters`` looks at them.

A declared pipeline starts what it needs by itself, on this machine: ``make test-more`` runs it, and no mode does again.
"""

from tests.spark.clusters.modes import MODE, MODES

_CLUSTERS = ["test_contract.py", "test_deaths.py", "test_drivers.py", "test_pipelines.py"]
collect_ignore_glob = ["test_declared.py"] if MODE in MODES else _CLUSTERS
