"""How often a threshold errs, in whole runs on hard instances."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Family, Problem, SamplingRule
from jaxelim.errors import UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance
from jaxelim.progress import by_parts
from jaxelim.rules import Uniform
from jaxelim.simulation.api import simulate
from jaxelim.simulation.results.two_samples import rate
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR
from jaxelim.testing.report import LUCK, Report

STOPS = (LLR(), SelectiveElimination(), FullElimination())
VERDICTS = {
    "above": "above delta",
    "undecided": "near delta: more runs are needed",
    "at most": "at most delta",
}
"""What a verdict on a rate says, the worst first."""
MEANS = "the verdict is that of the largest rate below; not shown: that other instances keep delta"
"""What a report of a threshold says, and what it does not."""


@dataclasses.dataclass(frozen=True)
class ErrorRate:
    """How often one stopping rule ended with a wrong answer on one instance.

    `low` and `high` are exact binomial bounds (Clopper-Pearson). Each is wrong with
    probability at most 1e-6. A run that was cut off counts as no error.
    """

    instance: str
    stopping: str
    errors: int
    runs: int
    truncated: int
    delta: float
    low: float
    high: float

    @property
    def rate(self) -> float:
        """Errors per run."""
        return self.errors / self.runs

    @property
    def verdict(self) -> str:
        """Whether the rate is above delta: "above", "at most" or "undecided"."""
        if self.low > self.delta:
            return "above"
        return "at most" if self.high <= self.delta else "undecided"

    def __str__(self) -> str:
        verdict = VERDICTS[self.verdict]
        return (
            f"{self.instance}, {self.stopping}: {self.errors} errors in {self.runs} runs, "
            f"{self.truncated} cut off{' (counted as no error)' if self.truncated else ''}; "
            f"rate {self.rate:.4f}, [{self.low:.4f}, {self.high:.4f}]; {verdict}"
        )


@dataclasses.dataclass(frozen=True)
class ThresholdReport(Report):
    """The report of `check_threshold`.

    `probability`, `low` and `high` are those of the stopping rule in `rates` that erred most.
    """

    probability: float
    low: float
    high: float
    rates: tuple[ErrorRate, ...] = ()

    @property
    def above(self) -> bool:
        """Whether some stopping rule errs more often than delta."""
        return any(rate.verdict == "above" for rate in self.rates)


def hard_instance(
    problem: Problem,
    family: Family | None = None,
    arms: int = 4,
    gap: float = 1e-4,
    all_near: bool = False,
) -> Instance:
    """An unstructured instance with one true piece, or all, within `gap` of its boundary.

    With one, the other arms are far off and soon settled: the best arm and one rival,
    the m-th arm and the next, or one arm at the level. With all, every mean is `gap`
    from every other, or from the level, at most. The centre is the level for signs.
    Else it is the middle of the family's range: 0 if it has no ends, 1 above its only
    one. The better arms come last, since ties go to the first.

    Args:
        problem: best arm, top m or signs.
        family: of the rewards; None: Gaussian(1.0).
        arms: K >= 2.
        gap: between near means, > 0.
        all_near: whether all arms are near.

    Raises:
        UnsupportedError: another problem.
        ArgumentError: arms or gap is out of range.
    """
    arms = checks.integer("arms", arms, low=2)
    gap = checks.real("gap", gap, low=0, open=True)
    family = Gaussian() if family is None else family
    level = None
    if problem.name == "thresholding":
        level, best, near = problem.level, (arms + 1) // 2, 1  # type: ignore[attr-defined]
    elif problem.name in ("best-arm", "top-m"):
        best, near = getattr(problem, "m", 1), 2
    else:
        allowed = "best-arm, top-m, thresholding; for others give an instance"
        raise UnsupportedError("problem", problem, allowed)
    low, centre, high = _range(family, level)
    means = np.full(arms, low)
    means[arms - best :] = high
    first, last = (0, arms) if all_near else (arms - best - near + 1, arms - best + 1)
    side = np.where(np.arange(arms) >= arms - best, 0.5, -0.5)
    means[first:last] = centre + gap * side[first:last]
    name = "all near" if all_near else "one near"
    return Instance(np.eye(arms), means, name=name, family=family)


def _range(family: Family, level: float | None) -> tuple[float, float, float]:
    """A mean far below the centre, the centre, and one far above, all inside the range."""
    low = float(getattr(family, "low", -np.inf))
    high = float(getattr(family, "high", np.inf))
    finite = np.isfinite(low), np.isfinite(high)
    if level is not None:
        centre = level
    elif all(finite):
        centre = (low + high) / 2
    else:
        centre = low + 1 if finite[0] else high - 1 if finite[1] else 0.0
    wide = 3 * float(np.max(getattr(family, "std", 1.0)))
    if any(finite):
        wide = 4 * (centre - low if finite[0] else high - centre)
    below = centre - (0.9 * (centre - low) if finite[0] else wide)
    above = centre + (0.9 * (high - centre) if finite[1] else wide)
    return below, centre, above


def check_threshold(
    threshold: Callable,
    problem: Problem,
    instance: Instance | None = None,
    rule: SamplingRule | None = None,
    *,
    family: Family | None = None,
    arms: int = 4,
    stopping: Sequence[Any] = STOPS,
    delta: float = 0.1,
    runs: int = 2000,
    steps: int = 2000,
    seed: int = 0,
    progress: Any = None,
) -> ThresholdReport:
    """Estimate how often a threshold lets a run end with a wrong answer.

    `runs` runs of at most `steps` samples, each stopping rule observed on the same runs. The
    default instances have one true piece near its boundary, then all: a wrong piece is as
    easily refuted as a right one.

    Args:
        threshold: beta, a callable of (t, delta).
        problem: of the runs.
        instance: of the runs; None: the two of `hard_instance(problem, family, arms)`.
        rule: the sampling rule of the runs; None: `Uniform()`.
        family, arms: of the default instances.
        stopping: the stopping rules of the runs. Add `Native()` for a rule's own.
        delta: the error probability.
        runs, steps: number of runs, and most samples of each.
        seed: of the noise.
        progress: as in `simulate`, over the instances. A callable gets (instances over,
            instances, 0, seconds).

    Returns:
        A `ThresholdReport`. Its text begins with a verdict and with what was tried. Its `rates`
        hold errors, exact bounds and a verdict for each instance and stopping rule.

    Raises:
        ArgumentError: an argument that `simulate` refuses.

    Example:
        >>> import jaxelim as je
        >>> report = je.testing.check_threshold(je.Heuristic(), je.BestArm(), runs=100, steps=50)
        >>> report.above
        False
    """
    rule = Uniform() if rule is None else rule
    if instance is None:
        several = [hard_instance(problem, family, arms, all_near=near) for near in (False, True)]
    else:
        several = [instance]

    def rates_on(instance: Instance) -> list[ErrorRate]:
        result = simulate(
            instance, problem, rule, threshold=threshold, stopping=tuple(stopping), delta=delta,
            runs=runs, max_samples=steps, seed=seed,
        )  # fmt: skip
        shape = (len(stopping), -1)
        wrong = (result.stopped & ~result.correct).reshape(shape)
        late, label = result.truncated.reshape(shape).sum(1), instance.name or instance.structure
        return [
            ErrorRate(label, stop.name, n, wrong.shape[1], int(cut), delta,
                      *rate(n, wrong.shape[1], 1 - 2 * LUCK)[1:])
            for stop, n, cut in zip(stopping, map(int, wrong.sum(1)), late, strict=True)
        ]  # fmt: skip

    parts = [(on.name or on.structure, partial(rates_on, on)) for on in several]
    rates = [one for found in by_parts(parts, progress) for one in found]
    worst = max(rates, key=lambda one: one.rate)
    verdicts = [one.verdict for one in rates]
    verdict = next((one for one in VERDICTS if one in verdicts), "at most")
    tried = f"{problem!r}, {several[0].family!r} rewards alone, {rule!r}, delta = {delta}, "
    tried += f"{runs} runs of at most {steps} samples, {len(several)} instances"
    return ThresholdReport(
        repr(threshold), tuple(map(str, rates)), worst.rate, worst.low, worst.high, tuple(rates),
        verdict=VERDICTS[verdict], head=(f"tried: {tried} (others: family=, rule=)", MEANS),
    )  # fmt: skip
