"""The allocation at theta_hat of Gaussian rewards, linear or top m, from sample to sample.

w_t = argmax_w min_{p active} H_p(w, theta_hat) + c . w, to a relative duality gap. The pair of
the last solve is certified first, and solved from again where its gap is above the tolerance.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Rarely
from jaxelim.contracts.pieces import Pairs, Pieces
from jaxelim.contracts.views import View
from jaxelim.evidence.half_spaces import HalfSpaceEvidence, LinearContext
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps, index_like, pytree
from jaxelim.lanes import where as where_
from jaxelim.numerics.jacobi import orthonormal
from jaxelim.rules.parts.tracking import Allocation, by_run
from jaxelim.saddle.solver import Saddle, State, climb

_FINE = 1e-5
"""From here on a solve goes to a quarter of the tolerance, so that the pair holds for a while."""


class Frame(NamedTuple):
    """Coordinates S^-1 phi_k of an instance in which Phi' Phi is the identity."""

    unit: Any  # [K, d] the features in these coordinates; 0 where no arm reaches
    map: Any  # [d, d]: unit = features @ map
    idle: Any  # [d] 1 on coordinates that no arm reaches, else 0


@pytree
class Pair:
    """A primal-dual pair, and what certifies it at new gaps; of one run, or with lanes.

    H_p(w) = g_p^2/(2 n_p), n_p = ||y_p||^2 in the inverse of V_w. At fixed w the norms n_p
    stay. With q'_p = 2 pull_p (n_p/g'_p)^2 in place of q_p, every product q_p dH_p/dw_k =
    pull_p (phi_k' V_w^-1 y_p)^2 stays too. So at new gaps g'

        H* <= max_k slope_k / sum_p q'_p + c_k,   slope_k = sum_p pull_p (phi_k' V_w^-1 y_p)^2,

    which costs O(pieces + arms) and touches no matrix.
    """

    state: State
    norm: Array  # [P] n_p at its weights
    pull: Array  # [P] q_p (g_p/n_p)^2/2, q on the simplex; all 0: there is no pair
    slope: Array  # [K] sum_p pull_p (phi_k' V_w^-1 y_p)^2

    @staticmethod
    def none(arms: Array, pieces: Array) -> "Pair":
        """Uniform weights; arms [K] and pieces [P] give the shapes, in float64."""
        zero = jnp.zeros_like(pieces)
        return Pair(State.none(arms, pieces), zero + 1, zero, jnp.ones_like(arms))

    @staticmethod
    def of(solved: Saddle, gaps: Array, live: Array) -> "Pair":
        """The pair of a solve at gaps [P], positive where `live` [P]."""
        state = solved.pair
        norm = jnp.where(live, gaps * gaps / (2 * solved.levels), 1)
        pull = state.q / jnp.sum(state.q) * jnp.where(live, gaps / norm, 0) ** 2 / 2
        return Pair(state, norm, pull, solved.slope)

    def at(self, gaps: Array) -> State:
        """The pair at new gaps [P]."""
        return dataclasses.replace(self.state, q=2 * self.pull * (self.norm / gaps) ** 2)

    def certificate(
        self, lanes: LaneOps, gaps: Array, live: Array, bonus: Array | None = None
    ) -> Array:
        """The relative gap at new gaps of the same pieces: []; inf without a pair.

        Pieces that have been eliminated since drop out of the sum.
        """
        ratio = self.norm / jnp.where(live, gaps * gaps, 1)
        top = lanes.max(jnp.where(live, ratio, 0))
        mass = lanes.sum(jnp.where(live, self.pull * self.norm * ratio, 0))
        known = mass > 0
        mass = jnp.where(known, mass, 1)
        if bonus is None:
            reached = lanes.max(self.slope) * top / mass - 1
        else:
            low = 1 / (2 * jnp.where(top > 0, top, 1)) + lanes.sum(bonus * self.state.w)
            reached = lanes.max(self.slope / (2 * mass) + bonus) / low - 1
        return jnp.where(known, reached, jnp.inf)


class _Aligned(NamedTuple):
    """The pieces of a view in the order of the last solve."""

    shape: Pieces
    gaps: Array  # [Q] float64; 1 where not live
    live: Array  # [Q] bool
    same: Array  # [] bool: the answer is that of the last solve
    solvable: Array  # [] bool: there is a live piece, and none has margin 0


def start(view: View) -> Allocation:
    """The allocation before the first solve, without a certificate; its `start` is a `Pair`."""
    means, pieces = view.means.astype(jnp.float64), view.linear.margin.astype(jnp.float64)
    gap = jnp.full_like(view.time, jnp.inf, jnp.float64)
    return Allocation.before(view, Pair.none(means, pieces), _arrays(view.shape), gap)


def frames(instance: Instance) -> Frame:
    """Host: the frame of an instance; a batch has a leading axis."""
    every = map(orthonormal, instance.arms.reshape(-1, instance.K, instance.d))
    every = [Frame(unit, to, np.all(to == 0, 0).astype(np.float64)) for unit, to in every]
    return jax.tree.map(lambda *x: np.stack(x), *every) if instance.batched else every[0]


