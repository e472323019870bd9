"""What elimination saves beyond Gaussian rewards: `python -m experiments.beyond_gaussians`.

The questions of the paper's Table 4, for Bernoulli, Poisson and exponential rewards and
for Gaussian rewards of unknown variance: how many samples, tests and microseconds
selective and full elimination save, at stopping and at sampling. Written as
beyond_gaussians.md and beyond_gaussians.csv.
"""

import dataclasses
import math
import sys

import numpy as np

import jaxelim as je
from experiments import cells, pages
from experiments.tables import clopper_pearson
from jaxelim import catalogue
from jaxelim.errors import ArgumentError

DELTA = 0.01
M = 3
_SPREAD = np.concatenate([[1.0, 0.9, 0.8], np.linspace(0.6, 0.0, 7)])
"""Shape of the instances: three good arms and seven others, on [0, 1]."""


def instances() -> dict[str, tuple[je.Instance, float]]:
    """An instance of ten arms of each family, and the level of its thresholding problem."""
    unstructured = je.Instance.unstructured
    return {
        "bernoulli": (unstructured(0.1 + 0.5 * _SPREAD, je.Bernoulli()), 0.37),
        "poisson": (unstructured(1.0 + 2.0 * _SPREAD, je.Poisson()), 2.1),
        "exponential": (unstructured(1.0 + 2.0 * _SPREAD, je.Exponential()), 2.1),
        "unknown-variance": (unstructured(_SPREAD, je.GaussianUnknownVariance()), 0.53),
        "gaussian": (unstructured(_SPREAD, je.Gaussian()), 0.53),
    }


RULES: dict[str, je.contracts.SamplingRule] = {
    "k-learner": je.LinGame(),
    "kl-lucb": je.LUCB(),
    "lazy-tas": je.LazyTaS(),
    "uniform": je.Uniform(),
}
PROBLEMS = ("bai", "topm", "osi")
FULL, SELECTIVE = je.FullElimination(), je.SelectiveElimination()
COLUMNS = {
    "none": (None, 0),
    "selective, stopping": (None, 1),
    "full, stopping": (None, 2),
    "selective, both": (SELECTIVE, 0),
    "full, both": (FULL, 0),
}
"""Elimination at sampling, and the place of the stopping rule among the observers."""


