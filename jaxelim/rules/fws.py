"""Frank-Wolfe sampling."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import SamplingRule, Traits
from jaxelim.contracts.views import View
from jaxelim.evidence.linear import SquareDesign, weighted
from jaxelim.lanes import index_like, pytree, settings
from jaxelim.numerics.jacobi import orthonormal, product
from jaxelim.rules.parts import games
from jaxelim.rules.parts.indices import of_pairs_alone


@pytree
class FWSState:
    """The allocation and its design without ridge; None if diagonal, as x then gives it."""

    x: Array  # [K]
    design: SquareDesign | None


def _uniform_block(t: Array, arms: int) -> Array:
    """Whether floor(t/K) is a perfect square; in float64, where the test is exact."""
    rounds = jnp.floor(t.astype(jnp.float64) / arms)
    root = jnp.floor(jnp.sqrt(rounds))
    return root * root == rounds


@settings
class FWS(SamplingRule):
    """Take one Frank-Wolfe step a pull, towards the allocation with the largest min f_p.

    ::

        f_p(x) = H_p(x), x = N/(t - 1) at the first choice;
        F = {p active : f_p < min f + t^(-9/10)/K};
        z = 1/K if floor(t/K) is a perfect square or the answer is tied,
        else argmax_z min_{p in F} (z - x) . grad f_p;
        x <- ((t - 1) x + z)/t;   arm = argmax_k x_k/N_k.

    Linear Gaussian rewards: f_p(x) = inf over piece p of ||theta_hat - lambda||^2_{V_x}/2,
    V_x = sum_k x_k phi_k phi_k'.

    Wang, Tzeng & Proutiere 2021; with elimination: Tirinzoni & Degenne 2022. The matrix game is
    solved exactly; which of several solutions is found is arbitrary. A tie is a margin of at most
    the floating type's epsilon; in families other than Gaussian the margin is the difference of
    the means of a piece's two sides. For top m ties are not tested. (t - 1) x_k is never below the
    initial N_k, so gradients are finite, also where a mean is at the end of its range. Differs
    from the authors' program, whose first step uses V_x in place of V_x^-1.

    With costs of pulls x and z are shares of the cost, f_p(x) = H_p(x/c), and the arm is argmax_k
    (x_k/c_k)/N_k: the plain extension. Costs are in units of their mean, as the distance of F is
    in units of f.
    """

    traits: ClassVar[Traits] = Traits(
        families=None, costs=True, reads=("pieces",), lanes_last=True, basis_free=True,
        source="Wang et al. 2021",
    )  # fmt: skip

    def needs(self, family, problem):
        return ("truth",) if of_pairs_alone(family) else ()

    def prepare(self, instance, problem, ridge):
        """phi_k' V_x^-1 phi_k, [K], and V_x^-1, [d, d], after the initial pulls: x_k/c_k is 1/K."""
        features = instance.arms.reshape(-1, instance.K, instance.d)
        unit, maps = map(np.stack, zip(*map(orthonormal, features), strict=True))
        if not instance.batched:
            unit, maps = unit[0], maps[0]
        inverse = product(maps, np.swapaxes(maps, -1, -2))
        return instance.K * np.sum(unit**2, -1), instance.K * inverse

    def init(self, view):
        x, lanes = view.counts / (view.time - 1), view.t.shape
        if view.prices is not None:  # shares of the cost
            spent = view.counts * view.prices
            x = spent / view.lanes.sum(spent)
        if not view.evidence.has_matrix:
            return FWSState(x, None)
        g, inverse = view.prepared
        g = jnp.broadcast_to(g, g.shape[:1] + lanes)
        inverse = jnp.broadcast_to(inverse, inverse.shape[:2] + lanes)
        return FWSState(x, SquareDesign(g, inverse))

    def choose(self, view, state, rarely):
        lanes, arms = view.lanes, state.x.shape[0]
        about: Any = view.priced
        f = about.weighted(state.x) if state.design is None else about.under(state.design)
        values = jnp.where(view.active, f.values(), jnp.inf)
        least = lanes.argmin(values)
        near = values < lanes.take(values, least) + view.time**-0.9 / arms
        block, tied = _uniform_block(view.t, arms), self._tied(view)
        even = block | tied
        # With one piece in F all of z is on the arm of its largest gradient: x is a constant.
        vertex = lanes.argmax(f.gradient(least))
        several = ~even & (lanes.sum(near) != 1)
        corner = (index_like(state.x) == vertex).astype(state.x.dtype)
        z = rarely(several, lambda: games.play(f, values, near & several), corner)
        z = jnp.where(even, 1 / arms, z)
        x = lanes.materialize(lambda x, z, t: ((t - 1) * x + z) / t, state.x, z, view.time)
        arm = lanes.argmax(view.per_price(x) / view.counts)
        if state.design is None:
            return arm, FWSState(x, None)
        # Inside a block z is no vertex, and V_x is wrong; nothing reads it before the block ends.
        recomputed = jnp.where(block, ~_uniform_block(view.t + 1, arms), tied)
        step = bought = 1 / view.time
        if view.prices is not None:
            bought = step * lanes.take(view.per_price(jnp.ones_like(x)), vertex)
        space, old = view.linear.space, state.design
        design = old.mixed(space, vertex, 1 - step, bought)
        design = rarely(several, lambda: _towards(view, old, z, several), design)
        design = rarely(recomputed, lambda: weighted(space, view.per_price(x)), design)
        return arm, FWSState(x, design)

    def work(self, view, state):
        uniform = _uniform_block(view.t, view.means.shape[0]) | self._tied(view)
        return jnp.where(uniform, 0, view.active_count)

    def _tied(self, view: View) -> Array:
        """Whether answers tie; not tested where an answer has several candidates."""
        shape, margin = view.shape, view.evidence.outside()
        tied = shape.exists & (margin <= float(jnp.finfo(margin.dtype).eps))
        return view.lanes.any(jnp.zeros_like(tied) if shape.several else tied)


def _towards(view: View, design: SquareDesign, z: Array, go: Array) -> SquareDesign:
    """The design of ((t - 1) x + z)/t where `go` [] bool, by one update for each vertex of z."""
    step, bought = 1 / view.time, view.per_price(jnp.where(go, z, 0))

    def mix(c):
        design, left, keep = c
        k = view.lanes.argmax(left)
        design = design.mixed(view.linear.space, k, keep, step * view.lanes.take(left, k))
        return design, jnp.where(index_like(left) == k, 0, left), jnp.ones_like(keep)

    return jax.lax.while_loop(lambda c: jnp.any(c[1] > 0), mix, (design, bought, 1 - step))[0]
