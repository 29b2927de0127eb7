"""What computes the operators and functions of the language: a kernel for each name of ``ir.functions``.

A kernel is given arrays of one _length and the types that the checker found, and returns an array of that _length.
Kernels work on all rows at once; where Arrow has none, each distinct value is converted once.
"""

from __future__ import annotations

from omnigraph.engine.query.functions import comparisons, conversions, moments, numbers, texts
from omnigraph.engine.query.functions.kernels import Kernel

KERNELS: dict[str, Kernel] = {
    **numbers.KERNELS,
    **comparisons.KERNELS,
    **texts.KERNELS,
    **moments.KERNELS,
    **conversions.KERNELS,
}
