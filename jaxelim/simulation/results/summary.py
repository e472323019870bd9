"""Summaries of results: tables of stopping times, errors and cost."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim.contracts import looks
from jaxelim.simulation.results.proven import sentence
from jaxelim.thresholds.mixture import Mixture

if TYPE_CHECKING:
    from jaxelim.simulation.results.result import Result
    from jaxelim.tables import Table

BIASED = "the mean of the others is biased low"
"""The note on means where some runs were truncated."""


def summarised(result: "Result") -> "Table":
    """The summary of a result; see `Result.summary`."""
    from jaxelim.tables import Table  # pandas is slow to import

    named = result.instance.name or repr(result.instance)
    title = f"{result.rule!r} on {named}, {result.problem}, at sampling: {result.elimination!r}"
    return Table(rows_of(result), title, _notes(result))


def rows_of(result: "Result", priced: bool = False) -> list[dict[str, Any]]:
    """The numbers of each instance, stopping rule and delta; NaN where no run stopped.

    Without costs there is no mean cost, but NaN if others are `priced`.
    """
    costs = np.full(result.samples.shape, np.nan) if priced else None
    costs = costs if result.costs is None else result.costs
    rows = []
    for at in np.ndindex(result.samples.shape[:-1]):
        stopped = result.stopped[at]
        tau = result.samples[at][stopped].astype(float)
        n = tau.size
        sd = float(tau.std(ddof=1)) if n > 1 else np.nan
        rows.append({
            **({"instance": at[0]} if result.batched else {}),
            "stopping": result.stopping[at[-2]].name,
            "delta": float(result.deltas[at[-1]]),
            "runs": stopped.size,
            "cut off": stopped.size - n,
            "mean tau": _mean(tau),
            "sd": sd,
            "s.e.": sd / n**0.5 if n > 1 else np.nan,
            "errors": float((stopped & ~result.correct[at]).mean()),
            "tests/sample": _mean(result.tests_stopping[at][stopped] / tau),
            **({} if costs is None else {"mean cost": _mean(costs[at][stopped])}),
        })  # fmt: skip
    return rows


def _mean(x: np.ndarray) -> float:
    return float(x.mean()) if x.size else np.nan


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
        notes += [f"{cut} of {runs} runs were cut off{where} {ends}: they are in no mean{biased}."]
    if result.experiment.waits:
        batch, delay = result.experiment.batch, result.experiment.delay
        notes.append(f"Rewards entered in batches of {batch}, after delays of {delay} samples. tau "
                     "counts pulls whose rewards were pending at the end.")  # fmt: skip
    notes.append(sentence(result.threshold, result.proven, result.instance))
    if isinstance(result.threshold, Mixture):
        notes.append(f"It looked {looks.WORDS}.")
    eliminates = result.elimination is not None or any(x.eliminates for x in result.stopping)
    if eliminates and result.proven is not True:
        notes.append("Elimination never tests a refuted piece again, so without proof it may err "
                     "more often than LLR stopping.")  # fmt: skip
    drawn, seconds = result.timings["samples_drawn"], result.timings["seconds"]
    return [
        *notes,
        f"{drawn} samples in {seconds:.2f} s, {1e6 * seconds / drawn:.3f} us per sample, "
        f"after {result.timings['compile_seconds']:.1f} s of compiling.",
    ]
