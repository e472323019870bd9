"""Thresholds from deviation inequalities that hold at all times at once.

`KaufmannKoolen` is proven for every sampling rule and for the LLR, selective and full
stops. docs/reference/definitions.md says where each formula was read.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import integer
from jaxelim.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from jaxelim.contracts.proofs import Call
    from jaxelim.instances.arms import Arms

_STEPS = 4
"""Newton steps for h^-1. They reach rounding in float64 for every x from 0 to 2000."""

_LARGEST = 800.0
"""The table of minimisers lambda ends here; -log(1e-300) is 691."""


def h_inverse(x: Array) -> Array:
    """The u >= 1 with u - log u = 1 + x, entry by entry, for x >= 0.

    Newton from 1 + x + sqrt(2 x), which is at or above the solution. u - log u is
    convex, so the steps fall towards it.
    """
    # u - 1 is at least sqrt(2 x); the tiny number stands in for 0/0 at x = 0.
    least = jnp.maximum(jnp.sqrt(2 * x), 1e-18)
    w = x + least
    for _ in range(_STEPS):
        w = jnp.maximum((1 + w) * (jnp.log1p(w) + x) / w - 1, least)
    return 1 + w


_LOG = math.log(1.5)
_CURVED = 1 / _LOG + math.log(_LOG)
"""h~ is a line below h(1/log(3/2)) = 1.5636, where xi of the theorem is at its end 1/2."""


def _h_tilde(y: Array) -> Array:
    """e^(1/u) u with u = h^-1(y), for y >= h(1/log(3/2)); else (3/2) (y - log log(3/2)).

    It is min over xi in (0, 1/2] of (1 + xi) (y - log log(1 + xi)), so it is continuous
    and rises. h(u) = u - log u.
    """
    u = h_inverse(jnp.maximum(y, _CURVED) - 1)
    return jnp.where(y >= _CURVED, u * jnp.exp(1 / u), 1.5 * (y - math.log(_LOG)))


def exponential_family(x: Array) -> Array:
    """T(x) = 2 h~((h^-1(1 + x) + log(2 zeta(2)))/2), entry by entry, for x >= 0.

    P(some n: n d(mean of n rewards, mu) - 3 log(1 + log n) > T(x)) <= e^-x.
    (Kaufmann & Koolen 2021)
    """
    return 2 * _h_tilde((h_inverse(x) + math.log(math.pi**2 / 3)) / 2)


@functools.cache
def _gaussian_tables() -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev coefficients of the minimiser lambda, and of the regular part of log zeta.

    The first are of log((1 - e)/e) in log(1 + x) on [0, log(1 + 800)]; e = 2 lambda - 1.
    The second are of log(e zeta(1 + e)) in e on [0, 1].
    """
    from scipy.special import zeta

    chebyshev = np.polynomial.chebyshev
    count = 18
    nodes = np.cos(math.pi * (np.arange(count) + 0.5) / count)
    e = (nodes + 1) / 2
    regular = chebyshev.chebfit(nodes, np.log(e * zeta(1 + e)), 13)
    slope = 2 * chebyshev.chebder(regular)

    def x_of(e: np.ndarray) -> np.ndarray:
        """The x at which lambda = (1 + e)/2 is the minimiser: lambda g' - g."""
        derivative = 2 * chebyshev.chebval(2 * e - 1, slope) - 2 / e
        derivative = derivative - 2 * np.log(2 * (1 + e)) + 1 / (1 - e)
        return (1 + e) / 2 * derivative - _g(np, e, np.log(e), np.log1p(-e), regular)

    asked = np.expm1((nodes + 1) / 2 * math.log1p(_LARGEST))
    low, high = np.full(count, -12.0), np.full(count, 2.0)  # of log((1 - e)/e); x falls in it
    for _ in range(60):
        middle = (low + high) / 2
        above = x_of(1 / (1 + np.exp(middle))) > asked
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return chebyshev.chebfit(nodes, (low + high) / 2, 16), regular


def _sum(coefficients: np.ndarray, u: Any) -> Any:
    """Clenshaw's sum of a Chebyshev series at u in [-1, 1]."""
    last, before = 0 * u, 0 * u
    for coefficient in coefficients[:0:-1]:
        last, before = float(coefficient) + 2 * u * last - before, last
    return float(coefficients[0]) + u * last - before


def _g(np_: Any, e: Any, log_e: Any, log_rest: Any, regular: np.ndarray) -> Any:
    """g_G at lambda = (1 + e)/2, given log e and log(1 - e)."""
    log_zeta = _sum(regular, 2 * e - 1) - log_e
    smooth = (1 + e) * (1 - math.log(2) - np_.log1p(e))
    return smooth + log_zeta - (log_rest - math.log(2)) / 2


def gaussian(x: Array) -> Array:
    """C_G(x) = min over lambda in (1/2, 1] of (g_G(lambda) + x)/lambda, for x >= 0.

    g_G(lambda) = 2 lambda - 2 lambda log(4 lambda) + log zeta(2 lambda)
    - log(1 - lambda)/2. P(some n: n d(mean of n rewards, mu) - 2 log(4 + log n) > C_G(x))
    <= e^-x for Gaussian rewards. (Kaufmann & Koolen 2021)

    The minimiser is read from a table, to 1e-6 or better. Any lambda gives a valid bound, and
    the minimum changes by the square of the error, which is below rounding.
    """
    minimiser, regular = _gaussian_tables()
    top = math.log1p(_LARGEST)
    u = jnp.clip(2 / top * jnp.log1p(x) - 1, -1, 1)
    odds = _sum(minimiser, u)  # log((1 - e)/e)
    power = jnp.exp(odds)
    e = 1 / (1 + power)
    log_e = -jnp.log1p(power)
    return 2 * (_g(jnp, e, log_e, odds + log_e, regular) + x) / (1 + e)


