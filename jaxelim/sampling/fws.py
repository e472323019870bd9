"""Frank-Wolfe sampling."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import ASK, OK, SamplingRule
from jaxelim.contracts.traits import Traits
from jaxelim.contracts.views import View
from jaxelim.families.designs import DiagonalDesign, SquareDesign, weighted
from jaxelim.families.linear_evidence import LinearEvidence
from jaxelim.lanes import LaneOps, index_like, where
from jaxelim.sampling.parts import games

_BATCHED_ROWS = (4, 16, 64)
"""Sizes of tableaus. A batch takes the smallest that holds its largest game.

Larger games are solved one lane at a time.
"""


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
    evidence: LinearEvidence  # under V_x


def _uniform_block(t: Array, arms: int) -> Array:
    """Whether floor(t/K) is a perfect square; in float64, where the test is exact."""
    rounds = jnp.floor(t.astype(jnp.float64) / arms)
    root = jnp.floor(jnp.sqrt(rounds))
    return root * root == rounds


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FWS(SamplingRule):
    """Take one Frank-Wolfe step a pull, towards the allocation with the largest min f_p.

    f_p(x) = inf over piece p of ||theta_hat - lambda||^2_{V_x}/2,
    V_x = sum_k x_k phi_k phi_k', x = N/t at the start;
    F = {p active : f_p < min f + t^(-9/10)/K};
    z = 1/K if floor(t/K) is a perfect square or the answer is tied,
    else argmax_z min_{p in F} (z - x) . grad f_p;
    x <- ((t - 1) x + z)/t;   arm = argmax_k x_k/N_k.

    Wang, Tzeng & Proutiere 2021; with elimination: Tirinzoni & Degenne 2022. The matrix
    game is solved exactly. It may have several solutions in unstructured problems;
    which one is found is arbitrary. A tie is a margin of at most the floating type's
    epsilon; top-m identification has no ties. Differs from the authors' program, whose
    first step uses V_x in place of V_x^-1.
    """

    traits: ClassVar[Traits] = Traits(
        uses_delta=False,
        uses_rewards=False,
        lanes_last=True,
        batch=32,
        patience=0.4,
        source="Wang et al. 2021",
    )

    def prepare(self, instance, problem, ridge):
        """The design at the start, where x = 1/K: g and V_x^-1."""
        inverse = instance.K * np.linalg.pinv(
            np.swapaxes(instance.arms, -1, -2) @ instance.arms, hermitian=True
        )
        return np.sum((instance.arms @ inverse) * instance.arms, -1), inverse

    def init(self, view):
        x = view.counts / (view.time - 1)
        if isinstance(view.linear.design, DiagonalDesign):
            return FWSState(x, None)
        g, inverse = view.prepared
        everywhere = lambda a, own: jnp.broadcast_to(a, a.shape[:own] + x.shape[1:])  # noqa: E731
        return FWSState(x, SquareDesign(everywhere(g, 1), everywhere(inverse, 2)))

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
        design = state.design.mixed(view.space, vertex, 1 - step, step)
        return arm, FWSState(x, design), jnp.where(jnp.where(look.block, onward, single), OK, ASK)

    def choose(self, view, state):
        look = self._look(view, state)
        uniform = look.block | look.tied
        z = jnp.where(uniform, 1 / state.x.shape[0], self._play(view, look, look.near & ~uniform))
        arm, x = self._pull(view, state.x, z)
        if state.design is None:
            return arm, FWSState(x, None)
        design = self._towards(view, state.design, jnp.where(uniform, 0, z))
        afresh = lambda: where(uniform, weighted(view.space, x), design)  # noqa: E731
        return arm, FWSState(x, jax.lax.cond(jnp.any(uniform), afresh, lambda: design))

    def _towards(self, view: View, design: SquareDesign, z: Array) -> SquareDesign:
        """The design of ((t - 1) x + z)/t, by one update for each vertex of z; z has few."""
        step = 1 / view.time

        def mix(c):
            design, left, keep = c
            k = view.lanes.argmax(left)
            design = design.mixed(view.space, k, keep, step * view.lanes.take(left, k))
            return design, jnp.where(index_like(left) == k, 0, left), jnp.ones_like(keep)

        return jax.lax.while_loop(lambda c: jnp.any(c[1] > 0), mix, (design, z, 1 - step))[0]

    def piece_tests(self, view, state):
        uniform = _uniform_block(view.t, view.means.shape[0]) | self._tied(view)
        return jnp.where(uniform, 0, view.active_count)

    def _look(self, view: View, state: FWSState) -> _Look:
        lanes = view.lanes
        arms = state.x.shape[0]
        linear = view.linear
        evidence = linear.weighted(state.x) if state.design is None else linear.under(state.design)
        values = jnp.where(view.active, evidence.values(), jnp.inf)
        least = lanes.argmin(values)
        near = values < lanes.take(values, least) + view.time**-0.9 / arms
        return _Look(_uniform_block(view.t, arms), self._tied(view), values, least, near, evidence)

    def _tied(self, view: View) -> Array:
        margin = view.linear.margin
        return view.lanes.any(view.shape.ties(margin, float(jnp.finfo(margin.dtype).eps)))

    def _pull(self, view: View, x: Array, z: Array) -> tuple[Array, Array]:
        x = view.lanes.materialize(lambda x, z, time: ((time - 1) * x + z) / time, x, z, view.time)
        return view.lanes.argmax(x / view.counts), x

    def _play(self, view: View, look: _Look, rows: Array) -> Array:
        """An optimal z of max_z min over the pieces p in `rows` of (z - x) . grad_p: [K]."""
        most, many = rows.shape[0], rows.ndim > 1
        values = jnp.where(rows, look.values, jnp.inf)

        def together(size):
            return lambda: games.solve(view.lanes, *_payoffs(look.evidence, values, size)).strategy

        def one(lane):
            pick = lambda tree: jax.tree.map(lambda x: x[..., lane], tree)  # noqa: E731
            features = view.space.features
            features = features if features.ndim == 2 else pick(features)
            space = dataclasses.replace(view.space, lanes=LaneOps(None), features=features)
            bare: Any = dataclasses.replace(look.evidence, space=None)  # type: ignore[arg-type]
            evidence = dataclasses.replace(pick(bare), space=space)
            return games.solve(space.lanes, *_payoffs(evidence, pick(values), most)).strategy

        sizes = [size for size in _BATCHED_ROWS if many and size < most]
        branches = [together(size) for size in sizes]
        if many and most > _BATCHED_ROWS[-1]:
            each = jnp.arange(rows.shape[1], dtype=jnp.int32)
            branches.append(lambda: jnp.moveaxis(jax.lax.map(one, each), 0, -1))
        else:
            branches.append(together(most))
        largest = jnp.max(view.lanes.sum(rows))
        if not sizes:
            return branches[0]()
        return jax.lax.switch(sum((largest > size).astype(jnp.int32) for size in sizes), branches)


def _payoffs(evidence: LinearEvidence, values: Array, size: int) -> tuple[Array, Array]:
    """The rows grad_p - f_p of the game, f_p = x . grad_p, and which of them exist.

    They belong to the pieces with finite `values` f_p, at most `size`: [size, K] and
    [size] bool.
    """
    lanes = evidence.space.lanes

    def add(n, c):
        left, payoffs, mask = c
        piece = lanes.argmin(left)
        value = lanes.take(left, piece)
        there = value < jnp.inf
        row = jnp.where(there, evidence.gradient(piece) - value, 0)
        left = jnp.where(index_like(left) == piece, jnp.inf, left)
        return left, payoffs.at[n].set(row), mask.at[n].set(there)

    arms, *lane = evidence.design.g.shape
    payoffs, mask = jnp.zeros((size, arms, *lane), values.dtype), jnp.zeros((size, *lane), bool)
    count = jnp.minimum(jnp.max(lanes.sum(values < jnp.inf)), size)
    return jax.lax.fori_loop(0, count, add, (values, payoffs, mask))[1:]
