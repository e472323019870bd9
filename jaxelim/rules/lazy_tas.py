"""Lazy Track-and-Stop."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.numerics.jacobi import svd
from jaxelim.rules.parts import tracking
from jaxelim.rules.parts.indices import of_pairs_alone
from jaxelim.rules.parts.lazy import LeastEigenvalue, frank_wolfe


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
    """The allocation and the sum of allocations."""

    weights: Array  # [K]
    target: Array  # [K]
    least: LeastEigenvalue  # of V; of families without a design the least count in both bounds
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
        least = jnp.full_like(view.time, view.family.ridge)
        least = LeastEigenvalue(least, least + jnp.inf, zero)
        return LazyState(zero + 1 / zero.shape[0], zero, least, jnp.zeros_like(view.t))

    def choose(self, view, state, rarely):
        lanes, due, none = view.lanes, view.t & (view.t - 1) == 0, jnp.zeros_like(view.t)
        weights, iterations = rarely(
            due, lambda: frank_wolfe(view, state.weights, due), (state.weights, none)
        )
        target = state.target + tracking.shares_of_pulls(view, weights)
        need = view.prepared.c0 * jnp.sqrt(view.time)
        if view.evidence.has_matrix:
            least = state.least.decided(view, need, rarely)
        else:
            spanned, counts = view.prepared.spanned, view.evidence.per_cost(view.counts)
            spanned = spanned if spanned.ndim == counts.ndim else spanned[:, None]
            # lambda_min of a diagonal V; elsewhere the least count, without a prior's ridge.
            ridge = view.family.ridge if view.family.design else 0.0
            fewest = lanes.min(jnp.where(spanned, counts, jnp.inf)) + ridge
            least = dataclasses.replace(state.least, low=fewest, high=fewest)
        turn = (view.t - 1 - view.start) % view.features.shape[1]
        explored = lanes.take(view.prepared.spanner, turn)
        arm = jnp.where(least.low < need, explored, tracking.cumulative(lanes, view.counts, target))
        return arm, LazyState(weights, target, least.pulled(view, arm), iterations)

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
