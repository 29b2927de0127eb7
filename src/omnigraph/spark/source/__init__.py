"""The data source ``omnigraph``: types, queries and changes of a graph as Spark reads and writes them."""
