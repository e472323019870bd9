"""Gaussian rewards, linear and unstructured: X = phi_k . theta + std z, z ~ N(0, 1).

A run computes in units of std. Users write `Gaussian`. `LinearGaussian` adds what a
program depends on: the ridge lambda of V = lambda I + sum_k N_k phi_k phi_k', and the
form of V^-1.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Problem
from jaxelim.contracts.items import Items
from jaxelim.contracts.proofs import GAUSSIAN
from jaxelim.contracts.shapes import Directions, Interval, Levels, Rows, Shape, SymmetricInterval
from jaxelim.contracts.slack import SlackRows
from jaxelim.contracts.views import Snapshot, Statistics, View
from jaxelim.evidence.designs import (
    ArmDesign,
    Design,
    DiagonalDesign,
    LinearContext,
    SquareDesign,
)
from jaxelim.evidence.gaussian import HalfSpaceEvidence, LinearEvidence, refutes
from jaxelim.families import draws
from jaxelim.families.gaussian_by_arm import GaussianByArm
from jaxelim.families.gaussian_mixtures import GaussianMixtures
from jaxelim.families.noise import refuse_large
from jaxelim.families.products import CrossCache
from jaxelim.families.ridge import ridge_of, warn_of_ridge
from jaxelim.lanes import PLAIN, LaneOps, index_like

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

FORMS = ("arms", "square", "diagonal")
BLOCK = 2**17
"""Largest number of entries of an array of pairs of arms, in `may_cancel`."""
MOST_ARMS_IN_KERNEL = 200
"""Above this number of arms the steps of all lanes stay in many kernels."""
LARGEST_IN_KERNEL = 4000
"""Above this size K d of the features a library's products are faster than those in one kernel."""
REFRESH = 256
"""Samples between two recomputations of a run's statistics, in float32."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearStatistics(Statistics):
    """The statistics of linear Gaussian rewards."""

    design: Design  # V^-1 in one of three forms
    theta_hat: Array | None  # [d]; kept where a problem or near-equal arms need it
    lost: Array | None  # [K] Kahan compensation of `reward_sums`; in float32
    products: CrossCache | None  # of the last snapshot, updated by the sample since; None: no cache

    @property
    def estimated_theta(self) -> Array | None:
        return self.theta_hat

    def of_one_run(self) -> "LinearStatistics":
        return dataclasses.replace(self, products=None)


@dataclasses.dataclass(frozen=True)
class InitialStatistics:
    """Statistics after one pull of each arm, per instance (NumPy, [I, ..])."""

    features: np.ndarray  # [I, K, d]
    g: np.ndarray  # [I, K]
    matrix: np.ndarray  # [I, d, K] V^-1 Phi' (arms), [I, d, d] V^-1 (square), [I, 0] (diagonal)
    estimator: np.ndarray  # [I, d, K]: theta_hat = estimator @ rewards

    @staticmethod
    def of(instance: "Arms", form: str, ridge: float) -> "InitialStatistics":
        """Compute them; `form` is one of `FORMS`."""
        arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
        v_inv = np.linalg.inv(ridge * np.eye(instance.d) + np.einsum("ikd,ike->ide", arms, arms))
        estimator = v_inv @ np.swapaxes(arms, 1, 2)
        g = np.einsum("ikd,idk->ik", arms, estimator)
        none = np.zeros((len(arms), 0))
        matrix = {"arms": estimator, "square": v_inv, "diagonal": none}[form]
        return InitialStatistics(arms, g, matrix, estimator)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Gaussian(GaussianMixtures):
    """Gaussian rewards of known standard deviation.

    `Gaussian([..])`, with a standard deviation for each arm, makes a `GaussianByArm`:
    for independent arms, without a ridge.

    Args:
        std: the standard deviation of the noise, > 0, in the units of the rewards; or
            [K], one for each arm.

    Raises:
        ArgumentError: std is no positive number, and no list of them.
    """

    std: float = 1.0
    name: ClassVar[str] = "gaussian"
    noise: ClassVar[str] = "normal"
    square: ClassVar[bool] = True
    structures: ClassVar[tuple[str, ...]] = ("linear", "unstructured")
    shapes: ClassVar[tuple[type[Shape], ...]] = (Rows, Levels, Directions, SlackRows, Items)

    def __new__(cls, std: Any = 1.0, *others: Any, **settings: Any) -> Any:
        by_arm = isinstance(std, list | tuple) or (isinstance(std, np.ndarray) and std.ndim > 0)
        return GaussianByArm(tuple(std)) if cls is Gaussian and by_arm else super().__new__(cls)

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", checks.real("std", self.std, low=0, open=True))

    def has(self, method: str) -> bool:
        return method == "design" or super().has(method)

    def law(self) -> str:
        return GAUSSIAN

    @property
    def scale(self) -> float:
        return self.std

    def ridge_of(self, ridge: float | None, instance: "Arms", threshold: Callable) -> float:
        """The ridge as given; for None that of a `LinearThreshold`, else 0."""
        return ridge_of(ridge, instance, threshold)

    def warn(self, ridge: float | None, instance: "Arms", threshold: Callable, delta: float):
        warn_of_ridge(ridge or 0.0, instance, threshold, delta)

    def forms(self, instance: "Arms", problem: Problem) -> tuple[str, ...]:
        """The forms of V^-1 that are exact."""
        allowed = ["diagonal"] if instance.structure == "unstructured" else []
        allowed += [one for one in ("arms", "square") if one == "square" or not problem.uses_theta]
        return tuple(allowed)

    def settled(
        self, *, instance: "Arms", problem: Problem, ridge: float, max_samples: int,
        form: str | None, sums: bool, theta: bool, tuned: bool,
    ) -> "LinearGaussian":  # fmt: skip
        """The family of a job's program.

        Args:
            instance, problem, ridge, max_samples: the job's.
            form: one of `FORMS`; None: the cheapest that is exact.
            sums: whether the rule reads reward sums.
            theta: whether a log reads theta_hat.
            tuned: whether the program is for a CPU.
        """
        cancellation_safe = may_cancel(instance, ridge, min(max_samples, 10_000))
        form = form or choose_form(instance, problem.uses_theta, cancellation_safe)
        return LinearGaussian(
            std=self.std,
            ridge=ridge,
            form=form,
            cancellation_safe=cancellation_safe,
            keeps_theta=cancellation_safe or problem.uses_theta or theta,
            keeps_sums=sums,
            tuned=tuned,
            # Cached where a product costs more than the test whether the cache is valid.
            keeps_products=tuned and form != "diagonal" and not cancellation_safe,
            # LLVM's higher levels compile more slowly and speed up only the small steps of the
            # diagonal form. The form alone decides: programs must not depend on the number of runs.
            optimization=None if form == "diagonal" else "1",
        )

    def check_noise(self, noise: np.ndarray, precision: str) -> None:
        refuse_large(noise, precision)

    def nature(self, instance: "Instance") -> np.ndarray:
        """The means in units of std: [I, K]."""
        arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
        theta = np.reshape(instance.theta, (-1, instance.d)) / instance.noise_std
        return np.einsum("ikd,id->ik", arms, theta)

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        return lanes.take(nature, arm) + noise

    def plain(self) -> "Gaussian":
        return Gaussian()

    def truth(
        self, features: Array | None, theta: Array, scales: Array, directions: Array,
        offsets: Array, slack: bool,
    ) -> HalfSpaceEvidence:  # fmt: skip
        """In units of the noise: theta and offsets over its standard deviation."""
        assert features is not None
        return HalfSpaceEvidence.of(features, theta, directions, offsets)

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """means -+ sqrt(2 beta/counts)."""
        return SymmetricInterval.of(means, jnp.sqrt(2 * beta / seen.counts))

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """Independent arms: N(m_k, 1/(N_k + ridge)); the prior is flat without a ridge."""
        return means + draws.normal(key, means) / jnp.sqrt(counts + self.ridge)

    def share(self, seen: View, i: Array, k: Array) -> Array:
        """Independent arms: (N_k + ridge)/(N_i + N_k + 2 ridge). (You, Qin, Wang & Yang 2023.)"""
        n_i, n_k = (seen.lanes.take(seen.counts, j) + self.ridge for j in (i, k))
        return n_k / (n_i + n_k)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LinearGaussian(Gaussian):
    """The family with all that a program depends on; made by `Gaussian.settled`."""

    ridge: float = 0.0
    form: str = "diagonal"
    cancellation_safe: bool = False  # squared distances are formed from phi_i - phi_j
    keeps_theta: bool = False
    keeps_sums: bool = False
    keeps_products: bool = False
    tuned: bool = True  # for a CPU
    refresh: int | None = REFRESH
    optimization: str | None = None

    def one_kernel(self, instance: "Arms", problem: Problem) -> bool:
        if instance.K > MOST_ARMS_IN_KERNEL or self.cancellation_safe:
            return False
        small = instance.K * instance.d <= LARGEST_IN_KERNEL
        if self.form == "diagonal":  # the rows of top m are gathered, which one kernel does slowly
            return problem.name != "top-m"
        return self.form == "square" and small

    def plan(self) -> dict[str, Any]:
        return {"design": self.form, "cancellation_safe": self.cancellation_safe}

    def tables(self, instance: "Arms") -> dict[str, np.ndarray]:
        first = InitialStatistics.of(instance, self.form, self.ridge)
        return {"g": first.g, "matrix": first.matrix, "estimator": first.estimator}

    def space(self, lanes: LaneOps, features: Array, constants: Any) -> LinearContext:
        return LinearContext(lanes, features, constants, self.cancellation_safe)

    def start(
        self, space: LinearContext, problem: Problem, tables: dict, rewards: Array
    ) -> LinearStatistics:
        k, b = rewards.shape
        if space.features.ndim == 3:
            theta_hat = jnp.einsum("dkb,kb->db", tables["estimator"], rewards, precision="highest")
            own = lambda table: table  # noqa: E731
        else:
            theta_hat = jnp.matmul(tables["estimator"], rewards, precision="highest")
            own = lambda table: jnp.broadcast_to(table[..., None], (*table.shape, b))  # noqa: E731
        means, g = space.over_arms(theta_hat), own(tables["g"])
        if self.form == "diagonal":
            design = DiagonalDesign(g)
        else:
            kind = ArmDesign if self.form == "arms" else SquareDesign
            design = kind(g, own(tables["matrix"]))
        single = means.dtype == jnp.float32
        stats = LinearStatistics(
            t=jnp.full((b,), k, jnp.int32),
            counts=jnp.ones_like(means),
            means=means,
            design=design,
            theta_hat=theta_hat if self.keeps_theta else None,
            reward_sums=rewards if self.keeps_sums or single else None,
            lost=jnp.zeros_like(rewards) if single else None,
            products=None,
        )
        rows = Snapshot.of(self, problem, space, stats).shape.rows()
        if rows is None or not self.keeps_products:
            return stats
        return dataclasses.replace(stats, products=CrossCache.nothing(rows, means))

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> LinearStatistics:
        """The statistics after one more sample.

        Where `go` does not hold the sample has weight 0, which leaves every number as
        it is. That is cheaper than a `where` over the entries of two designs.
        """
        stats: LinearStatistics = seen.stats  # type: ignore[assignment]
        evidence: LinearEvidence = seen.evidence  # type: ignore[assignment]
        space, lanes = evidence.space, seen.lanes
        design, along, toward = stats.design.add(space, arm, go.astype(stats.means.dtype))
        surprise = reward - lanes.take(stats.means, arm)
        chosen = (index_like(stats.means) == arm) & go
        theta_hat = None if stats.theta_hat is None else stats.theta_hat + toward * surprise
        sums, lost, products = stats.reward_sums, stats.lost, stats.products
        if sums is not None and lost is not None:
            exact = reward - lanes.take(lost, arm)
            before = lanes.take(sums, arm)
            after = before + exact
            lost = jnp.where(chosen, (after - before) - exact, lost)
            sums = jnp.where(chosen, after, sums)
        elif sums is not None:
            sums = sums + jnp.where(chosen, reward, 0)
        if products is not None:
            rows = seen.shape.rows()
            assert rows is not None
            products = CrossCache(rows, evidence.cross).after(space, along, arm)
        return LinearStatistics(
            t=stats.t + go.astype(jnp.int32),
            counts=stats.counts + chosen.astype(stats.means.dtype),
            means=stats.means + along * surprise,
            design=design,
            theta_hat=theta_hat,
            reward_sums=sums,
            lost=lost,
            products=products,
        )

    def refreshed(self, features: Array, stats: Statistics) -> LinearStatistics:
        """Recompute one run's statistics from its counts and reward sums; see `recomputed`."""
        lanes = LaneOps(gpu=not self.tuned)
        return recomputed(features, stats, self.ridge, lanes)  # type: ignore[arg-type]

    def evidence(self, space: LinearContext, stats: Statistics, shape: Shape) -> LinearEvidence:
        assert isinstance(stats, LinearStatistics)
        rows, cross = shape.rows(), None
        if stats.products is not None and rows is not None:
            cross = stats.products.of(space, stats.design, rows).cross
        return LinearEvidence.of(space, shape, stats.design, stats.means, stats.theta_hat, cross)

    def refuted_pairs(self, seen: Snapshot, arms: Any, beta: Array) -> list[tuple[Array, Array]]:
        evidence: LinearEvidence = seen.evidence  # type: ignore[assignment]
        pairs = [(i, evidence.loosened(x), norm) for i, x, norm in evidence.pairs(arms)]
        return [(i, refutes(margin, norm, beta)) for i, margin, norm in pairs]


