"""Table 1 of Garivier & Kaufmann (2016): `python -m experiments.gk16 --runs 3000`.

Two Bernoulli instances, delta = 0.1, threshold log((1 + log t)/delta). Track-and-Stop
stops by LLR; the other rules have tests of their own. Written as gk16.md, gk16.csv, and
a figure of the stopping times, gk16.png and gk16.pdf.
"""

import dataclasses
import math
import sys
from typing import Any

import jaxelim as je
from experiments import cells, pages
from jaxelim import catalogue, figures
from jaxelim.errors import ArgumentError

DELTA = 0.1
MEANS = {"1": (0.5, 0.45, 0.43, 0.4), "2": (0.3, 0.21, 0.2, 0.19, 0.18)}
"""The means of the two instances."""


@dataclasses.dataclass(frozen=True)
class Line:
    """One rule of the table.

    Args:
        rule: the sampling rule.
        stopping: what ends its runs.
        paper: the paper's mean draws on the two instances, recalled; None: not in it.
        other: mean and standard error of another program, 500 runs; None: not run.
    """

    rule: je.contracts.SamplingRule
    stopping: je.contracts.StoppingRule
    paper: tuple[int | None, int | None] = (None, None)
    other: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)


LINES = {
    "tas-d": Line(je.TrackAndStop(tracking="D"), je.LLR(), (4052, 1406), ((3894, 120), (1338, 34))),
    "tas-c": Line(je.TrackAndStop(tracking="C"), je.LLR(), other=(None, (1891, 58))),
    "kl-lucb": Line(je.LUCB(pulls=2), je.Native(), (8437, 2716), ((8510, 235), (2676, 42))),
    "kl-racing": Line(je.Racing(), je.Native(), (9590, 3334), ((9305, 236), (3188, 55))),
}
"""The rows, by the names that --rules takes."""


@dataclasses.dataclass(frozen=True)
class Table(cells.Options):
    """Table 1 of Garivier & Kaufmann (2016): mean draws of four rules, delta = 0.1."""

    runs: int = 3000
    """Runs of every cell, indexes 0 .. runs - 1; finished runs are not repeated."""
    rules: tuple[str, ...] = tuple(LINES)
    """Rows of the table; by default all."""
    instances: tuple[str, ...] = tuple(MEANS)
    """Instances: 1 (four arms) and 2 (five arms)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for argument, given, known in (
            ("rules", self.rules, LINES), ("instances", self.instances, MEANS),
        ):  # fmt: skip
            for name in given:
                catalogue.find(argument, name, dict(known))
            if not given or len(set(given)) < len(given):
                raise ArgumentError(argument, given, f"some of {', '.join(known)}, each once")


def grid(options: Table) -> tuple[dict, je.BestArm, dict]:
    """Instances, problem and rules of the study."""
    instances = {
        name: je.Instance.unstructured(MEANS[name], je.Bernoulli(), name=f"gk16-{name}")
        for name in options.instances
    }
    rules = {
        row: {"rule": LINES[row].rule, "stopping": LINES[row].stopping} for row in options.rules
    }
    return instances, je.BestArm(), rules


def measures(study: je.Study) -> list[dict]:
    """Measures of each result, NaN if undefined.

    - instance, rule: the cell. runs, truncated, stopped: counts of runs.
    - mean, se, median: draws. With truncated runs, of min(tau, cap).
    - paper: the paper's mean draws, recalled. other, other_se: another program's.
    - z: (mean - other)/sqrt(se^2 + other_se^2); NaN with truncated runs.
    - errors, error_low, error_high: wrong answers among the runs that stopped, and the
      Clopper-Pearson interval, level 0.95.
    - us_per_sample: wall time of one device here.
    """
    lines = []
    for (row, instance, _), result in sorted(study.results.items(), key=lambda one: one[0][1]):
        data, line = result.to_xarray().isel(delta=0, stopping=0), LINES[row]
        place = int(instance) - 1
        other, error = line.other[place] or (math.nan, math.nan)
        paper = line.paper[place]
        measured = {
            "instance": instance,
            "rule": row,
            **pages.times(data),
            "paper": math.nan if paper is None else paper,
            "other": other,
            "other_se": error,
        }
        measured |= {"z": pages.z(measured), **pages.wrong_answers(data)}
        timed = pages.us_per_sample(result.timings)
        lines.append(measured | {"us_per_sample": timed})
    return lines


def shown(line: dict) -> dict[str, str]:
    """A row of the page."""
    other = "" if math.isnan(line["other"]) else f"{line['other']:.0f} ± {line['other_se']:.0f}"
    return {
        "rule": line["rule"],
        "mean draws": pages.mean(line),
        "median": f"{line['median']:.0f}",
        "paper": pages.number(line["paper"], ".0f"),
        "other program": other,
        "z": pages.number(line["z"], "+.1f"),
        "errors [95%]": pages.errors(line),
        "cut off": pages.cut_off(line),
        "us/sample": pages.number(line["us_per_sample"], ".2f"),
    }


def markdown(lines: list[dict], options: Table) -> str:
    """The table as a Markdown page."""
    parts = ["# Garivier & Kaufmann 2016, Table 1\n"]
    for instance in dict.fromkeys(line["instance"] for line in lines):
        mine = [shown(line) for line in lines if line["instance"] == instance]
        means = ", ".join(f"{mean:g}" for mean in MEANS[instance])
        parts.append(f"## Bernoulli [{means}]\n\n{catalogue.markdown(mine)}\n")
    notes = [
        f"delta = {DELTA}, threshold log((1 + log t)/delta), {options.runs} runs, seed "
        f"{options.seed}, cap {options.max_samples} samples; mean ± standard error.",
        "tas-d, tas-c: Track-and-Stop with D- and C-tracking, LLR stopping. kl-lucb: two "
        "pulls a round, its own stop. kl-racing: that of Kaufmann & Kalyanakrishnan (2013); the "
        "paper and the other program drop the worst arm alone.",
        "paper: its mean draws over 3000 runs, from memory. other program: a NumPy program, 500 "
        "runs (kl-racing on the first instance: 300). z = (ours - other)/sqrt(se^2 + se_other^2).",
        "Errors: wrong answers among the runs that stopped, with the Clopper-Pearson interval.",
        "A row's runs share their noise with those of the other rows, so that rows lean the same "
        "way.",
    ]
    return pages.page(parts, notes, lines, options.max_samples)


def make(options: Table) -> None:
    """Run the missing runs; write the table and the figures."""
    drawn = [f"gk16_{name}" for name in options.instances]
    files = [options.output / f"gk16.{ending}" for ending in ("md", "csv")]
    files += [options.output / f"{name}.{ending}" for name in drawn for ending in ("png", "pdf")]
    study = cells.studied(options, files, *grid(options), delta=DELTA, threshold=je.GK16())
    if study is None:
        return
    lines = measures(study)
    pages.written(options.output / "gk16", markdown(lines, options), lines)
    for name in options.instances:
        tau: dict[str, Any] = {
            row: result
            for (row, _, _), result in study.select(instance=name).results.items()
            if result.stopped.any()
        }
        if tau:
            print(*figures.save(figures.survival_figure(tau), options.output / f"gk16_{name}"))


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Table, make, arguments)


if __name__ == "__main__":
    sys.exit(main())
