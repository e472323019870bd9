"""Racing by likelihood ratios."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import SamplingRule
from jaxelim.contracts.proofs import EQUAL_INTERVALS, REFUTED_PAIRS
from jaxelim.contracts.traits import Traits
from jaxelim.errors import ArgumentError
from jaxelim.lanes import index_like
from jaxelim.sampling.parts.indices import observed

TESTS = ("llr", "interval")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ChernoffRacingState:
    """The remaining arms, and the arm pulled last."""

    remaining: Array  # [K] bool
    last: Array  # [] int32


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ChernoffRacing(SamplingRule):
    """Pull every remaining arm once a round; drop at most one arm after each round.

    b and w are the best and the worst of the remaining arms, by their means.
    test="llr": drop w if the threshold refutes {mu_b <= mu_w}: if its LLR exceeds
    beta(t, delta), or its evidence the level of a `Mixture`.
    test="interval": drop w if L_b > U_w, bounds at level beta(t, delta).
    Here t is the number of samples so far. Stop when one arm remains; it is the answer.

    Rounds go in index order. The initial pulls are the first round.

    Garivier & Kaufmann 2016, section on experiments: Chernoff-Racing, and KL-Racing.

    Args:
        test: "llr" or "interval".

    Raises:
        ArgumentError: test is neither.
    """

    test: str = "llr"
    traits: ClassVar[Traits] = Traits(
        problems=("best-arm",),
        structures=("unstructured",),
        families=None,
        stopping=("native",),
        elimination=False,
        tests_pieces=False,
        lanes_last=True,
        source="Garivier & Kaufmann 2016",
    )

    def __post_init__(self):
        if self.test not in TESTS:
            raise ArgumentError("test", self.test, '"llr" or "interval"')

    def needs(self, family, problem):
        return ("interval",)  # rounds read them too

    def init(self, view):
        every = jnp.ones_like(view.means, bool)
        return ChernoffRacingState(every, jnp.full_like(view.t, view.means.shape[0] - 1))

    def _falls(self, view, best, worst, over):
        """Whether the test where a round is over, [] bool, drops the worst arm."""
        if self.test == "llr":
            return view.refutes(best, worst, over)
        interval = observed(view, view.beta_checked)[1]
        lower, upper = view.lanes.take(interval.lower, best), view.lanes.take(interval.upper, worst)
        return over & (lower > upper)

    def choose(self, view, state):
        lanes, index = view.lanes, index_like(view.means)
        means = observed(view)[0]
        best = lanes.argmax(jnp.where(state.remaining, means, -jnp.inf))
        worst = lanes.argmin(jnp.where(state.remaining, means, jnp.inf))
        over = ~lanes.any(state.remaining & (index > state.last))
        falls = self._falls(view, best, worst, over)
        remaining = state.remaining & ~(falls & (index == worst))
        waiting = remaining & (over | (index > state.last))
        arm = lanes.argmax(waiting.astype(view.means.dtype))
        return arm, ChernoffRacingState(remaining, arm)

    def native(self, view, state):
        return view.lanes.sum(state.remaining) == 1, state.remaining

    def native_test(self):
        return REFUTED_PAIRS if self.test == "llr" else EQUAL_INTERVALS
