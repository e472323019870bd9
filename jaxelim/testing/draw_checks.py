"""The law of a one-parameter family's rewards: their range, moments and likelihood.

For `jaxelim.testing`. A family's divergence fixes the law of its rewards: log dP_y/dP_mu(x)
= d(x, mu) - d(x, y), which is linear in x. So the draws of mean mu have a known moment
generating function.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.errors import ArgumentError
from jaxelim.families import OneParameter
from jaxelim.lanes import LaneOps
from jaxelim.testing import family_checks
from jaxelim.testing.family_checks import ERRORS, Generator, ends, inside, of
from jaxelim.testing.report import LUCK, require

SKEW = 0.02
"""Most skewness of an average of likelihood ratios."""

JUMP = 1e-9
"""Bound on the chance that one likelihood ratio is `ERRORS` standard errors of the average."""


def check_draws(family: OneParameter, rng: Generator, draws: int) -> str:
    """Rewards, at means inside the range and at its ends: moments and likelihood."""
    known = 5
    means = np.concatenate([inside(family, rng, known), ends(family)])
    family = family.for_arms(len(means))
    natures = family_checks._natures(family, of(family, means))
    weights = family_checks._numbers(lambda m: family.weight(family_checks.stat(family, m)), means)
    costs = 1 / weights
    extremes = [0.0, 1 - 2.0**-53] if family.noise == "uniform" else [-8.0, 8.0]

    @jax.jit
    def rewards(natures, arm, noise):
        pull = 2 ** (jnp.arange(noise.shape[0], dtype=jnp.int32) % 16) - 1  # 0, 1, 3, .., 32767
        arm = arm + jnp.zeros_like(pull)
        owned = jax.tree.map(lambda x: jnp.broadcast_to(x[..., None], (*x.shape, 16)), natures)
        few = family.draw(LaneOps(), owned, arm[:16], pull[:16], noise[:16])
        return family.draw(LaneOps(), natures, arm, pull, noise), few

    seen, ratios, drawn = [], [], []
    # A family's means have n d(mean, mu) above it with probability 0.4 LUCK (Chernoff's bound).
    likely = float(np.log(2 * known / (0.4 * LUCK)))
    for arm, mean in enumerate(means):
        noise = np.concatenate([extremes, family_checks._noise(family, rng, draws)])
        x, few = map(np.asarray, rewards(natures, jnp.int32(arm), jnp.asarray(noise)))
        where = f"mean {mean:.6g}: rewards"
        _check_rewards(family, where, x, few, noise)
        if arm >= known:
            require((x == mean).all(), f"{where} other than the mean, at an end of the range")
            continue
        seen.append(_check_moments(family, where, float(mean), x[2:], likely, costs[arm]))
        drawn.append(x[2:])
    curves = _curves(family, means[:known])
    for mean, cost, x, curve in zip(means, costs, drawn, curves, strict=False):
        ratios += _check_likelihood(f"mean {mean:.6g}: rewards", mean, x, cost, curve)
    bias = ((2 * likely) ** 0.5 + 3) / draws**0.5
    return (
        f"n = {draws} rewards at each of {known} means have mean mu, variance V(mu) and the "
        f"likelihood of d; seen would be a bias of {bias:.2g} standard deviations, a variance off "
        f"by {min(seen):.1%} (at one mean) to {max(seen):.1%} (at another), and a mean likelihood "
        f"ratio off by {min(ratios):.1%} to {max(ratios):.1%}"
    )


def _check_rewards(
    family: OneParameter, where: str, x: np.ndarray, few: np.ndarray, noise: np.ndarray
) -> None:
    good = x.shape == noise.shape and x.dtype == noise.dtype
    have, want = (f"{a.dtype}{list(a.shape)}" for a in (x, noise))
    require(good, f"{where} are {have}; noise is {want}, and so has to be what draw returns")
    bad = ~np.isfinite(x)
    require(not bad.any(), f"{where} are not finite, for noise {noise[bad][:3]}")
    out = (x < family.low) | (x > family.high)
    require(not out.any(), f"{where} are out of the range of means, such as {x[out][:3]}")
    at = np.setdiff1d([family.low, family.high], ends(family))
    out = np.isin(x, at)
    sentence = f"{where} are at an end of the range that is no mean, for noise {noise[out][:3]}"
    require(not out.any(), sentence)
    try:
        family.check_rewards(x.astype(float) * family.scale)
    except ArgumentError as error:
        require(False, f"{where} that draw returns are refused by check_rewards: {error}")
    same = np.array_equal(x[:16], few)
    require(same, f"{where} are others where each lane has a nature of its own, at the last axis")


def _check_moments(
    family: OneParameter, where: str, mean: float, x: np.ndarray, likely: float, cost: float
) -> float:
    """The relative error of a variance that would be seen."""
    n, average, squares = x.size, x.mean(), (x - mean) ** 2
    d = family_checks._numbers(partial(family_checks.divergence, family), average, mean) / cost
    variance = family_checks._numbers(partial(family_checks.variance, family), mean) * cost
    off = abs(average - mean) / (variance / n) ** 0.5
    require(
        n * d <= likely,
        f"{where} have mean {average:.6g} over {n} draws, {off:.1f} standard errors off",
    )
    error = squares.std() / n**0.5
    require(
        abs(squares.mean() - variance) <= ERRORS * error + 1e-9 * variance,
        f"{where} have variance {squares.mean():.6g} over {n} draws, and V(mu) is {variance:.6g}",
    )
    return float((ERRORS + 3) * error / variance)


def _curves(family: OneParameter, means: np.ndarray) -> np.ndarray:
    """y, d(mu, y) and d(y, mu) for y on both sides of each mean: [mean, side, 3, y]."""
    radius = 10 ** np.linspace(-6, 3, 1200)
    mean, radius = np.broadcast_arrays(means[:, None], radius)

    def all_of(mean, radius):
        d, sides = partial(family_checks.divergence, family), []
        for y in family_checks.bounds(family, mean, radius):
            y = jnp.where(jnp.isfinite(y) & (y > family.low) & (y < family.high), y, mean)
            sides.append(jnp.stack([y, d(mean, y), d(y, mean)], 1))
        return jnp.stack(sides, 1)

    return family_checks._numbers(all_of, mean, radius)


def _check_likelihood(
    where: str, mean: float, x: np.ndarray, cost: float, curves: np.ndarray
) -> list[float]:
    """Hold rewards of this mean against the divergence, on both sides of the mean.

    W = dP_y/dP_mu has mean 1 over the draws, for every y. The y is the furthest for which
    the average of W is nearly normal. Returns the errors of that mean that would be seen.
    """
    seen = []
    for furthest in (_furthest(mean, x.size, cost, curve) for curve in curves):
        if furthest is None:
            continue
        y, eta, kappa, deviation = furthest
        ratio = np.exp((eta * (x - mean) - kappa) / cost)
        error = deviation / x.size**0.5
        off = abs(ratio.mean() - 1) / error
        require(
            off <= ERRORS,
            f"{where} have not the likelihood of the divergence: dP_y/dP_mu, y = {y:.6g}, has mean "
            f"{ratio.mean():.6g} over {x.size} draws; 1 is {off:.1f} standard errors off",
        )
        seen.append((ERRORS + 3) * error)
    return seen


def _furthest(
    mean: float, n: int, cost: float, curve: np.ndarray
) -> tuple[float, float, float, float] | None:
    """The furthest y for which an average of n W is nearly normal: y, eta, kappa, W's deviation.

    W = exp((eta (x - mu) - kappa)/cost), with kappa(eta) = d(mu, y) the cumulant generating
    function about mu. So E W^k = exp((kappa(k eta) - k kappa(eta))/cost).
    """
    order = np.argsort(np.abs(curve[0] - mean))
    y, kappa, back = curve[:, order]
    good = np.isfinite(kappa) & np.isfinite(back) & (np.abs(y - mean) > 1e-9 * abs(mean))
    y, kappa, back = y[good], kappa[good], back[good]
    eta = (kappa + back) / (y - mean)
    rising = np.abs(eta) > np.maximum.accumulate(np.concatenate([[0.0], np.abs(eta)[:-1]]))
    last = rising.size if rising.all() else np.argmin(rising)  # further out it is rounding
    y, eta, kappa = y[:last], eta[:last], kappa[:last]
    if not eta.size:
        return None
    size, root = np.abs(eta), np.sqrt(kappa)

    def moment(k: int) -> np.ndarray:
        """E W^k; nan where kappa(k eta) is not known."""
        return np.exp((np.interp(k * size, size, root, right=np.nan) ** 2 - k * kappa) / cost)

    with np.errstate(all="ignore"):
        second, third, eighth = moment(2), moment(3), moment(8)
        deviation = np.sqrt(second - 1)
        skew = np.abs(third - 3 * second + 2) / deviation**3
        jump = n * eighth / (ERRORS * deviation * n**0.5) ** 8
        fine = (skew <= SKEW * n**0.5) & (jump <= JUMP)
    if not fine.any():
        return None
    at = np.flatnonzero(fine)[-1]
    return float(y[at]), float(eta[at]), float(kappa[at]), float(deviation[at])
