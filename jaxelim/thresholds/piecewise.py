"""The contract of a threshold whose level depends on the piece and its counts."""

from typing import TYPE_CHECKING, Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import ArgumentError, UnsupportedError, in_words, undefined

if TYPE_CHECKING:
    from jaxelim.contracts import Problem
    from jaxelim.contracts.views import Snapshot
    from jaxelim.instances.arms import Arms


class PieceThreshold:
    """A test that refutes a piece p at the looks where log e_p exceeds its level.

    A subclass is a frozen dataclass of settings. It defines the level, `__call__(t,
    delta)`, of jax.numpy operations, and `log_e(seen)`. A level that differs by piece is
    the same thing: log e_p = LLR_p - level_p + level.

    The engine looks at a run at every t below 256, then at times 0.4% to 0.8% apart, and
    only where an LLR exceeds `gate(level, seen)`. So a test must be valid at all times at once.

    `Result.proven` says that it states no proof, whatever the call, unless it defines
    `proof(call)`; see `jaxelim.contracts.proofs`. A ridge is allowed unless `bound` refuses it.
    """

    def __call__(self, t: Array, delta: Array) -> Array:
        """The level at t samples, which e_p is compared with: [], above 0."""
        raise undefined(self, "__call__(t, delta)")

    def log_e(self, seen: "Snapshot") -> Array:
        """log e_p of the pieces of `seen.shape`, at `seen.stats`: [Q].

        It is called for one run, under `jax.vmap`, and has no `seen.evidence`. Places
        without a piece may hold any number.
        """
        raise undefined(self, "log_e(seen)")

    def log_e_above(self, seen: "Snapshot") -> Array | None:
        """An upper bound on `log_e` that costs less, called as it is: [Q]; None: there is none."""
        return None

    def gate(self, level: Array, seen: "Snapshot") -> Array:
        """The LLR that a piece must exceed before a run looks at it: []."""
        return level

    def bound(self, instance: "Arms", problem: "Problem", **call: Any) -> Self:
        """Host: the threshold with what it takes from a call, such as a number of pieces.

        Args:
            instance: of the call.
            problem: of the call.
            call: `rule`, of the call; `ridge`, a number or None; `stopping`, a tuple of
                stopping rules; `elimination`, at sampling, or None.

        Raises:
            UnsupportedError: the threshold is not defined for them.
        """
        return self

    def price(self, instance: "Arms", times: np.ndarray) -> np.ndarray:
        """Host: by how much the LLR exceeds log e_p after so many samples, about: [n].

        Args:
            instance: the arms.
            times: [n].
        """
        return np.zeros_like(times)

    def width(self, t: Array, delta: Array) -> Array:
        """What sampling rules read as beta, where their own test ends no run: [].

        It may be any number above 0, as the test is valid under every sampling rule.
        """
        return self(t, delta) + jnp.log(1 + t)

    def arm_levels(self, counts: Array, delta: Array) -> Array:
        """Levels beta_k of the arms' confidence intervals, n_k d(m_k, y) <= beta_k: [K].

        For rules whose own test compares intervals, after `counts` [K] pulls. Without this
        method `stopping=Native()` is refused with such a rule.
        """
        raise undefined(self, "arm_levels(counts, delta)")


def bound(
    threshold: PieceThreshold, instance: "Arms", problem: "Problem", **call: Any
) -> PieceThreshold:
    """Host: `threshold.bound(..)`, checked, with the arguments of that method.

    Raises:
        ArgumentError: it raises, returns something else, or defines no `log_e`.
        UnsupportedError: as the method; or the rule's own test ends the runs and compares
            levels of arms, and the threshold has none.
    """
    name, allowed = type(threshold).__name__, "a PieceThreshold with log_e(seen)"
    if type(threshold).log_e is PieceThreshold.log_e:
        raise ArgumentError("threshold", threshold, allowed, f"{name} does not define it")
    allowed += ", whose bound(instance, problem, **call) returns one"
    try:
        bounded = threshold.bound(instance, problem, **call)
    except ArgumentError:
        raise
    except Exception as error:
        note = f"bound raised {in_words(error)}"
        raise ArgumentError("threshold", threshold, allowed, note) from error
    if not isinstance(bounded, PieceThreshold):
        raise ArgumentError("threshold", threshold, allowed, f"bound returned {bounded!r}")
    stopping, rule = call["stopping"], call["rule"]
    if any(stop.name == "native" for stop in stopping):
        if type(bounded).arm_levels is PieceThreshold.arm_levels:
            other = "LLR()" if "llr" in rule.traits.stopping else "LLR(), with another rule"
            allowed = f"{other}: the native test of {type(rule).__name__} reads levels of arms, and"
            raise UnsupportedError("stopping", stopping, f"{allowed} {name} has no arm_levels")
    return bounded
