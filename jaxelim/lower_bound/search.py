"""Sensitivities of T*, and searches for harder instances and better features.

A search takes projected gradient steps (optax) on log T*. Since T* has kinks, the step
lengths follow a schedule that falls to zero. The pieces of the instance's answer stay
fixed. The T* of a found instance is recomputed and certified; that after an added arm is
solved to a gap of 1e-10.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import checks, scope
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.evidence.derivatives import product
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound import derivatives
from jaxelim.lower_bound.autodiff import differentiable
from jaxelim.lower_bound.derivatives import Inputs
from jaxelim.lower_bound.optimum import allocation_value, complexity
from jaxelim.lower_bound.pieces import (
    combinations,
    pieces_of,
    refuse_costs,
    refuse_other_families,
    refuse_slack,
)
from jaxelim.lower_bound.solves import Truth, kind_of, scaled, solve_many

_GAP = 1e-8  # of the solves inside a search


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """First-order changes of one instance's T* with each arm and each gap.

    ::

        gap_p = y_p . theta - c_p, in the units of theta.
    """

    time: float  # T*, samples
    noise: np.ndarray  # [K] dT*/dlog(variance of arm k's noise) = w*_k T*: the cost of more noise
    gaps: np.ndarray  # [P] dT*/dgap_p = -2 q*_p T*/gap_p
    relative_gaps: np.ndarray  # [P] dlog T*/dlog gap_p = -2 q*_p: shares in the hardness, sum -2


def sensitivity(instance: Instance, problem: Any, gap: float = 1e-10) -> Sensitivity:
    """The sensitivity of T* to each arm's noise and to each gap, from one certified solve.

    Args:
        instance: one instance.
        problem: what to identify; see `complexity`.
        gap: relative duality gap.

    Raises:
        UnsupportedError: a batch of instances, or rewards that are not Gaussian of one
            variance.
        ArgumentError: as `complexity`.

    Reference: Danskin's theorem at the saddle point of Tirinzoni & Degenne
        (2022), section 2.
    """
    _refuse_others(instance)
    refuse_slack(problem)
    optimum = complexity(instance, problem, gap)
    gaps = optimum.pieces.directions[0] @ instance.theta - optimum.pieces.offsets[0]
    relative = -2 * optimum.mixture
    return Sensitivity(
        float(optimum.time),
        optimum.allocation * optimum.time,
        relative * optimum.time / gaps,
        relative,
    )


def price(instance: Instance, problem: Any, weights) -> np.ndarray:
    """H*/min_p H_p(w) >= 1: the factor by which a fixed allocation w raises the lower bound.

    Args: instance, problem, weights: as for `allocation_value`; Raises too.

    Returns:
        float64 [], a batch: [I]; inf where w gives no information on some piece.
    """
    value = allocation_value(instance, problem, weights)
    best = complexity(instance, problem, 1e-10).value
    return np.where(value > 0, best / np.where(value > 0, value, 1), np.inf)[()]


@dataclass(frozen=True, eq=False)
class Search:
    """The result of a gradient search."""

    before: float  # T* of the given instance
    after: float  # T* of the instance found, certified as by `complexity`
    instance: Instance  # the instance found
    times: np.ndarray  # [steps] T* along the search


def hardest_instance(
    instance: Instance, problem: Any, radius: float, *, steps: int = 200, rate: float = 0.2
) -> Search:
    """Maximise T* over theta in a ball around the instance's theta (a local maximum of log T*).

    For independent arms of a one-parameter family, as `Bernoulli`, theta has the means.

    Args:
        instance: one instance.
        problem: what to identify; see `complexity`.
        radius: of the ball, in Euclidean norm. The ball must not reach an instance with
            another answer, where T* is infinite, or an end of the family's range of means.
        steps: number of gradient steps.
        rate: length of the first step, as a share of the radius.

    Raises:
        UnsupportedError: a batch of instances, arms with costs, or a family for which H*
            has no derivatives.
        ArgumentError: an argument is out of range; and as `complexity`.
    """
    _refuse_others(instance, differentiable)
    pieces = pieces_of(instance, problem)
    theta = instance.theta
    family: Any = instance.family
    unit = family.scale if family.linear else 1.0
    directions, offsets = pieces.directions[0], pieces.offsets[0]
    distance = np.min((directions @ theta - offsets) / np.linalg.norm(directions, axis=1))
    if not family.linear:
        distance = min(distance, *(theta - family.low), *(family.high - theta))
    radius = checks.real("radius", radius, low=0, open=True)
    if radius >= distance:
        allowed = f"less than the distance to another answer or end of the range, {distance:.6g}"
        raise ArgumentError("radius", radius, allowed)
    centre, reach = theta / unit, radius / unit

    def back(shift):
        import optax  # slow to import

        return optax.projections.projection_l2_ball(shift, reach)

    def inputs(shift, base: Inputs):
        return replace(base, theta=base.theta + shift)

    (shift,), (times,) = _search(
        instance, pieces, inputs, back, np.zeros((1, *centre.shape)), -1, steps, rate * reach
    )
    moved = Instance(instance.arms, (centre + shift) * unit, family=family)
    return _report(instance, moved, problem, times)


def design_features(
    instance: Instance, problem: Any, radius: float, *, steps: int = 200, rate: float = 0.1
) -> Search:
    """Minimise T* over features near the instance's, with theta fixed (a local minimum of log T*).

    Args:
        instance: one instance.
        problem: one whose directions are combinations of features (best arm, top m,
            thresholding); see `complexity`.
        radius: how far each arm's features may move, in Euclidean norm.
        steps: number of gradient steps.
        rate: how far an arm moves at the first step (root mean square), as a share
            of the radius.

    Raises:
        UnsupportedError: a batch of instances, rewards that are not Gaussian of one
            variance, or a problem with other directions.
        ArgumentError: an argument is out of range; and as `complexity`.
    """
    _refuse_others(instance)
    radius = checks.real("radius", radius, low=0, open=True)
    pieces = pieces_of(instance, problem)
    rows = combinations(problem, instance.arms, instance.theta)
    if rows is None:
        raise UnsupportedError(
            "problem", problem, "a problem whose directions are combinations of features"
        )

    def back(shift):
        import optax  # slow to import

        return jax.vmap(lambda row: optax.projections.projection_l2_ball(row, radius))(shift)

    def inputs(shift, base: Inputs):
        directions = base.directions + product(rows, shift)
        return replace(base, features=base.features + shift, directions=directions)

    start = np.zeros((1, *instance.arms.shape))
    (shift,), (times,) = _search(instance, pieces, inputs, back, start, 1, steps, rate * radius)
    return _report(
        instance,
        Instance(instance.arms + shift, instance.theta, instance.noise_std),
        problem,
        times,
    )


@dataclass(frozen=True, eq=False)
class ExtraArm:
    """The result of `best_extra_arm`."""

    before: float  # T* without the arm
    after: float  # T* with it
    features: np.ndarray  # [d]
    weight: float  # the arm's share of the optimal allocation
    times: np.ndarray  # [steps] T* along the best search


def best_extra_arm(
    instance: Instance, problem: Any, norm: float | None = None, *, starts: int = 4,
    steps: int = 100, rate: float = 0.05, seed: int = 0,
) -> ExtraArm:  # fmt: skip
    """Find the extra arm that reduces T* most.

    The extra arm may be pulled, but is no candidate for the answer.

    Args:
        instance: one instance.
        problem: what to identify among the instance's arms; see `complexity`.
        norm: Euclidean norm of the extra arm's features; None: the largest of the
            instance's arms.
        starts: number of searches. They start from the directions that the optimal
            mixture weighs most, then from random ones.
        steps: gradient steps of each search.
        rate: length of the first step, as a share of the norm.
        seed: of the random starts.

    Raises:
        UnsupportedError: a batch of instances, or rewards that are not Gaussian of one
            variance.
        ArgumentError: an argument is out of range; and as `complexity`.
    """
    _refuse_others(instance)
    refuse_slack(problem)
    starts, steps = checks.integer("starts", starts, low=1), checks.integer("steps", steps, low=1)
    norm = float(np.max(np.linalg.norm(instance.arms, axis=1))) if norm is None else norm
    norm = checks.real("norm", norm, low=0, open=True)
    optimum = complexity(instance, problem, 1e-10)
    pieces = pieces_of(instance, problem)
    # Start from the main axes of the directions, weighted by the optimal mixture.
    inverse = np.linalg.pinv(
        instance.arms.T @ (optimum.allocation[:, None] * instance.arms), hermitian=True
    )
    images = pieces.directions[0] @ inverse
    shares = np.sqrt(optimum.mixture / np.sum(images * pieces.directions[0], axis=1))
    _, _, axes = np.linalg.svd(images * shares[:, None], full_matrices=False)
    random = np.random.default_rng(seed).standard_normal((starts, instance.d))
    candidates = np.concatenate([axes, random])[:starts]

    def back(row):
        return norm * row / jnp.linalg.norm(row)

    def inputs(row, base: Inputs):
        # `back` makes the gradient tangent to the sphere.
        arms = jnp.concatenate([jnp.asarray(base.features), back(row)[None]])
        return replace(base, features=arms, bonus=jnp.zeros(len(arms), arms.dtype))

    candidates = norm * candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    rows, times = _search(instance, pieces, inputs, back, candidates, 1, steps, rate * norm)
    index = np.argmin(times.min(axis=1))
    row, times = rows[index], times[index]
    arms, theta, unit = scaled(instance, pieces)
    solved = solve_many(np.concatenate([arms, row[None, None]], axis=1), theta, unit, gap=1e-10)
    return ExtraArm(
        float(optimum.time), float(1 / solved.value[0]), row, float(solved.allocation[0, -1]), times
    )


def _search(instance: Instance, pieces, inputs, back, starts, sign, steps, rate):
    """Take projected gradient steps on sign * log T* from each of `starts` [N, ...].

    A step has root mean square length `rate` a row, by a schedule. It does not follow
    the gradient's length, which does not vanish where T* has a kink. It is not set per
    coordinate as in Adam: such steps, projected by `back`, stop at the boundary away
    from any optimum.

    Returns:
        The best points found [N, ...], and T* at every step [N, steps] (host arrays).
    """
    import optax  # slow to import

    steps = checks.integer("steps", steps, low=1)
    rate = checks.real("rate", rate, low=0, open=True)
    truth, kind = Truth.of(instance, pieces), kind_of(instance, pieces, None)
    with scope.float64(), jax.numpy_dtype_promotion("standard"):
        arrays = *truth.at(0)[:5], jnp.zeros(instance.K)
        base = Inputs(instance.family.plain(), *arrays, kind)
        marks = jnp.ones(len(base.offsets))
        rows = starts.shape[1] if starts.ndim > 2 else 1
        rule = optax.chain(
            optax.normalize_by_update_norm(scale_factor=rows**0.5, eps=1e-300),
            optax.sgd(optax.cosine_decay_schedule(rate, steps)),
        )

        def loss(x):
            return -sign * jnp.log(derivatives.value(inputs(x, base), marks, _GAP))

        def step(carry, _):
            x, state, best, least = carry
            value, slope = jax.value_and_grad(loss)(x)
            better = value < least
            best, least = jnp.where(better, x, best), jnp.where(better, value, least)
            change, state = rule.update(slope, state, x)
            return (back(x + change), state, best, least), jnp.exp(sign * value)

        def run(x):
            return jax.lax.scan(
                step, (x, rule.init(x), x, jnp.asarray(jnp.inf)), None, length=steps
            )

        (_, _, best, _), times = jax.device_get(jax.jit(jax.vmap(run))(jnp.asarray(starts)))
    return best, times


def _report(before: Instance, after: Instance, problem, times) -> Search:
    first, last = (float(complexity(instance, problem, 1e-10).time) for instance in (before, after))
    return Search(first, last, after, times)


def _refuse_others(instance, defined: Callable[[Any], bool] | None = None) -> None:
    if not isinstance(instance, Instance):
        raise ArgumentError("instance", instance, "a jaxelim.Instance")
    if defined is None or not defined(instance.family):
        refuse_other_families(instance, "derivatives by features and gaps are not defined")
    refuse_costs(instance, "derivatives by features and gaps")
    if instance.batched:
        raise UnsupportedError("instance", instance, "one instance, not a batch")
