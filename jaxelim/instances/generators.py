"""Random instances by the protocols of the paper, and two examples.

The paper: Tirinzoni & Degenne, On Elimination Strategies for Bandit Fixed-Confidence
Identification (NeurIPS 2022), appendix "Bandit instances".

Instance i of a seed has its own random stream. So it is the same for every size n of
the batch, and `generator(seed)` is instance 0. Every drawn instance has one correct answer.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxelim import checks
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.instance import Instance

_BLOCK = 1024  # vectors a draw
_MOST_BLOCKS = 1024  # about a million vectors; settings that accept too few of them are refused


def linear_d20(
    seed: int,
    n: int | None = None,
    *,
    problem: str = "best-arm",
    K: int = 50,
    m: int | None = None,
    theta_interval: tuple[float, float] = (-0.5, 0.5),
) -> Instance:
    """Draw a linear instance with d = 20 by the protocol of the paper's Table 1.

    The first 10 arms are e_1 .. e_10. The others are directions v, uniform on the cube
    [-1, 1]^20 and then normalised, that meet a condition. theta[10:] is uniform on
    `theta_interval`.

    - Best arm and top m: theta[0] = 1, theta[1:5] = 0.9, theta[5:10] = 0.8; v .
      theta <= 0.5.
    - Thresholding: theta[:10] uniform on [-0.2, -0.1] and [0.1, 0.2]; |v .
      theta| >= 0.5.

    Differs from the paper's tables. Its text says theta[10:] ~ U[-0.5, 0.5], the
    default here. But the instances of the tables (the shipped "linear-d20" and
    "linear-d20-osi") have theta[10:] in [-1, 0]; theta_interval=(-1, 0) draws
    similar ones.

    Args:
        seed: 0 <= seed < 2^63.
        n: None for one instance, a number >= 1 for a batch of n.
        problem: "best-arm", "top-m" or "thresholding".
        K: the number of arms, >= 10.
        m: for top m only: 1, 5 (the default) or 10 .. K - 1. For others the boundary is
            between equal means.
        theta_interval: the bounds (low, high) of theta[10:].

    Raises:
        ArgumentError: an argument is out of bounds, the top m arms are not unique, or (almost)
            no direction meets the condition of thresholding for this theta_interval.
    """
    K = checks.integer("K", K, low=10)
    m = _top(problem, m, default=5, high=K - 1)
    if not (m in (1, 5) or m >= 10):
        allowed = "1, 5, or from 10 to K - 1: the arms 2 .. 5 have equal means, and so have 6 .. 10"
        raise ArgumentError("m", m, allowed)
    low, high = _interval("theta_interval", theta_interval)
    signs = problem == "thresholding"

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        first = _two_sided(rng, 0.1, 0.2, 10) if signs else [1.0, *[0.9] * 4, *[0.8] * 5]
        theta = np.concatenate([first, rng.uniform(low, high, 10)])

        def wanted(v: np.ndarray) -> np.ndarray:
            return np.abs(v @ theta) >= 0.5 if signs else v @ theta <= 0.5

        others = _directions(rng, 20, K - 10, wanted, "theta_interval", theta_interval)
        return np.concatenate([np.eye(10, 20), others]), theta

    return _draw(seed, n, draw)


def linear_d10(
    seed: int,
    n: int | None = None,
    *,
    problem: str = "best-arm",
    K: int = 50,
    m: int | None = None,
    mean_interval: tuple[float, float] = (0.0, 0.8),
) -> Instance:
    """Draw a linear instance with d = 10 by the protocol of the paper's Table 3 and Figure 1.

    theta = (1, .., 1). The first arms are e_1 .. e_m, with mean 1; m = 1 for the best
    arm. Triples follow: a direction v in R^3, uniform on the cube and then normalised,
    with its mean v . 1 in `mean_interval`. It is placed at the coordinates 2-4, 5-7 and
    8-10, so the three arms have the same mean. There are as many whole triples as K
    arms need: 52 arms for K = 50 and the best arm, 51 for m = 3.

    Args:
        seed, n: as for `linear_d20`.
        problem: "best-arm" or "top-m".
        K: the least number of arms, > m.
        m: for top m only: 1 .. 10, 3 by default.
        mean_interval: the bounds (low, high) of the other arms' means, high < 1.

    Raises:
        UnsupportedError: thresholding, for which the paper has no such protocol: means
            may be arbitrarily close to 0.
        ArgumentError: another argument is out of bounds, or (almost) no direction has its mean
            in mean_interval.
    """
    m = _top(problem, m, default=3, high=10)
    if problem == "thresholding":
        allowed = "'best-arm' or 'top-m': means may be arbitrarily near the threshold 0"
        raise UnsupportedError("problem", problem, allowed)
    K = checks.integer("K", K, low=m + 1)
    low, high = _interval("mean_interval", mean_interval)
    if high >= 1:
        allowed = "bounds (low, high) with high < 1, the top arms' mean"
        raise ArgumentError("mean_interval", mean_interval, allowed)
    triples = -(-(K - m) // 3)

    def wanted(v: np.ndarray) -> np.ndarray:
        return (v.sum(axis=1) >= low) & (v.sum(axis=1) <= high)

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        v = _directions(rng, 3, triples, wanted, "mean_interval", mean_interval)
        blocks = np.zeros((triples, 3, 10))
        for block in range(3):
            blocks[:, block, 1 + 3 * block : 4 + 3 * block] = v
        return np.concatenate([np.eye(m, 10), blocks.reshape(-1, 10)]), np.ones(10)

    return _draw(seed, n, draw)


def unstructured(
    seed: int,
    n: int | None = None,
    *,
    problem: str = "best-arm",
    K: int = 40,
    m: int | None = None,
    mean_interval: tuple[float, float] | None = None,
) -> Instance:
    """Draw an unstructured instance (arms e_1 .. e_K, d = K), by the paper's Table 4.

    - Best arm and top m: the first means are 1, 0.9, 0.8, 0.7, 0.6; the others are
      uniform on `mean_interval`.
    - Thresholding: the first means are 0.1, -0.2, 0.3, -0.4. The others have random
      signs and absolute values uniform on `mean_interval`.

    Args:
        seed, n: as for `linear_d20`.
        problem: "best-arm", "top-m" or "thresholding".
        K: the number of arms, >= 2, or 1 for thresholding; a small K uses the first K of these
            means.
        m: for top m only: 1 .. K - 1, by default 3 (or K - 1 if that is less).
        mean_interval: the bounds (low, high) of the other means, by default (0, 0.5),
            with high < 0.6. For thresholding of their absolute values, by default
            (0.5, 1), with low > 0.

    Raises:
        ArgumentError: an argument is out of bounds, or m > 5 with a mean_interval of length 0.
    """
    K = checks.integer("K", K, low=1 if str(problem) == "thresholding" else 2)
    m = _top(problem, m, default=min(3, K - 1), high=K - 1)
    signs = problem == "thresholding"
    first = np.array([0.1, -0.2, 0.3, -0.4] if signs else [1.0, 0.9, 0.8, 0.7, 0.6])[:K]
    if mean_interval is None:
        mean_interval = (0.5, 1.0) if signs else (0.0, 0.5)
    low, high = _interval("mean_interval", mean_interval)
    for wrong, allowed in (
        (signs and low <= 0, "bounds (low, high) with low > 0: a mean of 0 is a tie"),
        (not signs and high >= 0.6, "bounds (low, high) with high < 0.6, the fifth mean"),
        (m > 5 and low == high, "bounds with low < high, as the m-th mean is drawn from them"),
    ):
        if wrong:
            raise ArgumentError("mean_interval", mean_interval, allowed)

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        others = K - first.size
        drawn = _two_sided(rng, low, high, others) if signs else rng.uniform(low, high, others)
        return np.eye(K), np.concatenate([first, drawn])

    return _draw(seed, n, draw)


def two_dimensional(K: int, eps: ArrayLike) -> Instance:
    """The paper's example in two dimensions: arm 2 is eps-close to the best, all others are bad.

    phi_1 = e_1, phi_2 = e_2, theta = (1, 1 - eps). H* = eps^2/8 and w* = (1/2, 1/2, 0,
    ..., 0). The paper does not fix the other K - 2 arms. Here they are on the unit
    circle, at equal angles, with both coordinates in (-1, 0), so that their means are
    negative. (Paper, section "An example".)

    Args:
        K: the number of arms, >= 3.
        eps: a number strictly between 0 and 1/2; a 1-D array makes a batch.

    Raises:
        ArgumentError: an argument is out of bounds, or 1 - eps is 1 in float64.
    """
    K = checks.integer("K", K, low=3)
    values = checks.fractions("eps", eps, 0.5, "1/2")
    if (1 - values == 1).any():
        raise ArgumentError("eps", eps, "numbers with 1 - eps < 1 in float64")
    angles = math.pi * (1 + np.arange(1, K - 1) / (2 * (K - 1)))
    arms = np.concatenate([np.eye(2), np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    return Instance(arms, np.stack([np.ones_like(values), 1 - values], axis=-1))


def soare(d: int, omega: ArrayLike) -> Instance:
    """The canonical basis and an arm close to the best, cos(omega) e_1 + sin(omega) e_2.

    theta = e_1. This is the usual hard instance of linear best-arm identification. The
    gap of the last arm is 1 - cos(omega), and arm 2 is the most informative about it.
    (Soare, Lazaric & Munos 2014, who scale theta by 2.)

    Args:
        d: the dimension, >= 2; K = d + 1.
        omega: the angle in radians, strictly between 0 and pi/2; a 1-D array
            makes a batch.

    Raises:
        ArgumentError: an argument is out of bounds, or cos(omega) is 1 in float64.
    """
    d = checks.integer("d", d, low=2)
    angles = checks.fractions("omega", omega, math.pi / 2, "pi/2")
    if (np.cos(angles) == 1).any():
        raise ArgumentError("omega", omega, "numbers with cos(omega) < 1 in float64")
    arms = np.zeros((*angles.shape, d + 1, d))
    arms[..., :d, :] = np.eye(d)
    arms[..., d, 0], arms[..., d, 1] = np.cos(angles), np.sin(angles)
    return Instance(arms, np.broadcast_to(np.eye(d)[0], (*angles.shape, d)))


def _draw(
    seed: int, n: int | None, draw: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
) -> Instance:
    """Draw one instance or a batch of n, each from the stream (seed, its index)."""
    seed = checks.seed(seed)
    size = 1 if n is None else checks.integer("n", n, low=1)
    streams = (np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(size))
    arms, theta = zip(*(draw(np.random.default_rng(one)) for one in streams), strict=True)
    return Instance(arms[0], theta[0]) if n is None else Instance(np.stack(arms), np.stack(theta))


def _directions(
    rng: np.random.Generator, d: int, count: int, wanted: Callable[[np.ndarray], np.ndarray],
    argument: str, interval: Any,
) -> np.ndarray:  # fmt: skip
    """Draw directions in blocks, and return the first `count` that are `wanted`: [count, d]."""
    accepted = np.empty((0, d))
    for _ in range(_MOST_BLOCKS):
        if len(accepted) >= count:
            break
        v = rng.uniform(-1.0, 1.0, (_BLOCK, d))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        accepted = np.concatenate([accepted, v[wanted(v)]])
    if len(accepted) < count:
        allowed = "an interval for which random directions meet the protocol"
        note = f"only {len(accepted)} of {_BLOCK * _MOST_BLOCKS} drawn directions have such a mean"
        raise ArgumentError(argument, interval, allowed, f"{note}, {count} are needed")
    return accepted[:count]


def _two_sided(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    """Draw `count` numbers uniform on [-high, -low] and [low, high]."""
    return rng.uniform(low, high, count) * rng.choice([-1.0, 1.0], count)


def _top(problem: str, m: int | None, *, default: int, high: int) -> int:
    """Check a problem and its m; 1 for problems without m, as for the best arm."""
    checks.choice("problem", problem, ("best-arm", "top-m", "thresholding"))
    if problem != "top-m":
        if m is not None:
            raise ArgumentError("m", m, f"None, as the problem is {problem!r}")
        return 1
    return checks.integer("m", default if m is None else m, low=1, high=high)


def _interval(name: str, value: Any) -> tuple[float, float]:
    """Check an interval, a pair of numbers, and return its bounds."""
    low, high = checks.real_array(name, value, shape=(2,)).tolist()
    if low > high or not math.isfinite(high - low):
        raise ArgumentError(name, value, "bounds (low, high) with low <= high and a finite length")
    return low, high
