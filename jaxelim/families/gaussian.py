"""Gaussian rewards, linear and unstructured: X = phi_k . theta + noise, noise ~ N(0, 1) after scaling by noise_std.

This is the one seam for reward families: `start` (statistics after the initial pulls), `update` (one more sample), and the
noise, a function of (seed, run, t) alone.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.base import Statistics
from jaxelim.design import ArmDesign, DiagonalDesign, Space, SquareDesign
from jaxelim.instance import Instance
from jaxelim.lanes import index_like

FORMS = ("arms", "square", "diagonal")
BLOCK = 2**17
"""Entries of an array in which pairs of arms are looked at together."""
REFRESH = 256
"""Samples between two times that a run's statistics are made anew from its counts and reward sums, in float32."""


def choose_form(instance: Instance, uses_theta: bool, careful: bool) -> str:
    """The cheapest form of the design that is exact for this instance (measured; see docs/performance.md)."""
    if instance.structure == "unstructured":
        return "diagonal"
    if uses_theta or careful or instance.K > 2 * instance.d:
        return "square"
    return "arms"


def may_cancel(instance: Instance, ridge: float, max_samples: int) -> bool:
    """Whether some ||phi_i - phi_j||^2_{V^-1} may fall below 1e-10 of g_i + g_j before `max_samples`: then distances must be
    formed from phi_i - phi_j. Identical arms are left out (their distance is 0 either way); so are identity features."""
    if instance.structure == "unstructured":
        return False
    arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
    for features in arms:
        norms = np.sum(features**2, 1)
        eigenvalues = np.linalg.eigvalsh(features.T @ features + ridge * np.eye(instance.d))
        condition = (ridge + max_samples * norms.max()) / max(eigenvalues[0], 1e-300)
        # The conditioning that pulls can reach is rarely the worst thinkable: a square root between the two.
        least = 1e-10 * np.sqrt(condition) * 2 * norms.max()
        rows = max(1, BLOCK // instance.K)
        if any(_nearer(features, norms, i, min(i + rows, instance.K), least) for i in range(0, instance.K, rows)):
            return True
    return False


def _nearer(features: np.ndarray, norms: np.ndarray, start: int, stop: int, least: float) -> bool:
    """Whether ||phi_i - phi_j||^2 < least for some start <= i < stop and some j >= start that is not identical."""
    sums = norms[start:stop, None] + norms[start:]
    squares = sums - 2 * (features[start:stop] @ features[start:].T)
    cancelled = squares <= 1e-6 * sums
    if np.any((squares < least) & ~cancelled):  # identical arms are among the cancelled ones
        return True
    i, j = np.nonzero(cancelled)
    pairs = max(1, BLOCK // features.shape[1])
    for at in range(0, i.size, pairs):
        y = features[start + i[at : at + pairs]] - features[start + j[at : at + pairs]]
        if np.any((np.sum(y**2, 1) < least) & np.any(y != 0, 1)):
            return True
    return False


@dataclasses.dataclass(frozen=True)
class Beginning:
    """What the initial pulls, one of every arm, lead to, per instance (NumPy, [I, ..])."""

    features: np.ndarray  # [I, K, d]
    mu: np.ndarray  # [I, K]
    g: np.ndarray  # [I, K]
    matrix: np.ndarray  # [I, d, K] (arms: V^-1 Phi'), [I, d, d] (square: V^-1), [I, 0] (diagonal)
    estimator: np.ndarray  # [I, d, K]: theta_hat = estimator @ rewards

    @staticmethod
    def of(instance: Instance, form: str, ridge: float) -> "Beginning":
        """For theta/noise_std: the run in units of the noise."""
        arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
        theta = np.reshape(instance.theta, (-1, instance.d)) / instance.noise_std
        v_inv = np.linalg.inv(ridge * np.eye(instance.d) + np.einsum("ikd,ike->ide", arms, arms))
        estimator = v_inv @ np.swapaxes(arms, 1, 2)
        g = np.einsum("ikd,idk->ik", arms, estimator)
        mu = np.einsum("ikd,id->ik", arms, theta)
        matrix = {"arms": estimator, "square": v_inv, "diagonal": np.zeros((len(arms), 0))}[form]
        return Beginning(arms, mu, g, matrix, estimator)


def start(space: Space, form: str, inputs: dict, instance: Array, rewards: Array, keep_theta: bool,
          keep_rewards: bool) -> Statistics:
    """The statistics after rewards [K, B], one from each arm; `instance` [B] says whose each lane's run is."""
    k, b = rewards.shape
    owned = space.features.ndim == 3

    def own(table: Array) -> Array:
        """[I, ..] -> [.., B], the lanes' own rows."""
        if not owned:
            return jnp.broadcast_to(table[0][..., None], table.shape[1:] + (b,))
        return jnp.moveaxis(table[instance], 0, -1)

    g = own(inputs["g"])
    if owned:
        theta_hat = jnp.einsum("dkb,kb->db", own(inputs["estimator"]), rewards, precision="highest")
    else:
        theta_hat = jnp.matmul(inputs["estimator"][0], rewards, precision="highest")
    means = space.lanes.dot(space.features, theta_hat)
    if form == "arms":
        design = ArmDesign(g, own(inputs["matrix"]))
    elif form == "square":
        design = SquareDesign(g, own(inputs["matrix"]))
    else:
        design = DiagonalDesign(g)
    single = means.dtype == jnp.float32
    return Statistics(
        jnp.full((b,), k, jnp.int32), jnp.ones_like(means), means, design,
        theta_hat if keep_theta else None, rewards if keep_rewards or single else None,
        jnp.zeros_like(rewards) if single else None,
    )


def update(space: Space, stats: Statistics, arm: Array, reward: Array, go: Array) -> Statistics:
    """The statistics after one more sample where `go` holds. Elsewhere the sample gets weight 0, which leaves every number as
    it is: far cheaper than to choose between two designs entry by entry."""
    design, along, toward = stats.design.add(space, arm, go.astype(stats.means.dtype))
    surprise = reward - space.lanes.take(stats.means, arm)
    chosen = (index_like(stats.means) == arm) & go
    theta_hat = None if stats.theta_hat is None else stats.theta_hat + toward * surprise
    sums, lost = stats.reward_sums, stats.lost
    if sums is not None and lost is not None:  # Kahan's sum: what the last addition rounded off is taken along
        exact = reward - space.lanes.take(lost, arm)
        before = space.lanes.take(sums, arm)
        after = before + exact
        lost = jnp.where(chosen, (after - before) - exact, lost)
        sums = jnp.where(chosen, after, sums)
    elif sums is not None:
        sums = sums + jnp.where(chosen, reward, 0)
    return Statistics(
        stats.t + go.astype(jnp.int32), stats.counts + chosen.astype(stats.means.dtype),
        stats.means + along * surprise, design, theta_hat, sums, lost,
        None if stats.products is None else stats.products.after(space, along, arm),
    )


def afresh(features: Array, stats: Statistics, ridge: float) -> Statistics:
    """One run's statistics from its counts and reward sums alone, worked out in float64: rid of what rounding has left in the
    design and in the means since the last time. Features [K, d], no lanes."""
    assert stats.reward_sums is not None and stats.lost is not None
    dtype = stats.means.dtype
    phi, counts, sums, lost = (x.astype(jnp.float64) for x in (features, stats.counts, stats.reward_sums, stats.lost))
    sums = sums - lost
    dot = functools.partial(jnp.matmul, precision="highest")
    if isinstance(stats.design, DiagonalDesign):
        g = 1 / (ridge + counts)
        means = theta_hat = g * sums
        design = DiagonalDesign(g)
    else:
        v = dot(phi.T, counts[:, None] * phi) + ridge * jnp.eye(phi.shape[1])
        v_inv = jnp.linalg.inv(v)
        w = dot(v_inv, phi.T)
        theta_hat = dot(w, sums)
        means = dot(phi, theta_hat)
        g = jnp.sum(phi.T * w, 0)
        design = ArmDesign(g, w) if isinstance(stats.design, ArmDesign) else SquareDesign(g, v_inv)
    design, means, theta_hat = jax.tree.map(lambda x: x.astype(dtype), (design, means, theta_hat))
    theta_hat = None if stats.theta_hat is None else theta_hat
    products = None if stats.products is None else stats.products.forgotten()
    return dataclasses.replace(stats, means=means, design=design, theta_hat=theta_hat, products=products)


def key(seed: int) -> Array:
    """The key of a seed in [0, 2^63): Threefry's, whatever generator and offset JAX is set to."""
    words = jnp.array([seed >> 32, seed & 0xFFFFFFFF], jnp.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def seeded_noise(key: Array, run: Array, start: Array, length: int, dtype) -> Array:
    """Standard normals [length, B]: of run b at t = start_b .. start_b + length - 1, a function of (key, run, t) alone."""
    def one(run, t):
        return jax.random.normal(jax.random.fold_in(jax.random.fold_in(key, run), t), dtype=jnp.float64)

    times = start + jnp.arange(length, dtype=jnp.int32)[:, None]
    return jax.vmap(jax.vmap(one), (None, 0))(run, times).astype(dtype)


def seeded_chance(key: Array, run: Array, t: Array, dtype) -> Array:
    """Uniforms on [0, 1) [B], for what a rule leaves to chance at t; apart from all noise, whose runs stay below 2^31."""
    apart = jax.random.fold_in(key, np.uint32(2**32 - 1))

    def one(run, t):
        return jax.random.uniform(jax.random.fold_in(jax.random.fold_in(apart, run), t), dtype=jnp.float64)

    return jax.vmap(one)(run, t).astype(dtype)


def given_noise(table: Array, row: Array, start: Array, length: int, dtype) -> Array:
    """The same from a table [runs, T]; past its end the last column is repeated (such a run is cut off before it reads it)."""
    times = jnp.minimum(start + jnp.arange(length, dtype=jnp.int32)[:, None], table.shape[1] - 1)
    return table[row, times].astype(dtype)
