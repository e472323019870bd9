"""Runs and H* are the same to the bit on other processors' libraries and instructions."""

import pytest

from tests import processors

LONG = ("LinGame, run 115",)
"""A run of over 38,000 samples, in which one digit of a library once changed the end."""
QUICK = (*LONG, "OptimisticTaS, K = 4", "H* linear")


def run(names, settings):
    found = {name: processors.computed(names, extra) for name, extra in settings.items()}
    return processors.parted(found)


@pytest.mark.slow
def test_libraries():
    """OpenBLAS's kernels for three processors, of which two gave other runs; those it can run."""
    settings = processors.settings(())
    found = run(QUICK, settings)
    assert not any(sum(counts.values()) for counts in found.values()), found


@pytest.mark.slow
def test_instructions():
    """Below AVX2 there are no fused multiply-adds, and sums round otherwise."""
    every = processors.settings(processors.FUSED)
    names = [name for name in processors.jobs() if name not in processors.APART]
    found = run(names, {name: every[name] for name in processors.FUSED})
    assert len(found) > 10
    assert not any(sum(counts.values()) for counts in found.values()), found
