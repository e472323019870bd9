"""Optimal allocation at the estimates, for independent arms.

w_t = argmax_w min_{p active} H_p(w) at the estimates. Best arm: Newton's method from the
last solution; for Gaussian rewards on one scalar equation. Signs: w_k ~ c_k/d(m_k, level).
Top m of other families than Gaussian: the interior-point method of `jaxelim.saddle`. Arms
without an active piece have weight 0.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Problem, Rarely
from jaxelim.contracts.pieces import Pieces, pairs_of
from jaxelim.contracts.views import Estimate, Evidence, View
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps, index_like, pytree
from jaxelim.lanes import where as where_
from jaxelim.rules.parts.tracking import by_run
from jaxelim.saddle.best_arm import ArmWeights, best_arm_weights, gaussian_weights
from jaxelim.saddle.solver import State, climb

QUICK = 6
"""Newton steps at every choice; most solves from the last solution take no more."""
_GRID = 2.0**30


@pytree
class ArmAllocation:
    """The last solution."""

    weights: Array  # [K]
    dual: Any  # the next start. Best arm: log x [K], Gaussian: u []; the interior point's: a pair
    evaluations: Array  # [] int32, evaluations of the pieces for this choice
    solves: Array  # [] int32, whether this choice has solved


def exact(instance: Instance, problem: Problem) -> bool:
    """Host: whether this module solves a problem of Gaussian rewards: best arm or signs of arms."""
    if instance.structure != "unstructured":
        return False

    def traced(means, theta):
        seen = Estimate(LaneOps(), means, theta, problem.constants())
        return problem.shape(seen, problem.answer(seen))

    shape = jax.eval_shape(traced, np.zeros(instance.K), np.zeros(instance.d))
    return shape.signs or _best_of_arms(shape)


def _best_of_arms(pieces: Pieces) -> bool:
    """Whether the pieces compare one best arm with each other arm."""
    one = pieces.candidates is not None and not (pieces.several or pieces.signs)
    return one and not (pieces.slack or pieces.refers or pieces.items)


def start(view: View) -> ArmAllocation:
    """The allocation before the first solve: uniform weights."""
    uniform = jnp.zeros_like(view.means) + 1 / view.means.shape[0]
    dual: Any = jnp.zeros_like(view.time if _secular(view) else view.means)
    if _by_interior_point(view):
        dual = State.none(dual, jnp.zeros_like(view.active, view.means.dtype))
    none = jnp.zeros_like(view.t)
    return ArmAllocation(uniform, dual, none, none)


def _secular(view: View) -> bool:
    """Whether the problem is best arm for Gaussian arms of known variances."""
    return view.family.square and _best_of_arms(view.shape)


def _by_interior_point(view: View) -> bool:
    """Whether the pieces have no closed form; with slack each answer is solved by itself."""
    closed = view.shape.signs or view.shape.slack or _best_of_arms(view.shape)
    return not (closed and view.evidence.closed_form)


def solve(view: View, last: ArmAllocation, gap: Array, now: Array, rarely: Rarely) -> ArmAllocation:
    """Compute the allocation where `now` [] bool holds; keep the last elsewhere.

    Ties for the best arm share all weight evenly, and so do arms on a level. With a tie
    across the boundary of top m, or without active pieces, the last weights stay. With
    slack it is the allocation of the answer of largest H*. Weights of best arm and signs are
    rounded to multiples of 2^-30, so that arms which tie on paper tie in tracking too. Top m
    and slack are solved to a relative duality `gap`, float64.
    """
    lanes, none = view.lanes, jnp.zeros_like(view.t)
    go = now & lanes.any(view.active)
    idle = dataclasses.replace(last, evaluations=none, solves=none)
    several = view.shape.slack and not (view.shape.signs or view.shape.several)
    if view.shape.slack and view.shape.signs:
        view = _farther(view)
    if several or _by_interior_point(view):
        by_lane = _of_answers if several else _of_pieces
        active = _of_every_answer(view) if several else view.active
        return rarely(go, lambda: _by_lane(view, by_lane, active, last, gap, now), idle)

    def found(weights: Array, dual: Array) -> ArmAllocation:
        return ArmAllocation(_rounded(weights, last.weights), dual, none + 1, none + 1)

    family: Any = view.family  # `needs` of the rules refuses others
    means, costs, best = view.means, view.priced.costs, pairs_of(view.shape).first
    if view.shape.signs:
        return where_(go, found(_signs(view), last.dual), idle)
    counted = view.active | (index_like(view.active) == best)
    if _secular(view):
        new = gaussian_weights(lanes, means, best, counted, costs, last.dual)
        return where_(go, found(*new), idle)

    def newton(steps: int | None = None) -> ArmWeights:
        return best_arm_weights(family, means, costs, last.dual, counted, lanes, steps)

    def whole() -> ArmAllocation:
        new = newton()
        return found(new.weights, new.log_x)

    new = newton(QUICK)
    return where_(go, rarely(go & ~new.converged, whole, found(new.weights, new.log_x)), idle)


def _rounded(weights: Array, like: Array) -> Array:
    return (jnp.round(weights * _GRID) / _GRID).astype(like.dtype)


def _farther(view: View) -> View:
    """The view with each sign on the side of larger d(m_k, level -+ slack): the answer of H*."""
    evidence, shape = view.priced.weighted(jnp.ones_like(view.means)), pairs_of(view.shape)
    keep = evidence.values() >= evidence.about(shape.flipped()).values()
    shape = dataclasses.replace(shape, above=shape.above == keep)
    return dataclasses.replace(view, shape=shape, evidence=view.evidence.about(shape))


def _signs(view: View) -> Array:
    """w_k ~ c_k/d(m_k, level): [K]."""
    lanes = view.lanes
    slope = view.priced.weighted(jnp.ones_like(view.means)).values()  # d(m_k, level)/c_k
    least = lanes.min(jnp.where(view.active, slope, jnp.inf))
    ratio = jnp.where(slope > least, least / jnp.where(slope > least, slope, 1), 1)
    weights = jnp.where(view.active, ratio, 0)
    return weights / lanes.sum(weights)


def _of_pieces(
    evidence: Evidence, active: Array, last: ArmAllocation, gap: Array, now: Array, lanes: LaneOps
) -> ArmAllocation:
    """The allocation of one run for pieces without a closed form, from the last one."""
    found = climb(
        evidence.with_derivatives(), active, jnp.zeros_like(last.weights), gap, last.dual,
        known=jnp.any(last.dual.q > 0), go=now, lanes=lanes,
    )  # fmt: skip
    once = jnp.ones_like(last.evaluations)
    new = ArmAllocation(found.pair.w, found.pair, found.looks, jnp.minimum(found.steps, 1))
    kept = dataclasses.replace(last, evaluations=once, solves=jnp.zeros_like(once))
    return where_(found.gap < jnp.inf, new, kept)


def _of_every_answer(view: View) -> Array:
    """The pieces of every answer that sampling looks at: [C, C] bool."""
    shape = pairs_of(view.shape)

    def active(i: Array) -> Array:
        row = view.about(shape.others(jnp.broadcast_to(i, view.t.shape)))
        return view.reduced.active(row)[0]

    return jax.vmap(active)(jnp.arange(shape.candidates, dtype=jnp.int32))


def _of_answers(
    evidence: Evidence, active: Array, last: ArmAllocation, gap: Array, now: Array, lanes: LaneOps
) -> ArmAllocation:
    """The allocation of the right answer of largest H*; ties within the gap to the lowest index.

    Each answer is solved from uniform weights: the result is a function of the estimates.
    """
    shape = pairs_of(evidence.shape)
    means = shape.with_reference(evidence.means, shape.level)
    candidates, zero = index_like(means), jnp.zeros_like(evidence.means)
    even = jnp.full_like(zero, 1 / len(zero))

    def body(i, best):
        weights, value, evaluations = best
        pieces = evidence.about(shape.row(i, candidates != i))
        go = now & (means[i] + shape.slack > jnp.max(means))
        bent = pieces.with_derivatives()
        found = climb(bent, active[i], zero, gap, even, go=go, lanes=lanes)
        better = go & (found.value > value * (1 + gap))
        weights = jnp.where(better, found.pair.w, weights)
        more = jnp.where(go, found.looks, 0)
        return weights, jnp.where(better, found.value, value), evaluations + more

    start = last.weights, jnp.zeros_like(means[0]), jnp.zeros_like(last.evaluations)
    weights, _, steps = jax.lax.fori_loop(np.int32(0), np.int32(len(means)), body, start)
    return ArmAllocation(_rounded(weights, means), last.dual, steps, jnp.ones_like(last.solves))


def _by_lane(
    view: View, solve: Callable, active: Array, last: ArmAllocation, gap: Array, now: Array
) -> ArmAllocation:
    """solve(evidence, active, last, gap, now, lanes) of each run, in float64."""
    lanes, space = view.lanes, view.space
    shared = space.features.ndim == 2

    def of_run(evidence, features, *rest):
        features = space.features if shared else features
        alone = dataclasses.replace(space, lanes=lanes.alone, features=features, transposed=None)
        evidence = dataclasses.replace(evidence, space=alone)
        return solve(evidence, *rest, lanes.alone)

    bare: Any = dataclasses.replace(view.priced, space=None)  # type: ignore[arg-type]
    features = () if shared else space.features
    new = by_run(lanes, of_run, last, bare, features, active, last, gap, now)
    return dataclasses.replace(new, weights=new.weights.astype(last.weights.dtype))
