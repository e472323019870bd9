"""What a live run shows: its evidence, a table and a figure."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim.simulation.proven import sentence
from jaxelim.simulation.result import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxelim.live.run import LiveRun


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The pieces of the empirical answer, and the evidence against them.

    Attributes:
        pieces: P pairs (better arm, rival) as the caller names arms, one arm twice for a
            level; indices of pieces where they are not made of arms.
        llr: [P], the LLR of each piece.
        beta: the threshold at the present t.
        active: [P] bool, which pieces the stopping rule has not eliminated.
    """

    pieces: tuple
    llr: np.ndarray
    beta: float
    active: np.ndarray

    @staticmethod
    def of(found: dict[str, np.ndarray], name: Callable[[int], Any] | None) -> "Evidence":
        """From the arrays of `Moments.look`; `name`: what an arm is called, None for no arms."""
        exists = found["exists"]
        pieces: tuple = tuple(np.flatnonzero(exists).tolist())
        if "pairs" in found and name is not None:
            pieces = tuple((name(i), name(k)) for i, k in found["pairs"][exists])
        return Evidence(
            pieces, found["llr"][exists], float(found["beta"]), found["active"][exists]
        )

    @property
    def labels(self) -> list[str]:
        """The pieces in words."""
        each = [one if isinstance(one, tuple) else (one, one) for one in self.pieces]
        return [str(i) if i == k else f"{i} > {k}" for i, k in each]


def summary(run: "LiveRun") -> Summary:
    """A table with a row for each arm, and the state of the run in words."""
    counts, means, times = run.counts, run.means, run.elimination_times
    answer, rows = run.answer, []
    for k, name in enumerate(run.names):
        row = {"arm": name, "pulls": int(counts[k]), "mean": float(means[k])}
        if times is not None and times.shape == counts.shape:
            row["out at"] = int(times[k]) or "-"
        if answer is not None and answer.size == counts.size:
            row["answer"] = "x" if answer[k] else ""
        rows.append(row)
    given = run.settings
    title = f"{given['rule']!r}, {given['problem']!r}, delta = {given['delta']:g}"
    return Summary(title, tuple(rows), _notes(run))


def _notes(run: "LiveRun") -> tuple[str, ...]:
    if run.answer is None:
        return (f"{run.told} rewards; {run.first} are needed for the first check.",)
    found = ", ".join(map(str, run.answer_arms))
    guarantee = sentence(run.settings["threshold"], run.proven)
    if run.stopped:
        more = run.told - run.samples
        after = f" {more} rewards came after that." if more else ""
        ended = f"The run stopped after {run.samples} rewards. The answer: {found}.{after}"
        return ended, guarantee
    now = run.evidence
    least = float(np.min(now.llr[now.active], initial=np.inf))
    state = f"least LLR of an active piece {least:.4g}, beta {now.beta:.4g}"
    return (
        f"The run is open after {run.told} rewards: {state}.",
        f"The empirical answer, without guarantee: {found}.",
        guarantee,
    )


def figure(run: "LiveRun") -> "Figure":
    """The LLRs of the pieces beside beta, and the arms' means and pulls."""
    from jaxelim.figures.live import live_figure  # matplotlib is slow to import

    now, arms = run.evidence, [str(one) for one in run.names]
    return live_figure(now.labels, now.llr, now.beta, now.active, arms, run.means, run.counts)
