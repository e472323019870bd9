"""Optimal allocation at the estimates, for independent arms.

w_t = argmax_w min_{p active} H_p(w) at the estimates. Best arm: Newton's method from the
last solution; for Gaussian rewards on one scalar equation. Signs: w_k ~ c_k/d(m_k, level).
Top m of other families than Gaussian: the interior-point method of `jaxelim.saddle`. Arms
without an active piece have weight 0.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Problem, Rarely
from jaxelim.contracts.pieces import Pieces, pairs_of
from jaxelim.contracts.views import Evidence, View
from jaxelim.instances.instance import Instance
from jaxelim.lanes import index_like
from jaxelim.lanes import where as where_
from jaxelim.returned import traced_shape
from jaxelim.rules.parts.tracking import Allocation, by_run
from jaxelim.saddle.best_arm import ArmWeights, best_arm_weights, gaussian_weights
from jaxelim.saddle.solver import State, climb

QUICK = 6
"""Newton steps at every choice; most solves from the last solution take no more."""
_GRID = 2.0**30


def exact(instance: Instance, problem: Problem) -> bool:
    """Host: whether this module solves a problem of Gaussian rewards: best arm or signs of arms."""
    shape = traced_shape(problem, instance.K, instance.d)
    return instance.structure == "unstructured" and (shape.signs or _best_of_arms(shape))


def _best_of_arms(pieces: Pieces) -> bool:
    """Whether the pieces compare one best arm with each other arm."""
    one = pieces.candidates is not None and not (pieces.several or pieces.signs)
    return one and not (pieces.slack or pieces.refers or pieces.items)


def start(view: View) -> Allocation:
    """The allocation before the first solve.

    Its `start` is log x [K] for best arm, u [] for Gaussian rewards; the interior point's: a pair.
    """
    dual: Any = jnp.zeros_like(view.time if _secular(view) else view.means)
    if _by_interior_point(view):
        dual = State.none(dual, jnp.zeros_like(view.active, view.means.dtype))
    return Allocation.before(view, dual)


def _secular(view: View) -> bool:
    """Whether the problem is best arm for Gaussian arms of known variances."""
    return view.family.square and _best_of_arms(view.shape)


def _by_interior_point(view: View) -> bool:
    """Whether the pieces have no closed form; with slack each answer is solved by itself."""
    closed = view.shape.signs or view.shape.slack or _best_of_arms(view.shape)
    return not (closed and view.evidence.closed_form)


def solve(view: View, last: Allocation, gap: Array, now: Array, rarely: Rarely) -> Allocation:
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
        by_lane, active = _of_pieces, view.active
        if several:  # of every answer the pieces that sampling looks at, [C, C]
            shape = pairs_of(view.shape)

            def of_answer(i: Array) -> Array:
                row = view.about(shape.others(jnp.broadcast_to(i, view.t.shape)))
                return view.reduced.active(row)[0]

            by_lane = _of_answers
            active = jax.vmap(of_answer)(jnp.arange(shape.candidates, dtype=jnp.int32))

        def of_run(space, evidence, *rest):
            return by_lane(dataclasses.replace(evidence, space=space), *rest)

        def solved() -> Allocation:
            bare: Any = dataclasses.replace(view.priced, space=None)  # type: ignore[arg-type]
            new = by_run(view.space, of_run, last, bare, active, last, gap, now)
            return dataclasses.replace(new, weights=new.weights.astype(last.weights.dtype))

        return rarely(go, solved, idle)

    def found(weights: Array, dual: Array) -> Allocation:
        return Allocation(_rounded(weights, last.weights), dual, (), None, none + 1, none + 1)

    family: Any = view.family  # `needs` of the rules refuses others
    means, costs, best = view.means, view.priced.costs, pairs_of(view.shape).first
    if view.shape.signs:
        return where_(go, found(_signs(view), last.start), idle)
    counted = view.active | (index_like(view.active) == best)
    if _secular(view):
        new = gaussian_weights(lanes, means, best, counted, costs, last.start)
        return where_(go, found(*new), idle)

    def newton(steps: int | None = None) -> ArmWeights:
        return best_arm_weights(family, means, costs, last.start, counted, lanes, steps)

    def whole() -> Allocation:
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
    evidence: Evidence, active: Array, last: Allocation, gap: Array, now: Array
) -> Allocation:
    """The allocation of one run for pieces without a closed form, from the last one."""
    found = climb(
        evidence.with_derivatives(), active, jnp.zeros_like(last.weights), gap, last.start,
        known=jnp.any(last.start.q > 0), go=now, lanes=evidence.space.lanes,
    )  # fmt: skip
    once = jnp.ones_like(last.evaluations)
    solves = jnp.minimum(found.steps, 1)
    new = Allocation(found.pair.w, found.pair, (), None, found.looks, solves)
    kept = dataclasses.replace(last, evaluations=once, solves=jnp.zeros_like(once))
    return where_(found.gap < jnp.inf, new, kept)


def _of_answers(
    evidence: Evidence, active: Array, last: Allocation, gap: Array, now: Array
) -> Allocation:
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
        found = climb(bent, active[i], zero, gap, even, go=go, lanes=evidence.space.lanes)
        better = go & (found.value > value * (1 + gap))
        weights = jnp.where(better, found.pair.w, weights)
        more = jnp.where(go, found.looks, 0)
        return weights, jnp.where(better, found.value, value), evaluations + more

    start = last.weights, jnp.zeros_like(means[0]), jnp.zeros_like(last.evaluations)
    weights, _, steps = jax.lax.fori_loop(np.int32(0), np.int32(len(means)), body, start)
    once = jnp.ones_like(last.solves)
    return Allocation(_rounded(weights, means), last.start, (), None, steps, once)
