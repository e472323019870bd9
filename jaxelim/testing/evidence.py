"""The laws of a family's statistics, evidence and mixtures: for `jaxelim.testing.families`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from jaxelim.contracts import Problem
from jaxelim.contracts.views import Snapshot
from jaxelim.lanes import ArmBlock, LaneOps
from jaxelim.mixtures import Grid
from jaxelim.mixtures.pieces import each
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.testing.means import (
    Generator,
    compiled_divergence,
    divergence,
    inside,
    is_exact,
    natures,
    noise_of,
    of,
    per_pull,
    with_ends,
)
from jaxelim.testing.report import ERRORS, World, require

BETAS = (1e-3, 1.0, 4.0, 40.0)
"""Levels of the intervals."""


def _walk(family: Any, problem: Problem, rng: Generator, k: int) -> Callable:
    """A compiled function of arms [T], noise [T, B], go [T, B] and weights [W, K].

    It gives what `_check_statistics` and `_check_evidence` read: after `start`, and at the end.
    """
    instance = of(family, np.sort(with_ends(family, rng, k)))
    nature = natures(family, instance)[0]
    tables = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[0]), family.tables(instance))
    space = family.space(LaneOps(), jnp.eye(k), ())

    @jax.jit
    def look(arms, noise, go, weights):
        pull = jnp.zeros(noise.shape[1:], jnp.int32)
        draw = partial(family.draw, LaneOps(), nature)
        rewards = jax.vmap(lambda k, z: draw(k + pull, pull, z))(arms, noise)

        def more(s, stats):
            seen = Snapshot.of(family, problem, space, stats)
            return family.update(seen, arms[s] + pull, rewards[s], go[s])

        first = family.start(space, problem, tables, rewards[:k])
        last = jax.lax.fori_loop(jnp.int32(k), jnp.int32(arms.shape[0]), more, first)
        seen = Snapshot.of(family, problem, space, jax.tree.map(lambda x: x[..., 0], last))
        values, shape, means = seen.evidence.values(), seen.shape, seen.means
        index = jnp.arange(values.shape[0], dtype=jnp.int32)
        weights = jnp.concatenate([seen.stats.counts[None], weights])
        beta = 0.9 * jnp.median(values)
        rows = seen.evidence.refuted(beta), jnp.zeros(0, bool)
        if not shape.signs:
            every = family.refuted_pairs(seen, ArmBlock(jnp.int32(0), k), beta)
            refuted = jnp.stack([row for _, row in every])
            rows = rows[0], refuted[jnp.atleast_1d(shape.first)].reshape(-1)
        within = [family.interval(seen, means, jnp.asarray(x)) for x in BETAS]
        return rewards, first, last, dict(
            weights=weights, means=means, exists=shape.exists, beta=beta, values=values,
            at=jax.vmap(lambda w: seen.evidence.weighted(w).values())(weights), rows=rows,
            slopes=jax.vmap(lambda w: jax.vmap(seen.evidence.weighted(w).gradient)(index))(weights),
            ends=jax.vmap(partial(shape.arms, seen.lanes))(index), above=shape.above,
            lower=jnp.stack([x.lower for x in within]), upper=jnp.stack([x.upper for x in within]),
        )  # fmt: skip

    return look


def walks(world: World, rng: Generator) -> str:
    """Statistics are those of the rewards, and the evidence is the least sum of losses.

    At weights w the gradient g of a piece has g . w = value(w), and g . w' >= value(w') at all
    other weights w'. So it is the gradient of a concave function of degree 1. Intervals hold
    the means, grow with beta, and invert the loss.
    """
    k, steps, cases, exact = 4, 60, 3, is_exact(world.thing)
    family = world.thing.for_arms(k)
    level, slack = float(inside(family, rng, 1)[0]), 0.1 * min(1.0, family.high - family.low)
    problems = TopM(2), Thresholding(level), BestArm(epsilon=slack) if family.slack else BestArm()
    for problem in problems:
        look = _walk(family, problem, rng, k)
        for _ in range(cases):
            arms = np.concatenate([np.arange(3 * k) % k, rng.integers(0, k, steps - 3 * k)])
            go = (rng.random((steps, 2)) < 0.8) | (np.arange(steps) < 3 * k)[:, None]
            weights = rng.dirichlet(np.ones(k), 3) + 1e-3
            weights[2] = [1e-12, 1, 1, 1e-12] if exact else weights[2]
            given = arms.astype(np.int32), noise_of(family, rng, (steps, 2)), go, weights
            rewards, first, last, seen = jax.tree.map(np.asarray, look(*map(jnp.asarray, given)))
            start, took = np.ones((k, 2)), (arms[:, None] == np.arange(k))[..., None] & go[:, None]
            _check_statistics("start", first, start, rewards[:k])
            sums = np.where(took, rewards[:, None], 0).sum(0)
            _check_statistics("update", last, took.sum(0), sums)
            _check_evidence(family, problem, **seen)
    said = f"{cases * len(problems)} walks of {steps} pulls keep counts, sums and means; values of "
    said += "degree 1, gradients are cuts; intervals hold the means, and grow with beta"
    return f"{said}; values are the least sums of losses by search" if exact else said


def _check_statistics(method: str, stats: Any, counts: np.ndarray, sums: np.ndarray) -> None:
    known = dict(t=counts.sum(0), counts=counts, reward_sums=sums, means=sums / counts)
    for name, right in known.items():
        ours = getattr(stats, name)
        have = "None" if ours is None else ours.tolist()
        good = ours is not None and np.allclose(ours, right, rtol=1e-12, atol=1e-11)
        require(good, f"after {method} {name} is {have}; it has to be {right.tolist()}")


def _check_evidence(
    family: Any, problem: Problem, *, weights: Any, means: Any, exists: Any, beta: Any, values: Any,
    at: Any, rows: Any, slopes: Any, ends: Any, above: Any, lower: Any, upper: Any,
) -> None:  # fmt: skip
    said, there = f"{problem!r}: ", np.flatnonzero(exists)
    for w, value, slope in zip(weights, at[:, there], slopes[:, there], strict=True):
        require(np.isfinite(slope), f"{said}a gradient is not finite at weights {w}")
        same = np.allclose(slope @ w, value, rtol=1e-9, atol=1e-12)
        require(same, f"{said}a gradient is not that of its values: w . gradient is another")
        cut = slope @ weights.T >= at[:, there].T * (1 - 1e-9) - 1e-12
        require(cut, f"{said}the gradient at weights {w} is no cut at other weights")
    known = values > beta, rows[0]
    for ours, right, name in zip(rows, known, ("refuted", "refuted_pairs"), strict=True):
        same = ours.size == 0 or np.array_equal(ours[exists], right[exists])
        require(same, f"{said}{name} is not where the value is above beta = {beta}")
    good = (lower[1:] < lower[:-1]) | (lower[1:] == family.low)
    good = good & ((upper[1:] > upper[:-1]) | (upper[1:] == family.high))
    require(good & (lower[1:] <= means) & (means <= upper[1:]), f"{said}intervals at beta = "
            f"{BETAS} are from {lower} to {upper}; each has to hold {means}, and the one before")
    if not is_exact(family):
        return
    same = np.allclose(values, at[0], rtol=1e-12)
    require(same, f"{said}the evidence is not the LLR at the counts")
    sizes = weights * per_pull(family, len(means))
    for w, size, value in zip(weights[:-1], sizes, at, strict=False):  # the last is extreme
        for p in there:
            i, k = (int(x[p]) for x in ends)
            least = _least(family, problem, size, means, i, k, above is None or bool(above[p]))
            right = abs(value[p] - least) <= 1e-6 * least + 1e-12 * np.max(w)
            require(right, f"{said}the evidence is not that of the losses: of arms {i} and {k}, "
                    f"pulls {w}, means {means}, it is {value[p]:.9g}, and {least:.9g} by "
                    "search")  # fmt: skip
    for sign, end, bound in ((-1, family.low, lower), (1, family.high, upper)):
        by, radius = bound - means, np.array(BETAS)[:, None] / sizes[0]
        low, high = (np.asarray(compiled_divergence(family)(means, means + by * tiny))
                     for tiny in (1 - 1e-6, 1 + 1e-6))  # fmt: skip
        out = sign * (means + by * (1 + 1e-6) - end) >= 0
        right = (low <= radius * (1 + 1e-9)) & (out | (high >= radius * (1 - 1e-9)))
        require(right, "mean {m:.6g}: the bound {b:.9g} has loss {d:.9g}, not the radius {r:.9g}",
                m=means, b=bound, d=low, r=radius)  # fmt: skip


def _least(
    family: Any, problem: Any, w: Any, means: Any, i: int, k: int, above: bool
) -> float:  # fmt: skip
    """The least sum of losses of a piece, by SciPy's search over the common mean."""
    d = compiled_divergence(family)
    if problem.name == "thresholding":
        return float(w[i] * d(means[i], problem.level)) * ((means[i] > problem.level) == above)
    slack = problem.epsilon
    if means[i] <= means[k] - slack:
        return 0.0
    b, a = max(means[k] - slack, family.low), min(means[i], family.high - slack)
    return optimize.minimize_scalar(
        lambda u: float(w[i] * d(means[i], u) + w[k] * d(means[k], u + slack)),
        bounds=(b, max(a, b)), method="bounded", options={"xatol": 1e-12},
    ).fun  # fmt: skip


