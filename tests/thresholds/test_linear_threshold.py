"""The value of the proven threshold for linear Gaussian rewards."""

import math

import jax
import numpy as np

import jaxelim as je


def test_its_value_by_plain_arithmetic():
    d, feature, theta, ridge = 3, 2.0, 1.5, 0.5
    beta = je.thresholds.LinearThreshold(
        dimension=d, feature_bound=feature, theta_bound=theta, ridge=ridge
    )
    for t, delta in ((100, 0.01), (5, 0.3), (10**6, 1e-9)):
        volume = d / 2 * math.log(1 + t * feature**2 / (ridge * d))
        known = (math.sqrt(volume + math.log(1 / delta)) + theta * math.sqrt(ridge / 2)) ** 2
        with jax.enable_x64(True):
            assert math.isclose(float(beta(np.float64(t), np.float64(delta))), known, rel_tol=1e-12)
