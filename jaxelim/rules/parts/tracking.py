"""Tracking: when and how exactly to solve for an allocation, and arms so that counts follow it.

Garivier & Kaufmann 2016.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim import checks
from jaxelim.contracts import SamplingRule
from jaxelim.contracts.views import ArmContext, View
from jaxelim.lanes import LaneOps, pytree

_LEAST_GAP = 1e-6


@pytree
class Allocation:
    """The allocation of the last solve."""

    weights: Array  # [K] the allocation to track
    start: Any  # where the next solve starts from
    answer: tuple  # with a certificate: the arrays of the shape that `start` belongs to
    gap: Any  # [] certified relative duality gap at the last look, inf in ties; or None
    evaluations: Array  # [] int32, evaluations of the pieces for this choice
    solves: Array  # [] int32, whether this choice has solved

    @staticmethod
    def before(view: View, start: Any, answer: tuple = (), gap: Any = None) -> "Allocation":
        """The allocation before the first solve: uniform weights."""
        even, none = jnp.zeros_like(view.means) + 1 / view.means.shape[0], jnp.zeros_like(view.t)
        return Allocation(even, start, answer, gap, none, none)


@pytree
class Tracked:
    """The last allocation, and the target of C-tracking."""

    found: Allocation
    target: Array  # [K] the sum of the tracked weights, plus the counts after the initial pulls


class Solving(SamplingRule):
    """A rule that solves for an allocation: its settings, and its work."""

    schedule: int
    gap_share: float

    def __post_init__(self):
        object.__setattr__(self, "schedule", checks.integer("schedule", self.schedule, low=1))
        share = checks.real("gap_share", self.gap_share, low=0, high=1, open=True)
        object.__setattr__(self, "gap_share", share)

    def work(self, view, state):
        return state.found.evaluations * view.active_count, state.found.solves


def shares_of_pulls(view: View, weights: Array) -> Array:
    """The shares of the pulls [K] of an allocation of the cost: w_k/c_k, to sum 1."""
    if view.prices is None:
        return weights
    pulls = view.per_price(weights)
    return pulls / view.lanes.sum(pulls)


def cumulative(lanes: LaneOps, counts: Array, target: Array) -> Array:
    """C-tracking: the arm with the smallest N_k - W_k, W [K] the sum of all allocations so far."""
    return lanes.argmin(counts - target)


def direct(lanes: LaneOps, counts: Array, time: Array, weights: Array) -> Array:
    """D-tracking: the arm with the smallest N_k - (t - 1) w_k, after t - 1 = `time` - 1 samples."""
    # The product is rounded before the subtraction: a fused one would break ties of equal weights.
    due = lanes.materialize(lambda time, weights: (time - 1) * weights, time, weights)
    return lanes.argmin(counts - due)


def force_exploration(lanes: LaneOps, counts: Array, time: Array, weights: Array) -> Array:
    """Uniform weights on arms with N_k <= sqrt(t - 1) - K/2, if any, else `weights`: [K]."""
    missing = (counts <= jnp.sqrt(time - 1) - counts.shape[0] / 2).astype(weights.dtype)
    count = lanes.sum(missing)
    return jnp.where(count > 0, missing / jnp.maximum(count, 1), weights)


def due(every: int, view: View) -> Array:
    """Whether this choice looks at w: the run's first one, and each `every`-th from there."""
    return (view.t - 1 - view.start) % every == 0


def gap(share: float, view: View) -> Array:
    """The relative duality gap of this choice: [], float64.

    min(c, max(1e-6, c sqrt(2/Z))), c the share, Z the least LLR at the counts over the active
    pieces of the empirical answer, 0 in ties. H*(theta_hat) itself has a relative error of
    about sqrt(2/Z). With slack it is min(c, 1e-6): solves then decide between answers.
    """
    if view.shape.slack:
        return jnp.full_like(view.time.astype(jnp.float64), min(share, _LEAST_GAP))
    values = jnp.where(view.active, view.llr, jnp.inf).astype(jnp.float64)
    least = jnp.maximum(view.lanes.min(values), 2.0)  # below 2 the gap is c
    return jnp.minimum(share, jnp.maximum(share * jnp.sqrt(2 / least), _LEAST_GAP))


def by_run(space: ArmContext, f: Callable, like: Allocation, *own: Any) -> Allocation:
    """f(space, *own) of each run; `own` have the lanes last, those of the result as `like`.

    A CPU takes the lanes one after another, a GPU all at once.
    """
    lanes, shared = space.lanes, space.features.ndim == 2
    alone = dataclasses.replace(space, lanes=lanes.alone, transposed=None)

    def of_run(features, *own):
        return f(alone if shared else dataclasses.replace(alone, features=features), *own)

    arguments = () if shared else space.features, *own
    if like.weights.ndim == 1:
        return of_run(*arguments)
    if lanes.flag is None:
        return jax.vmap(of_run, in_axes=-1, out_axes=-1)(*arguments)
    return lanes.one_by_one(lambda i: of_run(*jax.tree.map(lambda x: x[..., i], arguments)), like)
