"""Warm-started optimal allocation at theta_hat.

w_t = argmax_w min_{p active} H_p(w, theta_hat) + c . w, to a given relative duality
gap. The solver of `jaxelim.lower_bound` starts from the run's last pair (allocation,
mixture over pieces).
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts.views import View
from jaxelim.errors import ArgumentError
from jaxelim.families.designs import DiagonalDesign, LinearContext, SquareDesign
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.lanes import where as where_
from jaxelim.lower_bound.information import Coordinates
from jaxelim.lower_bound.solver import climb

MAX_ITERATIONS = 60
_GAP_FLOAT32 = 3e-5


class Frame(NamedTuple):
    """Coordinates u_k = S^-1 phi_k of an instance in which Phi' Phi is the identity."""

    unit: Any  # [K, d] the features in these coordinates; 0 where no arm reaches
    idle: Any  # [d] 1 on coordinates that no arm reaches, else 0
    v_inv: Any  # [d, d] the (pseudo-)inverse of Phi' Phi
    g: Any  # [K] ||u_k||^2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Allocation:
    """The pair (allocation, mixture) of the last solve."""

    weights: Array  # [K]
    mixture: Array  # [Q], the multipliers of the pieces; all zero before the first solve
    gap: Array  # [] certified relative duality gap of the pair
    evaluations: Array  # [] int32, evaluations of the pieces for this choice


def start(view: View) -> Allocation:
    """The allocation before the first solve: uniform weights, without a certificate."""
    uniform = jnp.zeros_like(view.means) + 1 / view.means.shape[0]
    return Allocation(
        uniform,
        jnp.zeros_like(view.linear.margin),
        jnp.full_like(view.time, jnp.inf),
        jnp.zeros_like(view.t),
    )


def checked_schedule(schedule: Any) -> str | int:
    """Check a schedule: "always", "powers", or a whole number of steps >= 1."""
    if isinstance(schedule, str) and schedule in ("always", "powers"):
        return schedule
    if isinstance(schedule, str):
        raise ArgumentError("schedule", schedule, '"always", "powers", or an integer >= 1')
    return checks.integer("schedule", schedule, low=1)


def due(schedule: str | int, view: View) -> Array:
    """Whether this choice recomputes w; the run's first choice always does."""
    since = view.t - 1 - view.start
    if schedule == "powers":
        return (since == 0) | (view.t & (view.t - 1) == 0)
    return since % (schedule if isinstance(schedule, int) else 1) == 0


def frames(instance: Instance) -> Frame:
    """Host: the frame of an instance; a batch has a leading axis."""

    def one(arms):
        u, s, vt = np.linalg.svd(arms, full_matrices=False)
        reached = s > max(arms.shape) * np.finfo(np.float64).eps * s[0]
        u, basis = u * reached, vt * (reached / np.where(reached, s, 1))[:, None]
        d, rank = arms.shape[1], s.size
        unit = np.concatenate([u, np.zeros((len(arms), d - rank))], 1)
        idle = np.concatenate([~reached, np.ones(d - rank, bool)]).astype(np.float64)
        return Frame(unit, idle, basis.T @ basis, np.sum(u**2, 1))

    each = [one(arms) for arms in instance.arms.reshape(-1, instance.K, instance.d)]
    return Frame(*(np.stack(x) for x in zip(*each, strict=True))) if instance.batched else each[0]


