"""Stopping rules and eliminations, which decide when a run may end.

An elimination drops pieces one by one and stops when none is left. It does not change a
run, so several can be observed on one trajectory. On any trajectory
tau_full <= tau_selective <= tau_LLR. (Paper, section "Elimination stopping".)
"""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import real
from jaxelim.contracts import PieceSet, StoppingRule
from jaxelim.contracts.sets import PairSet, SignSet, made_from
from jaxelim.contracts.views import Snapshot, Tree
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.lanes import settings, where

__all__ = ["LLR", "FullElimination", "Native", "Resets", "SelectiveElimination"]

_LAST = 2**31
"""Larger than every t."""


@settings
class LLR(StoppingRule):
    """Stop when the least LLR over the empirical answer's pieces exceeds beta(t, delta).

    (Paper, section 2.)
    """

    name: ClassVar[str] = "llr"

    def observe(self, seen: Snapshot, state: Tree, beta: Array) -> tuple[Tree, Array, Array]:
        return state, seen.all_refuted(beta), seen.shape.total()


@settings
class Native(StoppingRule):
    """Stop by the native test of the sampling rule, for rules that have one."""

    name: ClassVar[str] = "native"
    native: ClassVar[bool] = True

    def observe(self, seen: Snapshot, state: Tree, beta: Array) -> tuple[Tree, Array, Array]:
        return state, jnp.zeros_like(beta, bool), jnp.zeros_like(beta, jnp.int32)


@settings
class SelectiveElimination(StoppingRule):
    """Test the active pieces of the empirical answer; stop when none is left.

    Drops the pieces whose LLR exceeds beta. (Paper, section "Elimination stopping";
    efficient forms in the appendix "Identification Problems".)
    """

    name: ClassVar[str] = "selective"
    eliminates: ClassVar[bool] = True

    def start(self, seen: Snapshot, pair_times: bool = False) -> PieceSet:
        return seen.problem.pieces(seen, pair_times)

    def update(self, seen: Snapshot, state: PieceSet, beta: Array) -> PieceSet:
        return state.drop(seen, seen.refuted(beta, state.active(seen)))

    def observe(
        self, seen: Snapshot, state: PieceSet, beta: Array
    ) -> tuple[PieceSet, Array, Array]:
        tested = state.tests(seen, self.full)
        state = self.update(seen, state, beta)
        return state, state.settled(seen, self.full), tested

    def answer(self, seen: Snapshot, state: PieceSet) -> Array:
        return state.verdict(seen, self.full)


@settings
class FullElimination(SelectiveElimination):
    """As `SelectiveElimination`, but test the pieces of every answer.

    (Paper, section "Elimination stopping".)
    """

    name: ClassVar[str] = "full"
    full: ClassVar[bool] = True

    def update(self, seen: Snapshot, state: PieceSet, beta: Array) -> PieceSet:
        state = state.drop_all(seen, beta)
        return state if seen.decided is None else state.drop(seen, seen.decided)


