"""The laws of a family's statistics, evidence and mixtures."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from jaxelim.contracts.views import Snapshot
from jaxelim.lanes import ArmBlock, LaneOps
from jaxelim.mixtures import Grid
from jaxelim.mixtures.pieces import each
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.testing import families
from jaxelim.testing.families import divergence, drawn, inside, instance_of, per_pull
from jaxelim.testing.problems import half_spaces
from jaxelim.testing.report import ERRORS, Generator, World, require

BETAS = (1e-3, 1.0, 4.0, 40.0)
"""Levels of the intervals."""


def _walk(family: Any, problem: Any, tables: Any, arms: Any, x: Any, go: Any, weights: Any) -> Any:
    """Statistics at first and at last, pieces, and what a snapshot says of the first lane.

    Args:
        family, problem, tables: of the runs.
        arms: [T] pulled in turn, each of the K arms once at the start.
        x, go: [T, B] the rewards, and which of them enter.
        weights: [W, K] for the evidence; before them it is that at the counts.
    """
    k, lanes = weights.shape[1], x.shape[1:]
    space = family.space(LaneOps(), jnp.eye(k), ())
    look = partial(Snapshot.of, family, problem, space)
    first = family.start(space, problem, tables, x[:k])
    last = jax.lax.fori_loop(k, len(arms), lambda s, stats: family.update(
        look(stats), jnp.broadcast_to(arms[s], lanes), x[s], go[s]), first)  # fmt: skip
    seen = look(jax.tree.map(lambda x: x[..., 0], last))
    values, shape = seen.evidence.values(), seen.shape
    index, beta = jnp.arange(values.shape[0], dtype=jnp.int32), 0.9 * jnp.median(values)
    weights = jnp.concatenate([seen.stats.counts[None], weights])
    rows = [seen.evidence.refuted(beta)]
    if not shape.signs:
        every = family.refuted_pairs(seen, ArmBlock(jnp.int32(0), k), beta)
        rows.append(jnp.stack([row for _, row in every])[jnp.atleast_1d(shape.first)].reshape(-1))
    within = [family.interval(seen, seen.means, jnp.asarray(x)) for x in BETAS]
    return dict(
        first=first, last=last, shape=shape, means=seen.means, beta=beta, values=values, rows=rows,
        weights=weights, at=jax.vmap(lambda w: seen.evidence.weighted(w).values())(weights),
        slopes=jax.vmap(lambda w: jax.vmap(seen.evidence.weighted(w).gradient)(index))(weights),
        lower=jnp.stack([x.lower for x in within]), upper=jnp.stack([x.upper for x in within]),
    )  # fmt: skip


def walks(world: World, rng: Generator) -> str:
    """Statistics are those of the rewards, and the evidence is the least sum of losses.

    At weights w the gradient g of a piece has g . w = value(w), and g . w' >= value(w') at all
    other weights w'. So it is the gradient of a concave function of degree 1. Intervals hold
    the means, grow with beta, and invert the loss.
    """
    k, steps, cases, exact = 4, 60, 3, families.is_exact(world.thing)
    family = world.thing.for_arms(k)
    level = float(inside(family, rng, 1)[0])
    slack = 0.1 * min(1.0, family.high - family.low)
    problems = TopM(2), Thresholding(level), BestArm(epsilon=slack) if family.slack else BestArm()
    for problem in problems:
        instance = instance_of(family, np.sort(families.with_ends(family, rng, k)))
        tables = jax.tree.map(lambda x: x[0], family.tables(instance))
        walk = jax.jit(partial(_walk, family, problem))
        for _ in range(cases):
            arms = np.append(np.arange(3 * k) % k, rng.integers(0, k, steps - 3 * k))
            go = (rng.random((steps, 2)) < 0.8) | (np.arange(steps) < 3 * k)[:, None]
            weights = rng.dirichlet(np.ones(k), 3) + 1e-3
            weights[2] = [1e-12, 1, 1, 1e-12] if exact else weights[2]
            x = drawn(instance, rng, 2 * steps).reshape(k, steps, 2)[arms, np.arange(steps)]
            seen = SimpleNamespace(**jax.device_get(
                walk(tables, arms.astype(np.int32), x, go, weights)))  # fmt: skip
            took = (arms[:, None] == np.arange(k))[..., None] & go[:, None]
            sums = np.where(took, x[:, None], 0).sum(0)
            for method, stats, n, total in (("start", seen.first, np.ones((k, 2)), x[:k]),
                                            ("update", seen.last, took.sum(0), sums)):  # fmt: skip
                right = dict(t=n.sum(0), counts=n, reward_sums=total, means=total / n)
                for name, own in right.items():
                    same = np.allclose(getattr(stats, name), own, rtol=1e-12, atol=1e-11)
                    require(same, f"after {method} {name} is {getattr(stats, name)}, not {own}")
            _values_hold(family, repr(problem), seen)
            if exact:
                _losses_hold(family, repr(problem), seen)
    said = f"{cases * len(problems)} walks of {steps} pulls keep counts, sums and means; values of "
    said += "degree 1, gradients are cuts; intervals hold the means, and grow with beta"
    return f"{said}; values are the least sums of losses by search" if exact else said


def _values_hold(family: Any, said: str, seen: Any) -> None:
    """Values, gradients, refuted pieces and intervals agree with each other."""
    there, at = seen.shape.exists, seen.at[:, seen.shape.exists]
    for w, value, slope in zip(seen.weights, at, seen.slopes[:, there], strict=True):
        require(np.isfinite(slope), f"{said}: a gradient is not finite at weights {w}")
        same = np.allclose(slope @ w, value, rtol=1e-9, atol=1e-12)
        require(same, f"{said}: a gradient is not that of its values: w . gradient is another")
        cut = slope @ seen.weights.T >= at.T * (1 - 1e-9) - 1e-12
        require(cut, f"{said}: the gradient at weights {w} is no cut at other weights")
    for ours, name in zip(seen.rows, ("refuted", "refuted_pairs"), strict=False):
        same = np.array_equal(ours[there], (seen.values > seen.beta)[there])
        require(same, f"{said}: {name} is not where the value is above beta = {seen.beta}")
    low, high = seen.lower, seen.upper
    good = (low[1:] < low[:-1]) | (low[1:] == family.low)
    good = good & ((high[1:] > high[:-1]) | (high[1:] == family.high))
    require(good & (low[1:] <= seen.means) & (seen.means <= high[1:]), f"{said}: intervals at beta "
            f"= {BETAS} are from {low} to {high}; each has to hold {seen.means}, and the one "
            "before")  # fmt: skip


def _losses_hold(family: Any, said: str, seen: Any) -> None:
    """Values are the least sums of losses, and intervals invert the loss."""
    means, values, there = seen.means, seen.values, seen.shape.exists
    d = jax.jit(partial(divergence, family))
    same = np.allclose(values, seen.at[0], rtol=1e-12)
    require(same, f"{said}: the evidence is not the LLR at the counts")
    sizes = seen.weights * per_pull(family, len(means))
    pieces = [*zip(*half_spaces(np.eye(len(means)), seen.shape), strict=True)]
    for w, size, value in zip(seen.weights[:-1], sizes, seen.at, strict=False):  # the last: extreme
        for (y, c), own in zip(pieces, value[there], strict=True):
            least = _least(family, d, size, means, y, c)
            right = abs(own - least) <= 1e-6 * least + 1e-12 * np.max(w)
            require(right, f"{said}: the evidence is not that of the losses: of {y} . mu <= {c}, "
                    f"pulls {w}, means {means}, it is {own:.9g}, and {least:.9g} by search")
    for sign, end, bound in ((-1, family.low, seen.lower), (1, family.high, seen.upper)):
        by, radius = bound - means, np.array(BETAS)[:, None] / sizes[0]
        low, high = (np.asarray(d(means, means + by * x)) for x in (1 - 1e-6, 1 + 1e-6))
        out = sign * (means + by * (1 + 1e-6) - end) >= 0
        right = (low <= radius * (1 + 1e-9)) & (out | (high >= radius * (1 - 1e-9)))
        require(right, "mean {m:.6g}: the bound {b:.9g} has loss {d:.9g}, not the radius {r:.9g}",
                m=means, b=bound, d=low, r=radius)  # fmt: skip


def _least(family: Any, d: Any, w: Any, means: Any, y: Any, c: float) -> float:
    """The least sum of losses over y . mu <= c, by SciPy's search; y of one arm or of two."""
    i, k = int(y.argmax()), int(y.argmin())
    if y @ means <= c:
        return 0.0
    if np.abs(y).sum() == 1:
        i = int(np.abs(y).argmax())
        return float(w[i] * d(means[i], y[i] * c))
    low, high = max(means[k] + c, family.low), min(means[i], family.high + c)
    found: Any = optimize.minimize_scalar(
        lambda u: float(w[i] * d(means[i], u) + w[k] * d(means[k], u - c)),
        bounds=(low, max(low, high)), method="bounded", options={"xatol": 1e-12})  # fmt: skip
    return found.fun


