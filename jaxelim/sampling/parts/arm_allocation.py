"""Optimal allocation at the estimates, for independent arms.

w_t = argmax_w min_{p active} H_p(w) at the estimates. Best arm: Newton's method from the
last solution; for Gaussian rewards on one scalar equation. Signs: w_k ~ c_k/d(m_k, level).
Top m, and best arm with unknown variances: the interior-point method of
`jaxelim.saddle`. Arms without an active piece have weight 0.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Problem
from jaxelim.contracts.shapes import Levels, Rows
from jaxelim.contracts.sides import Sides
from jaxelim.contracts.views import Estimate, View
from jaxelim.families.one_parameter import OneParameter
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps, index_like
from jaxelim.lanes import where as where_
from jaxelim.saddle.best_arm import best_arm_weights
from jaxelim.saddle.gaussian_best_arm import gaussian_weights
from jaxelim.saddle.solver import climb

QUICK = 6
"""Newton steps of the cheap form; most solves from the last solution take no more."""
_GRID = 2.0**30
_MOST = 60
"""Most iterations of an interior-point solve."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmAllocation:
    """The last solution."""

    weights: Array  # [K]
    # What the next solve starts from. Best arm: log x [K], Gaussian: u []. Top m: a mixture [Q],
    # with unknown variances [2 Q].
    dual: Array
    evaluations: Array  # [] int32, evaluations of the pieces for this choice
    solves: Array  # [] int32, whether this choice has solved


def exact(instance: Instance, problem: Problem) -> bool:
    """Host: whether this module solves a problem of Gaussian rewards with a design.

    It does for best arm and signs in an unstructured instance; the ridge biases the
    estimates, but no H_p contains it.
    """
    if instance.structure != "unstructured":
        return False
    one = instance.unbatched[0]

    def shape(means, theta):
        seen = Estimate(LaneOps(), means, theta, problem.constants())
        return problem.shape(seen, problem.answer(seen))

    found = jax.eval_shape(shape, one.means, one.theta)
    return type(found) is Levels or (type(found) is Rows and not found.several)


def start(view: View) -> ArmAllocation:
    """The allocation before the first solve: uniform weights."""
    uniform = jnp.zeros_like(view.means) + 1 / view.means.shape[0]
    dual = view.time if _secular(view) else jnp.zeros_like(view.active, view.means.dtype)
    if view.evidence.parts > 1 and not isinstance(view.shape, Levels):
        dual = jnp.concatenate([dual] * view.evidence.parts)
    none = jnp.zeros_like(view.t)
    return ArmAllocation(uniform, _wide(jnp.zeros_like(dual)), none, none)


def _secular(view: View) -> bool:
    """Whether the problem is best arm for Gaussian arms of known variances."""
    return view.evidence.square and type(view.shape) is Rows and not view.shape.several


def _by_interior_point(view: View) -> bool:
    """Whether the pieces have no closed form."""
    if isinstance(view.shape, Levels) or view.evidence.coupled:
        return view.evidence.coupled
    return Rows.of(view.shape).several or view.evidence.parts > 1


def solve(
    view: View, last: ArmAllocation, gap: Array, now: Array, quick: bool = False
) -> tuple[ArmAllocation, Array]:
    """Compute the allocation where `now` [] bool holds; keep the last elsewhere.

    Ties for the best arm share all weight evenly, and so do arms on a level. With a tie
    across the boundary of top m, without active pieces, or where unknown variances leave
    a tie or an arm without variance, the last weights stay. With
    slack it is the allocation of the answer of largest H*. Weights
    of best arm and signs are rounded to multiples of 2^-30, so that arms which tie on
    paper tie in tracking too.

    Args:
        view: of an unstructured family with evidence.
        last: the start of the solve.
        gap: [] relative duality gap of top m and with slack, float64.
        now: [] bool.
        quick: take at most `QUICK` steps.

    Returns:
        The allocation, and whether it is solved, [] bool; the latter holds but for `quick`.
    """
    if view.shape.slack:
        if quick:
            return _idle(view, last), ~now
        found, solved = _with_slack(view, last, gap, now), jnp.ones_like(now)
    elif _by_interior_point(view):
        if quick:
            return _idle(view, last), ~now
        found, solved = _by_steps(view, last, gap, now), jnp.ones_like(now)
    elif isinstance(view.shape, Levels):
        found, solved = _signs(view, last), jnp.ones_like(now)
    elif _secular(view):
        found, solved = _gaussian_best_arm(view, last), jnp.ones_like(now)
    else:
        found, solved = _best_arm(view, last, quick)
    go = now & view.lanes.any(view.active)
    return where_(go, found, _idle(view, last)), solved | ~go