@settings
class Resets:
    """Eliminate at sampling with sets that are reset at t0^(2^j), as in the paper's theory.

    ::

        At check t, if t = ceil(t0^(2^j)): last := helper, helper := all;
        then helper loses every tested piece with LLR > alpha(t, delta),
        alpha = (sqrt(beta(t, delta) + (4 c2 - c1) log t) + 4 sqrt((c2/c1) beta(t, 1/t^2)))^2;
        sampling reads the answer's pieces in both helper and last; if none is left, all.

    c1, c2 and t0 = max(2, sqrt(x0)) come from the threshold's `constants`. The
    paper's alpha is much larger than beta, so it eliminates few pieces in runs as
    short as those of its tables. (Paper, section "Elimination at sampling" and its
    last algorithm.)

    Args:
        rule: `SelectiveElimination()` or `FullElimination()`: which pieces are tested.
        alpha: a callable of (t, delta) in place of the formula.
        t0: the first reset, from 2 to 2^31. None: from the threshold; or 2 if alpha is
            given and the threshold has no constants.
    """

    rule: SelectiveElimination
    alpha: Callable | None = None
    t0: float | None = None
    shared: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.rule, SelectiveElimination):
            raise ArgumentError("rule", self.rule, "SelectiveElimination() or FullElimination()")
        if self.alpha is not None and not callable(self.alpha):
            raise ArgumentError("alpha", self.alpha, "a callable of (t, delta)")
        if self.t0 is not None:
            object.__setattr__(self, "t0", real("t0", self.t0, low=2, high=_LAST))

    @property
    def full(self) -> bool:
        """Whether it tests the pieces of every answer."""
        return self.rule.full

    def check(self, threshold: Callable) -> None:
        """Host: refuse a threshold without constants, unless alpha is given.

        Raises:
            UnsupportedError: the threshold has no constants and alpha is None.
            ArgumentError: the constants give a first reset beyond 2^31.
        """
        if self.alpha is None and not hasattr(threshold, "constants"):
            allowed = f"an alpha of its own: {threshold!r} has no constants c1, c2, x0"
            raise UnsupportedError("elimination", self, allowed)
        first = self._first(threshold)
        if not first <= _LAST:
            allowed = "constants c1, c2, x0 with sqrt(x0) at most 2^31, or t0 given to Resets"
            raise ArgumentError("threshold", threshold, allowed, f"sqrt(x0) is {first:g}")

    def _first(self, threshold: Callable) -> float:
        """The time t0 of the first reset."""
        if self.t0 is not None or not hasattr(threshold, "constants"):
            return self.t0 or 2.0
        return float(np.maximum(2.0, threshold.constants(0.0)[2] ** 0.5))

    def reset_times(self, threshold: Callable) -> np.ndarray:
        """The reset times ceil(t0^(2^j)), j = 0, 1, .., below 2^31: int32."""
        times = [np.ceil(self._first(threshold) ** (2.0**j)) for j in range(6)]
        return np.array([t for t in times if t < _LAST], np.int32)

    def level(self, threshold: Callable, t: Array, delta: Array) -> Array:
        """The level alpha(t, delta)."""
        if self.alpha is not None:
            return self.alpha(t, delta)
        c1, c2, _ = threshold.constants(0.0)  # type: ignore[attr-defined]
        wide = jnp.sqrt(threshold(t, delta) + (4 * c2 - c1) * jnp.log(t))
        return (wide + 4 * jnp.sqrt((c2 / c1) * threshold(t, 1 / t**2))) ** 2

    def start(self, seen: Snapshot) -> tuple[PieceSet, PieceSet]:
        """The sets helper and last, both full."""
        full = _full(seen)
        return full, full

    def update(
        self, seen: Snapshot, state: tuple[PieceSet, PieceSet], delta: Array, threshold: Callable
    ) -> tuple[PieceSet, PieceSet]:
        """The sets helper and last after this check."""
        helper, last = state
        t, times = seen.stats.t, self.reset_times(threshold)
        if seen.check.since is None:
            resets = jnp.any(t[..., None] == times, -1)
        else:  # a group of rewards may pass a time of reset
            resets = jnp.any((seen.check.since[..., None] < times) & (times <= t[..., None]), -1)
        last = where(resets, helper, last)
        helper = where(resets, _full(seen), helper)
        alpha = self.level(threshold, t.astype(seen.means.dtype), delta)
        return self.rule.update(seen, helper, alpha), last

    def active(self, seen: Snapshot, state: tuple[PieceSet, PieceSet]) -> Array:
        """The answer's pieces for sampling: [Q] bool."""
        active = state[0].active(seen) & state[1].active(seen)
        return jnp.where(seen.lanes.any(active), active, seen.shape.exists)


def _full(seen: Snapshot) -> PieceSet:
    """The full set, without times and early ends."""
    full = seen.problem.pieces(seen)
    return made_from(seen) if isinstance(full, PairSet | SignSet) else full
