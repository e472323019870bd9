"""The values of every threshold against its formula, in NumPy: hardly anything compiles."""

import math

import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.thresholds import basic, mixture
from tests.twin.thresholds import gk16, heuristic


def linear(t, delta):
    """The formula of LinearThreshold(3, 2.0, 1.5, 0.5)."""
    volume = 3 / 2 * math.log(1 + t * 2.0**2 / (0.5 * 3))
    return (math.sqrt(volume + math.log(1 / delta)) + 1.5 * math.sqrt(0.5 / 2)) ** 2


VALUES = {
    "heuristic": ((je.Heuristic(), heuristic),),
    "gk16": ((je.GK16(), gk16),),
    "linear-threshold": ((je.thresholds.LinearThreshold(3, 2.0, 1.5, 0.5), linear),),
    "mixture": (
        (je.Mixture(), lambda t, delta: math.log(1 / delta)),
        (je.Mixture(pieces=6), lambda t, delta: math.log(6 / delta)),
    ),
}  # fmt: skip
"""Thresholds by name, each with its formula: a function of the numbers t and delta."""


def test_no_threshold_is_left_out():
    assert set(VALUES) == set(catalogue.names("threshold")) - {"kaufmann-koolen"}


@pytest.mark.parametrize("name", VALUES)
def test_values(name, monkeypatch):
    for module in (basic, mixture):
        monkeypatch.setattr(module, "jnp", np)
    for threshold, formula in VALUES[name]:
        for t in (7, 300, 10**6):
            for delta in (0.3, 0.01, 1e-12):
                found = threshold(np.float64(t), np.float64(delta))
                assert found == pytest.approx(formula(t, delta), rel=1e-12), (threshold, t, delta)