def choose_form(instance: "Arms", uses_theta: bool, cancellation_safe: bool) -> str:
    """The cheapest form of the design that is exact for this instance."""
    if instance.structure == "unstructured":
        return "diagonal"
    if uses_theta or cancellation_safe or instance.K > 2 * instance.d:
        return "square"
    return "arms"


def may_cancel(instance: "Arms", ridge: float, max_samples: int) -> bool:
    """Whether some ||phi_i - phi_j||^2_{V^-1} may fall below 1e-10 (g_i + g_j).

    Then distances must be formed from phi_i - phi_j. The bound covers runs of up to
    `max_samples` samples. Identical arms do not count, as their distance is 0 in both
    forms. Identity features never cancel.
    """
    if instance.structure == "unstructured":
        return False
    arms = np.reshape(instance.arms, (-1, instance.K, instance.d))
    for features in arms:
        norms = np.sum(features**2, 1)
        eigenvalues = np.linalg.eigvalsh(features.T @ features + ridge * np.eye(instance.d))
        condition = (ridge + max_samples * norms.max()) / max(eigenvalues[0], 1e-300)
        # Pulls rarely reach the worst conditioning, so its square root is taken.
        least = 1e-10 * np.sqrt(condition) * 2 * norms.max()
        rows = max(1, BLOCK // instance.K)
        for i in range(0, instance.K, rows):
            if _nearer(features, norms, i, min(i + rows, instance.K), least):
                return True
    return False


def _nearer(features: np.ndarray, norms: np.ndarray, start: int, stop: int, least: float) -> bool:
    """Whether ||phi_i - phi_j||^2 < least for two arms that are not identical.

    Here start <= i < stop and j >= start.
    """
    sums = norms[start:stop, None] + norms[start:]
    squares = sums - 2 * (features[start:stop] @ features[start:].T)
    cancelled = squares <= 1e-6 * sums
    if np.any((squares < least) & ~cancelled):  # identical arms are all among `cancelled`
        return True
    i, j = np.nonzero(cancelled)
    pairs = max(1, BLOCK // features.shape[1])
    for at in range(0, i.size, pairs):
        y = features[start + i[at : at + pairs]] - features[start + j[at : at + pairs]]
        if np.any((np.sum(y**2, 1) < least) & np.any(y != 0, 1)):
            return True
    return False


def recomputed(
    features: Array, stats: LinearStatistics, ridge: float, lanes: LaneOps = PLAIN
) -> LinearStatistics:
    """Recompute one run's statistics from its counts and reward sums; features [K, d].

    Computes in float64, which discards the drift of float32 updates.
    """
    assert stats.reward_sums is not None and stats.lost is not None
    dtype = stats.means.dtype
    given = features, stats.counts, stats.reward_sums, stats.lost
    phi, counts, sums, lost = (x.astype(jnp.float64) for x in given)
    sums = sums - lost
    dot = functools.partial(jnp.matmul, precision="highest")
    if isinstance(stats.design, DiagonalDesign):
        g = 1 / (ridge + counts)
        means = theta_hat = g * sums
        design = DiagonalDesign(g)
    else:
        v = dot(phi.T, counts[:, None] * phi) + ridge * jnp.eye(phi.shape[1])
        v_inv = lanes.inverse(v)
        w = dot(v_inv, phi.T)
        theta_hat = dot(w, sums)
        means = dot(phi, theta_hat)
        g = jnp.sum(phi.T * w, 0)
        arms = isinstance(stats.design, ArmDesign)
        design = ArmDesign(g, w) if arms else SquareDesign(g, v_inv)
    design, means, theta_hat = jax.tree.map(lambda x: x.astype(dtype), (design, means, theta_hat))
    theta_hat = None if stats.theta_hat is None else theta_hat
    products = None if stats.products is None else stats.products.forgotten()
    return dataclasses.replace(
        stats, means=means, design=design, theta_hat=theta_hat, products=products
    )
