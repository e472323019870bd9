"""Thresholds beta(t, delta) of the stopping and elimination tests.

A threshold is any callable of (t, delta) made of jax.numpy operations. The number t of samples
so far (float) and the error probability delta may both have lanes last. It must not decrease in
t, nor increase in delta. (Paper, section on Assumption "beta bounds".) `Mixture` tests a piece by
a mixture of likelihood ratios, which is proven, at all times at once. For `proof(call)` see
`jaxelim.contracts.proofs`; docs/reference/definitions.md has the sources of the proofs.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.cache import jitted
from jaxelim.checks import integer, real
from jaxelim.contracts import proofs
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.mixtures import Grid, pieces

if TYPE_CHECKING:
    from jaxelim.contracts import Problem
    from jaxelim.contracts.views import Snapshot
    from jaxelim.instances.arms import Arms

__all__ = ["GK16", "Heuristic", "KaufmannKoolen", "LinearThreshold", "Mixture"]

POINTS = 200  # times of every call of `values`, so that one program serves a threshold
_ROUNDING = 1e-12
_LINES = 64
_REWARDS = "gaussian of known variance, or a one-parameter exponential family"


@dataclasses.dataclass(frozen=True)
class Heuristic:
    """beta = log((1 + t)/delta), the threshold of all experiments of the paper."""

    def __call__(self, t: Array, delta: Array) -> Array:
        return jnp.log(1 + t) - jnp.log(delta)

    def proof(self, call: proofs.Call) -> str:
        return "it is known from experience alone"

    def constants(self, delta: float) -> tuple[float, float, float]:
        """c1, c2, x0 of the theory's bounds on beta (paper, Assumption "beta bounds")."""
        return 1.0, math.log(3) / math.log(2), 1.0


@dataclasses.dataclass(frozen=True)
class GK16:
    """beta = log((1 + log t)/delta). (Garivier & Kaufmann 2016)

    It has no proof and can have none: exp(-beta) = delta/(1 + log t) falls so slowly that
    the LLR of two equal arms exceeds beta at some t almost surely, for every delta.
    """

    def __call__(self, t: Array, delta: Array) -> Array:
        return jnp.log(1 + jnp.log(t)) - jnp.log(delta)

    def proof(self, call: proofs.Call) -> str:
        return "it is known from experience alone, and near-equal arms cross it almost surely"


