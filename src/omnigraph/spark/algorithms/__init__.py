"""Graph algorithms on Spark, for edges that one process cannot hold."""

from omnigraph.spark.algorithms.running import frame as frame
from omnigraph.spark.algorithms.running import run as run
from omnigraph.spark.algorithms.writing import write as write
