"""The optimal allocation of the empirical parameter, solved for again and again while a run goes on.

w_t = argmax_w min_{p active} H_p(w, theta_hat) + c . w, to a stated relative duality gap, by the solver of
`jaxelim.lower_bound`, each time from the pair (allocation, mixture over pieces) that the run found last.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts.views import ArmContext, View
from jaxelim.errors import ArgumentError
from jaxelim.families.designs import DiagonalDesign, SquareDesign
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.lanes import where as where_
from jaxelim.lower_bound.information import Coordinates
from jaxelim.lower_bound.solver import climb

MAX_ITERATIONS = 60
_GAP_FLOAT32 = 3e-5


class Frame(NamedTuple):
    """Of the instance: coordinates u_k = S^-1 phi_k in which Phi' Phi is the identity."""

    unit: Any  # [K, d] the features in them; 0 in those that no arm reaches
    idle: Any  # [d] 1 on coordinates that no arm reaches, else 0
    v_inv: Any  # [d, d] the (pseudo-)inverse of Phi' Phi
    g: Any  # [K] ||u_k||^2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Allocation:
    """The last pair that was solved for; `looks` counts evaluations of the pieces for this choice."""

    weights: Array  # [K]
    mixture: Array  # [Q], the multipliers of the pieces; all zero before the first solve
    gap: Array  # [] certified relative duality gap of the pair
    evaluations: Array  # [] int32


def start(view: View) -> Allocation:
    """Before the first solve: uniform weights, which certify nothing."""
    uniform = jnp.zeros_like(view.means) + 1 / view.means.shape[0]
    return Allocation(uniform, jnp.zeros_like(view.linear.margin), jnp.full_like(view.time, jnp.inf), jnp.zeros_like(view.t))


def checked_schedule(schedule: Any) -> str | int:
    """"always", "powers", or a whole number of steps."""
    if isinstance(schedule, str) and schedule in ("always", "powers"):
        return schedule
    if isinstance(schedule, str):
        raise ArgumentError("schedule", schedule, '"always", "powers", or an integer >= 1')
    return checks.integer("schedule", schedule, low=1)


def due(schedule: str | int, view: View) -> Array:
    """Whether w is solved for at this choice: always at the run's first, t = K + 1."""
    since = view.t - 1 - view.means.shape[0]
    if schedule == "powers":
        return (since == 0) | (view.t & (view.t - 1) == 0)
    return since % (schedule if isinstance(schedule, int) else 1) == 0


def frames(instance: Instance) -> Frame:
    """Host: the frame of each instance; with a leading axis for a batch."""
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


def solve(view: View, last: Allocation, gap: float, now: Array, bonus: Array | None = None) -> Allocation:
    """The allocation at view's theta_hat in the runs where `now` holds; elsewhere the last one.

    Args:
        view: its `prepared` is what `frames` made.
        last: where to start from.
        gap: relative duality gap to stop at (in float32 at least 3e-5).
        now: [] bool.
        bonus: [K] c, or None for 0.

    Where an active piece has no gap (a tie in theta_hat), H is 0 for every w: the last weights stay, or, with a bonus,
    all but a share `gap` goes to the arm of largest c. A mixture found for another answer is only a worse start.

    On a CPU runs are solved for one after the other, each over as many pieces as it has active, in a few sizes: a factor of 2
    to 3 (docs/performance.md). Side by side, on a GPU, the fallen ones are masked.
    """
    gap = max(gap, _GAP_FLOAT32) if view.means.dtype == jnp.float32 else gap
    space, lanes_apart = view.space, view.means.ndim > 1
    arms, pieces = view.means.shape[0], view.linear.margin.shape[0]

    def one(features, frame, shape, gaps, active, bonus, last, now, few=False):
        run = ArmContext(LaneOps(None), features, space.constants, space.cancellation_safe)
        if isinstance(view.linear.design, DiagonalDesign):
            reference = DiagonalDesign(frame.g)
        else:
            reference = SquareDesign(frame.g, frame.v_inv)
        rows = shape.rows()
        cross = None if rows is None else reference.cross(run, rows)
        solvable = jnp.all((gaps > 0) | ~active) & jnp.any(active)
        c = jnp.zeros_like(last.weights) if bonus is None else bonus

        def among(places):
            """The solution over these pieces, which every active one is among."""
            along = jax.vmap(lambda p: shape.along(run, reference, cross, p))(places)
            # phi_k . (Phi' Phi)^-1 y_p for every k is the direction y_p as the arms see it.
            y = jnp.matmul(along, frame.unit, precision="highest")
            live = active[places] | ~solvable
            where = Coordinates(frame.v_inv, frame.unit, y, frame.idle, live)
            margins = jnp.where(live, jnp.where(solvable, gaps[places], 1), 0)
            go = now & solvable
            found = climb(where, margins, live, c, last.weights, last.mixture[places], gap, MAX_ITERATIONS, go)
            return found._replace(mixture=jnp.zeros_like(last.mixture).at[places].set(found.mixture))

        if few:
            sizes = _sizes(pieces, arms)
            first = jnp.argsort(~active, stable=True).astype(jnp.int32)  # the active ones, then the others
            found = jax.lax.switch(_fitting(sizes, active), [lambda n=n: among(first[:n]) for n in sizes])
        else:
            found = among(jnp.arange(pieces, dtype=jnp.int32))
        tied = last.weights
        if bonus is not None:
            tied = (1 - gap) * (jnp.arange(arms) == jnp.argmax(bonus)).astype(c.dtype) + gap / arms
        new = Allocation(
            jnp.where(solvable, found.allocation, tied), jnp.where(solvable, found.mixture, last.mixture),
            jnp.where(solvable, found.gap, jnp.inf), jnp.add(found.iterations, 1),
        )
        return where_(now, new, dataclasses.replace(last, evaluations=jnp.zeros_like(last.evaluations)))

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
        return jax.vmap(one, in_axes=(own, own, *(-1 for _ in given)), out_axes=-1)(features, frame, *given)

    def each(i):
        of_run = lambda tree: jax.tree.map(lambda x: jnp.asarray(x)[..., i], tree)  # noqa: E731
        return one(*((features, frame) if shared else of_run((features, frame))), *of_run(given), few=True)

    return view.lanes.one_by_one(each, last)


def _sizes(pieces: int, arms: int) -> list[int]:
    """Of how many pieces there is a program: all, half of them, and so on, until the arms are what a solve costs."""
    sizes = [pieces]
    while sizes[-1] >= arms > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def _fitting(sizes: list[int], active: Array) -> Array:
    """Which of the sizes, falling, is the least that holds the active pieces [Q]."""
    return jnp.sum(jnp.sum(active, dtype=jnp.int32) <= np.array(sizes, np.int32), dtype=jnp.int32) - 1
