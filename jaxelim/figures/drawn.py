"""What figures draw: results by name, each with its style; their stopping times and bounds."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxelim.bounds import complexity
from jaxelim.bounds.bounds import kl_bound, practical_time, sample_bound
from jaxelim.errors import ArgumentError, JaxelimError
from jaxelim.figures.style import style_of
from jaxelim.simulation.results.result import Result

BIASED = "means of the runs that stopped, biased where some were cut off"
"""The note on a figure of means."""
Bound = tuple[str, np.ndarray, str]
"""The label of a bound on mean tau, its samples [D], and the dash of its line."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A result in a figure.

    Attributes:
        name: its name.
        result: of one instance. Figures of one stopping rule and delta draw its first.
        place: its number among the results, which gives it its style.
        colour, dash, marker: of its curve.
    """

    name: str
    result: Result
    place: int
    colour: Any
    dash: Any
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """The colour and the dash, as matplotlib's keywords."""
        return {"color": self.colour, "linestyle": self.dash}

    def tau(self, stopping: int = 0) -> np.ndarray:
        """Stopping times [delta, run]; NaN for truncated runs."""
        return np.where(self.result.stopped[stopping], self.result.samples[stopping], np.nan)

    def some_tau(self, stopping: int = 0) -> np.ndarray:
        """Stopping times [run] at the first delta."""
        tau = self.tau(stopping)[0]
        if np.isnan(tau).all():
            raise self.refused("at least one run that stopped")
        return tau

    def label(self, tau: np.ndarray) -> str:
        """Its name, with the number of truncated runs of [.., run]."""
        missing = int(np.isnan(tau).reshape(-1, tau.shape[-1]).any(0).sum())
        return f"{self.name} ({missing} cut off)" if missing else self.name

    def refused(self, allowed: str) -> ArgumentError:
        """The error of a result that a figure does not draw."""
        return ArgumentError("results", self.result, allowed, f"rule {self.name!r}")


def columns_of(results: Any) -> dict[str, list[Entry]]:
    """Entries by the instance and problem of a study; "" without one. A name has one style.

    Results are a `Result`, results by name, or a `Study`.
    """
    if hasattr(results, "groups"):
        found = {", ".join(where.values()): dict(named) for where, named in results.groups()}
    elif isinstance(results, Result):
        found = {"": {repr(results.rule).partition("(")[0]: results}}  # of a file it is text
    else:
        found = {"": dict(results) if isinstance(results, Mapping) else {}}
    everyone = [one for named in found.values() for one in named.values()]
    wrong = [one for one in everyone if not isinstance(one, Result) or one.batched]
    if wrong or not everyone:
        allowed = "a Result of one instance, such Results by name, or a Study, with at least one"
        raise ArgumentError("results", wrong[0] if wrong else results, allowed)
    names = dict.fromkeys(name for named in found.values() for name in named)
    places = {name: n for n, name in enumerate(names)}
    return {title: [Entry(name, one, places[name], *style_of(places[name]))
                    for name, one in named.items()] for title, named in found.items()}  # fmt: skip


def entries(results: Any) -> list[Entry]:
    """The entries of a figure of one instance and problem."""
    found = columns_of(results)
    if len(found) > 1:
        allowed = "a study of one instance and problem, as its select(instance=..) gives"
        raise ArgumentError("results", results, allowed)
    (given,) = found.values()
    return given


def note_on(arrays: Iterable[np.ndarray]) -> str | None:
    """The note on means of arrays; None where no run was truncated."""
    return BIASED if any(np.isnan(array).any() for array in arrays) else None


def mean_and_sd(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, sd and number of the finite entries of each row, [D] each; NaN where too few."""
    finite: Any = np.ma.masked_invalid(values)
    mean, sd = (np.ma.filled(x, np.nan) for x in (finite.mean(1), finite.std(1, ddof=1)))
    return mean, sd, finite.count(1)


def bounds_of(results: Iterable[Result], deltas: np.ndarray) -> tuple[float | None, list[Bound]]:
    """T*, and the bounds on mean tau at deltas [D]: the lower one, and the practical one.

    None and no bounds where the results differ in instance or problem, or complexity
    refuses these; no practical bound where they differ in the threshold, or a file has its
    text alone. tau is in samples, and costs do not count.
    """
    first, *others = results
    instance, problem, threshold = first.instance, first.problem, first.threshold
    if any((one.instance, one.problem) != (instance, problem) for one in others):
        return None, []
    try:
        time = float(complexity(instance.replace(costs=None), problem).time)
    except JaxelimError:
        return None, []
    right = problem.right_answers(instance.means)
    word, lower = "log(1/(2.4 delta)) T*", sample_bound(deltas, 1 / time)
    if right > 1:
        word = f"kl((1 - delta)/{right}, delta) T*"
        lower = kl_bound(deltas, 1 / time, right)
    found = [(f"lower bound {word}", np.where(lower > 0, lower, np.nan), "--")]
    if callable(threshold) and all(one.threshold == threshold for one in others):
        practical = np.array([practical_time(float(d), 1 / time, threshold) for d in deltas])
        found.append(("practical bound T* beta", practical, ":"))
    return time, found
