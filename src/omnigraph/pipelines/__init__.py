"""Declared pipelines: how tables of other systems become a graph and keep it current."""
