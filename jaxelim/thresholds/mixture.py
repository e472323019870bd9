"""Mixtures of likelihood ratios: a test that is proven, at all times at once."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts.proofs import INTERVALS, LAWS, STOPS
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.mixtures import Grid, pieces

if TYPE_CHECKING:
    from jaxelim.contracts import Family, Problem, SamplingRule
    from jaxelim.contracts.proofs import Call
    from jaxelim.contracts.views import Snapshot
    from jaxelim.instances.arms import Arms


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
            object.__setattr__(self, "pieces", checks.integer("pieces", self.pieces, low=1))

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
            self._check_native(family, call["rule"], call["stopping"])
        wrong = checks.wrong_answers(problem, instance.K, instance.most)
        number = (self.pieces if instance.most is None else None) or wrong
        number = 1 if instance.structure == "linear" else number
        if number is None:
            allowed = f"Mixture(pieces=..), or {type(problem).__name__}.wrong_answers(arms): how "
            allowed += "many hold the truth; or Heuristic(), without proof"
            raise UnsupportedError("threshold", self, allowed)
        return dataclasses.replace(self, pieces=number)

    def _check_native(self, family: "Family", rule: "SamplingRule", stopping: Any) -> None:
        """Refuse the native tests that it does not cover."""
        if rule.native_test != INTERVALS:
            allowed = f"the native test of {type(rule).__name__} compares beta itself"
            raise UnsupportedError("threshold", self, f"one such as Heuristic(): {allowed}")
        if family.name not in ("gaussian", "gaussian-by-arm"):
            allowed = "LLR(), with another rule" if rule.traits.native == "only" else "LLR()"
            allowed += ": native tests of intervals are proven for Gaussian rewards alone"
            raise UnsupportedError("stopping", stopping, allowed + "; or threshold=Heuristic()")

    def proof(self, call: "Call") -> bool | str:
        """True for every rule; LLR, selective and full stops; native tests of intervals."""
        if call.law not in LAWS:
            return call.law
        needed = 1 if call.structure == "linear" else call.wrong_answers
        if needed is None:
            return f"how many pieces of {type(call.problem).__name__} hold the truth is not known"
        if (self.pieces or needed) < needed:
            return f"this call needs pieces = {needed}, and the threshold has {self.pieces}"
        stop = call.endings[0]  # a native test ends runs only where it is the stopping rule
        return True if stop in (*STOPS, INTERVALS) else stop

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
