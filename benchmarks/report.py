"""What a section hands back, and the figures all sections have in common."""

import dataclasses
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.cases import Case, Timing
from benchmarks.processes import MeasurementError
from jaxelim.simulation.result import aligned


@dataclasses.dataclass
class Sitting:
    """What all sections of one command share.

    Args:
        quick: small sizes, for a look in about a minute.
        core: the core that pinned measurements run on; None where processes cannot be pinned.
        cores: how many cores this process may use.
        anchor: the built C anchor (`benchmarks.anchor.build`), None where there is no gcc.
        repeats, runs, max_samples, rows: as asked for on the command line; None leaves them to the section.
    """

    quick: bool
    core: int | None
    cores: int
    anchor: dict | None
    repeats: int | None = None
    runs: int | None = None
    max_samples: int | None = None
    rows: tuple[str, ...] = ()

    def pinned(self, repeats: int, anchor: int = 0) -> Timing:
        """Timing on one core."""
        return Timing(self.repeats or repeats, self.core, anchor if self.anchor else 0)


@dataclasses.dataclass
class Section:
    """Rows of equal keys, of which "raw" holds everything measured and is not printed; remarks; cases that failed."""

    title: str
    rows: list[dict] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)

    def attempt(
        self, label: str, measure: Callable[[], dict], row: Callable[[dict], dict]
    ) -> dict | None:
        """Measure one row and say so at once; a case that fails is written down, and the others go on."""
        try:
            found = measure()
        except MeasurementError as error:
            self.failed.append(f"{label}: {error}")
            print(f"  {label}: FAILED: {error}", flush=True)
            return None
        self.rows.append({**row(found), "raw": found})
        figures = (
            f"{key} {value:.4g}" for key, value in self.rows[-1].items() if isinstance(value, float)
        )
        print(
            f"  {label}: {found['process_wall_seconds']:.0f} s in all; {', '.join(figures)}",
            flush=True,
        )
        return found

    def __str__(self) -> str:
        shown = [
            {key: "-" if value is None else value for key, value in row.items() if key != "raw"}
            for row in self.rows
        ]
        lines = ["", self.title]
        for keys in dict.fromkeys(tuple(row) for row in shown):  # a table for each kind of row
            lines += aligned([row for row in shown if tuple(row) == keys])
        return "\n".join(lines + self.notes + [f"failed: {text}" for text in self.failed])

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return dataclasses.asdict(self)


def per_sample(found: dict, clock: str = "cpu") -> list[float]:
    """Microseconds per useful sample of each timed call, by processor time ("cpu") or by the wall clock ("wall")."""
    return [1e6 * call[f"{clock}_seconds"] / call["samples_drawn"] for call in found["calls"]]


def typical(found: dict, clock: str = "cpu") -> float:
    """Their median."""
    return statistics.median(per_sample(found, clock))


def useful(found: dict) -> float:
    """Samples drawn over samples computed, of the last call."""
    last = found["calls"][-1] if found["calls"] else found["first"]
    return last["samples_drawn"] / last["samples_computed"]


def to_anchor(found: dict) -> list[float]:
    """Each timed call's time per sample over the C loop's time per step, the mean of just before and just after."""
    anchors = [one["us_per_step"] for one in found["anchors"]]
    return [
        2 * own / (a + b)
        for own, a, b in zip(per_sample(found), anchors[:-1], anchors[1:], strict=True)
    ]


def described(case: Case) -> str:
    """A case's problem, for people."""
    return (
        f"top {case.m}"
        if case.problem == "top-m"
        else {"best-arm": "best arm", "thresholding": "signs"}[case.problem]
    )