def solve(
    view: View, last: Allocation, gap: float, now: Array, bonus: Array | None = None
) -> Allocation:
    """Compute the allocation at the view's theta_hat where `now` holds; keep the last elsewhere.

    Where an active piece has no positive margin (a tie in theta_hat), H is 0 for every
    w. Then the last weights stay; with a bonus all but a share `gap` goes to the arm of
    largest c. A mixture from another answer is a valid start, but a worse one.

    A CPU solves one lane after another, each over its active pieces, padded to one of a
    few sizes. A GPU solves all lanes at once and masks inactive pieces.
    (docs/performance.md)

    Args:
        view: its `prepared` is the result of `frames`.
        last: the start of the solve.
        gap: relative duality gap to stop at (in float32 at least 3e-5).
        now: [] bool.
        bonus: [K] c, or None for 0.
    """
    gap = max(gap, _GAP_FLOAT32) if view.means.dtype == jnp.float32 else gap
    space, lanes_apart = view.linear.space, view.means.ndim > 1
    arms, pieces = view.means.shape[0], view.linear.margin.shape[0]

    def one(features, frame, shape, gaps, active, bonus, last, now, few=False):
        run = LinearContext(LaneOps(None), features, space.constants, space.cancellation_safe)
        if isinstance(view.linear.design, DiagonalDesign):
            reference = DiagonalDesign(frame.g)
        else:
            reference = SquareDesign(frame.g, frame.v_inv)
        rows = shape.rows()
        cross = None if rows is None else reference.cross(run, rows)
        solvable = jnp.all((gaps > 0) | ~active) & jnp.any(active)
        c = jnp.zeros_like(last.weights) if bonus is None else bonus

        def among(places):
            """The solution over these pieces, which include all active ones."""
            along = jax.vmap(lambda p: shape.along(run, reference, cross, p))(places)
            # The products phi_k' (Phi' Phi)^-1 y_p with every arm k give y_p in the frame.
            y = jnp.matmul(along, frame.unit, precision="highest")
            live = active[places] | ~solvable
            where = Coordinates(frame.v_inv, frame.unit, y, frame.idle, live)
            margins = jnp.where(live, jnp.where(solvable, gaps[places], 1), 0)
            go = now & solvable
            found = climb(
                where, margins, live, c, last.weights, last.mixture[places], gap, MAX_ITERATIONS, go
            )
            return found._replace(
                mixture=jnp.zeros_like(last.mixture).at[places].set(found.mixture)
            )

        if few:
            sizes = _sizes(pieces, arms)
            first = jnp.argsort(~active, stable=True).astype(jnp.int32)  # active pieces first
            found = jax.lax.switch(
                _fitting(sizes, active), [lambda n=n: among(first[:n]) for n in sizes]
            )
        else:
            found = among(jnp.arange(pieces, dtype=jnp.int32))
        tied = last.weights
        if bonus is not None:
            tied = (1 - gap) * (jnp.arange(arms) == jnp.argmax(bonus)).astype(c.dtype) + gap / arms
        new = Allocation(
            jnp.where(solvable, found.allocation, tied),
            jnp.where(solvable, found.mixture, last.mixture),
            jnp.where(solvable, found.gap, jnp.inf),
            jnp.add(found.iterations, 1),
        )
        return where_(
            now, new, dataclasses.replace(last, evaluations=jnp.zeros_like(last.evaluations))
        )

    frame = Frame(*view.prepared)
    features = view.features
    given = view.shape, view.linear.margin, view.active, bonus, last, now
    if not lanes_apart:
        return one(features, frame, *given)
    shared = features.ndim == 2
    if shared:
        frame = jax.tree.map(lambda x: x[..., 0], frame)
    own = None if shared else -1
    if view.lanes.flag is None:
        return jax.vmap(one, in_axes=(own, own, *(-1 for _ in given)), out_axes=-1)(
            features, frame, *given
        )

    def each(i):
        of_run = lambda tree: jax.tree.map(lambda x: jnp.asarray(x)[..., i], tree)  # noqa: E731
        return one(
            *((features, frame) if shared else of_run((features, frame))), *of_run(given), few=True
        )

    return view.lanes.one_by_one(each, last)


def _sizes(pieces: int, arms: int) -> list[int]:
    """Numbers of pieces that solves are compiled for: all, half of them, and so on.

    Below K pieces the arms dominate the cost of a solve, so it ends there.
    """
    sizes = [pieces]
    while sizes[-1] >= arms > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def _fitting(sizes: list[int], active: Array) -> Array:
    """The index of the smallest size that holds the active pieces [Q]; sizes are decreasing."""
    return (
        jnp.sum(jnp.sum(active, dtype=jnp.int32) <= np.array(sizes, np.int32), dtype=jnp.int32) - 1
    )
