"""Best of items that are not the arms: `python -m experiments.transductive --runs 1000`.

The transductive instance of Fiez, Jain, Jamieson & Ratliff (2019), at some numbers n: the
arms are the 2n basis vectors, the items e_1, .., e_n and cos(0.1) e_j + sin(0.1) e_{n+j},
j = 1, .., n; theta = e_1; delta = 0.05. The instance is read from the authors' program
(run_transductive.py of fiezt/Transductive-Linear-Bandit-Code), which has n = 20, 40, 60
and 80, and 20 runs. The paper's own figures were not at hand.

RAGE stops by its own test, the other rules by LLR, selective and full elimination,
observed on the same runs. Written as transductive.md, transductive.csv, and a figure of
the stopping times for each n.
"""

import dataclasses
import math
import sys
from typing import Any

import numpy as np

import jaxelim as je
from experiments import cells, pages
from jaxelim import catalogue, checks, figures
from jaxelim.errors import ArgumentError

DELTA = 0.05
ANGLE = 0.1
RULES: dict[str, je.contracts.SamplingRule] = {
    "rage": je.RAGE(),
    "lingape": je.LinGapE(),
    "lingame": je.LinGame(),
    "tas": je.TrackAndStop(schedule=100),
    "uniform": je.Uniform(),
}
"""The rules, by the names that --rules takes."""
OBSERVERS = (je.LLR(), je.SelectiveElimination(), je.FullElimination())


def instance(n: int) -> tuple[je.Instance, je.contracts.Problem]:
    """The arms and theta in 2n dimensions, and the problem with its 2n items."""
    basis = np.eye(2 * n)
    turned = math.cos(ANGLE) * basis[:n] + math.sin(ANGLE) * basis[n:]
    items = np.concatenate([basis[:n], turned])
    return je.Instance(basis, basis[0], name=f"transductive-{n}"), je.BestArm(items=items)


@dataclasses.dataclass(frozen=True)
class Table(cells.Options):
    """Samples of rules on the transductive instance of Fiez et al. (2019), delta = 0.05."""

    runs: int = 1000
    """Runs of every cell, indexes 0 .. runs - 1; finished runs are not repeated."""
    rules: tuple[str, ...] = tuple(RULES)
    """Sampling rules; by default all."""
    sizes: tuple[int, ...] = (5,)
    """Numbers n: the instance has 2n arms in 2n dimensions, and 2n items."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.rules:
            catalogue.find("rules", name, dict(RULES))
        for n in self.sizes:
            checks.integer("sizes", n, low=1)
        for argument, given in (("rules", self.rules), ("sizes", self.sizes)):
            if not given or len(set(given)) < len(given):
                raise ArgumentError(argument, given, "at least one, each once")


def jobs(options: Table) -> dict[tuple[int, str], cells.Cell]:
    """A cell per size and rule, by (n, rule)."""
    found = {}
    for n in options.sizes:
        one, problem = instance(n)
        for name in options.rules:
            native = "native" in RULES[name].traits.stopping
            found[n, name] = cells.Cell(
                options.named(f"transductive/{n}/{name}"),
                one,
                problem,
                RULES[name],
                (je.Native(),) if native else OBSERVERS,
                delta=(DELTA,),
                seed=options.seed,
                max_samples=options.max_samples,
                ridge=None,
            )
    return found


def measures(found: dict[tuple[int, str], cells.Cell], held: dict[str, je.Result]) -> list[dict]:
    """Measures of each cell and stopping rule, NaN if undefined.

    - n, rule, stopping: the cell and the observer. runs, truncated, stopped: counts of runs.
    - mean, se, median: samples. With truncated runs, of min(tau, cap).
    - ratio: mean over the lower bound T* kl(delta, 1 - delta).
    - time: T*. errors, error_low, error_high: wrong answers among the runs that stopped,
      and the Clopper-Pearson interval, level 0.95.
    - us_per_sample: wall time of one device here, all observers together.
    """
    lines, solved = [], {}
    for (n, name), cell in found.items():
        if n not in solved:
            solved[n] = je.complexity(*instance(n), 1e-8)
        bound = float(je.bounds.kl_bound(DELTA, solved[n].value))
        whole = held[cell.name]
        for place, stopping in enumerate(cell.stopping):
            data = whole.to_xarray().isel(delta=0, stopping=place)
            measured = pages.times(data)
            lines.append({
                "n": n,
                "rule": name,
                "stopping": stopping.name,
                **measured,
                "ratio": measured["mean"] / bound,
                "time": float(solved[n].time),
                **pages.wrong_answers(data),
                "us_per_sample": pages.us_per_sample(whole.timings),
            })  # fmt: skip
    return lines


def shown(line: dict) -> dict[str, str]:
    """A row of the page."""
    return {
        "rule": line["rule"],
        "stopping": line["stopping"],
        "mean samples": pages.mean(line),
        "median": f"{line['median']:.0f}",
        "over the bound": f"{line['ratio']:.2f}",
        "errors [95%]": pages.errors(line),
        "cut off": pages.cut_off(line),
    }


def markdown(lines: list[dict], options: Table) -> str:
    """The tables as a Markdown page."""
    parts = ["# Fiez et al. 2019, the transductive instance\n"]
    for n in dict.fromkeys(line["n"] for line in lines):
        mine = [line for line in lines if line["n"] == n]
        head = f"## n = {n}: {2 * n} arms, {2 * n} items, T* = {mine[0]['time']:.1f}"
        parts.append(f"{head}\n\n{catalogue.markdown([shown(line) for line in mine])}\n")
    notes = [
        "Arms e_1, .., e_2n; items e_1, .., e_n and cos(0.1) e_j + sin(0.1) e_{n+j}; "
        "theta = e_1, noise of standard deviation 1. The best item is e_1, and the one after it "
        "is 0.005 worse.",
        f"delta = {DELTA}, {options.runs} runs, seed {options.seed}, cap {options.max_samples} "
        "samples; mean ± standard error. Threshold log((1 + t)/delta), but for RAGE's own test.",
        "tas: Track-and-Stop with D-tracking, w* solved every 100 samples.",
        "over the bound: the mean over T* kl(delta, 1 - delta).",
        "Errors: wrong answers among the runs that stopped, with the Clopper-Pearson interval.",
    ]
    return pages.page(parts, notes, lines, options.max_samples, place="row")


def make(options: Table) -> None:
    """Run the missing runs; write the tables and the figures."""
    found = jobs(options)
    drawn = {n: options.output / f"transductive_{n}" for n in options.sizes}
    files = [options.output / f"transductive.{ending}" for ending in ("md", "csv")]
    files += [one.with_suffix(f".{ending}") for one in drawn.values() for ending in ("png", "pdf")]
    kept = cells.run_and_load(list(found.values()), options, files)
    if kept is None:
        return
    lines = measures(found, kept)
    pages.written(options.output / "transductive", markdown(lines, options), lines)
    for n, path in drawn.items():
        tau: dict[str, Any] = {
            name: pages.stopping_times(kept[cell.name].to_xarray().isel(delta=0, stopping=0))
            for (size, name), cell in found.items()
            if size == n
        }
        tau = {name: one for name, one in tau.items() if np.isfinite(one).any()}
        if tau:
            print(*figures.save(figures.survival_figure(tau), path))


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Table, make, arguments)


if __name__ == "__main__":
    sys.exit(main())
