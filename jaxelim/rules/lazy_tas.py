"""Lazy Track-and-Stop."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.views import View
from jaxelim.evidence.linear import weighted
from jaxelim.lanes import index_like, pytree, settings
from jaxelim.matrices import least_eigenpair
from jaxelim.numerics.jacobi import svd
from jaxelim.rules.parts import tracking
from jaxelim.rules.parts.indices import of_pairs_alone

_FLOOR = 1e-12  # the least weight inside V_U, and inside H of families without a design
_STEPS, _SHORT = 1000, 0.001


@pytree
class Prepared:
    """The spanner of an instance, its exploration rate, and the ridge of V_w."""

    spanner: Any  # [d] int32: d linearly independent arms
    spanned: Any  # [K] bool: which arms these are
    c0: Any  # []: the rate at which they are explored
    ridge: Any  # []: 0 where the arms span R^d


@pytree
class LazyState:
    """The allocation, the sum of allocations, and bounds on lambda_min(V), V with the ridge.

    Of families without a design both bounds are the least count.
    """

    weights: Array  # [K]
    target: Array  # [K]
    low: Array  # []: the last exact value, as V only grows
    high: Array  # []: u' V u, u the unit eigenvector of that value
    toward: Array  # [K]: (phi_k . u)^2, which one more pull of k adds to `high`
    iterations: Array  # [] int32: of the Frank-Wolfe loop, for this choice


@settings
class LazyTaS(SamplingRule):
    """Track an allocation that is recomputed where t is a power of two, with exploration.

    ::

        spanner = the first d linearly independent arms, A = sum of their phi phi',
        c0 = lambda_min(A)/sqrt(d);
        t = 2^n: from the present w (uniform at the start), for i = 1 .. 1000:
        p = argmin_{p active} H_p(w), k = argmax_k dH_p/dw_k,
        w <- w (i/(i + 1)) + e_k/(i + 1), until 1/((i + 1) ||w||_2) < 0.001;
        each step W += w;
        pull spanner[(t - n K - 1) mod d] if lambda_min(V) < c0 sqrt(t), else argmin_k N_k - W_k.

    n is the number of initial pulls of each arm.

    Jedra & Proutiere 2020. Every operation on w is rounded, as in the authors' program:
    the last digits of w decide between arms that tie in N_k - W_k in exact arithmetic.
    In unstructured problems they decide between gradients too. So V_w is recomputed
    from w in every iteration.

    In linear problems V_U, U = i w, replaces V_w: H_p is homogeneous in w, and V_U^-1 takes
    rank-one updates. At the start of a solve the weights inside V_U are at least 1e-12. An arm
    that is not chosen again loses a factor 1000 with every power of two. lambda_min(V), with the
    ridge, is recomputed only where the bounds from its last computation do not decide. If the arms
    do not span R^d, c0 = 0 and V_U gets a ridge of 1e-9.

    With costs c_k of pulls w is a share of the cost: H_p is at w/c, gradients are over the arm's
    cost, and W adds the shares w_k/c_k of the pulls; exploration counts pulls: the plain
    extension.

    Families without a design: c0 = 1/sqrt(d), and the least N_k/c_k of the spanner's arms
    replaces lambda_min(V). Weights inside H are at least 1e-12.
    """

    traits: ClassVar[Traits] = Traits(
        families=None, costs=True, reads=("pieces",), lanes_last=True,
        source="Jedra & Proutiere 2020", name="lazy-tas",
    )  # fmt: skip

    def needs(self, family, problem):
        return ("truth",) if of_pairs_alone(family) else ()

    def prepare(self, instance, problem, ridge):
        """The spanner and c0 of each instance."""
        matrix, batch = instance.family.design, (-1, instance.K, instance.d)
        prepared = [_prepared(arms, matrix) for arms in instance.arms.reshape(batch)]
        return jax.tree.map(lambda *x: np.stack(x), *prepared) if instance.batched else prepared[0]

    def init(self, view):
        zero = jnp.zeros_like(view.means)
        low, even = jnp.full_like(view.time, view.family.ridge), zero + 1 / zero.shape[0]
        return LazyState(even, zero, low, low + jnp.inf, zero, jnp.zeros_like(view.t))

    def choose(self, view, state, rarely):
        lanes, due, none = view.lanes, view.t & (view.t - 1) == 0, jnp.zeros_like(view.t)
        weights, iterations = rarely(
            due, lambda: _frank_wolfe(view, state.weights, due), (state.weights, none)
        )
        target = state.target + tracking.shares_of_pulls(view, weights)
        need = view.prepared.c0 * jnp.sqrt(view.time)
        low, high, toward = state.low, state.high, state.toward
        if view.evidence.has_matrix:
            unsure = (low < need) & (high >= need)
            low, high, toward = rarely(unsure, lambda: _exact(view), (low, high, toward))
        else:
            spanned, counts = view.prepared.spanned, view.evidence.per_cost(view.counts)
            spanned = spanned if spanned.ndim == counts.ndim else spanned[:, None]
            # lambda_min of a diagonal V; elsewhere the least count, without a prior's ridge.
            ridge = view.family.ridge if view.family.design else 0.0
            low = high = lanes.min(jnp.where(spanned, counts, jnp.inf)) + ridge
        turn = (view.t - 1 - view.start) % view.features.shape[1]
        explored = lanes.take(view.prepared.spanner, turn)
        arm = jnp.where(low < need, explored, tracking.cumulative(lanes, view.counts, target))
        high = high + lanes.take(toward, arm)
        return arm, LazyState(weights, target, low, high, toward, iterations)

    def work(self, view, state):
        return state.iterations * view.active_count


def _prepared(arms, matrix):
    """The spanner, c0 and ridge of one instance; `matrix`: whether lambda_min(V) is tested.

    If there are fewer than d linearly independent arms, the spanner repeats them.
    """
    d = arms.shape[1]
    spanner: list[int] = []
    for k in range(len(arms)):
        if len(spanner) < d and np.linalg.matrix_rank(arms[[*spanner, k]]) > len(spanner):
            spanner.append(k)
    spanned = np.isin(np.arange(len(arms)), spanner or [0])
    if len(spanner) < d:
        ridge = 1e-9 * np.mean(np.sum(arms**2, 1))
        repeated = np.resize(np.array(spanner or [0], np.int32), d)
        return Prepared(repeated, spanned, np.float64(0), ridge)
    least = svd(arms[spanner])[1][-1] ** 2 if matrix else 1.0
    return Prepared(np.array(spanner, np.int32), spanned, least / np.sqrt(d), np.float64(0))


def _frank_wolfe(view: View, weights: Array, due: Array) -> tuple[Array, Array]:
    """The new allocation of the lanes that are due, and its number of steps, 0 elsewhere."""
    lanes, arms = view.lanes, index_like(view.means)
    matrix, floor = view.evidence.has_matrix, _FLOOR
    if view.family.design:
        floor = np.sqrt(np.finfo(weights.dtype).tiny)

    evidence: Any = view.priced

    def bought(arm):
        """The pulls of an arm that a unit of cost buys."""
        if view.prices is None:
            return 1.0
        return lanes.take(view.per_price(jnp.ones_like(view.means)), arm)

    def step(carry):
        i, weights, design, steps, go = carry
        floored = jnp.maximum(weights, floor)
        here = evidence.under(design) if matrix else evidence.weighted(floored)
        closest = lanes.argmin(jnp.where(view.active, here.values(), jnp.inf))
        arm = lanes.argmax(here.gradient(closest))
        weights = jnp.where(go, averaged(weights, arms == arm, i), weights)
        if matrix:  # the design of a lane that is finished, or not due, is never read
            design = design.add(evidence.space, arm, bought(arm))[0]
        norm = jnp.sqrt(lanes.sum(weights**2))
        short = 1 / ((i + 1).astype(norm.dtype) * norm) < _SHORT
        return i + 1, weights, design, steps + go.astype(steps.dtype), go & ~short

    design = None
    if matrix:
        floored = view.per_price(jnp.maximum(weights, _FLOOR))
        design = weighted(evidence.space, floored, view.prepared.ridge)  # V_U
    carry = jnp.int32(1), weights, design, jnp.zeros_like(view.t), due
    _, weights, _, steps, _ = jax.lax.while_loop(
        lambda carry: (carry[0] <= _STEPS) & jnp.any(carry[4]), step, carry
    )
    return weights, steps


def averaged(weights: Array, chosen: Array, i: Array) -> Array:
    """w (i/(i + 1)) + e/(i + 1), quotients first, with each operation rounded: [K].

    e is the unit vector of the arm where `chosen` [K] holds, i [] int32 the
    step, from 1 on.
    """
    i = i.astype(weights.dtype)
    kept, added = i / (i + 1), 1 / (i + 1)
    # XLA fuses a product and a sum into one multiply-add, which rounds once. An abs between them
    # prevents that in every form of the loop. It changes no weight, since none is negative.
    return jnp.abs(weights * kept) + jnp.where(chosen, added, jnp.zeros_like(added))


def _exact(view: View) -> tuple[Array, Array, Array]:
    """Both bounds at the present V, and `toward`."""

    def of_run(features, counts):
        v = jnp.matmul(features.T, counts[:, None] * features, precision="highest")
        ridge = view.family.ridge * jnp.eye(features.shape[1], dtype=features.dtype)
        least, u = least_eigenpair(v + ridge, not view.lanes.gpu)
        toward = jnp.matmul(features, u, precision="highest") ** 2
        return least, least, toward

    if view.means.ndim == 1:
        return of_run(view.features, view.counts)
    shared = view.features.ndim == 2
    return jax.vmap(of_run, in_axes=(None if shared else -1, -1), out_axes=-1)(
        view.features, view.counts
    )