def mixtures(world: World, rng: Generator) -> str:
    """Each M_j is at most the likelihood ratio, convex, and has mean 1 at most over rewards.

    A test by mixtures is proven if M_j(mu) has mean 1 at most over rewards of mean mu, and if
    the infimum over a common mean is found, for which log M_j must be convex, or least at the
    estimate. M_j is cut off at 10 before it is averaged, as its square has no mean.
    """
    k, many, seen = 5, world.draws // 4, 0.0
    family, strengths = world.thing.for_arms(k), Grid().strengths
    units = per_pull(family, k)

    @jax.jit
    @jax.vmap
    def log_m(n, m, at):
        """log M_j [J] and the log-likelihood ratio of each arm."""
        cost = n * units * divergence(family, m, at)
        return each(family, family.stat_of(n, m, None), at, strengths), cost

    for pulls in (1, 8, 32):
        truth = inside(family, rng, k)
        nature = natures(family, of(family, truth))[0]
        pull = np.resize(np.arange(pulls, dtype=np.int32), many * pulls)
        draw = jax.jit(lambda arm, z, nature=nature, pull=pull: family.draw(
            LaneOps(), nature, jnp.full_like(pull, arm), jnp.asarray(pull), z))
        means = np.stack([
            np.asarray(draw(arm, jnp.asarray(noise_of(family, rng, pull.size))))
            .reshape(many, pulls).mean(1) for arm in range(k)], 1)  # fmt: skip

        few = means[:100]
        u, v = (inside(family, rng, few.size).reshape(few.shape) for _ in range(2))
        middle = 2 / (1 / u + 1 / v) if family.convex_in == "reciprocal" else (u + v) / 2
        every = [log_m(np.full_like(few, pulls), few, x) for x in (u, middle, v)]
        (first, cost), (between, _), (last, _) = jax.tree.map(np.asarray, every)
        shape, have = (*few.shape, len(strengths)), first.shape
        require(have == shape, f"log_mixture returns an array of {have}; it has to be {shape}")
        m, u, v, cost = (x[..., None] for x in (few, u, v, cost))
        said = f"log_mixture({pulls}, {{m:.6g}}, {{u:.6g}}) = {{x:.9g}}; "
        require(np.isfinite(first), said + "it has to be finite", m=m, u=u, x=first)
        rounding = 1e-11 * (pulls + np.abs(first) + np.abs(last) + cost)
        words = "the largest log-likelihood ratio, n d(m, u), is {c:.9g}"
        require(first <= cost + rounding, said + words, m=m, u=u, x=first, c=cost)
        holds, words = between <= (first + last) / 2 + rounding, "is not convex in the "
        words += f"{family.convex_in}, between {{u:.6g}} and {{v:.6g}}"
        if family.convex_in is None:
            words = "does not fall up to that mean and rise from there: see {u:.6g} and {v:.6g}"
            down = np.where(np.abs(u - m) < np.abs(v - m), first - last, last - first)
            holds = (down <= rounding) | ((u - m) * (v - m) < 0)
        require(holds, f"log_mixture of {pulls} pulls of mean {{m:.6g}} {words}", m=m, u=u, v=v)
        logs, _ = log_m(np.full_like(means, pulls), means, np.broadcast_to(truth, means.shape))
        cut = np.exp(np.minimum(logs, np.log(10.0)))  # [runs, K, J]
        average, error = cut.mean(0), cut.std(0) / many**0.5
        words = f"exp(log_mixture) has mean {{a:.6g}} over {pulls} rewards of the tested mean "
        words += "{m:.6g}; it has to be at most 1, and the standard error is {e:.2g}"
        require(average <= 1 + ERRORS * error + 1e-11 * pulls, words, a=average,
                m=truth[:, None], e=error)  # fmt: skip
        seen = max(seen, (ERRORS + 3) * error.max())
    form = f"convex in the {family.convex_in}" if family.convex_in else "least at the estimate"
    return (f"1500 mixtures: at most the likelihood ratio, {form}; n = {many} averages over "
            f"rewards of the tested mean are 1 at most; seen is an excess of {seen:.2g}")
