"""Gaussian rewards of known standard deviations, linear and unstructured.

X = phi_k . theta + std z, z ~ N(0, 1), or independent arms with a std each. What a program of
linear arms depends on is in `LinearGaussian`. Its statistics have V^-1, diagonal or whole, of
V = lambda I + sum_k N_k phi_k phi_k', lambda the ridge.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are imported on first use
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import HalfSpaces, Interval, Pieces
from jaxelim.contracts.proofs import GAUSSIAN
from jaxelim.contracts.views import Snapshot, Statistics, View
from jaxelim.errors import ArgumentError
from jaxelim.evidence import linear
from jaxelim.evidence.half_spaces import HalfSpaceEvidence, LinearContext
from jaxelim.evidence.linear import Design, DiagonalDesign, LinearEvidence, SquareDesign
from jaxelim.families import draws
from jaxelim.families.arm import Stat
from jaxelim.families.one_parameter import OneParameter
from jaxelim.lanes import LaneOps, index_like, named_pytree, pytree, settings
from jaxelim.mixtures import GaussianStat, Grid, Weighed, of_features, spread
from jaxelim.numerics.jacobi import inverse, product, svd

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

_RATIO = 1e6  # bound on the ratio of two standard deviations; their squares are costs


@pytree
class CrossCache:
    """A cache of phi_j' V^-1 phi_i, for the arms i that `linear.cached` names, in its order.

    The answer changes rarely. While it stays, a pull changes these products by rank one, as
    it changes g. In a lane whose answer changes they are recomputed. Arrays must have the axis
    of lanes; their rank then separates one arm [] from several [m].
    """

    arms: Array  # [] or [m] int32; -1 where the entry is invalid
    cross: Array  # [K] or [K, m]


@named_pytree
class LinearStatistics(Statistics):
    """The statistics of linear Gaussian rewards."""

    design: Design  # V^-1
    products: CrossCache | None  # of the last snapshot, updated by the sample since; None: no cache

    def of_one_run(self) -> "LinearStatistics":
        return dataclasses.replace(self, products=None)


def may_cancel(instance: "Arms", ridge: float, max_samples: int) -> bool:
    """Whether some ||phi_i - phi_j||^2_{V^-1} may fall below 1e-10 (g_i + g_j).

    Then distances must be formed from phi_i - phi_j. The bound covers runs of `max_samples`
    samples. Identical arms do not count, as their distance is 0 in both forms.
    """
    if instance.structure == "unstructured":
        return False
    for features in np.reshape(instance.arms, (-1, instance.K, instance.d)):
        largest = np.sum(features**2, 1).max()
        smallest = svd(features)[1][-1] if len(features) >= instance.d else 0.0
        condition = (ridge + max_samples * largest) / max(smallest**2 + ridge, 1e-300)
        # Pulls rarely reach the worst conditioning, so its square root is taken.
        least = 1e-10 * np.sqrt(condition) * 2 * largest
        different = np.unique(features, axis=0)
        tree = scipy.spatial.cKDTree(different)
        if tree.count_neighbors(tree, np.sqrt(least)) > len(different):
            return True
    return False


@settings
class Gaussian(OneParameter):
    """Gaussian rewards of known standard deviations.

    With one std: linear or independent arms, perhaps with a ridge. With a std for each arm:
    independent arms without a ridge, which are unit Gaussians, d(x, y) = (x - y)^2/2 and V = 1,
    of costs c_k = std[k]^2. A run computes in units of std, or of the largest.

    Args:
        std: the standard deviation of the noise, > 0, in the units of the rewards; or
            [K], one for each arm.

    Raises:
        ArgumentError: std is no positive number and no list of such, or two of a
            list differ by more than a factor of 1e6.
    """

    std: Any = 1.0  # a number; or a tuple of numbers, one for each arm
    noise: ClassVar[str] = "normal"
    square: ClassVar[bool] = True
    cancellation_safe = False  # a setting of `LinearGaussian`

    def __post_init__(self) -> None:
        if not (isinstance(self.std, list | tuple) or np.ndim(self.std) > 0):
            std: Any = checks.real("std", self.std, low=0, open=True)
        else:
            several = checks.real_array("std", list(self.std), ndim=1)
            if not len(several) or several.min() <= 0 or several.max() > _RATIO * several.min():
                allowed = "a number above 0, or one for each arm, at most 1e6 times one another"
                raise ArgumentError("std", self.std, allowed)
            std = tuple(several.tolist())
        object.__setattr__(self, "std", std)

    def __repr__(self) -> str:
        return f"Gaussian(std={list(self.std) if self.by_arm else self.std})"

    @property
    def by_arm(self) -> bool:
        """Whether each arm has its own standard deviation."""
        return isinstance(self.std, tuple)

    @property
    def exponential(self) -> bool:  # type: ignore[override]
        return self.by_arm

    @property
    def name(self) -> str:  # type: ignore[override]
        return "gaussian-by-arm" if self.by_arm else "gaussian"

    @property
    def structures(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("unstructured",) if self.by_arm else ("linear", "unstructured")

    @property
    def scale(self) -> float:
        return max(self.std) if self.by_arm else self.std

    @property
    def design(self) -> bool:  # type: ignore[override]
        return not self.by_arm

    def law(self) -> str:
        return GAUSSIAN

    def for_arms(self, arms: int) -> "Gaussian":
        if not self.by_arm:
            return self
        return dataclasses.replace(self, std=tuple(np.resize(self.std, arms).tolist()))

    def check_arms(self, arms: "Arms") -> None:
        if self.by_arm and arms.K != len(self.std):
            allowed = f"a family with one std for each of the {arms.K} arms"
            raise ArgumentError("family", self, allowed, f"it has {len(self.std)}")

    def ridge_of(self, ridge: float | None, instance: "Arms") -> float | None:
        """The ridge as given, 0 for None; 0 needs arms that span R^d."""
        if self.by_arm:
            return super().ridge_of(ridge, instance)
        for i, arms in enumerate(instance.arms.reshape(-1, instance.K, instance.d)):
            rank = instance.d if ridge else np.linalg.matrix_rank(arms)
            if rank < instance.d:
                note = f"the arms of instance {i} span {rank} of {instance.d} dimensions"
                raise ArgumentError("ridge", ridge, "a number above 0, or arms that span R^d", note)
        return ridge or 0.0

    def settled(self, **job: Any) -> "Gaussian":
        if self.by_arm:
            return Gaussian(tuple(std / self.scale for std in self.std))
        instance = job["instance"]
        safe = may_cancel(instance, job["ridge"], min(job["max_samples"], 10_000))
        diagonal = instance.structure == "unstructured"
        return LinearGaussian(
            std=self.std, ridge=job["ridge"], form="diagonal" if diagonal else "square",
            cancellation_safe=safe, keeps_sums=job["sums"],
            keeps_theta=safe or job["problem"].uses_theta or job["theta"],
            # Cached where a product costs more than the test whether the cache is valid.
            keeps_products=job["tuned"] and not (diagonal or safe),
            # LLVM's higher levels compile more slowly and speed up only the small steps of the
            # diagonal form. The form alone decides: programs must not depend on the number of runs.
            optimization=None if diagonal else "1",
        )  # fmt: skip

    def plain(self) -> "Gaussian":
        return Gaussian((1.0, 1.0)) if self.by_arm else Gaussian()

    def space(self, lanes: LaneOps, features: Array, constants: Any) -> LinearContext:
        return LinearContext(lanes, features, constants, self.cancellation_safe)

    def nature(self, instance: "Instance") -> Any:
        """With one std the means in its units, [I, K]; else means and stds, [I, K] each."""
        if self.by_arm:
            means = super().nature(instance) / (instance.family.scale / self.scale)
            return {"mean": means, "std": np.broadcast_to(np.array(self.std), means.shape)}
        arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
        theta = np.reshape(instance.theta, (-1, instance.d)) / instance.noise_std
        return np.einsum("ikd,id->ik", arms, theta)

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """mu + std z, z the noise."""
        if self.by_arm:
            return lanes.take(nature["mean"], arm) + lanes.take(nature["std"], arm) * noise
        return lanes.take(nature, arm) + noise

    def truth(self, features: Any, theta: Array, scales: Any, pieces: Pieces) -> Any:
        """With one std in its units: theta and offsets over the standard deviation."""
        if self.by_arm:
            return super().truth(features, theta, scales, pieces)
        assert features is not None and isinstance(pieces, HalfSpaces)
        return HalfSpaceEvidence.of(features, theta, pieces)

    def loss(self, stat: Stat, by: Array) -> Array:
        """by^2/2."""
        return by * by / 2

    def per_pull(self, like: Array) -> Array | None:
        """1/std^2; None with one std, the unit."""
        if not self.by_arm:
            return None
        squares = np.square(self.std).reshape(-1, *[1] * (like.ndim - 1))
        return 1 / jnp.broadcast_to(jnp.asarray(squares, like.dtype), like.shape)

    def reach(self, stat: Stat, radius: Array, up: Array | bool) -> Array:
        """sqrt(2 radius)."""
        return jnp.sqrt(2 * radius)

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """N(m_k, 1/(N_k/std_k^2 + ridge)): the prior is flat without a ridge."""
        precision = self.weight(Stat(counts, means)) + self.ridge
        return means + draws.normal(key, means) * jnp.sqrt(1 / precision)

    def weighed(self, grid: Grid, counts: Array) -> Weighed:
        """What each prior makes of the arms: [.., J]; with one std means are in its units."""
        c, stat = spread(grid.strengths, self.stat_of(counts, counts, None))
        return stat.weighed(c)

    def stat_of(self, counts: Array, means: Array, moments: Array | None) -> GaussianStat:
        one = self.per_pull(counts)
        return GaussianStat(counts, means, jnp.ones_like(counts) if one is None else 1 / one)

    def log_mixture(self, stat: GaussianStat, at: Array, c: Array) -> Array:
        """N^2 (m - at)^2/(2 (N + c) std^2) - log(1 + N/c)/2, in the units of `weighed`."""
        own = stat.weighed(c)
        return own.precision * (jnp.square(stat.mean - at) / 2) - own.price

    def log_e(self, space: LinearContext, stats: Statistics, shape: Pieces, grid: Grid) -> Array:
        """Closed forms of independent arms; linear arms: see `jaxelim.mixtures`."""
        margin = space.margin(shape, stats.means, stats.theta_hat)
        y = space.half_spaces(shape).y
        if isinstance(stats, LinearStatistics) and isinstance(stats.design, SquareDesign):
            weighed = of_features(grid, y, space.features, stats.counts)  # no ridge
        else:
            weighed = self.weighed(grid, stats.counts).half_spaces(y)
        return jnp.where(shape.exists, weighed.log_e(margin), -jnp.inf)


@settings
class LinearGaussian(Gaussian):
    """Rewards of one standard deviation, with all that a program depends on."""

    ridge: float = 0.0
    form: str = "diagonal"
    cancellation_safe: bool = False  # squared distances are formed from phi_i - phi_j
    keeps_theta: bool = False
    keeps_sums: bool = False
    keeps_products: bool = False
    optimization: str | None = None
    overlap = Family.overlap

    def plan(self) -> dict[str, Any]:
        return {"design": self.form, "cancellation_safe": self.cancellation_safe}

    def tables(self, instance: "Arms") -> dict[str, np.ndarray]:
        """After one pull of each arm: g, V^-1 of the form "square", and theta_hat/rewards."""
        arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
        design = self.ridge * np.eye(instance.d) + np.einsum("ikd,ike->ide", arms, arms)
        v_inv = inverse(design)
        estimator = product(v_inv, np.swapaxes(arms, 1, 2))
        matrix = v_inv if self.form == "square" else np.zeros((len(arms), 0))
        g = np.einsum("ikd,idk->ik", arms, estimator)
        return {"g": g, "matrix": matrix, "estimator": estimator}

    def start(
        self, space: LinearContext, problem: Problem, tables: dict, rewards: Array
    ) -> LinearStatistics:
        if space.features.ndim == 3:  # lanes have features of their own
            theta_hat = jnp.einsum("dkb,kb->db", tables["estimator"], rewards, precision="highest")
        else:
            theta_hat = jnp.matmul(tables["estimator"], rewards, precision="highest")
            b = rewards.shape[1:]
            tables = {k: jnp.broadcast_to(x[..., None], x.shape + b) for k, x in tables.items()}
        means, g, diagonal = space.over_arms(theta_hat), tables["g"], self.form == "diagonal"
        stats = LinearStatistics(
            t=jnp.full(rewards.shape[1:], len(rewards), jnp.int32), counts=jnp.ones_like(means),
            means=means, theta_hat=theta_hat if self.keeps_theta else None,
            reward_sums=rewards if self.keeps_sums else None, products=None,
            design=DiagonalDesign(g) if diagonal else SquareDesign(g, tables["matrix"]),
        )  # fmt: skip
        rows = linear.cached(Snapshot.of(self, problem, space, stats).shape)
        if rows is None or not self.keeps_products:
            return stats
        cross = jnp.zeros(means.shape[:1] + rows.shape, means.dtype)
        return dataclasses.replace(stats, products=CrossCache(jnp.full_like(rows, -1), cross))

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> LinearStatistics:
        """As of `Family`. A sample of weight 0 leaves every number as it is.

        That is cheaper than a `where` over the entries of two designs.
        """
        stats: LinearStatistics = seen.stats  # type: ignore[assignment]
        evidence: LinearEvidence = seen.evidence  # type: ignore[assignment]
        space, lanes = evidence.space, seen.lanes
        design, along, toward = stats.design.add(space, arm, go.astype(stats.means.dtype))
        surprise = reward - lanes.take(stats.means, arm)
        chosen = (index_like(stats.means) == arm) & go
        theta_hat, sums, products = stats.theta_hat, stats.reward_sums, stats.products
        if theta_hat is not None:
            theta_hat = theta_hat + toward * surprise
        if sums is not None:
            sums = sums + jnp.where(chosen, reward, 0)
        if products is not None:
            rows, cross = seen.shape.first, evidence.cross
            row, gain = (lanes.row, along[:, None]) if rows.ndim > 1 else (lanes.take, along)
            products = CrossCache(rows, cross - gain * row(cross, arm))
        return LinearStatistics(
            t=stats.t + go.astype(jnp.int32), counts=stats.counts + chosen.astype(along.dtype),
            means=stats.means + along * surprise, design=design, theta_hat=theta_hat,
            reward_sums=sums, products=products,
        )  # fmt: skip

    def with_pending(
        self, space: LinearContext, entered: Statistics, ahead: Statistics, pull: Any = None
    ) -> LinearStatistics:
        """V counts pending pulls too; theta_hat does not."""
        now: Any = Family.with_pending(self, space, entered, ahead, pull)
        assert isinstance(ahead, LinearStatistics)
        design = ahead.design
        if pull is not None:
            arm, go = pull
            design = design.add(space, arm, go.astype(now.means.dtype))[0]
        return dataclasses.replace(now, design=design)

    def evidence(self, space: LinearContext, stats: Statistics, shape: Pieces) -> LinearEvidence:
        assert isinstance(stats, LinearStatistics)
        rows, cross = linear.cached(shape), None
        if stats.products is not None and rows is not None:
            stale = stats.products.arms != rows

            def renewed(cross: Array) -> Array:
                return jnp.where(stale, stats.design.cross(space, rows), cross)

            cross = jax.lax.cond(jnp.any(stale), renewed, lambda x: x, stats.products.cross)
        return LinearEvidence.of(space, shape, stats.design, stats.means, stats.theta_hat, cross)

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """means -+ sqrt(2 beta/counts)."""
        radius = jnp.sqrt(2 * beta / seen.counts)
        return Interval(means - radius, means + radius)

    def share(self, seen: View, i: Array, k: Array) -> Array:
        """Independent arms: (N_k + ridge)/(N_i + N_k + 2 ridge). (You, Qin, Wang & Yang 2023.)"""
        n_i, n_k = (seen.lanes.take(seen.counts, j) + self.ridge for j in (i, k))
        return n_k / (n_i + n_k)

    def refuted_pairs(self, seen: Snapshot, arms: Any, beta: Array) -> list[tuple[Array, Array]]:
        evidence: LinearEvidence = seen.evidence  # type: ignore[assignment]
        pairs, slack = evidence.pairs(arms), seen.shape.slack
        return [(i, linear.refutes(x + slack if slack else x, norm, beta)) for i, x, norm in pairs]