def _idle(view: View, last: ArmAllocation) -> ArmAllocation:
    """The last allocation, without a solve."""
    none = jnp.zeros_like(view.t)
    return dataclasses.replace(last, evaluations=none, solves=none)


def over_box(view: View, last: ArmAllocation, now: Array) -> ArmAllocation:
    """The allocation of the means of largest H* in the box of bounds at level log t.

    Best arm alone. One arm is at its upper bound, the others at their lower bounds. Arms
    whose upper bound does not exceed all lower bounds have no such means.
    """
    lanes, c, among = view.lanes, view.evidence.costs, counted(view)
    interval = view.family.interval(view, view.means, jnp.log(view.time))
    lower, upper = _wide(interval.lower), _wide(interval.upper)
    highest = lanes.max(jnp.where(among, lower, -jnp.inf))
    each = index_like(view.means)

    def body(k, best):
        weights, value = best
        allowed = among[k] & (upper[k] > highest)
        at = jnp.where((each == k) & allowed, upper, lower)
        found = best_arm_weights(
            _family(view), at, None if c is None else _wide(c), counted=among, lanes=lanes
        )
        # An arm must do better by more than rounding, so that the lowest of equals stays.
        better = allowed & (found.value > value * (1 + 1e-12))
        return jnp.where(better, found.weights, weights), jnp.where(better, found.value, value)

    arms = view.means.shape[0]
    start = _wide(last.weights), jnp.zeros_like(_wide(view.time))
    weights, _ = jax.lax.fori_loop(np.int32(0), np.int32(arms), body, start)
    go = now & lanes.any(view.active)
    once = jnp.where(go, 1, jnp.zeros_like(view.t))
    weights = jnp.where(go, _rounded(weights, last.weights), last.weights)
    return ArmAllocation(weights, last.dual, once, once)


def _family(view: View) -> OneParameter:
    family: Any = view.family  # `needs` of the rules refuses others
    return family


def counted(view: View) -> Array:
    """The arms of the active pieces of best arm: [K] bool."""
    return view.active | (index_like(view.active) == Rows.of(view.shape).first)


def _wide(tree: Any) -> Any:
    """In float64: Newton's method needs its digits."""

    def wide(x: Array) -> Array:
        return x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(wide, tree)


def _rounded(weights: Array, like: Array) -> Array:
    return (jnp.round(weights * _GRID) / _GRID).astype(like.dtype)


def _best_arm(view: View, last: ArmAllocation, quick: bool) -> tuple[ArmAllocation, Array]:
    c = view.evidence.costs
    found = best_arm_weights(
        _family(view), _wide(view.means), None if c is None else _wide(c), last.dual,
        counted=counted(view), lanes=view.lanes, steps=QUICK if quick else None,
    )  # fmt: skip
    once = jnp.ones_like(view.t)
    weights = _rounded(found.weights, last.weights)
    return ArmAllocation(weights, found.log_x, once, once), found.converged


def _gaussian_best_arm(view: View, last: ArmAllocation) -> ArmAllocation:
    c = view.evidence.costs
    found = gaussian_weights(
        view.lanes, _wide(view.means), Rows.of(view.shape).first, counted(view),
        None if c is None else _wide(c), last.dual,
    )  # fmt: skip
    once = jnp.ones_like(view.t)
    return ArmAllocation(_rounded(found.weights, last.weights), found.root, once, once)


def _signs(view: View, last: ArmAllocation) -> ArmAllocation:
    lanes = view.lanes
    slope = view.evidence.weighted(jnp.ones_like(view.means)).values()  # d(m_k, level)/c_k
    least = lanes.min(jnp.where(view.active, slope, jnp.inf))
    ratio = jnp.where(slope > least, least / jnp.where(slope > least, slope, 1), 1)
    weights = jnp.where(view.active, ratio, 0)
    weights = _rounded(weights / lanes.sum(weights), last.weights)
    once = jnp.ones_like(view.t)
    return ArmAllocation(weights, last.dual, once, once)


