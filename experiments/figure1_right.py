"""The paper's Figure 1, right: mean tau_LLR/tau_elimination against log(1/delta).

`python -m experiments.figure1_right --runs 1000 --error se`: linear d = 10, best arm.
Both stopping rules observe one trajectory; for rules that ignore delta, all deltas do.
Written as PNG and PDF, and the numbers as CSV.
"""

import dataclasses
import sys
from typing import Literal

import numpy as np
import pandas as pd

import jaxelim as je
from experiments import cells, paper
from jaxelim import catalogue, checks, figures
from jaxelim.files import write_whole

INSTANCE = "linear-d10"
STOPPING = (je.LLR(), je.SelectiveElimination())


@dataclasses.dataclass(frozen=True)
class Right(cells.Options):
    """Figure 1, right: samples saved by elimination at stopping as delta decreases."""

    rules: tuple[str, ...] = ("lingape", "lingame", "fws", "lazy-tas", "oracle")
    """Sampling rules, by their names, such as lingape."""
    delta: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
    """Error probabilities."""
    error: Literal["se", "sd"] = "se"
    """Error bars: standard error (authors' program) or deviation (paper's caption)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.deltas(list(self.delta))


def rules(options: Right) -> dict[str, je.contracts.SamplingRule]:
    """The rules by their names.

    The oracle has two: one with the exact w*, one with the authors' approximation.
    """
    found: dict[str, je.contracts.SamplingRule] = {}
    for name in options.rules:
        kind = catalogue.find_rule(name)
        found[kind.__name__] = kind()
        if kind is je.Oracle:
            found["Oracle, authors' w"] = je.Oracle(paper.oracle_weights(INSTANCE, "bai"))
    return found


def ratios(result: je.Result) -> np.ndarray:
    """tau_LLR/tau_elimination [delta, run], NaN if either was cut off."""
    llr, selective = result.samples
    return np.where(result.stopped.all(0), llr / np.maximum(selective, 1), np.nan)


def numbers(found: dict[str, np.ndarray], delta: tuple[float, ...]) -> str:
    """CSV per rule and delta: runs, mean ratio, standard error, standard deviation."""
    rows = []
    for rule, ratio in found.items():
        for level, row in zip(delta, ratio, strict=True):
            kept = pd.Series(row[np.isfinite(row)])
            rows.append({"rule": rule, "delta": level, "runs": kept.size,
                         "cut_off": row.size - kept.size, "mean_ratio": kept.mean(),
                         "se": kept.sem(), "sd": kept.std(), "least": kept.min()})  # fmt: skip
    return pd.DataFrame(rows).to_csv(index=False)


def draw(options: Right) -> None:
    """Run the missing runs and draw the figure."""
    files = [options.output / f"figure1_right.{ending}" for ending in ("csv", "png", "pdf")]
    grid = INSTANCE, je.BestArm(), rules(options)
    study = cells.studied(options, files, *grid, delta=options.delta, stopping=STOPPING, ridge=1.0)
    if study is None:
        return
    drawn = {rule: ratios(study[rule]) for rule in study.rules}
    write_whole(options.output / "figure1_right.csv", numbers(drawn, options.delta).encode())
    figure = figures.ratio_figure(study, error=options.error)
    print(
        *figures.save(figure, options.output / "figure1_right"),
        options.output / "figure1_right.csv",
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Right, draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
