"""Lazy Track-and-Stop."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.evidence.designs import weighted
from jaxelim.lanes import index_like
from jaxelim.numerics.jacobi import svd
from jaxelim.rules.parts import tracking

_FLOOR = 1e-12  # least weight inside V_U, and inside H of families without a design
_STEPS, _SHORT = 1000, 0.001


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prepared:
    """The spanner of an instance, its exploration rate, and the ridge of V_w."""

    spanner: Any  # [d] int32: d linearly independent arms
    spanned: Any  # [K] bool: which arms these are
    c0: Any  # []: the rate at which they are explored
    ridge: Any  # []: 0 where the arms span R^d


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LazyState:
    """The allocation, the sum of allocations, and bounds on lambda_min(V)."""

    weights: Array  # [K]
    target: Array  # [K]
    low: Array  # []: lower bound, the last exact value, as V only grows
    high: Array  # []: upper bound u' V u, u the unit eigenvector of that value
    toward: Array  # [K]: (phi_k . u)^2, which one more pull of k adds to `high`
    iterations: Array  # [] int32: of the Frank-Wolfe loop, for this choice


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
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

    In linear problems V_U, U = i w, replaces V_w: H_p is homogeneous in w, and V_U^-1
    takes rank-one updates. At the start of a solve the weights inside V_U are at least
    1e-12. An arm that is not chosen again loses a factor 1000 with every power of two.

    lambda_min(V), with the ridge, is recomputed only where the bounds from its last
    computation do not decide the test. If the arms do not span R^d, c0 = 0 and V_U gets
    a ridge of 1e-9.

    With costs of pulls w is a share of the cost: H_p is at w/c, gradients are over the arm's
    cost, and W adds the shares w_k/c_k of the pulls. Exploration counts pulls. That is the
    plain extension.

    Families without a design: c0 = 1/sqrt(d), and the least N_k/c_k of the spanner's arms
    replaces lambda_min(V), c_k the cost of arm k. Weights inside H are at least 1e-12.
    Independent arms are all in the spanner.
    """

    traits: ClassVar[Traits] = Traits(
        families=None,
        costs=True,
        reads=("pieces",),
        lanes_last=True,
        source="Jedra & Proutiere 2020",
        name="lazy-tas",
    )

    def prepare(self, instance, problem, ridge):
        """The spanner and c0 of each instance."""
        matrix, batch = instance.family.design, (-1, instance.K, instance.d)
        prepared = [_prepared(arms, matrix) for arms in instance.arms.reshape(batch)]
        return jax.tree.map(lambda *x: np.stack(x), *prepared) if instance.batched else prepared[0]

    def init(self, view):
        zero = jnp.zeros_like(view.means)
        least = jnp.full_like(view.time, view.family.ridge)
        return LazyState(
            zero + 1 / zero.shape[0], zero, least, least + jnp.inf, zero, jnp.zeros_like(view.t)
        )

    def choose(self, view, state, rarely):
        lanes, due = view.lanes, view.t & (view.t - 1) == 0
        weights, iterations = rarely(
            due,
            lambda: _frank_wolfe(view, state.weights, due),
            (state.weights, jnp.zeros_like(view.t)),
        )
        target = state.target + view.shares_of_pulls(weights)
        need = view.prepared.c0 * jnp.sqrt(view.time)
        least = state.low, state.high, state.toward
        if view.evidence.has_matrix:
            unsure = (state.low < need) & (state.high >= need)
            least = rarely(unsure, lambda: _least_eigenvalue(view), least)
        else:
            spanned, counts = view.prepared.spanned, view.evidence.per_cost(view.counts)
            spanned = spanned if spanned.ndim == counts.ndim else spanned[:, None]
            fewest = lanes.min(jnp.where(spanned, counts, jnp.inf)) + view.family.ridge
            least = fewest, fewest, state.toward
        low, high, toward = least
        turn = (view.t - 1 - view.start) % view.features.shape[1]
        explored = lanes.take(view.prepared.spanner, turn)
        arm = jnp.where(low < need, explored, tracking.cumulative(lanes, view.counts, target))
        high = high + lanes.take(toward, arm)
        return arm, LazyState(weights, target, low, high, toward, iterations)

    def piece_tests(self, view, state):
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


def _frank_wolfe(view, weights, due):
    """The new allocation of the lanes that are due, and its number of steps, 0 elsewhere."""
    lanes, arms = view.lanes, index_like(view.means)
    matrix, floor = view.evidence.has_matrix, _FLOOR
    if view.family.design:
        floor = np.sqrt(np.finfo(weights.dtype).tiny)

    def seen(weights):
        """What the evidence under these weights is made of, without a matrix."""
        return view.per_price(jnp.maximum(weights, floor))

    def under(design):
        return view.linear.under(design) if matrix else view.evidence.weighted(design)

    def pull(arm):
        """What a unit of cost buys of an arm."""
        if view.space.prices is None:
            return 1.0
        return lanes.take(view.per_price(jnp.ones_like(view.means)), arm)

    def step(carry):
        i, weights, design, steps, go = carry
        evidence = under(design)
        closest = lanes.argmin(jnp.where(view.active, evidence.values(), jnp.inf))
        arm = lanes.argmax(view.per_price(evidence.gradient(closest)))
        weights = jnp.where(go, averaged(weights, arms == arm, i), weights)
        # The design of a lane that is finished, or not due, is never read.
        design = design.add(view.linear.space, arm, pull(arm))[0] if matrix else seen(weights)
        norm = jnp.sqrt(lanes.sum(weights**2))
        short = 1 / ((i + 1).astype(norm.dtype) * norm) < _SHORT
        return i + 1, weights, design, steps + go.astype(steps.dtype), go & ~short

    if not matrix:
        design = seen(weights)
    else:
        floored = view.per_price(jnp.maximum(weights, _FLOOR))
        design = weighted(view.linear.space, floored, view.prepared.ridge)  # V_U
    carry = jnp.int32(1), weights, design, jnp.zeros_like(view.t), due
    _, weights, _, steps, _ = jax.lax.while_loop(
        lambda carry: (carry[0] <= _STEPS) & jnp.any(carry[4]), step, carry
    )
    return weights, steps


def averaged(weights, chosen, i):
    """w (i/(i + 1)) + e/(i + 1), quotients first, with each operation rounded: [K].

    e is the unit vector of the arm where `chosen` [K] holds, i [] int32 the
    step, from 1 on.
    """
    i = i.astype(weights.dtype)
    kept, added = i / (i + 1), 1 / (i + 1)
    # XLA fuses a product and a sum into one multiply-add, which rounds once. An abs between them
    # prevents that in every form of the loop. It changes no weight, since none is negative.
    return jnp.abs(weights * kept) + jnp.where(chosen, added, jnp.zeros_like(added))


def _least_eigenvalue(view):
    """`low`, `high` and `toward` of a `LazyState` at V: lambda_min(V) twice, and (phi_k . u)^2."""

    def of_run(features, counts):
        v = jnp.matmul(features.T, counts[:, None] * features, precision="highest")
        least, u = view.lanes.least_eigenpair(
            v + view.family.ridge * jnp.eye(features.shape[1], dtype=features.dtype)
        )
        return least, least, jnp.matmul(features, u, precision="highest") ** 2

    if view.means.ndim == 1:
        return of_run(view.features, view.counts)
    shared = view.features.ndim == 2
    return jax.vmap(of_run, in_axes=(None if shared else -1, -1), out_axes=-1)(
        view.features, view.counts
    )
