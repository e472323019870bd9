"""The threshold of Kaufmann & Koolen (2021); docs/reference/definitions.md has its sources."""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.checks import integer
from jaxelim.contracts.proofs import GAUSSIAN, ONE_PARAMETER, REFUTING, UNKNOWN_VARIANCE
from jaxelim.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from jaxelim.contracts.proofs import Call
    from jaxelim.instances.arms import Arms

_LINES = 64
_REWARDS = "gaussian of known variance, or a one-parameter exponential family"


@functools.cache
def lines(gaussian: bool) -> tuple[np.ndarray, np.ndarray]:
    """Values at x = 0 and slopes of lines above C_G, or above T: [J] each.

    Both are min over lambda of (g(lambda) + x)/lambda, where every lambda gives a valid bound.
    The least line is above the minimum by less than 0.1%, for x from 0 to 800.

    C_G: g_G(lambda) = 2 lambda - 2 lambda log(4 lambda) + log zeta(2 lambda)
    - log(1 - lambda)/2, lambda in (1/2, 1). P(some n: n d(mean of n rewards, mu)
    - 2 log(4 + log n) > C_G(x)) <= e^-x for Gaussian rewards.

    T: g_xi(lambda) = a log(pi^2/(3 log(1 + xi)^2)) - log(1 - a), a = lambda (1 + xi) < 1, of the
    best xi in (0, 1/2]. P(some n: n d(mean of n rewards, mu) - 3 log(1 + log n) > T(x)) <= e^-x.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import expit, zeta

    share = expit(np.linspace(*((1.4, 7.5) if gaussian else (-6.0, 6.0)), _LINES))
    if gaussian:
        by = (1 + share) / 2
        g = 2 * by - 2 * by * np.log(4 * by) + np.log(zeta(2 * by)) - np.log1p(-by) / 2
        return g / by, 1 / by

    def least(by: float) -> float:
        def g(xi: float) -> float:
            a = by * (1 + xi)
            return a * math.log(math.pi**2 / (3 * math.log1p(xi) ** 2)) - math.log1p(-a)

        found: Any = minimize_scalar(g, bounds=(0, min(0.5, 1 / by - 1)), options={"xatol": 1e-12})
        return found.fun

    return np.array([*map(least, share)]) / share, 1 / share


@dataclasses.dataclass(frozen=True)
class KaufmannKoolen:
    """A threshold that is proven for LLR, selective and full stops, every rule, and no ridge.

    ::

        With n = max(t/arms, 1) and x = log(pieces/delta)/arms:
        beta = arms (T(x) + 3 log(1 + log n)) for one-parameter exponential families,
        beta = arms (C_G(x) + 2 log(4 + log n)) for Gaussian rewards of known variance.

    T and C_G are bounded by `lines`. The sum over the arms of a piece is at most what it is at
    equal counts, as log(1 + log n) and log(4 + log n) are concave. (Kaufmann & Koolen 2021;
    Theorem 14 and Corollary 10 to those who cite arXiv:1811.11419)

    Args:
        pieces: number of pieces of which one must not be refuted, at least 1: K - 1 for
            best arm, m (K - m) for top m, K for signs. None: all three are those of the call.
        arms: number of arms that a piece compares: 2 for best arm and top m, 1 for
            signs. All K for linear arms, with one piece: then for every problem.
        gaussian: whether rewards are Gaussian of known variance; else any one-parameter
            exponential family.

    Raises:
        ArgumentError: pieces or arms is no such integer, or gaussian no bool.

    Example:
        >>> instance = Instance.unstructured([0.3, 0.2, 0.1], Bernoulli())
        >>> KaufmannKoolen().bound(instance, BestArm())
        KaufmannKoolen(pieces=2, arms=2, gaussian=False)
    """

    pieces: int | None = None
    arms: int = 2
    gaussian: bool = False

    def __post_init__(self) -> None:
        for name in ("arms",) if self.pieces is None else ("pieces", "arms"):
            object.__setattr__(self, name, integer(name, getattr(self, name), low=1))
        if not isinstance(self.gaussian, bool):
            raise ArgumentError("gaussian", self.gaussian, "True or False")

    def bound(self, instance: "Arms", problem: Any, **_: Any) -> "KaufmannKoolen":
        """Host: the threshold with the numbers of a call, where none are given.

        Raises:
            UnsupportedError: those of the problem are not known, or the family is another.
        """
        if self.pieces is not None:
            return self
        family = instance.family
        normal = family.stated_law() == GAUSSIAN
        if not normal and not getattr(family, "exponential", False):
            raise UnsupportedError("family", family, _REWARDS)
        if needed := _pieces_and_arms(problem, instance.structure, instance.K):
            return KaufmannKoolen(*needed, normal)
        allowed = "best-arm, best-or-none, best-item, top-m or thresholding; for others "
        raise UnsupportedError("problem", problem, allowed + "give pieces and arms")

    def __call__(self, t: Array, delta: Array) -> Array:
        """beta at every t; P = 1 before `bound`."""
        x = (math.log(self.pieces or 1) - jnp.log(delta)) / self.arms
        first, slope = (jnp.asarray(one, x.dtype) for one in lines(self.gaussian))
        least = jnp.min(first + slope * x[..., None], -1)
        log_n = jnp.log(jnp.maximum(t / self.arms, 1))
        more = 2 * jnp.log(4 + log_n) if self.gaussian else 3 * jnp.log1p(log_n)
        return self.arms * (least + more)

    def proof(self, call: "Call") -> bool | str:
        """True where pieces and arms are at least those of the problem; native tests too.

        Raises:
            UnsupportedError: unknown variances, a ridge, or gaussian=True for other rewards.
        """
        if call.law == UNKNOWN_VARIANCE:
            raise UnsupportedError("family", call.family, _REWARDS)
        if self.gaussian and call.law == ONE_PARAMETER:
            allowed = f"KaufmannKoolen(.., gaussian=False) for {call.family!r}"
            raise UnsupportedError("threshold", self, allowed)
        if call.ridge:
            raise UnsupportedError("ridge", call.ridge, f"None or 0 with {self!r}")
        if call.law not in (GAUSSIAN, ONE_PARAMETER):
            return call.other_law(_REWARDS)
        if self.arms != call.arms:  # all K arms cover every problem with one piece
            needed = _pieces_and_arms(call.problem, call.structure, call.arms)
            if needed is None:
                return f"for this problem it needs arms = {call.arms}, all of them"
            if (self.pieces or 1) < needed[0] or not needed[1] <= self.arms <= call.arms:
                return f"this call needs pieces = {needed[0]} and arms = {needed[1]}"
        return call.uncovered(REFUTING, "tests that refute pieces") or True


def _pieces_and_arms(problem: Any, structure: str, k: int) -> tuple[int, int] | None:
    """The pieces and arms that cover a problem; None: not known."""
    # Half the squared distance of theta_hat from theta in the norm of V is at most the sum of the
    # arms' own. So all K arms cover every problem of linear arms with one piece.
    if structure == "linear" or problem.name == "best-item":
        return 1, k
    if problem.name == "thresholding":
        return k, 1
    # A level of one arm, as of a reference, is covered as a pair is.
    pairs = problem.name in ("best-arm", "best-or-none", "top-m")
    return (max(problem.wrong_answers(k), 1), 2) if pairs else None
