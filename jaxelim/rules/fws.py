"""Frank-Wolfe sampling."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import ASK, OK, SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.contracts.views import Evidence, View
from jaxelim.evidence.designs import SquareDesign, weighted
from jaxelim.lanes import index_like, where
from jaxelim.numerics.host import product
from jaxelim.numerics.jacobi import orthonormal
from jaxelim.rules.parts.piece_games import play


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FWSState:
    """The allocation and its design without ridge; None if diagonal, as x then gives it."""

    x: Array  # [K]
    design: SquareDesign | None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Look:
    """What `fast` and `choose` compute at one t."""

    block: Array  # [] bool: t belongs to a block of uniform steps
    tied: Array  # [] bool: the answer is not unique at theta_hat, to machine precision
    values: Array  # [Q]: f_p, infinite where no piece is active
    least: Array  # []: their argmin
    near: Array  # [Q] bool: the pieces of F
    evidence: Evidence  # under x


def _uniform_block(t: Array, arms: int) -> Array:
    """Whether floor(t/K) is a perfect square; in float64, where the test is exact."""
    rounds = jnp.floor(t.astype(jnp.float64) / arms)
    root = jnp.floor(jnp.sqrt(rounds))
    return root * root == rounds


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FWS(SamplingRule):
    """Take one Frank-Wolfe step a pull, towards the allocation with the largest min f_p.

    ::

        f_p(x) = H_p(x), x = N/t at the start;
        F = {p active : f_p < min f + t^(-9/10)/K};
        z = 1/K if floor(t/K) is a perfect square or the answer is tied,
        else argmax_z min_{p in F} (z - x) . grad f_p;
        x <- ((t - 1) x + z)/t;   arm = argmax_k x_k/N_k.

    Linear Gaussian rewards: f_p(x) = inf over piece p of ||theta_hat - lambda||^2_{V_x}/2,
    V_x = sum_k x_k phi_k phi_k'.

    Wang, Tzeng & Proutiere 2021; with elimination: Tirinzoni & Degenne 2022. The matrix
    game is solved exactly. It may have several solutions in unstructured problems;
    which one is found is arbitrary. A tie is a margin of at most the floating type's
    epsilon, other families: a difference of the means of a piece's two sides. Top-m
    identification has no ties. t x_k never falls from N_k at the start, so gradients
    are finite, also where a mean is at the end of its range. Differs from the authors'
    program, whose first step uses V_x in place of V_x^-1.

    With costs of pulls x and z are shares of the cost, f_p(x) = H_p(x/c), and the arm is
    argmax_k (x_k/c_k)/N_k: the plain extension. Costs are in units of their mean, as the
    distance of F is in units of f.
    """

    traits: ClassVar[Traits] = Traits(
        families=None,
        costs=True,
        uses_delta=False,
        uses_rewards=False,
        lanes_last=True,
        basis_free=True,
        source="Wang et al. 2021",
    )

    def prepare(self, instance, problem, ridge):
        """The design at the start, where x = 1/K: g and V_x^-1."""
        features = instance.arms.reshape(-1, instance.K, instance.d)
        unit, maps = map(np.stack, zip(*map(orthonormal, features), strict=True))
        if not instance.batched:
            unit, maps = unit[0], maps[0]
        inverse = product(maps, np.swapaxes(maps, -1, -2))
        return instance.K * np.sum(unit**2, -1), instance.K * inverse

    def init(self, view):
        x = view.shares_of_cost()
        if not view.evidence.has_matrix:
            return FWSState(x, None)
        g, inverse = view.prepared
        lanes = x.shape[1:]
        g = jnp.broadcast_to(g, g.shape[:1] + lanes)
        inverse = jnp.broadcast_to(inverse, inverse.shape[:2] + lanes)
        return FWSState(x, SquareDesign(g, inverse))

    def fast(self, view, state):
        """A step towards one vertex, or inside a uniform block, where V_x is not updated.

        Nothing reads V_x inside a block; `choose` recomputes it at the end.
        """
        arms = state.x.shape[0]
        look = self._look(view, state)
        vertex = view.lanes.argmax(look.evidence.gradient(look.least))
        arm, x = self._pull(
            view,
            state.x,
            jnp.where(look.block, 1 / arms, (index_like(state.x) == vertex).astype(state.x.dtype)),
        )
        single = ~look.tied & (view.lanes.sum(look.near) == 1)
        if state.design is None:
            return arm, FWSState(x, None), jnp.where(look.block | single, OK, ASK)
        onward = _uniform_block(view.t + 1, arms)
        step = 1 / view.time
        more = step
        if view.space.prices is not None:
            more = step * view.lanes.take(view.per_price(jnp.ones_like(state.x)), vertex)
        design = state.design.mixed(view.linear.space, vertex, 1 - step, more)
        return arm, FWSState(x, design), jnp.where(jnp.where(look.block, onward, single), OK, ASK)

    def choose(self, view, state):
        look = self._look(view, state)
        uniform = look.block | look.tied
        answer = play(look.evidence, look.values, look.near & ~uniform)
        z = jnp.where(uniform, 1 / state.x.shape[0], answer)
        arm, x = self._pull(view, state.x, z)
        if state.design is None:
            return arm, FWSState(x, None)
        bought = view.per_price(jnp.where(uniform, 0, z))
        design = self._towards(view, state.design, bought)

        def recomputed():
            pulls = view.per_price(x)
            return where(uniform, weighted(view.linear.space, pulls), design)

        return arm, FWSState(x, jax.lax.cond(jnp.any(uniform), recomputed, lambda: design))

    def _towards(self, view: View, design: SquareDesign, z: Array) -> SquareDesign:
        """The design of ((t - 1) x + z)/t, by one update for each vertex of z; z has few.

        With costs z is what a share of the cost buys of each arm.
        """
        step = 1 / view.time

        def mix(c):
            design, left, keep = c
            k = view.lanes.argmax(left)
            design = design.mixed(view.linear.space, k, keep, step * view.lanes.take(left, k))
            return design, jnp.where(index_like(left) == k, 0, left), jnp.ones_like(keep)

        return jax.lax.while_loop(lambda c: jnp.any(c[1] > 0), mix, (design, z, 1 - step))[0]

    def piece_tests(self, view, state):
        uniform = _uniform_block(view.t, view.means.shape[0]) | self._tied(view)
        return jnp.where(uniform, 0, view.active_count)

    def _look(self, view: View, state: FWSState) -> _Look:
        lanes = view.lanes
        arms = state.x.shape[0]
        if state.design is None:
            evidence = view.priced.weighted(state.x)
        else:
            linear: Any = view.priced
            evidence = linear.under(state.design)
        values = jnp.where(view.active, evidence.values(), jnp.inf)
        least = lanes.argmin(values)
        near = values < lanes.take(values, least) + view.time**-0.9 / arms
        return _Look(_uniform_block(view.t, arms), self._tied(view), values, least, near, evidence)

    def _tied(self, view: View) -> Array:
        margin = view.evidence.outside()
        return view.lanes.any(view.shape.ties(margin, float(jnp.finfo(margin.dtype).eps)))

    def _pull(self, view: View, x: Array, z: Array) -> tuple[Array, Array]:
        x = view.lanes.materialize(lambda x, z, time: ((time - 1) * x + z) / time, x, z, view.time)
        return view.lanes.argmax(view.per_price(x) / view.counts), x