def mixtures(world: World, rng: Generator) -> str:
    """Each M_j is at most the likelihood ratio, convex, and has mean 1 at most over rewards.

    A test by mixtures is proven if M_j(mu) has mean 1 at most over rewards of mean mu, and if
    the infimum over a common mean is found, for which log M_j must be convex, or least at the
    estimate. M_j is cut off at 10 before it is averaged, as its square has no mean.
    """
    k, many, seen = 5, world.draws // 4, 0.0
    family, strengths = world.thing.for_arms(k), Grid().strengths
    units, curve = per_pull(family, k), family.convex_in

    @partial(jax.jit, static_argnums=0)
    @partial(jax.vmap, in_axes=(None, 0, 0))
    def log_m(pulls: int, m: Any, at: Any) -> Any:
        """log M_j [K, J] and the log-likelihood ratio [K, 1] after some pulls of each arm."""
        n = jnp.full_like(m, pulls)
        logs = each(family, family.stat_of(n, m, None), at, strengths)
        return logs, (n * units * divergence(family, m, at))[:, None]

    for pulls in (1, 8, 32):
        truth = inside(family, rng, k)
        x = drawn(instance_of(family, truth), rng, many * pulls)
        means = x.reshape(k, many, pulls).mean(-1).T
        few = means[:100]
        u, v = (inside(family, rng, few.size).reshape(few.shape) for _ in range(2))
        middle = 2 / (1 / u + 1 / v) if curve == "reciprocal" else (u + v) / 2
        (first, cost), (between, _), (last, _) = (
            map(np.asarray, log_m(pulls, few, x)) for x in (u, middle, v))  # fmt: skip
        shape, have = (*few.shape, len(strengths)), first.shape
        require(have == shape, f"log_mixture returns an array of {have}; it has to be {shape}")
        m, u, v = (x[..., None] for x in (few, u, v))
        said = f"log_mixture({pulls}, {{m:.6g}}, {{u:.6g}}) = {{x:.9g}}; "
        require(np.isfinite(first), said + "it has to be finite", m=m, u=u, x=first)
        rounding = 1e-11 * (pulls + np.abs(first) + np.abs(last) + cost)
        words = "the largest log-likelihood ratio, n d(m, u), is {c:.9g}"
        require(first <= cost + rounding, said + words, m=m, u=u, x=first, c=cost)
        holds, words = between <= (first + last) / 2 + rounding, f"is not convex in the {curve}"
        if curve is None:
            words = "does not fall up to that mean and rise from there"
            down = np.where(np.abs(u - m) < np.abs(v - m), first - last, last - first)
            holds = (down <= rounding) | ((u - m) * (v - m) < 0)
        words = f"log_mixture of {pulls} pulls of mean {{m:.6g}} {words}, see "
        require(holds, words + "{u:.6g} and {v:.6g}", m=m, u=u, v=v)
        logs, _ = log_m(pulls, means, np.broadcast_to(truth, means.shape))
        cut = np.exp(np.minimum(logs, np.log(10.0)))
        average, error = cut.mean(0), cut.std(0) / many**0.5
        words = f"exp(log_mixture) has mean {{a:.6g}} over {pulls} rewards of the tested mean "
        words += "{m:.6g}; it has to be at most 1, and the standard error is {e:.2g}"
        require(average <= 1 + ERRORS * error + 1e-11 * pulls, words, a=average,
                m=truth[:, None], e=error)  # fmt: skip
        seen = max(seen, (ERRORS + 3) * error.max())
    form = f"convex in the {curve}" if curve else "least at the estimate"
    return (f"1500 mixtures: at most the likelihood ratio, {form}; n = {many} averages over "
            f"rewards of the tested mean are 1 at most; seen is an excess of {seen:.2g}")
