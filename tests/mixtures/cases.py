"""Statistics of random arms, and the mixtures of PROOFS by numerical integration, in NumPy."""

import functools

import jax
import numpy as np
from scipy.special import betaln, gammaln, log_expit

import jaxelim as je
from jaxelim import scope
from jaxelim.mixtures import pieces

STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
FAMILIES = {
    "bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential(),
    "gaussian": je.Gaussian(),
}  # fmt: skip
_NODES = np.linspace(-7.5, 7.5, 3001)


@functools.partial(jax.jit, static_argnums=(0, 1))
def log_mixture(family, grid, counts, means, at, moments=None):
    """`family.log_mixture` of all strengths as one program: [.., J]."""
    return pieces.each(family, family.stat_of(counts, means, moments), at, grid.strengths)


@functools.partial(jax.jit, static_argnums=(0, 4))
def log_e(family, space, stats, shape, grid):
    """log e of every piece as one program."""
    return pieces.log_e(family, space, stats, shape, grid)


def computed(f, *given):
    """What a jitted function returns of NumPy's arrays, in NumPy."""
    with scope.engine():
        return jax.tree.map(np.asarray, f(*given))


def sums(name, rng, counts, means, std=1.0):
    """Sums of rewards of arms with these counts and means; `std` of Gaussian rewards."""
    if name == "bernoulli":
        return rng.binomial(counts, means).astype(float)
    if name == "poisson":
        return rng.poisson(counts * means).astype(float)
    if name == "exponential":
        return rng.gamma(counts, means)
    return counts * means + std * np.sqrt(counts) * rng.normal(size=counts.shape)


def random_means(name, rng, size):
    """Means of arms, in the range of the family."""
    if name == "bernoulli":
        return rng.uniform(0.02, 0.98, size)
    return rng.normal(size=size) if name == "gaussian" else np.exp(rng.normal(size=size))


def random_arms(name, rng, size, most=4):
    """Counts from 1 to 10^most, evenly on a logarithmic scale, and estimates."""
    counts = np.floor(10 ** rng.uniform(0, most, size))
    given = sums(name, rng, counts.astype(int), random_means(name, rng, size))
    return counts, given / counts


def integrated(name, counts, means, at, prior):
    """log of the integral of p(rewards | theta)/p(rewards | at) over the prior's density.

    The trapezoidal rule in a coordinate t of theta on the line, at t = centre + width sinh(v).
    The prior is (a, b) of a Beta or a Gamma, or a Gaussian's mean and standard deviation.
    """
    a, b = (np.broadcast_to(one, counts.shape)[..., None] for one in prior)
    n, m, y = (x[..., None] for x in (counts, means, at))
    s = n * m
    if name == "bernoulli":
        rate = (s + a) / (n + a + b)
        centre, curve = np.log(rate / (1 - rate)), (n + a + b) * rate * (1 - rate)
    elif name == "poisson":
        centre, curve = np.log((s + a) / (n + b)), s + a
    elif name == "exponential":
        centre, curve = np.log((n + a) / (s + b)), n + a
    else:
        curve = n + 1 / b**2
        centre = (s + a / b**2) / curve
    t = centre + np.sinh(_NODES) / np.sqrt(curve)
    if name == "bernoulli":
        value = (s + a) * log_expit(t) + (n - s + b) * log_expit(-t) - betaln(a, b)
        value = value - s * np.log(y) - (n - s) * np.log1p(-y)
    elif name == "poisson":
        value = (s + a) * t - (n + b) * np.exp(np.minimum(t, 600)) + a * np.log(b) - gammaln(a)
        value = value - s * np.log(y) + n * y
    elif name == "exponential":
        value = (n + a) * t - (s + b) * np.exp(np.minimum(t, 600)) + a * np.log(b) - gammaln(a)
        value = value + n * np.log(y) + s / y
    else:
        value = n * (t - y) * (m - (t + y) / 2)
        value = value - (t - a) ** 2 / (2 * b**2) - np.log(b * np.sqrt(2 * np.pi))
    value = value + np.log(np.cosh(_NODES)) - np.log(curve) / 2
    most = value.max(-1, keepdims=True)
    return most[..., 0] + np.log(np.exp(value - most).sum(-1) * (_NODES[1] - _NODES[0]))


def centred(name, at, c):
    """The prior (a, b) of strength c at a tested mean."""
    if name == "bernoulli":
        return c * at, c * (1 - at)
    if name == "poisson":
        return c * at, c
    return (c + 1, c * at) if name == "exponential" else (at, c**-0.5)


def components(name, counts, means, at, grid):
    """log M_j by integration: [.., J]."""
    priors = [centred(name, at, c) for c in grid.strengths]
    return np.stack([integrated(name, counts, means, at, one) for one in priors], -1)


def mean_exp(values):
    """log mean_j exp(values_j) along the last axis."""
    most = values.max(-1, keepdims=True)
    return most[..., 0] + np.log(np.exp(values - most).mean(-1))


def linear(features, counts, y, c):
    """||y||^2 and the price of directions y [Q, d] under one prior in R^d, by dense matrices."""
    g, v = features.T @ features, features.T @ (counts[:, None] * features)
    inverse = np.linalg.inv(v)
    norm = np.einsum("qi,ij,qj->q", y, inverse + c * inverse @ g @ inverse, y)
    return norm, np.linalg.slogdet(np.eye(len(g)) + np.linalg.solve(c * g, v))[1] / 2
