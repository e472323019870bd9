"""Summaries of results: tables of stopping times, errors and cost."""

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jaxelim.simulation.results.proven import of_elimination, sentence
from jaxelim.tables import aligned, as_html

if TYPE_CHECKING:
    import pandas as pd

    from jaxelim.simulation.results.result import Result

BIASED = "the mean of the others is biased low"
"""The note on means where some runs were truncated."""


class Words(NamedTuple):
    """What is compared, in words."""

    tau: str
    number: str
    less: str
    more: str


OF = {
    "samples": Words("tau", "number of samples", "sooner", "later"),
    "costs": Words("cost", "cost", "cheaper", "dearer"),
}
"""The words of a comparison by samples and by costs."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """A table with one row per instance, stopping rule and delta.

    It prints as text, and shows as a table in a notebook; `rows` holds the numbers.
    """

    title: str
    rows: tuple[dict, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned(self.rows), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.title, self.rows, self.notes)

    def to_pandas(self) -> "pd.DataFrame":
        """The rows as a pandas DataFrame; title and notes are in its `attrs`."""
        import pandas as pd  # slow to import, so only here

        frame = pd.DataFrame(list(self.rows))
        frame.attrs = {"title": self.title, "notes": list(self.notes)}
        return frame


def summarised(result: "Result") -> Summary:
    """The summary of a result; see `Result.summary`."""
    batched, rows = result.batched, []
    arrays = result.samples, result.stopped, result.correct, result.tests_stopping
    samples, stopped, correct, tests = (x if batched else x[None] for x in arrays)
    costs = None if result.costs is None else result.costs if batched else result.costs[None]
    for i, s, d in np.ndindex(samples.shape[:3]):
        named = {"instance": i} if batched else {}
        named |= {"stopping": result.stopping[s].name, "delta": float(result.deltas[d])}
        spent = None if costs is None else costs[i, s, d]
        counted = (x[i, s, d] for x in (samples, stopped, correct, tests))
        rows.append(named | row(*counted, costs=spent))
    named = result.instance.name or repr(result.instance)
    title = f"{result.rule!r} on {named}, {result.problem}, at sampling: {result.elimination!r}"
    return Summary(title, tuple(rows), tuple(_notes(result)))


def row(
    samples: np.ndarray, stopped: np.ndarray, correct: np.ndarray, tests: np.ndarray,
    costs: np.ndarray | None = None,
) -> dict:  # fmt: skip
    """The numbers of one row, from arrays [run]; NaN where no run stopped.

    Without `costs` it has no mean cost.
    """
    tau = samples[stopped].astype(float)
    n = tau.size
    sd = float(tau.std(ddof=1)) if n > 1 else math.nan

    def mean(x: np.ndarray) -> float:
        return float(x.mean()) if n else math.nan

    return {
        "runs": stopped.size,
        "cut off": stopped.size - n,
        "mean tau": mean(tau),
        "sd": sd,
        "s.e.": sd / n**0.5 if n > 1 else math.nan,
        "errors": mean(~correct[stopped]),
        "tests/sample": mean(tests[stopped] / tau),
        **({} if costs is None else {"mean cost": mean(costs[stopped])}),
    }


def cut_off(result: "Result") -> tuple[int, int]:
    """How many runs were cut off for some stopping rule or delta, and the number of runs."""
    of_run = result.truncated.any((-3, -2))
    return int(of_run.sum()), of_run.size


def _notes(result: "Result") -> list[str]:
    notes: list[str] = []
    cut, runs = cut_off(result)
    if cut:
        source = "noise" if result.instance.source is None else "rewards"
        ends = f"at {result.experiment.max_samples} samples or at the end of their {source}"
        biased = "" if result.truncated.all() else f", and {BIASED}"
        several = np.prod(result.truncated.shape[-3:-1]) > 1
        where = " for some stopping rule or delta" if several else ""
        notes.append(
            f"{cut} of {runs} runs were cut off{where} {ends}: they are in no mean{biased}."
        )
    if result.experiment.waits:
        batch, delay = result.experiment.batch, result.experiment.delay
        notes.append(
            f"Rewards entered in batches of {batch}, after delays of {delay} samples. tau counts "
            "pulls whose rewards were pending at the end."
        )
    notes.append(sentence(result.threshold, result.proven, result.instance.family))
    if "looks" in result.layout:
        notes.append(f"It looked {result.layout['looks']}.")
    if result.elimination is not None or any(rule.eliminates for rule in result.stopping):
        notes += of_elimination(result.proven)
    drawn = result.timings["samples_drawn"]
    seconds, compiling = result.timings["seconds"], result.timings["compile_seconds"]
    notes.append(
        f"{drawn} samples in {seconds:.2f} s, {1e6 * seconds / drawn:.3f} us per sample, "
        f"after {compiling:.1f} s of compiling."
    )
    return notes
