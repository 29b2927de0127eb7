"""The directory of a cluster, read and checked: everything that is wrong is told at once, each with its line."""
