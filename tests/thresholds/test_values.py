"""The values of every threshold against its formula, in NumPy: hardly anything compiles."""

import math

import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.thresholds import basic, mixture
from tests.twin import gk16, heuristic

VALUES = {
    "heuristic": ((je.Heuristic(), heuristic),),
    "gk16": ((je.GK16(), gk16),),
    "mixture": (
        (je.Mixture(), lambda t, delta: math.log(1 / delta)),
        (je.Mixture(pieces=6), lambda t, delta: math.log(6 / delta)),
    ),
}  # fmt: skip
"""Thresholds by name, each with its formula: a function of the numbers t and delta."""


def test_no_threshold_is_left_out():
    others = {"kaufmann-koolen", "linear-threshold"}
    assert set(VALUES) == set(catalogue.names("threshold")) - others


@pytest.mark.parametrize("name", VALUES)
def test_values(name, monkeypatch):
    for module in (basic, mixture):
        monkeypatch.setattr(module, "jnp", np)
    for threshold, formula in VALUES[name]:
        for t in (7, 300, 10**6):
            for delta in (0.3, 0.01, 1e-12):
                found = threshold(np.float64(t), np.float64(delta))
                assert found == pytest.approx(formula(t, delta), rel=1e-9), (threshold, t, delta)


def test_the_value_of_the_proven_linear_threshold():
    d, feature, theta, ridge = 3, 2.0, 1.5, 0.5
    beta = je.thresholds.LinearThreshold(
        dimension=d, feature_bound=feature, theta_bound=theta, ridge=ridge
    )
    for t, delta in ((100, 0.01), (5, 0.3), (10**6, 1e-9)):
        volume = d / 2 * math.log(1 + t * feature**2 / (ridge * d))
        known = (math.sqrt(volume + math.log(1 / delta)) + theta * math.sqrt(ridge / 2)) ** 2
        with jax.enable_x64(True):
            assert math.isclose(float(beta(np.float64(t), np.float64(delta))), known, rel_tol=1e-12)
