"""Mixtures of Gaussian arms of unknown variance.

With a right Haar prior on the standard deviation and a prior N(0, 1/c) on the effect, arm k
at a tested mean u has

    log M_j(u) = log(c/(N + c))/2 + (N/2) log(Q/(Q - N^2 (m - u)^2/(N + c))),

Q = sum (x - u)^2 = N (v + (m - u)^2). It is a function of z = (m - u)^2/v that rises with z:

    (N/2) (log(1 + z) - log(1 + z c/(N + c))) - log(1 + N/c)/2.

M_k is a martingale with respect to its scale-free statistics alone, so products over arms
with adaptive counts are none. The supremum of log M_k over N is at most Exp(1) in law, and
arms are independent: the sum y of two exceeds a number with probability (1 + y) e^-y at most.
So a pair has the e-value e^y/(1 + y), y the least of log M_a(u) + log M_b(u) over u. As a
function of u the sum may have two minima.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxelim.mixtures.grid import log_mean_exp
from jaxelim.numerics.logarithm import log1p

_MOST = 1e75
"""Largest distance over the standard deviation; its powers are finite."""


def log_mixture(stat: Any, at: Array, c: Array) -> Array:
    """log M at the means `at`; 0 where v = 0 or N < 2. All arrays are of one shape."""
    n, known = stat.n, (stat.variance > 0) & (stat.n >= 2)
    ratio = jnp.abs(stat.mean - at) * jnp.sqrt(1 / jnp.where(known, stat.variance, 1))
    z = jnp.square(jnp.minimum(ratio, _MOST))
    value = (n * (log1p(z) - log1p(z * (c / (n + c)))) - log1p(n / c)) / 2
    return jnp.where(known, value, 0)


def together(a: Array, b: Array) -> Array:
    """log e of a pair, y - log(1 + y), from log M of both arms [.., J]; y itself below 0."""
    y = log_mean_exp(a) + log_mean_exp(b)
    return y - log1p(jnp.maximum(y, 0))
