"""RAGE."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import integer, real
from jaxelim.contracts import SamplingRule, Traits
from jaxelim.evidence.linear import LinearEvidence
from jaxelim.lanes import LaneOps, index_like, pytree, settings, where
from jaxelim.rules.parts.indices import dominated

_LONGEST = 2**30  # most samples of a phase, whose counts must fit int32; above any cap
_SMALL = 1e-5  # smaller entries of a design are dropped


@pytree
class RAGEState:
    """The phase, the active arms, and the remaining pulls of the phase."""

    phase: Array  # [] int32
    active: Array  # [K] bool; of items [P]
    left: Array  # [K] int32


@settings
class RAGE(SamplingRule):
    """Sample in phases: design for the differences of active arms, pull it, discard arms.

    ::

        Phase l = 1, 2, ..., with delta_l = delta/l^2 and L_l = log(2 K^2/delta_l):
        w = argmin_w rho(w), rho(w) = max over active i < j of ||phi_i - phi_j||^2_{V_w^-1};
        samples = max(ceil(8 4^(l-1) rho (1 + slack) L_{max(l-1, 1)}), 20 |supp w|),
        rounded efficiently; pull the arm with most pulls left;
        at the end discard arm i if for some active arm j
        sqrt(2 ||phi_j - phi_i||^2_{V^-1} L_l) <= (phi_j - phi_i) . theta_hat.
        Stop at one active arm.

    Of items, z_i takes the place of phi_i in the differences, and their number P that of K in
    L_l. Frank-Wolfe computes w from uniform weights, by steps 2/(n + 2), until one is at most
    `accuracy` times as long as w. Entries below 1e-5 are dropped.

    Fiez, Jain, Jamieson & Ratliff 2019. As in the authors' program: V and theta_hat are
    those of all samples so far, not of the phase; rho belongs to the weights from which
    the last step started; L_{l-1} sizes phase l. Fiez et al.'s own program takes each phase
    by itself, and discards items with the K of the arms in L_l.

    Args:
        slack: epsilon of the rounding, which lengthens a phase by the factor 1 + slack.
        accuracy: the relative step length at which Frank-Wolfe ends.
        steps: the largest number of Frank-Wolfe steps.
    """

    slack: float = 0.1
    accuracy: float = 0.01
    steps: int = 5000
    traits: ClassVar[Traits] = Traits(
        problems=("best-arm", "best-item"), native="only", elimination=False, reads=("delta",),
        lanes_last=True, basis_free=True, source="Fiez et al. 2019",
    )  # fmt: skip
    native_test: ClassVar[str] = (
        "no proof covers the native test of RAGE here: it pools phases whose designs depend on "
        "earlier rewards, and its bound holds for a design fixed beforehand"
    )

    def __post_init__(self):
        object.__setattr__(self, "slack", real("slack", self.slack, low=0))
        object.__setattr__(self, "accuracy", real("accuracy", self.accuracy, low=0))
        object.__setattr__(self, "steps", integer("steps", self.steps, low=1))

    def init(self, view):
        none = jnp.zeros(view.means.shape, jnp.int32)
        phase = jnp.zeros_like(view.t)
        return RAGEState(phase, jnp.ones_like(view.linear.candidates, bool), none)

    def choose(self, view, state, rarely):
        over = ~view.lanes.any(state.left > 0)
        state = rarely(over, lambda: self._next_phase(view, state, over), state)
        arm = view.lanes.argmax(state.left.astype(view.means.dtype))
        left = jnp.where(index_like(state.left) == arm, state.left - 1, state.left)
        return arm, dataclasses.replace(state, left=left)

    def _next_phase(self, view, state, over):
        """Discard arms, and design the next phase where the last is `over` [] bool."""
        beaten = dominated(view, state.active, self._width(view, state))
        active = state.active & ~(beaten & (state.phase > 0))
        # With one active arm no phase follows, and the run ends.
        begins = over & (view.lanes.sum(active) > 1)
        weights, rho = self._design(view, active, begins)
        support = view.lanes.sum(weights > 0)
        scale = jnp.ldexp(8 * rho, 2 * state.phase) * (1 + self.slack)
        samples = jnp.ceil(scale * (self._width(view, state) / 2))
        samples = jnp.where(begins, jnp.minimum(samples, _LONGEST), 0).astype(jnp.int32)
        samples = jnp.maximum(samples, 20 * support)
        left = _efficiently_rounded(view.lanes, weights, samples, support, begins)
        return RAGEState(state.phase + 1, active, jnp.where(begins, left, 0))

    def _design(self, view, active, begins):
        """argmin_w rho(w) by Frank-Wolfe, in lanes where `begins` [] holds: w [K], and rho []."""
        lanes, index = view.lanes, index_like(view.means)

        def body(c):
            n, w, rho, runs = c
            now = view.linear.weighted(w)
            far, i, j = _farthest(now, active)
            along = now.along_pair(i, j)
            arm = lanes.argmax(along**2)
            # The order matters: where arms tie exactly in turn, rounding decides between them. XLA
            # takes a product with 1/x for a division too, but not in every program.
            step = -w * 2 * (1 / (n + 2))
            step = step + jnp.where(index == arm, 2 / (n + 2), 0)
            after = w + step
            more = jnp.sqrt(lanes.sum(step**2) / lanes.sum(after**2)) >= self.accuracy
            return n + 1, *where(runs, (after, far), (w, rho)), runs & more

        uniform = jnp.full_like(view.means, 1 / view.means.shape[0])
        start = (jnp.ones((), view.means.dtype), uniform, jnp.ones_like(view.beta), begins)
        _, w, rho, _ = jax.lax.while_loop(
            lambda c: (c[0] <= self.steps) & jnp.any(c[3]), body, start
        )
        w = jnp.where(w < _SMALL, 0, w)
        return w * (1 / lanes.sum(w)), rho

    def _width(self, view, state):
        """2 log(2 K^2/delta_l), with delta_0 = delta_1."""
        level = view.delta / jnp.maximum(state.phase, 1).astype(view.delta.dtype) ** 2
        return 2 * jnp.log(2 * state.active.shape[0] ** 2 / level)

    def native(self, view, state):
        return view.lanes.sum(state.active) == 1, state.active


def _farthest(linear: LinearEvidence, active: Array) -> tuple[Array, Array, Array]:
    """The largest ||phi_i - phi_j||^2_{V^-1} over active i < j, and the first such pair."""
    lanes, index = linear.space.lanes, index_like(active)

    def body(i, c):
        best, first = c
        distance = jnp.where(active & active[i] & (index > i), linear.distances(i), -jnp.inf)
        return jnp.where(distance > best, distance, best), jnp.where(distance > best, i, first)

    arms = active.shape[0]
    least = jnp.full(active.shape, -jnp.inf, linear.means.dtype)
    start = (least, jnp.full(active.shape, arms, jnp.int32))
    best, first = jax.lax.fori_loop(np.int32(0), np.int32(arms), body, start)
    most = lanes.max(best)
    i = lanes.min(jnp.where(best == most, first, arms).astype(best.dtype)).astype(jnp.int32)
    return most, i, lanes.argmax(((best == most) & (first == i)).astype(best.dtype))


def _efficiently_rounded(
    lanes: LaneOps, weights: Array, samples: Array, support: Array, begins: Array
) -> Array:
    """Integers [K] close to samples * weights [K], with sum `samples` [], where `begins` [] holds.

    Efficient rounding (Pukelsheim & Rieder 1992). `support` [] is the number of positive weights.
    """
    index = index_like(weights)
    held = weights > 0
    some = jnp.where(held, weights, 1)

    def body(c):
        n, missing = c
        real = n.astype(weights.dtype)
        short = lanes.argmin(jnp.where(held, real / some, jnp.inf))
        long = lanes.argmax(jnp.where(held, (real - 1) / some, -jnp.inf))
        change = jnp.sign(missing)
        arm = jnp.where(missing > 0, short, long)
        return n + jnp.where(index == arm, change, 0), missing - change

    target = samples.astype(weights.dtype) - support.astype(weights.dtype) / 2
    n = jnp.ceil(target * weights).astype(jnp.int32)
    missing = jnp.where(begins, samples - lanes.sum(n), 0)
    return jax.lax.while_loop(lambda c: jnp.any(c[1] != 0), body, (n, missing))[0]