@dataclasses.dataclass(frozen=True)
class LinearThreshold:
    """The threshold of a self-normalised bound; it covers the bias of a ridge.

    beta = (sqrt(log(1/delta) + (d/2) log(1 + t L^2/(ridge d))) + S sqrt(ridge/2))^2.
    (Abbasi-Yadkori et al. 2011)

    Args:
        dimension: d, the dimension of the features.
        feature_bound: L >= max_k ||phi_k||.
        theta_bound: S >= ||theta||/noise_std.
        ridge: the regularisation lambda > 0 of the design matrix, which the call has too.
    """

    dimension: int
    feature_bound: float
    theta_bound: float
    ridge: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", integer("dimension", self.dimension, low=1))
        for name in ("feature_bound", "theta_bound", "ridge"):
            number = real(name, getattr(self, name), low=0, open=name != "theta_bound")
            object.__setattr__(self, name, number)

    def __call__(self, t: Array, delta: Array) -> Array:
        d, share = self.dimension, self.feature_bound**2 / (self.ridge * self.dimension)
        volume = d / 2 * jnp.log(1 + t * share)
        return (jnp.sqrt(volume - jnp.log(delta)) + self.theta_bound * (self.ridge / 2) ** 0.5) ** 2

    def proof(self, call: proofs.Call) -> bool | str:
        """True for Gaussian rewards of d, L and S at most these, for `STOPS` and every rule.

        A live run trusts S.
        """
        if call.law != proofs.GAUSSIAN:
            return call.other_law("Gaussian rewards")
        asked = (("dimension", call.dimension), ("feature_bound", call.longest))
        asked += (("theta_bound", call.theta_norm or 0.0), ("ridge", call.ridge or 0.0))
        for name, least in asked:
            own = getattr(self, name)
            if least > own * (1 + _ROUNDING) or (name == "ridge" and least != own):
                return f"its {name} is {own:g}, and that of the call {least:g}"
        return call.uncovered(proofs.STOPS, "LLR, selective and full stops") or True


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
        normal = family.stated_law() == proofs.GAUSSIAN
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

    def proof(self, call: proofs.Call) -> bool | str:
        """True where pieces and arms are at least those of the problem; native tests too.

        Raises:
            UnsupportedError: unknown variances, a ridge, or gaussian=True for other rewards.
        """
        if call.law == proofs.UNKNOWN_VARIANCE:
            raise UnsupportedError("family", call.family, _REWARDS)
        if self.gaussian and call.law == proofs.ONE_PARAMETER:
            allowed = f"KaufmannKoolen(.., gaussian=False) for {call.family!r}"
            raise UnsupportedError("threshold", self, allowed)
        if call.ridge:
            raise UnsupportedError("ridge", call.ridge, f"None or 0 with {self!r}")
        if call.law not in (proofs.GAUSSIAN, proofs.ONE_PARAMETER):
            return call.other_law(_REWARDS)
        if self.arms != call.arms:  # all K arms cover every problem with one piece
            needed = _pieces_and_arms(call.problem, call.structure, call.arms)
            if needed is None:
                return f"for this problem it needs arms = {call.arms}, all of them"
            if (self.pieces or 1) < needed[0] or not needed[1] <= self.arms <= call.arms:
                return f"this call needs pieces = {needed[0]} and arms = {needed[1]}"
        return call.uncovered(proofs.REFUTING, "tests that refute pieces") or True


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


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Refute a piece p once e_p > P/delta; proven for every rule, at every time.

    e_p is the infimum, over the means lambda in p, of
    sum_j w_j prod_k integral prod_s f(x_s | mu)/f(x_s | lambda_k) pi_j(dmu | lambda_k)
    over the rewards x_s of each arm k that p compares. The prior pi_j of strength c_j is
    centred at lambda, and all strengths have the same weight. At the true means the sum is
    a martingale of mean 1, whatever the sampling rule. So e_p of a piece that holds the
    truth ever exceeds 1/alpha with probability at most alpha. (Ville 1939; Robbins 1970;
    Kaufmann & Koolen 2021, section 5)

    It is for LLR, selective and full stops, and elimination at sampling, without a ridge. A
    run looks at all t below 256, then 0.4 to 0.8% apart.

    Args:
        strengths: the c_j, in numbers of samples, each from 0.001 to 1e9.
        pieces: P, the number of pieces of which one must not be refuted; None: that of
            the problem: K - 1 for best arm, m (K - m) for top m, K for signs. Whatever is
            given, linear arms have 1, and a live run with `most_arms` all pairs of these.

    Raises:
        ArgumentError: an argument is out of range.
    """

    strengths: tuple[float, ...] = Grid().strengths
    pieces: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "strengths", Grid(self.strengths).strengths)
        if self.pieces is not None:
            object.__setattr__(self, "pieces", integer("pieces", self.pieces, low=1))

    def __repr__(self) -> str:
        own = ((f.name, getattr(self, f.name), f.default) for f in dataclasses.fields(self))
        return f"Mixture({', '.join(f'{name}={x!r}' for name, x, usual in own if x != usual)})"

    @property
    def grid(self) -> Grid:
        """The priors."""
        return Grid(self.strengths)

    def __call__(self, t: Array, delta: Array) -> Array:
        """The level that log e_p must exceed: log(P/delta) at every t; P = 1 before `bound`."""
        return math.log(self.pieces or 1) - jnp.log(delta) + 0 * t

    def price(self, instance: "Arms", times: np.ndarray) -> np.ndarray:
        """Host: by how much the LLR exceeds log e_p after t samples [n], about: [n]."""
        if instance.structure != "linear":
            return np.zeros_like(times)
        return instance.d / 2 * np.log1p(times / instance.K)  # the volume under even pulls, c = 1

    def log_e(self, seen: "Snapshot", above: bool = False) -> Array:
        """log e_p of the pieces of one run, [Q]; with `above` at least that, at one mean each."""
        return pieces.log_e(seen.family, seen.space, seen.stats, seen.shape, self.grid, above)

    def gate(self, level: Array, seen: "Snapshot") -> Array:
        """An LLR x below which log e_p hardly ever exceeds the level.

        log e_p <= x - 1 - log x for pairs of Gaussian arms, else x - 1/2 - log(2 x)/2.
        """
        if not seen.family.has("log_mixture"):  # its evidence is log e itself
            return level
        independent = getattr(seen.family, "form", "diagonal") == "diagonal"
        plain = not (seen.shape.signs or seen.shape.refers or seen.shape.items)
        if plain and seen.shape.candidates is not None and independent:
            least = level + 1 + _spread(self.strengths)
            return least + _below(lambda x: np.log(x + np.log(x)), 1.0, least)
        least = level + 0.5
        return least + _below(lambda x: np.log(2 * x) / 2, 0.5, least)

    def bound(self, instance: "Arms", problem: "Problem", **call: Any) -> Self:
        """Host: the threshold with the number of pieces of a call.

        `call` has rule, ridge, stopping and elimination.

        Raises:
            UnsupportedError, ArgumentError: it is not defined for them.
        """
        family = instance.family
        if not (family.has("log_mixture") or hasattr(family, "log_e")):
            allowed = f"one such as Heuristic(): {family!r} defines no log_mixture"
            raise UnsupportedError("threshold", self, allowed)
        family.priors(self.grid)  # it may refuse the strengths
        if call["ridge"]:
            allowed = f"None or 0 with {self!r}, which covers no bias; or threshold=Heuristic()"
            raise ArgumentError("ridge", call["ridge"], allowed)
        if not getattr(call["elimination"], "shared", True):
            allowed = "SelectiveElimination() or FullElimination(); or threshold=Heuristic()"
            raise UnsupportedError("elimination", call["elimination"], allowed)
        if any(stop.name == "native" for stop in call["stopping"]):
            rule = call["rule"]
            if rule.native_test != proofs.INTERVALS:
                allowed = f"one such as Heuristic(): the native test of {type(rule).__name__} "
                raise UnsupportedError("threshold", self, allowed + "compares beta itself")
            if family.name not in ("gaussian", "gaussian-by-arm"):
                allowed = "LLR(), with another rule" if rule.traits.native == "only" else "LLR()"
                allowed += ": native tests of intervals are proven for Gaussian rewards alone"
                allowed += "; or threshold=Heuristic()"
                raise UnsupportedError("stopping", call["stopping"], allowed)
        wrong = proofs.wrong_answers(problem, instance.K, instance.most)
        number = (self.pieces if instance.most is None else None) or wrong
        number = 1 if instance.structure == "linear" else number
        if number is None:
            allowed = f"Mixture(pieces=..), or {type(problem).__name__}.wrong_answers(arms): how "
            allowed += "many hold the truth; or Heuristic(), without proof"
            raise UnsupportedError("threshold", self, allowed)
        return dataclasses.replace(self, pieces=number)

    def proof(self, call: proofs.Call) -> bool | str:
        """True for every rule; LLR, selective and full stops; native tests of intervals."""
        if call.law not in proofs.LAWS:
            return call.law
        needed = 1 if call.structure == "linear" else call.wrong_answers
        if needed is None:
            return f"how many pieces of {type(call.problem).__name__} hold the truth is not known"
        if (self.pieces or needed) < needed:
            return f"this call needs pieces = {needed}, and the threshold has {self.pieces}"
        stop = call.endings[0]  # a native test ends runs only where it is the stopping rule
        return True if stop in (*proofs.STOPS, proofs.INTERVALS) else stop

    def width(self, t: Array, delta: Array) -> Array:
        """What sampling rules read as beta, where their own test ends no run: [], any above 0."""
        return self(t, delta) + jnp.log(1 + t)

    def arm_levels(self, counts: Array, delta: Array) -> Array:
        """Levels beta_k of the arms' intervals, n_k d(m_k, y) <= beta_k: [K].

        (N + c)/N (log(J K/delta) + log(1 + N/c)/2), c the strength that suits N. Those of Gaussian
        rewards hold at all times: the sum over J strengths exceeds any one of its terms.
        """
        of_all = math.log(len(self.strengths) * counts.shape[0]) - jnp.log(delta)
        c = jnp.full_like(counts, self.strengths[0])
        for lower, upper in zip(self.strengths, self.strengths[1:], strict=False):
            # The best c for N is about N/(2 level), to within a factor that costs little.
            c = jnp.where(counts > 2 * of_all * math.sqrt(lower * upper), upper, c)
        return (counts + c) / counts * (of_all + jnp.log1p(counts / c) / 2)


def _below(f: Callable[[np.ndarray], np.ndarray], first: float, x: Array) -> Array:
    """A lower bound on f(x), concave and rising, by at most 0.16, for x from `first` to 4096 first.

    The least of the chords between doubling places, and f at the last: every step asks for it,
    where logarithms cost more than the rest of the gate.
    """
    places = first * 2.0 ** np.arange(13)
    values = f(places)
    slopes = np.diff(values) / np.diff(places)
    least = jnp.full_like(x, values[-1])
    for place, value, slope in zip(places, values, slopes, strict=False):
        least = jnp.minimum(least, value + slope * (x - place))
    return least


@functools.cache
def _spread(strengths: tuple[float, ...]) -> float:
    """What weights of many strengths cost a pair of equal counts, at the least.

    x - 1 - log x, of the best strength of all, less the largest log e_p over all counts; the
    least of LLRs x from 5 to 100.
    """
    x = np.linspace(5, 100, 96)[:, None, None]
    counts, c = np.geomspace(1, 1e8, 400)[:, None], np.array(strengths)
    value = x * counts / (counts + c) - np.log1p(counts / c)
    log_e = np.log(np.mean(np.exp(value - x), -1)) + x[..., 0]
    return max(float(np.min(x[:, 0, 0] - 1 - np.log(x[:, 0, 0]) - log_e.max(1))), 0.0)


_compiled = jitted(lambda threshold, t, delta: threshold(t, delta))


def values(threshold: Callable, t: np.ndarray, delta: float) -> np.ndarray:
    """beta(t, delta) at up to `POINTS` times t [n]: [n], if the threshold keeps to its contract."""
    found = np.asarray(_compiled(threshold, np.resize(t, POINTS), np.full(POINTS, delta)))
    return found[: len(t)] if found.ndim and len(t) < POINTS else found