@dataclasses.dataclass(frozen=True)
class Table(cells.Options):
    """Samples, tests and time that elimination saves, for each reward family."""

    runs: int = 200
    """Runs of every cell, indexes 0 .. runs - 1; finished runs are not repeated."""
    families: tuple[str, ...] = tuple(instances())
    """Families; by default all, and Gaussian rewards of known variance beside them."""
    rules: tuple[str, ...] = tuple(RULES)
    """Sampling rules; by default all."""
    problems: tuple[str, ...] = PROBLEMS
    """bai, topm, osi: best arm, top 3 and thresholding."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for argument, given, known in (
            ("families", self.families, instances()),
            ("rules", self.rules, RULES),
            ("problems", self.problems, dict.fromkeys(PROBLEMS)),
        ):
            for name in given:
                catalogue.find(argument, name, dict(known))
            if not given or len(set(given)) < len(given):
                raise ArgumentError(argument, given, f"some of {', '.join(known)}, each once")


def jobs(options: Table) -> dict[tuple[str, str, str, str], cells.Cell]:
    """The cell of each (family, problem, rule, column); columns observed together share one."""
    found, known = {}, instances()
    for family in options.families:
        instance, level = known[family]
        problems = {"bai": je.BestArm(), "topm": je.TopM(M), "osi": je.Thresholding(level)}
        for problem in options.problems:
            for rule in options.rules:
                for column, (elimination, _) in COLUMNS.items():
                    if elimination is not None and rule == "uniform":
                        continue  # reads no pieces
                    if elimination is None:
                        kind, stopping = "watched", (je.LLR(), SELECTIVE, FULL)
                    else:
                        kind, stopping = elimination.name, (elimination,)
                    found[family, problem, rule, column] = cells.Cell(
                        options.named(f"beyond_gaussians/{family}/{problem}/{rule}/{kind}"),
                        instance,
                        problems[problem],
                        RULES[rule],
                        stopping,
                        elimination,
                        delta=(DELTA,),
                        seed=options.seed,
                        max_samples=options.max_samples,
                        ridge=None,
                    )
    return found


def measures(
    found: dict[tuple[str, str, str, str], cells.Cell], held: dict[str, je.Result]
) -> list[dict]:
    """Measures of each cell, NaN if undefined.

    - family, problem, rule, elimination: the cell. runs, truncated: counts of runs.
    - mean, se: samples; with truncated runs, of min(tau, cap).
    - tests: tests of pieces a sample, stopping and sampling together.
    - us_per_sample: wall time of one device here, of all observers of a trajectory.
    - samples_saved, tests_saved: percent of LLR stopping's samples and tests. NaN with
      truncated runs.
    - errors, error_low, error_high: wrong answers among the runs that stopped, and the
      Clopper-Pearson interval, level 0.95.
    """
    lines, base = [], {}
    for (family, problem, rule, column), cell in found.items():
        whole = held[cell.name]
        data = whole.to_xarray().isel(delta=0, stopping=COLUMNS[column][1])
        tau, stopped = data["samples"].values.astype(float), data["stopped"].values
        tests = float(data["tests_stopping"].sum() + data["tests_sampling"].sum())
        wrong, n = int((~data["correct"].values[stopped]).sum()), int(stopped.sum())
        low, high = clopper_pearson(wrong, n)
        line = {
            "family": family, "problem": problem, "rule": rule, "elimination": column,
            "runs": tau.size, "truncated": tau.size - n, "mean": tau.mean(),
            "se": tau.std(ddof=1) / tau.size**0.5 if tau.size > 1 else math.nan,
            "tests": tests / tau.sum(),
            "us_per_sample": pages.us_per_sample(whole.timings),
        }  # fmt: skip
        if column == "none":
            base = {"mean": line["mean"], "tests": tests, "whole": n == tau.size}
        comparable = column != "none" and base["whole"] and n == tau.size
        line["samples_saved"] = 100 * (1 - line["mean"] / base["mean"]) if comparable else math.nan
        line["tests_saved"] = 100 * (1 - tests / base["tests"]) if comparable else math.nan
        line |= {"errors": wrong, "stopped": n, "error_low": low, "error_high": high}
        lines.append(line)
    return lines


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.1f}%"


def markdown(lines: list[dict], options: Table) -> str:
    """The table as a Markdown page."""
    parts = ["# Elimination beyond Gaussian rewards\n"]
    for key in dict.fromkeys((line["family"], line["problem"]) for line in lines):
        rows = [
            {
                "rule": line["rule"],
                "elimination": line["elimination"],
                "samples": f"{line['mean']:.0f} ± {line['se']:.0f}"
                + ("†" if line["truncated"] else ""),
                "saved": _percent(line["samples_saved"]),
                "tests/sample": f"{line['tests']:.2f}",
                "tests saved": _percent(line["tests_saved"]),
                "us/sample": f"{line['us_per_sample']:.2f}",
                "errors": f"{line['errors']}/{line['stopped']}",
            }
            for line in lines
            if (line["family"], line["problem"]) == key
        ]
        parts.append(f"## {key[0]}, {key[1]}\n\n{catalogue.markdown(rows)}\n")
    notes = [
        f"delta = {DELTA}, threshold log((1 + t)/delta), {options.runs} runs, seed {options.seed}, "
        f"cap {options.max_samples} samples; mean ± standard error.",
        "Ten arms: three good ones and seven others. topm: the top 3. osi: a level between them.",
        "none: LLR stopping. stopping: the set of pieces ends the run, and sampling does not read "
        "it. both: sampling reads it too. saved: of the samples, and of the tests, of none.",
        "us/sample: wall time of one device; the three columns that share a trajectory share it.",
    ]
    return pages.page(parts, notes, lines, options.max_samples)


def make(options: Table) -> None:
    """Run the missing runs; write the table."""
    stem = options.output / "beyond_gaussians"
    pages.make(options, stem, jobs(options), measures, markdown)


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Table, make, arguments)


if __name__ == "__main__":
    sys.exit(main())
