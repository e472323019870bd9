"""Runs and H* are the same to the bit on other processors' libraries and instructions."""

import pytest

from tests import processors

LONG = "LinGame, run 115"
"""A run of over 38,000 samples, in which one digit of a library once changed the end."""
LIBRARIES = (LONG, "OptimisticTaS, K = 4", "H* linear")
INSTRUCTIONS = (LONG, "LinGapE, Mixture", "FWS", "XY-Adaptive", "Track-and-Stop", "logistic FWS",
                "H* linear", "H* logistic")  # fmt: skip


def run(names, settings):
    found = {name: processors.computed(names, extra) for name, extra in settings.items()}
    return processors.parted(found)


@pytest.mark.slow
def test_libraries():
    """OpenBLAS's kernels for three processors, of which two gave other runs; those it can run."""
    settings = processors.settings(())
    found = run(LIBRARIES, settings)
    assert not any(sum(counts.values()) for counts in found.values()), found


@pytest.mark.slow
def test_instructions():
    """Below AVX2 there are no fused multiply-adds, and sums round otherwise."""
    every = processors.settings(processors.FUSED)
    found = run(INSTRUCTIONS, {name: every[name] for name in processors.FUSED})
    assert not any(sum(counts.values()) for counts in found.values()), found
