"""The allocation at theta_hat of Gaussian rewards, linear or top m, from sample to sample.

w_t = argmax_w min_{p active} H_p(w, theta_hat) + c . w, to a relative duality gap. The pair of
the last solve is certified first, and solved from again where its gap is above the tolerance.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.pieces import Pairs, Pieces
from jaxelim.contracts.traits import Rarely
from jaxelim.contracts.views import View
from jaxelim.evidence.half_spaces import Directions, HalfSpaceEvidence, LinearContext
from jaxelim.instances.instance import Instance
from jaxelim.lanes import index_like
from jaxelim.lanes import where as where_
from jaxelim.numerics.jacobi import orthonormal
from jaxelim.rules.parts.tracking import by_run
from jaxelim.saddle.pair import Pair
from jaxelim.saddle.solver import climb

_FINE = 1e-5
"""From here on a solve goes to a quarter of the tolerance, so that the pair holds for a while."""


class Frame(NamedTuple):
    """Coordinates S^-1 phi_k of an instance in which Phi' Phi is the identity."""

    unit: Any  # [K, d] the features in these coordinates; 0 where no arm reaches
    map: Any  # [d, d]: unit = features @ map
    idle: Any  # [d] 1 on coordinates that no arm reaches, else 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Allocation:
    """The pair of the last solve, and what it was solved for."""

    weights: Array  # [K] the allocation to track
    pair: Pair  # float64
    answer: tuple  # the arrays of the shape that the pair belongs to
    gap: Array  # [] certified relative duality gap at the last look; inf in ties
    evaluations: Array  # [] int32, evaluations of the pieces for this choice
    solves: Array  # [] int32, whether this choice has solved


class _Aligned(NamedTuple):
    """The pieces of a view in the order of the last solve."""

    shape: Pieces
    gaps: Array  # [Q] float64; 1 where not live
    live: Array  # [Q] bool
    same: Array  # [] bool: the answer is that of the last solve
    solvable: Array  # [] bool: there is a live piece, and none has margin 0


def start(view: View) -> Allocation:
    """The allocation before the first solve: uniform weights, without a certificate."""
    means, pieces = (x.astype(jnp.float64) for x in (view.means, view.linear.margin))
    none = jnp.zeros_like(view.t)
    return Allocation(
        weights=jnp.zeros_like(view.means) + 1 / view.means.shape[0],
        pair=Pair.none(means, pieces),
        answer=_arrays(view.shape),
        gap=jnp.full_like(view.time.astype(jnp.float64), jnp.inf),
        evaluations=none,
        solves=none,
    )


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
    reached = last.pair.certificate(lanes, at.gaps, at.live, bonus)
    reached = jnp.where(at.same & at.solvable, reached, jnp.inf)
    weights = last.pair.state.w.astype(view.means.dtype)
    if bonus is not None:
        arms = view.means.shape[0]
        share = tolerance.astype(view.means.dtype)
        chosen = index_like(view.means) == lanes.argmax(bonus)
        tied = jnp.where(chosen, 1 - share, 0) + share / arms
        weights = jnp.where(at.solvable, weights, tied)
        weights = jnp.where(now, weights, last.weights)
    kept = dataclasses.replace(
        last,
        weights=weights,
        gap=jnp.where(now, reached, last.gap),
        evaluations=now.astype(jnp.int32) * jnp.ones_like(view.t),
        solves=jnp.zeros_like(view.t),
    )
    holds = ~now | ~at.solvable | (reached <= tolerance)
    return rarely(~holds, lambda: _solved(view, kept, holds, at, tolerance, bonus), kept)


def _solved(
    view: View, kept: Allocation, holds: Array, at: _Aligned, tolerance: Array, bonus: Array | None
) -> Allocation:
    """A solve where `kept` does not hold: on a CPU one lane after another, on a GPU all at once."""
    goal = jnp.where(tolerance < _FINE, tolerance, tolerance / 4)
    space, features = view.linear.space, view.features
    frame = jax.tree.map(jnp.asarray, view.prepared)
    constants, shared = space.constants, features.ndim == 2
    prices = space.prices
    if shared and view.means.ndim > 1:
        frame = jax.tree.map(lambda x: x[..., 0], frame)

    def of_run(own, at, bonus, kept, holds, goal):
        phi, coordinates = (features, frame) if shared else own
        run = LinearContext(space.lanes.alone, phi, constants, space.cancellation_safe)

        def solved():
            y = _directions(run, coordinates, at.shape)
            unit, idle, old = coordinates.unit, coordinates.idle, kept.pair
            evidence = HalfSpaceEvidence(unit, y, idle, at.gaps, old.state.w, run.lanes)
            if prices is not None:
                evidence = evidence.priced(prices)
            extra = jnp.zeros_like(old.slope) if bonus is None else bonus
            known = at.same & jnp.any(at.live & (old.pull > 0))
            found = climb(
                evidence, at.live, extra, goal, old.at(at.gaps), known=known, lanes=run.lanes
            )
            new = Allocation(
                weights=found.pair.w.astype(kept.weights.dtype),
                pair=Pair.of(found, at.gaps, at.live),
                answer=_arrays(at.shape),
                gap=found.gap,
                evaluations=1 + found.looks,
                solves=jnp.ones_like(kept.solves),
            )
            failed = dataclasses.replace(kept, evaluations=new.evaluations, solves=new.solves)
            return where_((new.gap < jnp.inf) & ~(new.gap > kept.gap), new, failed)

        return jax.lax.cond(holds, lambda: kept, solved)

    own = () if shared else (features, frame)
    return by_run(view.lanes, of_run, kept, own, at, bonus, kept, holds, goal)


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
            apart = rows.apart(x)
            aligned = [
                jnp.where(same, _selected(match[r], apart), apart[r]) for r in range(then.shape[0])
            ]
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


def _selected(match: Array, rows: Array) -> Array:
    """The row where `match` [m] holds, of rows [m, K]: one pass, as a gather goes by entries."""
    row = rows[0]
    for r in range(1, rows.shape[0]):
        row = jnp.where(match[r], rows[r], row)
    return row


def _directions(run: LinearContext, frame: Frame, shape: Pieces) -> Array:
    """The directions of all pieces in the frame: [Q, d]."""
    if shape.signs:
        above: Any = shape.above  # type: ignore[attr-defined]
        return jnp.where(above[:, None], frame.unit, -frame.unit)
    y = Directions(run, shape).half_spaces().y
    return jnp.matmul(y, frame.map, precision="highest")
