"""Runs and H* are the same to the bit on other processors' libraries and instructions."""

import pytest

from tests import processors

LONG = "LinGame, run 115"
"""A run of over 38,000 samples, in which one digit of a library once changed the end."""
LIBRARIES = (LONG, "OptimisticTaS, K = 4", "H* linear")
INSTRUCTIONS = (LONG, "LinGapE, Mixture", "FWS", "XY-Adaptive", "Track-and-Stop", "logistic FWS",
                "H* linear", "H* logistic")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("names", "fused"), [(LIBRARIES, ()), (INSTRUCTIONS, processors.FUSED)])
def test_other_processors(names, fused):
    """OpenBLAS's kernels for three processors, of which two gave other runs; those it can run.

    Below AVX2 there are no fused multiply-adds, and sums round otherwise.
    """
    every = processors.settings(fused)
    every = {name: processors.computed(names, every[name]) for name in fused or every}
    found = processors.parted(every)
    assert not any(sum(counts.values()) for counts in found.values()), found
