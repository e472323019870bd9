"""What figures draw: results by name, each with its style; curves and bounds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit

from jaxelim.bounds import complexity
from jaxelim.bounds.bounds import kl_bound, practical_time, sample_bound
from jaxelim.errors import ArgumentError, JaxelimError
from jaxelim.figures.style import style_of
from jaxelim.simulation.results.result import Result

BIASED = "means of the runs that stopped, biased where some were cut off"
"""The note on a figure of means."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A result in a figure.

    Attributes:
        name: its name.
        result: of one instance. Figures of one stopping rule and delta draw its first.
        place: its number among the results.
        style: colour, dash and marker of its curve, as matplotlib's keywords.
    """

    name: str
    result: Result
    place: int
    style: dict[str, Any]

    def tau(self, stopping: int = 0) -> np.ndarray:
        """Stopping times [delta, run]; NaN for truncated runs."""
        return np.where(self.result.stopped[stopping], self.result.samples[stopping], np.nan)

    def some_tau(self) -> np.ndarray:
        """Stopping times [run] at the first delta."""
        tau = self.tau()[0]
        if np.isnan(tau).all():
            raise self.refused("at least one run that stopped")
        return tau

    def label(self, tau: np.ndarray) -> str:
        """Its name, with the number of truncated runs of [.., run]."""
        missing = int(np.isnan(tau).reshape(-1, tau.shape[-1]).any(0).sum())
        return f"{self.name} ({missing} cut off)" if missing else self.name

    def apart(self, given: list["Entry"]) -> float:
        """Where it is among those drawn side by side, in (-1/2, 1/2)."""
        return (self.place + 0.5) / len(given) - 0.5

    def refused(self, allowed: str) -> ArgumentError:
        """The error of a result that a figure does not draw."""
        return ArgumentError("results", self.result, allowed, f"rule {self.name!r}")

    def draw(
        self, axes: Any, x: Any, values: Any, low: Any, high: Any, kind: str, **own: Any
    ) -> None:
        """Draw values at x, a line with a "band" from low to high, or with "bars"; or "points"."""
        own = {**self.style, "markersize": 4.5, **own}
        if kind == "band":
            axes.fill_between(x, low, high, color=own["color"], alpha=0.17, linewidth=0)
            axes.plot(x, values, linewidth=1.8, **own)
            return
        if kind == "points":
            own |= {"linestyle": "none", "clip_on": False}
        bars = np.maximum([values - low, high - values], 0)
        axes.errorbar(x, values, bars, linewidth=1.2, capsize=2, **own)


def columns_of(results: Any) -> dict[str, list[Entry]]:
    """Entries by the instance and problem of a study; "" without one. A name has one style.

    Results are a `Result`, results by name, or a `Study`.
    """
    if hasattr(results, "groups"):
        groups = results.groups()
    elif isinstance(results, Result):
        groups = [({}, {repr(results.rule).partition("(")[0]: results})]  # of a file it is text
    else:
        groups = [({}, results if isinstance(results, Mapping) else {})]
    everyone = [one for _, named in groups for one in named.values()]
    wrong = [one for one in everyone if not isinstance(one, Result) or one.batched]
    if wrong or not everyone:
        allowed = "a Result of one instance, such Results by name, or a Study, with at least one"
        raise ArgumentError("results", wrong[0] if wrong else results, allowed)
    places = list(dict.fromkeys(name for _, named in groups for name in named))
    return {", ".join(where.values()): [
        Entry(name, one, places.index(name), style_of(places.index(name)))
        for name, one in named.items()
    ] for where, named in groups}  # fmt: skip


def entries(results: Any) -> list[Entry]:
    """The entries of a figure of one instance and problem."""
    found = columns_of(results)
    if len(found) > 1:
        allowed = "a study of one instance and problem, as its select(instance=..) gives"
        raise ArgumentError("results", results, allowed)
    (given,) = found.values()
    return given


def mean_with_ends(values: np.ndarray, error: str | float) -> np.ndarray:
    """Means of the finite entries of rows [D, run], with the ends of their intervals, [3, D].

    The intervals reach one "sd" or one "se", the standard error, to each side, or are Student's
    at the level `error`. All is NaN where entries are too few.
    """
    finite: Any = np.ma.masked_invalid(values)
    mean, sd = (np.ma.filled(x, np.nan) for x in (finite.mean(1), finite.std(1, ddof=1)))
    n = np.maximum(finite.count(1), 1)
    if error != "sd":
        sd /= np.sqrt(n)
    if not isinstance(error, str):
        sd *= stdtrit(np.maximum(n - 1, 1), (1 + error) / 2)
    return np.stack([mean, mean - sd, mean + sd])


def bounds_of(given: list[Entry], deltas: np.ndarray) -> list[tuple[str, np.ndarray, str]]:
    """T* log(1/delta), and the lower and the practical bound on mean tau, at deltas [D].

    Each is its label, its samples [D] and the dash of its line. None where the results differ in
    instance or problem, or complexity refuses these; no practical bound where they differ in the
    threshold, or a file has its text alone. tau is in samples, and costs do not count.
    """
    first, *others = [one.result for one in given]
    instance, problem, threshold = first.instance, first.problem, first.threshold
    if any((one.instance, one.problem) != (instance, problem) for one in others):
        return []
    try:
        time = float(complexity(instance.replace(costs=None), problem).time)
    except JaxelimError:
        return []
    right = problem.right_answers(instance.means)
    word, lower = "log(1/(2.4 delta)) T*", sample_bound(deltas, 1 / time)
    if right > 1:
        word = f"kl((1 - delta)/{right}, delta) T*"
        lower = kl_bound(deltas, 1 / time, right)
    found = [("T*", -time * np.log(deltas), "-"),
             (f"lower bound {word}", np.where(lower > 0, lower, np.nan), "--")]  # fmt: skip
    if callable(threshold) and all(one.threshold == threshold for one in others):
        practical = np.array([practical_time(float(d), 1 / time, threshold) for d in deltas])
        found.append(("practical bound T* beta", practical, ":"))
    return found
