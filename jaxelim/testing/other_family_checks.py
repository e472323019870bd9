"""The laws of a reward family that is no `OneParameter`: for `jaxelim.testing`.

Checks are as in `family_checks`. Such a family declares `low` and `high`, the range of
its means, and has statistics and evidence of its own.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Family, Problem
from jaxelim.contracts.shapes import Rows
from jaxelim.contracts.views import Snapshot
from jaxelim.instances.instance import Instance
from jaxelim.lanes import ArmBlock, LaneOps
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.testing import family_checks
from jaxelim.testing.report import require
from jaxelim.testing.whole_runs import check_whole_runs

METHODS = ("nature", "draw", "start", "update", "evidence", "refuted_pairs", "interval")
"""What such a family has to define, beside `low` and `high`."""


def complete(family: Any) -> bool:
    """Whether it is a family with all that these checks call, and without a divergence."""
    own = all(getattr(type(family), name, None) is not getattr(Family, name) for name in METHODS)
    ranged = hasattr(family, "low") and hasattr(family, "high")
    return isinstance(family, Family) and own and ranged and not hasattr(family, "divergence")


def check_draws(family: Any, rng: np.random.Generator, draws: int) -> str:
    """Rewards have the mean of their arm, by seven standard errors."""
    means = family_checks.inside(family, rng, 3)
    nature = family_checks._natures(family, Instance.unstructured(means, family))
    noise = family_checks._noise(family, rng, draws)

    @jax.jit
    def rewards(arm, noise):
        pull = jnp.zeros(noise.shape, jnp.int32)
        return family.draw(LaneOps(), nature, arm + pull, pull, noise)

    for arm, mean in enumerate(means):
        x = np.asarray(rewards(jnp.int32(arm), jnp.asarray(noise)))
        require(x.shape == noise.shape and np.isfinite(x).all(), f"mean {mean:.6g}: rewards {x}")
        off = abs(x.mean() - mean) / (x.std() / draws**0.5)
        sentence = f"rewards of mean {mean:.6g} have mean {x.mean():.6g}, {off:.1f} errors off"
        require(off <= family_checks.ERRORS, sentence)
    seen = (family_checks.ERRORS + 3) / draws**0.5
    return f"n = {draws} rewards at each of 3 means; seen is a bias of {seen:.2g} deviations"


def _walk(family: Any, problem: Problem, rng: np.random.Generator, k: int = 4) -> Callable:
    """A compiled function of arms [T] and noise [T, 1]: the snapshot after these pulls."""
    instance = Instance.unstructured(np.sort(family_checks.inside(family, rng, k)), family)
    nature = family_checks._natures(family, instance)
    tables = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[0]), family.tables(instance))
    space = family.space(LaneOps(), jnp.eye(k), ())

    def look(arms: Array, noise: Array) -> Snapshot:
        pull = jnp.zeros((1,), jnp.int32)
        rewards = jax.vmap(lambda k, z: family.draw(LaneOps(), nature, k + pull, pull, z))(
            arms, noise
        )
        stats = family.start(space, problem, tables, rewards[:k])

        def more(s, stats):
            seen = Snapshot.of(family, problem, space, stats)
            return family.update(seen, arms[s] + pull, rewards[s], pull == 0)

        stats = jax.lax.fori_loop(jnp.int32(k), jnp.int32(arms.shape[0]), more, stats)
        return Snapshot.of(family, problem, space, jax.tree.map(lambda x: x[..., 0], stats))

    return look


def _pulls(family: Any, rng: np.random.Generator, k: int = 4) -> tuple[Array, Array]:
    """Arms of 60 samples, each arm at least three times, and their noise."""
    arms = np.concatenate([np.arange(3 * k) % k, rng.integers(0, k, 60 - 3 * k)])
    noise = family_checks._noise(family, rng, (arms.size, 1))
    return jnp.asarray(arms.astype(np.int32)), jnp.asarray(noise)


def check_evidence(family: Any, rng: np.random.Generator) -> str:
    """Values, gradients, and which pieces are refuted."""
    cases, k = 6, 4
    problems = (BestArm(), TopM(2), Thresholding(float(family_checks.inside(family, rng, 1)[0])))
    for problem in problems:
        walk = _walk(family, problem, rng)

        @jax.jit
        def look(arms, noise, w, other, walk=walk):
            seen = walk(arms, noise)
            by, at = seen.evidence.weighted(w), lambda w: seen.evidence.weighted(w).values()
            index = jnp.arange(seen.shape.exists.shape[0], dtype=jnp.int32)
            beta = jnp.median(seen.evidence.values())
            values = by.values(), at(3 * w), at(other)
            gradients = jax.vmap(by.gradient)(index)
            first, rows = jnp.zeros(0, jnp.int32), jnp.zeros(0, bool)
            if isinstance(seen.shape, Rows):
                first = jnp.atleast_1d(seen.shape.first)
                every = family.refuted_pairs(seen, ArmBlock(jnp.int32(0), k), beta)
                rows = jnp.stack([row for _, row in every])
            refuted = seen.evidence.refuted(beta)
            return seen.shape.exists, values, gradients, first, rows, refuted

        for _ in range(cases):
            w, other = rng.dirichlet(np.ones(k), 2) + 1e-3
            looked = look(*_pulls(family, rng), jnp.asarray(w), jnp.asarray(other))
            exists, values, gradients, first, rows, refuted = jax.tree.map(np.asarray, looked)
            where = f"{problem!r}, weights {w}"
            require(np.isfinite(gradients[exists]).all(), f"{where}: a gradient is not finite")
            same = np.allclose(values[1], 3 * values[0], rtol=1e-9, atol=1e-12)
            require(same, f"{where}: values are not of degree 1")
            products = (gradients @ w)[exists]
            same = np.allclose(products, values[0][exists], rtol=1e-9, atol=1e-12)
            require(same, f"{where}: a value is not w . gradient")
            cut = (gradients @ other)[exists] >= values[2][exists] * (1 - 1e-9) - 1e-12
            require(cut.all(), f"{where}: the gradient is no cut at weights {other}")
            for i, own, exist in zip(first, refuted.reshape(-1, k), exists.reshape(-1, k),
                                     strict=False):  # fmt: skip
                same = np.array_equal(rows[i][exist], own[exist])
                require(same, f"{where}: refuted_pairs differs from refuted for arm {i}")
    return f"{3 * cases} answers: values of degree 1, gradients are cuts, refuted as by `values`"


def check_interval(family: Any, rng: np.random.Generator) -> str:
    """Intervals hold the means, and grow with beta."""
    walk = _walk(family, BestArm(), rng)

    @jax.jit
    def look(arms, noise):
        seen = walk(arms, noise)
        both = (family.interval(seen, seen.means, jnp.asarray(beta)) for beta in (1.0, 4.0))
        return seen.means, *((interval.lower, interval.upper) for interval in both)

    means, (low, up), (lower, upper) = jax.tree.map(np.asarray, look(*_pulls(family, rng)))
    family_checks.law(
        (lower < low) & (low <= means) & (means <= up) & (up < upper),
        "at mean {m:.6g} the intervals at beta = 1 and 4 are [{a:.6g}, {b:.6g}] and "
        "[{c:.6g}, {d:.6g}]; each has to hold the mean, and the second the first",
        m=means, a=low, b=up, c=lower, d=upper,
    )  # fmt: skip
    return "intervals hold the means and grow with beta"


def check_runs(family: Any, rng: np.random.Generator) -> str:
    """Whole runs: the order of the three stops, errors, and a run alone as in a batch."""
    middle = float(np.median(family_checks.inside(family, np.random.default_rng(0), 9)))
    return check_whole_runs(Instance.unstructured(middle - np.arange(4), family), rng)
