"""The laws of a one-parameter family's mixtures of likelihood ratios: for `jaxelim.testing`.

A test by mixtures is proven if M_j(mu) has mean 1 at most over rewards of mean mu, and if the
infimum over a common mean is found, for which log M_j must be convex, or least at the estimate.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.families import OneParameter
from jaxelim.lanes import LaneOps
from jaxelim.mixtures import Grid
from jaxelim.mixtures.pieces import each
from jaxelim.testing import family_checks
from jaxelim.testing.family_checks import ERRORS, Generator, inside, law
from jaxelim.testing.report import require

ARMS = 5
CASES = 100
"""Statistics of each arm whose mixtures are compared with likelihood ratios."""
PULLS = (1, 8, 32)
"""Numbers of rewards of which M is averaged."""
LARGEST = 10.0
"""M is cut off here before it is averaged, as its square has an infinite mean."""
_ROUNDING = 1e-11


def check_mixture(family: OneParameter, rng: Generator, draws: int) -> str:
    """`log_mixture`: its size, its convexity and its mean over rewards."""
    family, grid, seen = family.for_arms(ARMS), Grid(), 0.0
    for pulls in PULLS:
        truth = inside(family, rng, ARMS)
        means = _averages(family, truth, pulls, draws // 4, rng)
        _check_values(family, grid, rng, pulls, means[:CASES])
        seen = max(seen, _check_mean(family, grid, pulls, means, truth))
    form = f"convex in the {family.convex_in}" if family.convex_in else "least at the estimate"
    return (
        f"{len(PULLS) * CASES * ARMS} mixtures: at most the likelihood ratio, {form}; over "
        f"rewards of the tested mean they have mean 1 at most, and an excess of {seen:.2g} would "
        "be seen"
    )


def _averages(
    family: OneParameter, truth: np.ndarray, pulls: int, runs: int, rng: Generator
) -> np.ndarray:
    """The means of so many rewards of each arm: [runs, K]."""
    natures = family_checks._natures(family, family_checks.of(family, truth))
    pull = jnp.broadcast_to(jnp.arange(pulls, dtype=jnp.int32), (runs, pulls)).reshape(-1)

    @jax.jit
    def of_arm(natures, arm, noise):
        drawn = family.draw(LaneOps(), natures, jnp.full_like(pull, arm), pull, noise)
        return jnp.mean(drawn.reshape(runs, pulls), 1)

    noise = (jnp.asarray(family_checks._noise(family, rng, runs * pulls)) for _ in range(ARMS))
    own = [of_arm(natures, jnp.int32(arm), noise_of_arm) for arm, noise_of_arm in enumerate(noise)]
    return np.stack([np.asarray(x) for x in own], 1)


def _check_values(
    family: OneParameter, grid: Grid, rng: Generator, pulls: int, means: np.ndarray
) -> None:
    """Values at three means in line, of statistics that rewards have: means [n, K]."""
    low, high = (inside(family, rng, means.size).reshape(means.shape) for _ in range(2))
    counts = np.full(means.shape, float(pulls))

    def middle(a, b):
        return 2 / (1 / a + 1 / b) if family.convex_in == "reciprocal" else (a + b) / 2

    def loss(means, low):
        return family_checks.divergence(family, means, low)

    def all_of(counts, means, low, high):
        at = (low, middle(low, high), high)
        stat = family.stat_of(counts, means, None)
        values = [each(family, stat, u, grid.strengths) for u in at]
        return *values, family.weight(family.kind(counts, means)) * loss(means, low)

    numbers = family_checks._numbers(jax.vmap(all_of), counts, means, low, high)
    shape, have = (*means.shape, len(grid.strengths)), numbers[0].shape
    require(have == shape, f"log_mixture returns an array of {have}; it has to be {shape}")
    first, between, last = numbers[:3]
    cost, m, u, v = (x[..., None] for x in (numbers[3], means, low, high))
    said = f"log_mixture({pulls}, {{m:.6g}}, {{u:.6g}}) = {{value:.9g}}; "
    law(np.isfinite(first), said + "it has to be finite", m=m, u=u, value=first)
    rounding = _ROUNDING * (pulls + np.abs(first) + np.abs(last) + cost)
    law(
        first <= cost + rounding,
        said + "the largest log-likelihood ratio, n d(m, u), is {cost:.9g}",
        m=m, u=u, value=first, cost=cost,
    )  # fmt: skip
    holds = between <= (first + last) / 2 + rounding
    sentence = f"log_mixture of {pulls} pulls of mean {{m:.6g}} is not convex in the "
    sentence += f"{family.convex_in}, between {{u:.6g}} and {{v:.6g}}"
    if family.convex_in is None:
        nearer = np.abs(u - m) < np.abs(v - m)
        falls = np.where(nearer, first <= last + rounding, last <= first + rounding)
        holds = falls | ((u - m) * (v - m) < 0)
        sentence = f"log_mixture of {pulls} pulls of mean {{m:.6g}} does not fall up to that mean "
        sentence += "and rise from there: see {u:.6g} and {v:.6g}"
    law(holds, sentence, m=m, u=u, v=v)


def _check_mean(
    family: OneParameter, grid: Grid, pulls: int, means: np.ndarray, truth: np.ndarray
) -> float:
    """The excess over 1 that would be seen of the mean of M_j(mu), at the worst mean and prior."""
    at, counts = np.broadcast_to(truth, means.shape), np.full(means.shape, float(pulls))
    of_run = jax.vmap(lambda n, m, u: each(family, family.stat_of(n, m, None), u, grid.strengths))
    log_m = family_checks._numbers(of_run, counts, means, at)
    cut = np.exp(np.minimum(log_m, np.log(LARGEST)))  # [runs, K, J]
    average, error = cut.mean(0), cut.std(0) / len(means) ** 0.5
    law(
        average <= 1 + ERRORS * error + _ROUNDING * pulls,
        "exp(log_mixture) has mean {average:.6g} over " + str(pulls) + " rewards of the tested "
        "mean {mean:.6g}; it has to be at most 1, and the standard error is {error:.2g}",
        average=average, mean=truth[:, None], error=error,
    )  # fmt: skip
    return float((ERRORS + 3) * error.max())
