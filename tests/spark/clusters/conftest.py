"""Clusters take minutes to start and to break, so only ``make spark-clusters`` looks at them."""

from tests.spark.clusters.modes import MODE, MODES

collect_ignore_glob = [] if MODE in MODES else ["test_*.py"]
if MODE != "connect":
    # They bring a Connect server of their own, whatever the mode: once is enough.
    collect_ignore_glob.append("test_declared.py")