def solve(
    view: View, last: Allocation, tolerance: Array, now: Array, rarely: Rarely,
    bonus: Array | None = None,
) -> Allocation:  # fmt: skip
    """Certify the last pair at the view's estimates where `now` holds; solve where it fails.

    Where an active piece has no positive margin (a tie in theta_hat), H is 0 for every w. Then
    the last weights stay; with a bonus all but a share `tolerance` goes to the arm of largest c.
    `view.prepared` is the result of `frames`; `bonus` is c [K], or None for 0.
    """
    at, lanes = _aligned(view, last.answer), view.lanes
    reached = last.start.certificate(lanes, at.gaps, at.live, bonus)
    reached = jnp.where(at.same & at.solvable, reached, jnp.inf)
    weights = last.start.state.w.astype(view.means.dtype)
    if bonus is not None:
        arms = view.means.shape[0]
        share = tolerance.astype(view.means.dtype)
        chosen = index_like(view.means) == lanes.argmax(bonus)
        tied = jnp.where(chosen, 1 - share, 0) + share / arms
        weights = jnp.where(at.solvable, weights, tied)
        weights = jnp.where(now, weights, last.weights)
    gap, none = jnp.where(now, reached, last.gap), jnp.zeros_like(view.t)
    looks = now.astype(jnp.int32) * jnp.ones_like(view.t)
    kept = dataclasses.replace(last, weights=weights, gap=gap, evaluations=looks, solves=none)
    holds = ~now | ~at.solvable | (reached <= tolerance)
    goal = jnp.where(tolerance < _FINE, tolerance, tolerance / 4)
    frame, own = jax.tree.map(jnp.asarray, view.prepared), ()
    if view.features.ndim == 3:
        own = (frame,)
    elif view.means.ndim > 1:
        frame = jax.tree.map(lambda x: x[..., 0], frame)

    def of_run(space, at, bonus, kept, holds, goal, frame=frame):
        solved = partial(_solved, space, at, bonus, kept, goal, frame)
        return jax.lax.cond(holds, lambda: kept, solved)

    # On a CPU one lane after another, on a GPU all at once.
    run, given = view.linear.space, (at, bonus, kept, holds, goal, *own)
    return rarely(~holds, lambda: by_run(run, of_run, kept, *given), kept)


def _solved(
    space: LinearContext, at: _Aligned, bonus: Array | None, kept: Allocation, goal: Array,
    frame: Frame,
) -> Allocation:  # fmt: skip
    """The solve of one run; what it kept, where the gap is no better."""
    lanes, old, shape = space.lanes, kept.start, at.shape
    if shape.signs:
        above: Any = shape.above  # type: ignore[attr-defined]
        y = jnp.where(above[:, None], frame.unit, -frame.unit)
    else:
        y = jnp.matmul(space.half_spaces(shape).y, frame.map, precision="highest")
    evidence = HalfSpaceEvidence(frame.unit, y, frame.idle, at.gaps, old.state.w, lanes)
    if space.prices is not None:
        evidence = evidence.priced(space.prices)
    extra = jnp.zeros_like(old.slope) if bonus is None else bonus
    known = at.same & jnp.any(at.live & (old.pull > 0))
    found = climb(evidence, at.live, extra, goal, old.at(at.gaps), known=known, lanes=lanes)
    weights, once = found.pair.w.astype(kept.weights.dtype), jnp.ones_like(kept.solves)
    pair, answer = Pair.of(found, at.gaps, at.live), _arrays(shape)
    new = Allocation(weights, pair, answer, found.gap, 1 + found.looks, once)
    failed = dataclasses.replace(kept, evaluations=new.evaluations, solves=new.solves)
    return where_((new.gap < jnp.inf) & ~(new.gap > kept.gap), new, failed)


def _arrays(shape: Pieces) -> tuple:
    """The arrays of a shape that say which pieces it has."""
    fields = dataclasses.fields(shape)  # type: ignore[arg-type]
    named = {field.name: getattr(shape, field.name) for field in fields}
    named.pop("exists", None)
    return tuple(x for x in named.values() if isinstance(x, jax.Array))


def _aligned(view: View, answer: tuple) -> _Aligned:
    """The pieces of the view, in the order of those of `answer` where they are the same.

    Top m: rows of the same arms in another order are the same pieces.
    """
    lanes, shape = view.lanes, view.shape
    gaps, live = view.linear.margin.astype(jnp.float64), view.active
    if isinstance(shape, Pairs) and shape.several:
        then, now = answer[0], shape.first
        assert now is not None
        match = then[:, None] == now[None]  # [m, m]
        same = ~lanes.any(~jnp.any(match, 1))

        def moved(x, rows=shape):
            apart, aligned = rows.apart(x), []
            for r in range(then.shape[0]):
                row = apart[0]
                for other in range(1, apart.shape[0]):  # one pass: a gather goes by entries
                    row = jnp.where(match[r][other], apart[other], row)
                aligned.append(jnp.where(same, row, apart[r]))
            return rows.flat(jnp.stack(aligned))

        gaps, live = moved(gaps), moved(live)
        shape = dataclasses.replace(shape, first=jnp.where(same, then, now))
    else:
        same = jnp.ones(view.t.shape, bool)
        for x, y in zip(_arrays(shape), answer, strict=True):
            same = same & ~lanes.any((x != y).reshape((-1, *view.t.shape)))
    solvable = lanes.any(live) & ~lanes.any(live & ~(gaps > 0))
    gaps = jnp.where(live & (gaps > 0), gaps, 1)
    return _Aligned(shape, gaps, live, same, solvable)
