"""Graph algorithms: what can be computed of all nodes and edges of a state, and written back as a property."""

from omnigraph.engine.algorithms.catalogue import ALGORITHMS as ALGORITHMS
from omnigraph.engine.algorithms.catalogue import Algorithm as Algorithm
from omnigraph.engine.algorithms.catalogue import find_algorithm as find_algorithm
from omnigraph.engine.algorithms.run import AlgorithmCall as AlgorithmCall
from omnigraph.engine.algorithms.run import run_algorithm as run_algorithm
from omnigraph.engine.algorithms.writing import write_algorithm as write_algorithm