def _by_steps(view: View, last: ArmAllocation, gap: Array, now: Array) -> ArmAllocation:
    """Pieces without a closed form, by the interior-point method."""
    lanes, space = view.lanes, view.space
    shared = space.features.ndim == 2

    def of_run(evidence, features, active, last, gap, now):
        features = space.features if shared else features
        alone = dataclasses.replace(space, lanes=lanes.alone, features=features, transposed=None)
        evidence = _wide(dataclasses.replace(evidence, space=alone)).with_derivatives()
        ahead = evidence.outside() > 0
        solvable = jnp.all(ahead | ~active) & jnp.any(active)
        live = active & ahead
        live = jnp.tile(jnp.where(jnp.any(live), live, ahead), evidence.parts)
        solution: Any = climb(
            evidence, live, jnp.zeros_like(last.weights), last.weights, last.dual, gap, _MOST,
            now & solvable, lanes.alone,
        )  # fmt: skip
        once = jnp.ones_like(last.evaluations)
        return where_(
            solvable,
            ArmAllocation(
                solution.allocation,
                solution.mixture,
                jnp.add(solution.iterations, 1),
                jnp.minimum(solution.iterations, 1),
            ),
            dataclasses.replace(last, evaluations=once, solves=jnp.zeros_like(once)),
        )

    wide = _wide(last)
    bare = dataclasses.replace(view.evidence, space=None)  # type: ignore[arg-type]
    features = () if shared else space.features
    new = _by_lane(lanes, of_run, wide, bare, features, view.active, wide, gap, now)
    return dataclasses.replace(new, weights=new.weights.astype(last.weights.dtype))


def _with_slack(view: View, last: ArmAllocation, gap: Array, now: Array) -> ArmAllocation:
    """The allocation of the right answer of largest H*; ties within the gap to the lowest index.

    Each answer is solved from uniform weights, so that the result is a function of the
    estimates.
    """
    lanes, slack, arms = view.lanes, view.shape.slack, view.means.shape[0]
    family = _family(view)

    def one(means, c, last, gap, now):
        even, each = jnp.full_like(means, 1 / arms), np.arange(arms, dtype=np.int32)

        def body(i, best):
            weights, value, evaluations = best
            live, zero = each != i, jnp.zeros_like(means)
            pairs = Sides.pairs(i, arms, jnp.full_like(means[0], -slack), True)
            evidence = family.sides(pairs, means, c)
            go = now & (means[i] + slack > jnp.max(means))
            live = jnp.where(go, live, live & (evidence.outside() > 0))
            found: Any = climb(evidence, live, zero, even, zero, gap, _MOST, go, lanes.alone)
            better = go & (found.value > value * (1 + gap))
            more = jnp.where(go, jnp.add(found.iterations, 1), 0)
            weights = jnp.where(better, found.allocation, weights)
            return weights, jnp.where(better, found.value, value), evaluations + more

        start = last.weights, jnp.zeros_like(means[0]), jnp.zeros_like(last.evaluations)
        found = jax.lax.fori_loop(np.int32(0), np.int32(arms), body, start)
        once = jnp.ones_like(last.solves)
        return ArmAllocation(_rounded(found[0], means), last.dual, found[2], once)

    wide = dataclasses.replace(last, weights=_wide(last.weights))
    given = _wide(view.means), _wide(view.evidence.scales), wide, gap, now
    found = _by_lane(lanes, one, wide, *given)
    return dataclasses.replace(found, weights=found.weights.astype(last.weights.dtype))


def _by_lane(lanes: LaneOps, one: Callable, like: ArmAllocation, *given: Any) -> ArmAllocation:
    """one(*given) in each lane."""
    if like.weights.ndim == 1:
        return one(*given)
    if lanes.flag is None:
        return jax.vmap(one, in_axes=-1, out_axes=-1)(*given)
    return lanes.one_by_one(lambda i: one(*jax.tree.map(lambda x: x[..., i], given)), like)
