"""Kernels: what computes the operators and functions of the language over arrays of values."""
