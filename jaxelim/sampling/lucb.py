"""LUCB."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.base import SamplingRule
from jaxelim.indices import less_pulled, observed
from jaxelim.problems import Thresholding, TopM


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LUCBState:
    """What the last choice found."""

    stop: Array  # [] bool: its own test holds
    mask: Array  # [K] bool: its answer
    looked: Array  # [] int32: how many pieces it looked at


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LUCB(SamplingRule):
    """Pull the less pulled of the two arms whose confidence intervals overlap most across the boundary of the answer.

    mu_k = R_k/N_k, radius r_k = sqrt(2 beta(t, delta)/N_k), answer by these means;
    (b, c) = argmax over its active pieces of (mu_c + r_c) - (mu_b - r_b); the less pulled of b and c (ties: c);
    signs: the active arm with the largest r_k - |mu_k - level|. It stops once that maximum is not positive.

    Kalyanakrishnan, Tewari, Auer & Stone 2012, one pull at a time. As in the authors' program, but that exact ties go to
    the lowest index. Its own test stays in force whatever else is observed.
    """

    problems: ClassVar[tuple[str, ...]] = ("best-arm", "top-m", "thresholding")
    structures: ClassVar[tuple[str, ...]] = ("unstructured",)
    stopping: ClassVar[tuple[str, ...]] = ("llr", "selective", "full", "native")
    always_native: ClassVar[bool] = True
    lanes_last: ClassVar[bool] = True
    source: ClassVar[str] = "Kalyanakrishnan et al. 2012"

    def init(self, view):
        return LUCBState(jnp.zeros_like(view.t, bool), jnp.zeros_like(view.means, bool), jnp.zeros_like(view.t))

    def choose(self, view, state):
        problem, lanes, arms = view.problem, view.lanes, view.means.shape[0]
        means, radius = observed(view)
        answer = problem.answer(view.space, means, None)
        active, looked = view.active_of(answer)
        inside = []
        if isinstance(problem, Thresholding):
            overlap = radius - jnp.abs(means - problem.level)
        else:
            inside = [answer.top[r] for r in range(problem.m)] if isinstance(problem, TopM) else [answer]
            upper, lower = means + radius, means - radius
            overlap = jnp.concatenate([upper - lanes.take(lower, b) for b in inside])
        overlap = jnp.where(active, overlap, -jnp.inf)
        piece = lanes.argmax(overlap)
        state = LUCBState(lanes.take(overlap, piece) <= 0, problem.mask(answer, means), looked)
        if not inside:
            return piece, state
        b = inside[0] if len(inside) == 1 else lanes.take(answer.top, piece // arms)
        return less_pulled(view, b, piece % arms), state

    def reads(self, view, state):
        return state.looked

    def native(self, view, state):
        return state.stop, state.mask
