"""The laws of a family's evidence and intervals, on samples of its own: for `jaxelim.testing`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Problem
from jaxelim.contracts.views import Snapshot
from jaxelim.families import OneParameter
from jaxelim.lanes import ArmBlock, LaneOps
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.testing import family_checks
from jaxelim.testing.report import require


def _walk(family: Any, problem: Problem, rng: np.random.Generator, k: int = 4) -> Callable:
    """A compiled function of arms [T] and noise [T, 1]: the snapshot after these pulls."""
    instance = family_checks.of(family, np.sort(family_checks.inside(family, rng, k)))
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


def _costs(family: Any, seen: Snapshot, counts: Array) -> Array:
    """The evidence of all pieces by their losses, [Q]; zeros without them."""
    if not _exact(family):
        return jnp.zeros(seen.shape.exists.shape)
    means, shape = seen.means, seen.shape
    n = family.weight(family.kind(counts, means))
    if shape.signs:
        cost = n * family_checks.divergence(family, means, jnp.full_like(means, shape.level))
        return jnp.where((means > shape.level) == shape.above, cost, 0)
    index = jnp.arange(shape.exists.shape[0], dtype=jnp.int32)
    i, k = jax.vmap(lambda piece: shape.pair(seen.lanes, piece))(index)
    return family_checks.pair(family, n[i], means[i], n[k], means[k])


def _exact(family: Any) -> bool:
    return isinstance(family, OneParameter) and family.exponential


def check_evidence(family: Any, rng: np.random.Generator) -> str:
    """Values, gradients, and which pieces are refuted; with a loss also what they cost."""
    cases, k = 6, 4
    family, exact = family.for_arms(k), _exact(family)
    problems = (BestArm(), TopM(2), Thresholding(float(family_checks.inside(family, rng, 1)[0])))
    for problem in problems:
        walk = _walk(family, problem, rng)

        @jax.jit
        def look(arms, noise, w, other, walk=walk):
            seen = walk(arms, noise)
            by, at = seen.evidence.weighted(w), lambda w: seen.evidence.weighted(w).values()
            index = jnp.arange(seen.shape.exists.shape[0], dtype=jnp.int32)
            values = seen.evidence.values()
            beta = jnp.median(values)
            of_weights = by.values(), at(3 * w), at(other)
            counts = seen.stats.counts
            known = (at(counts), *(_costs(family, seen, x) for x in (counts, w)))
            gradients = jax.vmap(by.gradient)(index)
            first, rows = jnp.zeros(0, jnp.int32), jnp.zeros(0, bool)
            if not seen.shape.signs:
                first = jnp.atleast_1d(seen.shape.first)
                every = family.refuted_pairs(seen, ArmBlock(jnp.int32(0), k), beta)
                rows = jnp.stack([row for _, row in every])
            refuted = seen.evidence.refuted(beta)
            return seen.shape.exists, values, of_weights, known, gradients, first, rows, refuted

        for _ in range(cases):
            w, other = rng.dirichlet(np.ones(k), 2) + 1e-3
            looked = look(*_pulls(family, rng), jnp.asarray(w), jnp.asarray(other))
            exists, values, (value, triple, elsewhere), known, gradients, *pairs = jax.tree.map(
                np.asarray, looked
            )
            where = f"{problem!r}, weights {w}"
            if exact:
                same = np.allclose(values, known[0], rtol=1e-12)
                require(same, f"{where}: the evidence is not the LLR at the counts")
                for ours, cost in ((values, known[1]), (value, known[2])):
                    same = np.allclose(ours[exists], cost[exists], rtol=1e-9, atol=1e-12)
                    require(same, f"{where}: the evidence is not that of the losses")
            require(np.isfinite(gradients[exists]).all(), f"{where}: a gradient is not finite")
            same = np.allclose(triple, 3 * value, rtol=1e-9, atol=1e-12)
            require(same, f"{where}: values are not of degree 1")
            same = np.allclose((gradients @ w)[exists], value[exists], rtol=1e-9, atol=1e-12)
            sentence = f"{where}: a gradient is not that of its values: w . gradient is another"
            require(same, sentence)
            cut = (gradients @ other)[exists] >= elsewhere[exists] * (1 - 1e-9) - 1e-12
            require(cut.all(), f"{where}: the gradient is no cut at weights {other}")
            first, rows, refuted = pairs
            for i, own, exist in zip(first, refuted.reshape(-1, k), exists.reshape(-1, k),
                                     strict=False):  # fmt: skip
                same = np.array_equal(rows[i][exist], own[exist])
                require(same, f"{where}: refuted_pairs differs from refuted for arm {i}")
    said = "values of degree 1, gradients are cuts, refuted as by `values`"
    return f"{3 * cases} answers: {said}" + ("; those of the losses" if exact else "")


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
        ((lower < low) | (low == family.low)) & (low <= means)
        & (means <= up) & ((up < upper) | (up == family.high)),
        "at mean {m:.6g} the intervals at beta = 1 and 4 are [{a:.6g}, {b:.6g}] and "
        "[{c:.6g}, {d:.6g}]; each has to hold the mean, and the second the first",
        m=means, a=low, b=up, c=lower, d=upper,
    )  # fmt: skip
    return "intervals hold the means and grow with beta"