@dataclasses.dataclass(frozen=True)
class KaufmannKoolen:
    """A threshold that is proven for LLR, selective and full stops, and for every rule.

    ::

        With n = max(t/arms, 1) and x = log(pieces/delta)/arms:
        beta = arms (T(x) + 3 log(1 + log n)) for one-parameter exponential families,
        beta = arms (C_G(x) + 2 log(4 + log n)) for Gaussian rewards of known variance.

    T and C_G are `exponential_family` and `gaussian` of this module. The sum over the
    arms of a piece is at most what it is at equal counts t/arms, since log(1 + log n)
    and log(4 + log n) are concave. There must be no ridge.
    (Kaufmann & Koolen 2021; those who cite arXiv:1811.11419 number the two bounds Theorem
    14 and Corollary 10)

    Args:
        pieces: number of pieces of which one must not be refuted, at least 1: K - 1 for
            best arm, m (K - m) for top m, K for signs.
        arms: number of arms that a piece compares: 2 for best arm and top m, 1 for
            signs. All K for linear arms, with one piece: then for every problem.
        gaussian: whether rewards are Gaussian of known variance; else any one-parameter
            exponential family.

    Raises:
        ArgumentError: pieces or arms is no such integer, or gaussian no bool.

    Example:
        >>> problem = BestArm()
        >>> KaufmannKoolen.of(Instance.unstructured([0.3, 0.2, 0.1], Bernoulli()), problem)
        KaufmannKoolen(pieces=2, arms=2, gaussian=False)
    """

    pieces: int
    arms: int = 2
    gaussian: bool = False

    @classmethod
    def of(cls, instance: "Arms", problem: Any) -> "KaufmannKoolen":
        """The threshold of an instance and best arm, best item, top m or signs.

        Linear arms: one piece of all K arms, for every problem. Half the squared
        distance of theta_hat from theta in the norm of V is at most the sum of the
        arms' own.

        Raises:
            UnsupportedError: another problem, or another family of rewards.
        """
        family = instance.family
        tested = getattr(family, "family", family)  # of recorded rewards too
        normal = getattr(tested, "stated_law", str)() == "gaussian"
        if not normal and not hasattr(tested, "divergence"):
            raise UnsupportedError("family", family, _REWARDS)
        needed = _pieces_and_arms(problem, instance.structure, instance.K)
        if needed is None:
            allowed = "best-arm, best-or-none, best-item, top-m or thresholding; for others "
            allowed += "give pieces and arms"
            raise UnsupportedError("problem", problem, allowed)
        return cls(*needed, normal)

    def __post_init__(self) -> None:
        for name in ("pieces", "arms"):
            object.__setattr__(self, name, integer(name, getattr(self, name), low=1))
        if not isinstance(self.gaussian, bool | np.bool_):
            raise ArgumentError("gaussian", self.gaussian, "True or False")
        object.__setattr__(self, "gaussian", bool(self.gaussian))

    def __call__(self, t: Array, delta: Array) -> Array:
        x = (math.log(self.pieces) - jnp.log(delta)) / self.arms
        log_n = jnp.log(jnp.maximum(t / self.arms, 1))
        if self.gaussian:
            return self.arms * (gaussian(x) + 2 * jnp.log(4 + log_n))
        return self.arms * (exponential_family(x) + 3 * jnp.log1p(log_n))

    def proof(self, call: "Call") -> bool | str:
        """True without a ridge, where pieces and arms are at least those of the problem.

        Every rule; LLR, selective and full stops, and native tests that compare the arms'
        intervals or LLRs: where these end a run, pieces are refuted too.

        Raises:
            UnsupportedError: rewards of unknown variance, a ridge, or gaussian=True for
                other rewards.
        """
        if call.law == "gaussian of unknown variance":
            raise UnsupportedError("family", call.family, _REWARDS)
        if self.gaussian and call.law == "one-parameter":
            allowed = f"KaufmannKoolen(.., gaussian=False) for {call.family!r}"
            raise UnsupportedError("threshold", self, allowed)
        if call.ridge:
            raise UnsupportedError("ridge", call.ridge, f"None or 0 with {self!r}")
        if call.law not in ("gaussian", "one-parameter"):
            return call.other_law(_REWARDS)
        if self.arms != call.arms:  # all K arms cover every problem with one piece
            needed = _pieces_and_arms(call.problem, call.structure, call.arms)
            if needed is None:
                return f"for this problem it needs arms = {call.arms}, all of them"
            if self.pieces < needed[0] or not needed[1] <= self.arms <= call.arms:
                return f"this call needs pieces = {needed[0]} and arms = {needed[1]}"
        return call.uncovered(call.refuting, "tests that refute pieces") or True


_REWARDS = "gaussian of known variance, or a one-parameter exponential family"


def _pieces_and_arms(problem: Any, structure: str, k: int) -> tuple[int, int] | None:
    """The pieces and arms that cover a problem; None: not known."""
    if structure == "linear" or problem.name == "best-item":  # pieces compare all arms
        return 1, k
    if problem.name == "best-or-none":  # levels of one arm are covered as pairs are
        return k, 2
    if problem.name == "best-arm":
        return k - 1, 2
    if problem.name == "top-m":
        return max(problem.m * (k - problem.m), 1), 2
    return (k, 1) if problem.name == "thresholding" else None
