"""Results of a section, and the figures that all sections share."""

import dataclasses
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.measure import Case, MeasurementError, Timing
from jaxelim.tables import aligned


@dataclasses.dataclass
class Sitting:
    """Options that all sections of one command share.

    Args:
        quick: small sizes, for a check in about a minute.
        core: the core that pinned measurements run on; None if pinning is impossible.
        cores: cores that this process may use.
        anchor: the built C anchor (`benchmarks.anchor.build`); None without gcc.
        repeats, runs, max_samples, rows: command line; None: the section's own.
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
    """The rows of a section, its notes and its failed cases.

    A row's "raw" holds everything measured and is not printed.
    """

    title: str
    rows: list[dict] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)

    def attempt(
        self, label: str, measure: Callable[[], dict], row: Callable[[dict], dict]
    ) -> dict | None:
        """Measure one row and print it; record a failure and go on."""
        try:
            found = measure()
        except MeasurementError as error:
            self.failed.append(f"{label}: {error}")
            print(f"  {label}: FAILED: {error}", flush=True)
            return None
        self.rows.append({**row(found), "raw": found})
        figures = [f"{key} {x:.4g}" for key, x in self.rows[-1].items() if isinstance(x, float)]
        took = f"{found['process_wall_seconds']:.0f} s in all"
        print(f"  {label}: {took}; {', '.join(figures)}", flush=True)
        return found

    def __str__(self) -> str:
        shown = [{key: "-" if x is None else x for key, x in row.items() if key != "raw"}
                 for row in self.rows]  # fmt: skip
        lines = ["", self.title]
        for keys in dict.fromkeys(tuple(row) for row in shown):  # one table per kind of row
            lines += aligned([row for row in shown if tuple(row) == keys])
        return "\n".join(lines + self.notes + [f"failed: {text}" for text in self.failed])

    def as_json(self) -> dict[str, Any]:
        """The section as plain data, for the file."""
        return dataclasses.asdict(self)


def per_sample(found: dict, clock: str = "cpu") -> list[float]:
    """Microseconds per useful sample of each timed call, in processor ("cpu") or "wall" time."""
    return [1e6 * call[f"{clock}_seconds"] / call["samples_drawn"] for call in found["calls"]]


def typical(found: dict, clock: str = "cpu") -> float:
    """The median of `per_sample`."""
    return statistics.median(per_sample(found, clock))


def useful(found: dict) -> float:
    """Share of the last call's computed samples that a run drew."""
    last = found["calls"][-1] if found["calls"] else found["first"]
    return last["samples_drawn"] / last["samples_computed"]


def to_anchor(found: dict) -> list[float]:
    """Each timed call's time per sample over the C loop's time per step, just before and after."""
    anchors = [one["us_per_step"] for one in found["anchors"]]
    each = zip(per_sample(found), anchors[:-1], anchors[1:], strict=True)
    return [2 * own / (a + b) for own, a, b in each]


def described(case: Case) -> str:
    """Readable name of a case's problem."""
    named = {"best-arm": "best arm", "thresholding": "signs", "TopM(5)": "top 5"}
    return named.get(case.problem, case.problem)
